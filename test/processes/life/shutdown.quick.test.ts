/** However the runtime ends, every request is answered in time and no process stays behind. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../../src/core/clock.ts';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { PATIENCE_MS, until } from '../../fixtures/polling.ts';
import { allGone, kill9, killStarted, startedProcesses, within } from '../../fixtures/processes.ts';
import { type Answer, callsIn, type PlanSpec, release, type ServiceSpec, serve } from '../../fixtures/service.ts';

const SERVER = fileURLToPath(new URL('./server-process.js', import.meta.url));

interface Started {
  readonly server: number;
  readonly engine: number;
  readonly pids: Readonly<Record<string, number[]>>;
}

async function startServer(
  t: TestContext,
  spec: ServiceSpec,
  inputs: readonly string[],
  redefined: PlanSpec | null = null,
): Promise<Started> {
  const args = [spec, inputs, redefined].map((value) => JSON.stringify(value));
  const child = spawn(process.execPath, [SERVER, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => {
    child.kill('SIGKILL');
    killStarted();
  });
  const [line] = (await within(once(createInterface(child.stdout), 'line'), 'the server is ready')) as [string];
  return { server: child.pid as number, ...(JSON.parse(line) as Omit<Started, 'server'>) };
}

describe('kill -9 of the server process', () => {
  const spin = (folder: string, version = 1): ServiceSpec => ({
    stages: [
      { id: 'spin', file: 'spin', init: { folder, version }, workers: 2 },
      { id: 'echo', file: 'echo' },
    ],
  });

  for (const without of [[], ['setpriv']] as const) {
    const where = without.length > 0 ? 'where no kernel signal follows the parent' : 'as usual';
    test(`leaves no engine and no worker, not even a worker that spins in synchronous code; ${where}`, async (t) => {
      const folder = folderFor(t);
      const { server, engine, pids } = await startServer(t, { ...spin(folder), without }, ['spin']);
      await until('a worker spins', () => callsIn(folder).length === 1);
      const all = [engine, ...(pids['spin'] ?? []), ...(pids['echo'] ?? [])];
      assert.equal(all.filter(isAlive).length, 4);
      kill9(server);
      await allGone();
      await until('none of them is left', () => !all.some(isAlive));
    });
  }

  test('of server and engine leaves no worker, not even a worker that spins in synchronous code', async (t) => {
    const folder = folderFor(t);
    const { server, engine } = await startServer(t, spin(folder), ['spin']);
    await until('a worker spins', () => callsIn(folder).length === 1);
    kill9(server);
    kill9(engine);
    await allGone();
  });

  test('leaves no worker of an earlier definition either', async (t) => {
    const folder = folderFor(t);
    const first: ServiceSpec = { ...spin(folder), without: ['setpriv'] };
    const { server, pids } = await startServer(t, first, ['spin'], spin(folder, 2));
    await until('a worker of the first definition spins', () => callsIn(folder).length === 1);
    const old = pids['spin'] as number[];
    await until('its neighbour has made way for the second definition', () => old.filter(isAlive).length === 1);
    kill9(server);
    await allGone();
  });

  test('leaves no process that a modelet has started', async (t) => {
    const { server } = await startServer(t, { stages: [{ id: 'parent', file: 'parent' }] }, ['go']);
    await until('a worker has started a process', () => startedProcesses().length === 4);
    kill9(server);
    await allGone();
  });

  test('leaves nothing behind in the middle of the start', async (t) => {
    const folder = folderFor(t);
    const child = spawn(process.execPath, [SERVER, JSON.stringify(spin(folder)), '[]'], { stdio: 'ignore' });
    t.after(() => {
      killStarted();
    });
    await until('the first workers are starting', () => startedProcesses().length >= 3);
    child.kill('SIGKILL');
    await allGone();
  });
});

describe('close', () => {
  test('with drain: open requests get their results, and new ones are refused', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [{ id: 'gate', file: 'gate', init: { folder } }] });
    const open = ['held', 'a', 'b'].map((name) => service.ask(name));
    await until('one runs', () => callsIn(folder).length === 1);
    const closed = service.service.close(true);
    assert.throws(() => service.ask('c'), { code: 'shutting_down' });
    assert.equal(service.service.snapshot().state, 'shutdown');
    release(folder, 'held');
    for (const { answer } of open) assert.equal((await answer).code, 'ok');
    await within(closed, 'it closes');
    assert.deepEqual(startedProcesses(), []);
    assert.deepEqual(callsIn(folder), ['held', 'a', 'b']);
  });

  test('with drain past the deadline, and without drain: requests get shutting_down', async (t) => {
    for (const drain of [true, false]) {
      const folder = folderFor(t);
      const service = await serve(t, { stages: [{ id: 'spin', file: 'spin', init: { folder } }] });
      const open = ['spin', 'a', 'b'].map((name) => service.ask(name));
      await until('one runs', () => callsIn(folder).length === 1);
      const closed = service.service.close(drain, 1500);
      const answers = await Promise.all(open.map(({ answer }) => answer));
      assert.deepEqual(codes(answers), ['shutting_down', 'shutting_down', 'shutting_down']);
      await within(closed, 'it closes');
      await allGone();
      assert.deepEqual(callsIn(folder), ['spin']);
    }
  });

  test('of a service that retires: it refuses new requests and answers, and no longer takes its time', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [{ id: 'spin', file: 'spin', init: { folder } }] });
    const open = service.ask('spin');
    await until('it runs', () => callsIn(folder).length === 1);
    const retired = service.service.retire();
    assert.throws(() => service.ask('a'), { code: 'shutting_down' });
    assert.equal(service.service.snapshot().state, 'shutdown');
    const closed = service.service.close(true, 1500);
    assert.equal((await open.answer).code, 'shutting_down');
    await within(Promise.all([closed, retired]), 'it closes');
    await allGone();
  });

  test('answers the requests before it waits for the workers to end', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [{ id: 'gate', file: 'gate', init: { folder } }] });
    const open = service.ask('held');
    await until('it runs', () => callsIn(folder).length === 1);
    let closed = false;
    const closing = service.service.close(false).then(() => {
      closed = true;
    });
    assert.equal((await open.answer).code, 'shutting_down');
    assert.equal(closed, false);
    release(folder, 'held');
    await within(closing, 'it closes');
  });

  for (const without of [[], ['setpriv']] as const) {
    const where = without.length > 0 ? ', where no kernel signal follows the parent' : '';
    test(`gives one deadline to all workers, even if many hang${where}`, async (t) => {
      const folder = folderFor(t);
      const stages = ['one', 'two', 'three'].map((id) => ({ id, file: 'spin', init: { folder }, workers: 2 }));
      const routes = { one: ['one'], two: ['two'], three: ['three'] };
      const service = await serve(t, { without, stages, routes });
      await service.ready();
      const open = stages.flatMap(({ id }) => [1, 2].map((n) => service.ask(`spin ${id} ${n}`, { entry: id })));
      await until('all spin', () => callsIn(folder).length === open.length);
      const startedAt = systemClock.now();
      const closeMs = 2000;
      await within(service.service.close(false, closeMs), 'it closes');
      await allGone();
      assert.ok(systemClock.now() - startedAt < open.length * closeMs, 'together, not one after the other');
      for (const { answer } of open) assert.equal((await answer).code, 'shutting_down');
    });
  }

  test('ends a service whose stages do not start, or not yet, or whose engine was just killed', async (t) => {
    const folder = folderFor(t);
    const how = `${folder}/how`;
    const stages = [
      { id: 'fails', file: '/nowhere/at-all.js' },
      { id: 'never', inline: { setup: 'await new Promise(() => setInterval(() => {}, 1000));', code: '' } },
      { id: 'start', file: 'start', init: { how } },
    ];
    for (const moment of ['at once', 'later', 'killed']) {
      const service = await serve(t, { stages });
      if (moment !== 'at once') {
        await until('a failed start', () => service.logs.some(({ message }) => message.includes('did not start')));
      }
      if (moment === 'killed') kill9(service.enginePid);
      await within(service.service.close(true, 2 * PATIENCE_MS), 'it closes and does not wait for what cannot come');
      // The killed engine's workers end on their own.
      await allGone();
    }
  });

  test('a second close does nothing', async (t) => {
    const service = await serve(t, { stages: [{ id: 'echo', file: 'echo' }] });
    assert.equal(await service.value('a'), 'a');
    const closed = service.service.close(true);
    assert.equal(service.service.close(false), closed);
    await within(closed, 'it closes');
    assert.throws(() => service.ask('b'), { code: 'shutting_down' });
  });

  test('ends the processes that modelets have started', async (t) => {
    const service = await serve(t, { stages: [{ id: 'parent', file: 'parent', workers: 2 }] });
    const children = await Promise.all([1, 2, 3, 4].map((n) => service.value<number>(n)));
    for (const pid of children) assert.ok(isAlive(pid));
    await within(service.service.close(true), 'it closes');
    await until('they are gone', () => !children.some(isAlive));
  });
});

function codes(answers: readonly Answer[]): string[] {
  return answers.map(({ code }) => code);
}

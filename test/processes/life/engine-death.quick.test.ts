/** The engine's death settles what it had, takes its workers along, and is followed by a new engine. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9, startedProcesses } from '../../fixtures/processes.ts';
import { callsIn, serve } from '../../fixtures/service.ts';
import { prefetching } from '../modelets/gated.ts';

interface Passed {
  readonly pid: number;
}

describe('kill -9 of the engine', () => {
  test('fails all open requests with engine_lost at once, and later ones are served after the restart', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [{ id: 'gate', file: 'gate', init: { folder } }] });
    await prefetching(service, 'gate');
    const { enginePid } = service;
    const old = startedProcesses();
    const running = service.ask('held');
    await until('one runs', () => callsIn(folder).includes('held'));
    const waiting = ['a', 'b', 'c'].map((name) => service.ask(name));
    await until('one was sent ahead, two wait', () => service.stage('gate').queue === 2);
    const sameTick = service.ask('d');

    kill9(enginePid);
    for (const { answer } of [running, ...waiting, sameTick]) {
      const { code, error } = await answer;
      assert.equal(code, 'engine_lost');
      assert.match(error?.message ?? '', /engine died: was killed by SIGKILL/);
    }
    const { pid } = await service.value<Passed>('after');
    assert.ok(!old.some((other) => other.pid === pid), 'a new worker serves');
    assert.notEqual(service.enginePid, enginePid);
    await until('engine and workers of before are gone', () => old.every((other) => !isAlive(other.pid)));
    assert.deepEqual(
      callsIn(folder).filter((name) => name !== 'quick'),
      ['held', 'after'],
    );
    assert.equal(service.service.snapshot().engine.restarts, 1);
    await service.ready();
    assert.equal(service.stage('gate').queue, 0);
  });

  for (const without of [[], ['setpriv']] as const) {
    const where = without.length > 0 ? ', also where no kernel signal follows the parent' : '';
    test(`ends its workers, both idle ones and those that spin in synchronous code${where}`, async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, {
        without,
        stages: [
          { id: 'gate', file: 'gate', init: { folder } },
          { id: 'spin', file: 'spin', init: { folder }, workers: 2 },
        ],
        routes: { gate: ['gate'], spin: ['spin'] },
      });
      await service.ready();
      const asked = [service.ask('held', { entry: 'gate' })];
      for (const name of ['spin one', 'spin two']) asked.push(service.ask(name, { entry: 'spin' }));
      await until('all are busy', () => callsIn(folder).length === 3);
      const old = startedProcesses();
      assert.equal(old.length, 4);
      kill9(service.enginePid);
      for (const { answer } of asked) assert.equal((await answer).code, 'engine_lost');
      await until('engine and workers of before are gone', () => old.every((other) => !isAlive(other.pid)));
      assert.equal((await service.answer('after', { entry: 'spin' })).code, 'ok');
    });
  }

  test('ends the processes that its workers have started, too', async (t) => {
    const service = await serve(t, { stages: [{ id: 'parent', file: 'parent' }] });
    await service.ready();
    const child = await service.value<number>(null);
    kill9(service.enginePid);
    await until('the grandchild is gone', () => !isAlive(child));
    // It is gone first: a request that comes right then still meets the dead engine.
    await until('a new engine serves', async () => (await service.answer(null)).code === 'ok');
    assert.ok(isAlive(await service.value<number>(null)), 'and a new one is started');
  });

  test('keeps the patient requests that had not reached it', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [{ id: 'gate', file: 'gate', init: { folder }, capacity: 1 }] });
    await service.ready();
    // One runs, room for one more in the worker, one in the queue: the rest wait here.
    const asked = ['held', 'a', 'b', 'c', 'd', 'e'].map((name) => service.ask(name, { patient: true }));
    await until('one runs', () => callsIn(folder).length === 1);
    kill9(service.enginePid);
    const codes = await Promise.all(asked.map(async ({ answer }) => (await answer).code));
    assert.deepEqual(codes, ['engine_lost', 'engine_lost', 'engine_lost', 'ok', 'ok', 'ok']);
    assert.deepEqual(callsIn(folder), ['held', 'c', 'd', 'e']);
  });
});

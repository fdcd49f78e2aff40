/** Code that does not come back: the worker is killed for it, and no caller waits longer than its time limit. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { callsIn, release, type StageSpec, serve } from '../../fixtures/service.ts';
import { expire, gated, hold, prefetching } from '../modelets/gated.ts';

/** Longer than anything takes that is not stuck, also on a busy machine. */
const LONG_MS = 2000;
/** The time limit of a stuck batch in tests where little else runs, and be it the first run of a new process. */
const SHORT_MS = 600;

interface Passed {
  readonly input: string;
  readonly pid: number;
}

const spinning = (folder: string, stage: Partial<StageSpec> = {}): StageSpec => ({
  id: 'spin',
  file: 'spin',
  init: { folder },
  ...stage,
});

describe('runTimeoutMs', () => {
  test('the run timeout ends an endless loop: its batch gets deadline_exceeded, and a new process serves the waiting items', async (t) => {
    const folder = folderFor(t);
    const batch = { maxBatchSize: 2, policy: 'oldest', maxWaitMs: 5000 } as const;
    const service = await serve(t, { stages: [spinning(folder, { batch, runTimeoutMs: SHORT_MS })] });
    const { spin: [pid] = [] } = await service.ready();
    const stuck = ['spin', 'with it'].map((input) => service.ask(input));
    await until('it spins', () => callsIn(folder).includes('spin'));
    const waiting = ['a', 'b'].map((input) => service.ask(input));
    for (const { answer } of stuck) {
      const { code, error } = await answer;
      assert.equal(code, 'deadline_exceeded');
      assert.equal(error?.stage, 'spin');
      assert.match(error?.message ?? '', /worker 0 of stage spin died: a batch ran longer than 600 ms/);
    }
    for (const { answer } of waiting) assert.notEqual(((await answer).value as Passed).pid, pid);
    assert.equal(isAlive(pid as number), false);
    assert.deepEqual(callsIn(folder), ['spin', 'a', 'b']);
  });

  test('the run timeout ends a promise that never settles', async (t) => {
    const { service } = await gated(t, { runTimeoutMs: SHORT_MS });
    assert.equal((await service.answer('held')).code, 'deadline_exceeded');
    assert.equal((await service.answer('next')).code, 'ok');
    await until('it is counted', () => service.stage('gate').reading.restarts.run_timeout === 1);
  });

  test('the run timeout starts when a batch can begin: a batch that was sent ahead returns and is served', async (t) => {
    const held = await gated(t, { runTimeoutMs: LONG_MS });
    const { service, folder } = held;
    const before = 1 + (await prefetching(service, 'gate'));
    const stuck = await hold(held, 'held');
    const ahead = service.ask('ahead');
    await until('one was sent ahead', () => service.stage('gate').items > before);
    const behind = service.ask('behind');
    // Meanwhile the time of the first may be over on a slow machine.
    await until('one waits', () => service.stage('gate').queue === 1 || stuck.settled);
    assert.equal((await stuck.answer).code, 'deadline_exceeded');
    assert.equal((await ahead.answer).code, 'ok');
    assert.equal((await behind.answer).code, 'ok');
    assert.deepEqual(
      callsIn(folder).filter((name) => name !== 'quick'),
      ['held', 'ahead', 'behind'],
    );
  });

  test('many short runs in a row may take longer than the run timeout', async (t) => {
    const inline = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20); return process.pid;';
    const service = await serve(t, { stages: [{ id: 'busy', inline, runTimeoutMs: 1000 }] });
    const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => service.answer(n)));
    assert.deepEqual([...new Set(answers.map(({ code }) => code))], ['ok']);
    assert.equal(service.stage('busy').workers[0]?.restarts, 0);
  });

  test('a deploy of another limit keeps the workers and applies to running batches', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [spinning(folder, { workers: 2 })] });
    const { spin: pids = [] } = await service.ready();
    const stuck = service.ask('spin');
    await until('it spins', () => callsIn(folder).length === 1);
    service.apply({ stages: [spinning(folder, { workers: 2, runTimeoutMs: SHORT_MS })] });
    assert.equal((await stuck.answer).code, 'deadline_exceeded');
    await until('the new one is shown', () => service.stage('spin').workers.some(({ restarts }) => restarts === 1));
    await service.ready();
    assert.equal(service.pids('spin').filter((pid) => pids.includes(pid)).length, 1, 'the other one serves on');
    service.apply({ stages: [spinning(folder, { workers: 2 })] });
    const free = service.ask('spin free');
    await until('it spins', () => callsIn(folder).includes('spin free'));
    assert.equal((await service.answer('beside')).code, 'ok');
    release(folder, 'spin free');
    assert.equal((await free.answer).code, 'ok');
  });

  test('the run timeout also ends old code that a deploy has replaced', async (t) => {
    const folder = folderFor(t);
    const plan = (version: number): StageSpec => spinning(folder, { init: { folder, version }, runTimeoutMs: LONG_MS });
    const service = await serve(t, { stages: [plan(1)] });
    const { spin: [old] = [] } = await service.ready();
    const stuck = service.ask('spin');
    await until('it spins', () => callsIn(folder).length === 1);
    service.apply({ stages: [plan(2)] });
    assert.notEqual((await service.value<Passed>('new')).pid, old);
    assert.equal((await stuck.answer).code, 'deadline_exceeded');
    assert.equal(isAlive(old as number), false);
  });

  test('under load only hanging batches are late, and all requests are answered once', async (t) => {
    const inline = 'if (input % 200 === 199) for (;;); return input;';
    const stages = [{ id: 'loop', inline, workers: 2, runTimeoutMs: LONG_MS }];
    const service = await serve(t, { stages });
    await service.ready();
    const answers = await Promise.all(Array.from({ length: 800 }, (_, n) => service.answer(n)));
    const codes = answers.map(({ code }) => code);
    const expected = answers.map((_, n) => (n % 200 === 199 ? 'deadline_exceeded' : 'ok'));
    assert.deepEqual(codes, expected);
  });
});

test('without a run timeout, a worker that runs on when its callers have gone is shown, and replaced', async (t) => {
  const folder = folderFor(t);
  const service = await serve(t, { stages: [spinning(folder)], config: { timeoutMs: 1000 } });
  const { spin: [pid] = [] } = await service.ready();
  await expire({ service, folder }, 'spin', SHORT_MS);
  await until('it is shown', () => service.stage('spin').workers[0]?.overdue === 1);
  assert.equal((await service.answer('next')).code, 'ok');
  assert.equal(isAlive(pid as number), false);
  await until('it is counted', () => service.stage('spin').reading.restarts.run_timeout === 1);
  assert.equal(service.stage('spin').workers[0]?.overdue, 0);
  const said = /died: a batch ran on for \d+ s after its last caller had gone/;
  assert.ok(service.logs.some(({ message }) => said.test(message)));
});

test("a request's own deadline is answered while its worker is stuck, and while it waits behind that", async (t) => {
  const folder = folderFor(t);
  const service = await serve(t, { stages: [spinning(folder)] });
  const { spin: pids } = await service.ready();
  await expire({ service, folder }, 'spin', SHORT_MS);
  assert.equal((await service.answer('behind', { timeoutMs: SHORT_MS })).code, 'deadline_exceeded');
  assert.deepEqual(callsIn(folder), ['spin']);
  release(folder, 'spin');
  assert.equal((await service.answer('next')).code, 'ok');
  assert.deepEqual(callsIn(folder), ['spin', 'next'], 'abandoned requests are not computed');
  assert.deepEqual(service.pids('spin'), pids, 'without runTimeoutMs nothing is killed');
});

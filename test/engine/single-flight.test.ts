/** Requests with the same input, at the same time: they share one run, and each settles once for itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { ModeletError } from '../../src/core/errors.ts';
import { RunTimeout } from '../../src/runtime/engine/pools/pool.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { encodeError } from '../../src/wire/codec/error-codec.ts';
import { ask, caching, counts, how } from './caching.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, route, stage, upTo } from './rig.ts';

async function busyStage(overrides: Partial<StageDefinition> = {}): Promise<[Rig, FakePool]> {
  const rig = new Rig();
  const pool = await rig.single({ ...caching(), ...overrides });
  await ask(rig, [1], '"first"');
  return [rig, pool];
}

/** The worker answers what it has. */
async function answer(rig: Rig, pool: FakePool): Promise<void> {
  pool.answer();
  await rig.turn();
}

test('identical requests share one run, whether they arrive during the run or wait in the queue', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2], '"first"');
  await ask(rig, [3, 4, 5], '"second"');
  assert.deepEqual([pool.held(), rig.queueOf(1)], [[[1]], 3]);
  await answer(rig, pool);
  await ask(rig, [6], '"second"');
  assert.deepEqual([pool.held(), rig.queueOf(1)], [[[3]], 2]);
  await answer(rig, pool);
  assert.deepEqual(how(rig), ['1 0', '2 joined', '3 0', '6 joined', '4 hit', '5 hit']);
  assert.deepEqual(
    rig.outcomes.map(({ payload }) => Buffer.from(payload.bytes).toString()),
    ['"first"', '"first"', '"second"', '"second"', '"second"', '"second"'],
  );
  assert.deepEqual(counts(rig), [2, 2, 2]);
});

test('a request that joins a run needs no room in the queue', async () => {
  const [rig, pool] = await busyStage({ capacity: 1 });
  await ask(rig, [2], '"second"');
  await ask(rig, [3], '"first"');
  await answer(rig, pool);
  assert.deepEqual(how(rig), ['1 0', '3 joined']);
});

test('identical items of one batch share a run and leave their places in it to others', async () => {
  const [rig, pool] = await busyStage({ batching: { policy: 'greedy', maxBatchSize: 2, maxWaitMs: 0 } });
  await ask(rig, [2, 3, 4], '"second"');
  await ask(rig, [5], '"third"');
  await answer(rig, pool);
  assert.deepEqual([pool.held(), rig.queueOf(1)], [[[2, 5]], 0]);
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['1', '2', '3', '4', '5']);
});

test('a request that joins a run learns its whole waiting time', async () => {
  const [rig, pool] = await busyStage();
  await rig.advance(20);
  await ask(rig, [2], '"first"');
  await rig.advance(10);
  await answer(rig, pool);
  const joined = { stage: 1, waitMs: 10, batchMs: 0, runMs: 0, batchSize: 0, worker: -1, cache: 'joined' };
  assert.deepEqual(rig.outcomes[1]?.timings, [joined]);
});

test('an error of a run goes to all requests that share it', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2], '"first"');
  pool.answer(0, 1, () => true);
  await ask(rig, [3, 4], '"first"');
  pool.lose();
  await rig.turn();
  await ask(rig, [5, 6], '"first"');
  pool.lose(0, new RunTimeout(5));
  await rig.turn();
  assert.deepEqual(rig.answers(), [
    '1 invalid_input',
    '2 invalid_input',
    '3 worker_lost',
    '4 worker_lost',
    '5 deadline_exceeded',
    '6 deadline_exceeded',
  ]);
});

test('with retryLost all requests that share a run get the outcome of its second try', async () => {
  const [rig, pool] = await busyStage({ retryLost: true });
  await ask(rig, [2], '"first"');
  pool.lose();
  await ask(rig, [3], '"first"', { priority: 5 });
  assert.deepEqual(pool.held(), [[1]]);
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['1', '2', '3']);
});

test('a run continues for the other requests if the request that began it is cancelled', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2], '"first"');
  rig.engine.cancel([1]);
  await ask(rig, [3], '"first"');
  rig.engine.cancel([2]);
  assert.deepEqual(pool.cancelled, []);
  await answer(rig, pool);
  assert.deepEqual(how(rig), ['3 joined']);
});

test('an input does not run if all its requests have been cancelled', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2, 3], '"second"');
  rig.engine.cancel([2, 3]);
  assert.equal(rig.queueOf(1), 0);
  await ask(rig, [4], '"first"');
  rig.engine.cancel([1]);
  rig.engine.cancel([4]);
  assert.deepEqual(pool.cancelled, [1]);
  // A new request must not wait for a cancelled run.
  await ask(rig, [5], '"first"');
  await answer(rig, pool);
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['5']);
});

test('each identical request that waits has its own deadline', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2], '"second"', { deadline: rig.clock.now() + 10 });
  await ask(rig, [3], '"second"', { deadline: rig.clock.now() + 50 });
  await rig.advance(20);
  await answer(rig, pool);
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['1', '2 deadline_exceeded', '3']);
});

test('a request that joined with more time gets another run if the first one was too late', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2], '"second"', { deadline: rig.clock.now() + 10 });
  await answer(rig, pool);
  await ask(rig, [3], '"second"', { deadline: rig.clock.now() + 50 });
  await ask(rig, [4], '"second"', { deadline: rig.clock.now() + 90 });
  await rig.advance(15);
  const late = new ModeletError('deadline_exceeded', 'deadline passed before predict');
  pool.answerWith({ codec: CODEC.none, bytes: encodeError(late) });
  await rig.turn();
  assert.deepEqual(rig.answers(), ['1', '2 deadline_exceeded']);
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['3', '4']);
});

test('a request that joined with more time gets another run, too, if it is the only one left', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2], '"second"', { deadline: rig.clock.now() + 10 });
  await answer(rig, pool);
  await ask(rig, [3], '"second"', { deadline: rig.clock.now() + 50 });
  await rig.advance(15);
  // The server has answered it at its deadline.
  rig.engine.cancel([2]);
  const late = new ModeletError('deadline_exceeded', 'deadline passed before predict');
  pool.answerWith({ codec: CODEC.none, bytes: encodeError(late) });
  await rig.turn();
  assert.deepEqual([rig.answers(), pool.held()], [['1'], [[3]]]);
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['3']);
});

test('the lost run of a dead worker repeats for the requests that joined with more time', async () => {
  const rig = new Rig();
  const pool = await rig.single({ ...caching(), retryLost: true });
  await ask(rig, [1], '"a"', { deadline: rig.clock.now() + 50 });
  await rig.advance(10);
  await ask(rig, [2], '"a"', { deadline: rig.clock.now() + 10_000 });
  await rig.advance(45);
  rig.engine.cancel([1]);
  pool.lose();
  await rig.turn();
  assert.deepEqual([pool.held(), rig.answers()], [[[2]], []]);
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['2']);
});

test('requests that shared a lost run share the second one too: an input kills two workers at most', async () => {
  const [rig, pool] = await busyStage({ retryLost: true });
  await ask(rig, [2, 3], '"first"');
  await ask(rig, [4], '"other"');
  pool.lose();
  await rig.turn();
  assert.deepEqual([pool.held(), rig.queueOf(1)], [[[1]], 1]);
  await ask(rig, [5], '"first"');
  pool.lose();
  await rig.turn();
  assert.deepEqual(rig.answers(), ['1 worker_lost', '2 worker_lost', '3 worker_lost', '5 worker_lost']);
  assert.deepEqual(pool.held(), [[4]]);
});

test('requests that joined a run sent ahead to a dead worker come back, each with its own time and priority', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  await ask(rig, [1], '"brief"');
  pool.answer(0, 1);
  await ask(rig, [2], '"runs"');
  await ask(rig, [3], '"ahead"', { deadline: rig.clock.now() + 50 });
  assert.deepEqual(pool.held(), [[2], [3]]);
  await ask(rig, [4], '"ahead"', { deadline: rig.clock.now() + 10_000, priority: 2 });
  await ask(rig, [5], '"more urgent than the first"', { priority: 1 });
  await rig.advance(60);
  rig.engine.cancel([3]);
  pool.lose();
  await rig.turn();
  assert.deepEqual(
    [pool.held(), rig.answers()],
    [
      [[4], [5]],
      ['1', '2 worker_lost'],
    ],
  );
});

test('a reset drops all waiting requests, but none that share a run', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2], '"first"');
  await ask(rig, [3, 4], '"second"');
  rig.engine.act(1, 'reset');
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['3 dropped', '4 dropped', '1', '2']);
});

test('each identical request is dropped at its own age', async () => {
  const [rig, pool] = await busyStage({ maxAgeMs: 50 });
  await ask(rig, [2, 3], '"second"');
  await rig.advance(40);
  await ask(rig, [4], '"second"');
  await rig.advance(20);
  await answer(rig, pool);
  assert.deepEqual([rig.answers(), pool.held()], [['1', '2 dropped', '3 dropped'], [[4]]]);
  await answer(rig, pool);
  assert.deepEqual(rig.answers(), ['4']);
});

test('a full queue drops the oldest request of a group, not those that share a run', async () => {
  const [rig, pool] = await busyStage({ capacity: 2, overflow: 'drop-oldest' });
  await ask(rig, [2], '"first"', { group: 1 });
  await ask(rig, [3], '"second"', { group: 1 });
  await ask(rig, [4], '"second"', { group: 2 });
  await ask(rig, [5], '"fifth"', { group: 1 });
  assert.deepEqual(rig.answers(), ['3 dropped']);
  for (const _ of upTo(3)) await answer(rig, pool);
  assert.deepEqual(rig.answers().sort(), ['1', '2', '4', '5']);
});

test('requests that share a run go on one by one as the next stage has room', async () => {
  const rig = new Rig();
  const plan = { stages: [stage(1, caching()), stage(2, { capacity: 2 })], routes: [route(1, [1, 2]), route(2, [1])] };
  await rig.apply(plan);
  await ask(rig, upTo(6), '1');
  await ask(rig, [7], '1', { routeRef: 2 });
  rig.pool(1).answer();
  await rig.turn();
  // One runs there and two wait; who goes no further has its answer.
  assert.deepEqual([rig.queueOf(1), rig.queueOf(2), rig.answers()], [3, 2, ['7']]);
  for (const _ of upTo(6)) {
    assert.ok((rig.queueOf(2) ?? 0) <= 2);
    rig.pool(2).answer();
    await rig.turn();
  }
  assert.deepEqual(rig.answers(), ['1', '2', '3', '4', '5', '6']);
  assert.equal(rig.pool(1).held().length, 0);
});

test('a removed stage answers all requests that share a run there', async () => {
  const [rig, pool] = await busyStage();
  await ask(rig, [2], '"first"');
  await ask(rig, [3, 4], '"second"');
  await rig.apply({ stages: [], routes: [] });
  assert.equal(pool.closes.length, 0);
  await answer(rig, pool);
  await answer(rig, pool);
  assert.deepEqual([rig.answers(), pool.closes.length], [['1', '2', '3', '4'], 1]);
});

test('without the cache each request runs separately', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await ask(rig, [1, 2], '1');
  assert.deepEqual([pool.held(), rig.queueOf(1)], [[[1]], 1]);
  assert.deepEqual(counts(rig), [0, 0, 0]);
});

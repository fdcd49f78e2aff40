/** Items that leave before they are computed: cancelled, expired, aged. And those whose worker dies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Batching } from '../../src/core/model.ts';
import { decodeModeletError } from '../../src/wire/codec/error-codec.ts';
import { Rig, route, stage, upTo } from './rig.ts';

const greedy = (maxBatchSize: number): Batching => ({ policy: 'greedy', maxBatchSize, maxWaitMs: 0 });

test('a waiting item that is cancelled gets no run and no answer', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: greedy(8) });
  await rig.submit([1]);
  await rig.submit(upTo(4, 2));
  rig.engine.cancel([2, 4, 77]);
  rig.engine.cancel([2]);
  pool.answer();
  await rig.turn();
  assert.deepEqual(pool.held(), [[3]]);
  pool.answer();
  assert.deepEqual(rig.answers(), ['1', '3']);
  assert.deepEqual(pool.cancelled, []);
});

test('the stage tells the worker of a cancelled running item and ignores its reply', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1, 2]);
  rig.engine.cancel([1]);
  assert.deepEqual(pool.cancelled, [1]);
  pool.answer();
  await rig.turn();
  pool.answer();
  assert.deepEqual(rig.answers(), ['2']);
});

test('an item cancelled between two stages does not go on', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2)], routes: [route(1, [1, 2])] });
  await rig.submit([1]);
  rig.engine.cancel([1]);
  rig.pool(1).answer();
  await rig.turn();
  assert.deepEqual(rig.pool(2).held(), []);
  assert.deepEqual(rig.answers(), []);
});

test('the stage never dispatches an expired item, not even as the first of a batch', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: greedy(8) });
  await rig.submit([1]);
  const now = rig.clock.now();
  await rig.submit([2], { deadline: now + 10 });
  await rig.submit([3], { deadline: now + 30 });
  await rig.submit([4], { deadline: now + 10, priority: 5 });
  await rig.submit([5]);
  rig.clock.advance(10);
  pool.answer();
  await rig.turn();
  assert.deepEqual(rig.answers(), ['1', '4 deadline_exceeded', '2 deadline_exceeded']);
  assert.deepEqual(pool.held(), [[3, 5]]);
});

test('an item that has expired on arrival fails with deadline_exceeded', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1], { deadline: rig.clock.now() });
  assert.deepEqual(rig.answers(), ['1 deadline_exceeded']);
  assert.deepEqual(pool.held(), []);
});

test('expired items do not count towards a full batch', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 50 } });
  await rig.submit([1, 2], { deadline: rig.clock.now() + 5 });
  await rig.advance(5);
  await rig.submit([3]);
  assert.deepEqual(pool.held(), []);
  await rig.submit([4, 5]);
  assert.deepEqual(pool.held(), [[3, 4, 5]]);
});

test('the stage prefers an item with enough time to an item with less time than an answer usually takes', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1]);
  rig.clock.advance(20);
  pool.answer();
  await rig.submit([2, 3], { deadline: rig.clock.now() + 35 });
  await rig.submit([4], { deadline: rig.clock.now() + 70 });
  rig.clock.advance(20);
  pool.answer();
  await rig.turn();
  assert.deepEqual(rig.answers(), ['1', '2', '3 deadline_exceeded']);
  assert.deepEqual(pool.held(), [[4]]);
});

test('an item whose deadline passes during its run keeps its value, because the ledger decides', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1], { deadline: rig.clock.now() + 5 });
  rig.clock.advance(50);
  pool.answer();
  assert.deepEqual(rig.answers(), ['1']);
});

test('maxAgeMs drops older items at dispatch, and none before', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: greedy(8), maxAgeMs: 20 });
  await rig.submit([1]);
  await rig.submit([2]);
  await rig.advance(1);
  await rig.submit([3]);
  await rig.advance(20);
  assert.deepEqual(rig.answers(), []);
  pool.answer();
  await rig.turn();
  assert.deepEqual(rig.answers(), ['1', '2 dropped']);
  assert.deepEqual(pool.held(), [[3]]);
});

/** One worker with a batch that runs and one sent ahead, and one more that waits; single items or batches of `size`. */
async function loaded(size: number): Promise<Rig> {
  const rig = new Rig();
  const pool = await rig.single({ batching: greedy(size) });
  await rig.submit([100]);
  pool.answer(0, 1);
  await rig.turn();
  for (let batch = 0; batch < 3; batch += 1) await rig.submit(upTo((batch + 1) * size, batch * size + 1));
  assert.equal(pool.held().length, 2);
  rig.answers();
  return rig;
}

test('the items that a dead worker ran fail, and those that it had not begun return to the head in order', async () => {
  const rig = await loaded(2);
  const pool = rig.pool(1);
  assert.deepEqual(
    [pool.held(), rig.queueOf(1)],
    [
      [
        [1, 2],
        [3, 4],
      ],
      2,
    ],
  );
  pool.lose(0, new Error('killed by SIGKILL'));
  await rig.turn();
  const [first] = rig.outcomes;
  const error = decodeModeletError(first?.payload.bytes as Uint8Array, 'protocol_error');
  assert.equal(error.stage, 'stage1');
  assert.match(error.message, /worker 0 of stage stage1 died: killed by SIGKILL/);
  assert.deepEqual(rig.answers(), ['1 worker_lost', '2 worker_lost']);
  assert.deepEqual(pool.held(), [
    [3, 4],
    [5, 6],
  ]);
});

test('an item that returns to the queue keeps its deadline and its cancellation', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1]);
  pool.answer(0, 1);
  await rig.submit([2, 3, 4, 5], { deadline: rig.clock.now() + 10 });
  rig.engine.cancel([3]);
  assert.deepEqual(pool.held(), [[2], [3]]);
  rig.clock.advance(5);
  pool.lose();
  await rig.turn();
  assert.deepEqual(pool.held(), [[4], [5]]);
  assert.deepEqual(rig.answers(), ['1', '2 worker_lost']);
  await rig.submit([6], { deadline: rig.clock.now() + 1 });
  rig.clock.advance(5);
  pool.lose();
  await rig.turn();
  assert.deepEqual(rig.answers(), ['4 worker_lost', '5 deadline_exceeded', '6 deadline_exceeded']);
});

test('the last worker\u2019s death with no other to come fails what waits as well', async () => {
  const rig = await loaded(1);
  rig.pool(1).lose();
  rig.pool(1).fail('does not start');
  await rig.turn();
  assert.deepEqual(rig.answers(), ['1 worker_lost', '2 stage_unavailable', '3 stage_unavailable']);
});

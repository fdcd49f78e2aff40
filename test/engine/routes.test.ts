/** An item's way through its route: values, errors, taps, timings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Rig, route, stage } from './rig.ts';

async function threeStages(taps: readonly number[] = []): Promise<Rig> {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2), stage(3)], routes: [route(1, [1, 2, 3], taps)] });
  return rig;
}

async function answer(rig: Rig, ref: number, failing: (item: { id: number }) => boolean = () => false): Promise<void> {
  rig.pool(ref).answer(0, 10, failing);
  await rig.turn();
}

test('an item passes its stages in order and comes out once', async () => {
  const rig = await threeStages();
  await rig.submit([1]);
  for (const ref of [1, 2, 3]) {
    assert.deepEqual(rig.pool(ref).held(), [[1]]);
    assert.deepEqual(rig.answers(), []);
    await answer(rig, ref);
  }
  assert.deepEqual(rig.answers(), ['1']);
});

test('an error ends the route at once, for its item only', async () => {
  const rig = new Rig();
  const batching = { policy: 'greedy', maxBatchSize: 8, maxWaitMs: 0 } as const;
  await rig.apply({ stages: [stage(1, { batching }), stage(2, { batching })], routes: [route(1, [1, 2])] });
  await rig.submit([1, 2, 3]);
  await answer(rig, 1, ({ id }) => id === 2);
  assert.deepEqual(rig.answers(), ['2 invalid_input']);
  assert.deepEqual(rig.pool(2).held(), [[1, 3]]);
});

test('a tap copies the value that its stage passes on, not its errors and not the result of the last stage', async () => {
  const rig = await threeStages([2, 3]);
  await rig.submit([1]);
  for (const ref of [1, 2, 3]) await answer(rig, ref);
  assert.deepEqual(
    rig.taps.map(({ id, stageRef, ok, payload }) => [id, stageRef, ok, Buffer.from(payload.bytes).toString()]),
    [[1, 2, true, '1']],
  );
  await rig.submit([2]);
  await answer(rig, 1);
  await answer(rig, 2, () => true);
  assert.equal(rig.taps.length, 1);
});

test('each stage adds its timing, and the parts add up to the time it took', async () => {
  const rig = new Rig();
  const batching = { policy: 'oldest', maxBatchSize: 4, maxWaitMs: 10 } as const;
  await rig.apply({ stages: [stage(1, { batching }), stage(2)], routes: [route(1, [1, 2])] });
  await rig.advance(100);
  // A worker has long been free: all ten milliseconds are for the batch to fill.
  await rig.submit([1]);
  await rig.advance(10);
  assert.deepEqual(rig.pool(1).held(), [[1]]);
  // No worker is free: from here to its end the second item waits for one.
  await rig.advance(5);
  await rig.submit([2]);
  await rig.advance(25);
  rig.pool(1).answer(0, 30);
  await rig.turn();
  assert.deepEqual(rig.pool(1).held(), [[2]]);
  await rig.advance(7);
  await answer(rig, 2);
  assert.deepEqual(rig.outcomes[0]?.timings, [
    { stage: 1, waitMs: 0, batchMs: 10, runMs: 30, batchSize: 1, worker: 0 },
    { stage: 2, waitMs: 0, batchMs: 0, runMs: 10, batchSize: 1, worker: 0 },
  ]);
  await answer(rig, 1);
  await answer(rig, 2);
  const [first] = rig.outcomes[1]?.timings ?? [];
  assert.deepEqual([first?.waitMs, first?.batchMs], [25, 0]);
});

test('the wait of an item counts first for the worker, then for the batch', async () => {
  const rig = new Rig();
  const batching = { policy: 'gap', maxBatchSize: 4, maxWaitMs: 10 } as const;
  await rig.single({ batching });
  await rig.submit([1, 2, 3, 4]);
  await rig.advance(3);
  await rig.submit([5]);
  await rig.advance(20);
  rig.pool(1).answer(0, 23);
  await rig.turn();
  await rig.advance(10);
  rig.pool(1).answer();
  const [timing] = rig.outcomes.at(-1)?.timings ?? [];
  assert.deepEqual([timing?.waitMs, timing?.batchMs, timing?.batchSize], [20, 10, 1]);
});

test('a prefetched item waits until its worker has finished the batch before', async () => {
  const rig = new Rig();
  await rig.single();
  await rig.submit([1]);
  rig.pool(1).answer(0, 1);
  await rig.submit([2, 3]);
  assert.deepEqual(rig.pool(1).held(), [[2], [3]]);
  await rig.advance(2);
  rig.pool(1).answer(0, 2);
  await rig.advance(1);
  rig.pool(1).answer(0, 1);
  const [timing] = rig.outcomes.at(-1)?.timings ?? [];
  assert.deepEqual([timing?.waitMs, timing?.batchMs], [2, 0]);
});

test('the status reports batches, items, queues and the mean batch size since the last report', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'greedy', maxBatchSize: 3, maxWaitMs: 0 } });
  await rig.submit([1, 2, 3, 4, 5]);
  const look = () => {
    const [status] = rig.engine.status().stages;
    return [
      status?.queue,
      status?.busy,
      status?.ready,
      status?.reading.batches,
      status?.reading.items,
      status?.meanBatchSize,
    ];
  };
  assert.deepEqual(look(), [2, 1, 1, 1, 3, 3]);
  pool.answer();
  await rig.turn();
  assert.deepEqual(look(), [0, 1, 1, 2, 5, 2]);
  pool.answer();
  await rig.turn();
  assert.deepEqual(look(), [0, 0, 1, 2, 5, 2]);
  assert.ok(rig.changes > 0);
});

test('the status reports how long the oldest item has waited and when the filling batch leaves', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 50 } });
  const look = () => {
    const [status] = rig.engine.status().stages;
    return [status?.oldestAt, status?.leavesAt];
  };
  assert.deepEqual(look(), [null, null]);
  const start = rig.clock.now();
  await rig.submit([1]);
  await rig.advance(20);
  await rig.submit([2]);
  assert.deepEqual(look(), [start, start + 50]);
  await rig.advance(30);
  assert.deepEqual(pool.held(), [[1, 2]]);
  assert.deepEqual(look(), [null, null]);
  // No worker is free: nothing fills.
  await rig.submit([3]);
  assert.deepEqual(look(), [start + 50, null]);
});

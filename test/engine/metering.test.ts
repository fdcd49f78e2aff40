/** The engine counts each batch by its reason, each item by its times, and each loss by its code. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StageReading } from '../../src/core/readings.ts';
import { countOf } from '../../src/observe/meters/histogram.ts';
import { Rig, route, stage, upTo } from './rig.ts';

function reading(rig: Rig, ref = 1): StageReading {
  const found = rig.engine.status().stages.find((status) => status.ref === ref);
  assert.ok(found);
  return found.reading;
}

test('the engine counts batches by the reason for their leaving', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 20 } }, 2);
  await rig.submit(upTo(4));
  await rig.advance(20);
  assert.deepEqual(reading(rig).reasons, { full: 1, idle: 0, timer: 1, gap: 0, retry: 0 });
  assert.deepEqual([reading(rig).batches, reading(rig).items, reading(rig).batchSize.sum], [2, 4, 4]);
  pool.answer(0, 7);
  await rig.turn();
  assert.deepEqual([countOf(reading(rig).run), reading(rig).run.sum, reading(rig).busyMs], [3, 21, 7]);
});

test('the engine counts the same times that it reports to requests', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'gap', maxBatchSize: 10, maxWaitMs: 10 } });
  for (const id of [1, 2, 3]) {
    await rig.submit([id]);
    await rig.advance(6);
  }
  await rig.advance(10);
  await rig.submit([4]);
  await rig.advance(5);
  pool.answer(0, 25);
  await rig.turn();
  await rig.advance(30);
  pool.answer(0, 3);
  await rig.turn();
  const timings = rig.outcomes.flatMap((outcome) => outcome.timings);
  assert.equal(timings.length, 4);
  const sum = (pick: (timing: (typeof timings)[number]) => number): number =>
    timings.reduce((total, timing) => total + pick(timing), 0);
  assert.equal(
    reading(rig).queueWait.sum,
    sum(({ waitMs }) => waitMs),
  );
  assert.equal(
    reading(rig).batchWait.sum,
    sum(({ batchMs }) => batchMs),
  );
  assert.equal(
    reading(rig).run.sum,
    sum(({ runMs }) => runMs),
  );
  assert.ok(reading(rig).queueWait.sum > 0 && reading(rig).batchWait.sum > 0);
});

test('a stage counts items that it does not serve by their error code', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2, { capacity: 2 })], routes: [route(1, [1, 2]), route(2, [2])] });
  await rig.submit([1, 2, 3, 4], { routeRef: 2 });
  await rig.submit([10], { routeRef: 2, deadline: rig.clock.now() + 5, patient: true });
  await rig.advance(5);
  rig.pool(2).lose();
  await rig.turn();
  assert.deepEqual(reading(rig, 2).unserved, { capacity_exceeded: 2, deadline_exceeded: 1, worker_lost: 1 });
  assert.deepEqual(reading(rig, 1).unserved, {});
});

test('a stage counts the taps that copy its value', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2)], routes: [route(1, [1, 2], [1])] });
  await rig.submit([1]);
  rig.pool(1).answer();
  await rig.turn();
  assert.deepEqual([reading(rig, 1).taps, reading(rig, 2).taps, rig.taps.length], [1, 0, 1]);
});

test('a stage counts the parts that it makes', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2)], routes: [route(1, [1, 2])] });
  await rig.submit([1], { streams: true });
  rig.pool(1).answer();
  await rig.turn();
  rig.pool(2).sendPart();
  rig.pool(2).sendPart();
  rig.engine.cancel([1]);
  rig.pool(2).sendPart();
  assert.deepEqual([reading(rig, 1).parts, reading(rig, 2).parts, rig.parts.length], [0, 2, 2]);
});

test('a deploy that changes a stage keeps its counts', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1]);
  pool.answer();
  await rig.apply({ stages: [stage(1, { revision: 'r2' })], routes: [route(1, [1])] });
  assert.equal(reading(rig).items, 1);
});

/** Admission at the entry of a route. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModeletError } from '../../src/core/errors.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { decodeModeletError } from '../../src/wire/codec/error-codec.ts';
import { Rig, route, stage, upTo } from './rig.ts';

function lastError(rig: Rig): ModeletError {
  const outcome = rig.outcomes.at(-1);
  assert.ok(outcome && !outcome.ok);
  return decodeModeletError(outcome.payload.bytes, 'protocol_error');
}

test('a queue refuses an item only when it is full, and running items do not count', async () => {
  const rig = new Rig();
  const pool = await rig.single({ capacity: 3 });
  await rig.submit([1]);
  assert.deepEqual(pool.held(), [[1]]);
  await rig.submit([2, 3, 4]);
  assert.deepEqual(rig.answers(), []);
  await rig.submit([5, 6]);
  assert.deepEqual(rig.answers(), ['5 capacity_exceeded', '6 capacity_exceeded']);
  pool.answer();
  await rig.turn();
  await rig.submit([7, 8]);
  assert.deepEqual(rig.answers(), ['1', '8 capacity_exceeded']);
  assert.equal(rig.queueOf(1), 3);
});

test('a queue is full at its number of bytes, too, and takes more when some have left', async () => {
  const rig = new Rig(2 ** 20, 2 ** 30);
  const pool = await rig.single({ queueMb: 1 });
  const payload = { codec: CODEC.bytes, bytes: new Uint8Array(600 * 1024) };
  await rig.submit([1], { payload });
  await rig.submit([2, 3, 4], { payload });
  assert.match(lastError(rig).message, /^queue of stage stage1 is full \(1 MB waiting\)$/);
  assert.deepEqual(rig.answers(), ['4 capacity_exceeded']);
  pool.answer();
  await rig.turn();
  await rig.submit([5, 6], { payload });
  assert.deepEqual(rig.answers(), ['1', '6 capacity_exceeded']);
  assert.equal(rig.queueOf(1), 2);
});

test('a refusal names the stage and the time to retry after', async () => {
  const rig = new Rig();
  const pool = await rig.single({ capacity: 30, batching: { policy: 'greedy', maxBatchSize: 2, maxWaitMs: 0 } }, 3);
  await rig.submit([1]);
  pool.answer(0, 1500);
  await rig.submit(upTo(50, 2));
  const error = lastError(rig);
  assert.equal(error.code, 'capacity_exceeded');
  assert.equal(error.stage, 'stage1');
  // 30 waiting in batches of 2 over 3 workers: 5 runs of 1.5 s.
  assert.equal(error.retryAfterSeconds, 8);
});

test('a refusal before the first run says one second', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1, { capacity: 1 })], routes: [route(1, [1])] }, false);
  await rig.submit([1, 2]);
  assert.equal(lastError(rig).retryAfterSeconds, 1);
});

test('a full queue accepts a patient item, because its server limits how many it sends', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1, { capacity: 1 })], routes: [route(1, [1])] }, false);
  await rig.submit([1, 2, 3], { patient: true });
  await rig.submit([4]);
  assert.deepEqual(rig.answers(), ['4 capacity_exceeded']);
  assert.equal(rig.queueOf(1), 3);
});

test('a request for a removed route fails with shutting_down', async () => {
  const rig = new Rig();
  await rig.single();
  await rig.submit([1], { routeRef: 77 });
  assert.deepEqual(rig.answers(), ['1 shutting_down']);
});

test('a stage whose workers do not start refuses waiting and new items until a worker is ready', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1)], routes: [route(1, [1])] }, false);
  await rig.submit([1, 2]);
  assert.deepEqual(rig.answers(), []);
  rig.pool(1).fail('no weights');
  assert.match(lastError(rig).message, /stage stage1 does not start: no weights/);
  await rig.submit([3]);
  assert.deepEqual(rig.answers(), ['1 stage_unavailable', '2 stage_unavailable', '3 stage_unavailable']);
  rig.pool(1).becomeReady();
  await rig.submit([4]);
  assert.deepEqual(rig.pool(1).held(), [[4]]);
});

async function full(capacity: number): Promise<Rig> {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1, { capacity, overflow: 'drop-oldest' })], routes: [route(1, [1])] }, false);
  return rig;
}

test('drop-oldest: a full queue accepts the newest item and drops the oldest', async () => {
  const rig = await full(2);
  await rig.submit([1, 2, 3, 4]);
  assert.deepEqual(rig.answers(), ['1 dropped', '2 dropped']);
  rig.pool(1).becomeReady();
  await rig.turn();
  assert.deepEqual(rig.pool(1).held(), [[3]]);
  assert.equal(rig.queueOf(1), 1);
});

test('drop-oldest: a queue drops the lowest priority first, and never a higher one for a lower one', async () => {
  const rig = await full(2);
  await rig.submit([1], { priority: 5 });
  await rig.submit([2], { priority: 1 });
  await rig.submit([3], { priority: 1 });
  assert.deepEqual(rig.answers(), ['2 dropped']);
  await rig.submit([4], { priority: 0 });
  assert.deepEqual(rig.answers(), ['4 dropped']);
});

test('drop-oldest: an item drops the oldest of its group, or else the oldest of all', async () => {
  const rig = await full(3);
  const send = async (id: number, group: number): Promise<string[]> => {
    await rig.advance(1);
    await rig.submit([id], { group });
    return rig.answers();
  };
  for (const [id, group] of [
    [1, 7],
    [2, 8],
    [3, 8],
  ] as const)
    assert.deepEqual(await send(id, group), []);
  assert.deepEqual(await send(4, 8), ['2 dropped']);
  assert.deepEqual(await send(5, 7), ['1 dropped']);
  assert.deepEqual(await send(6, 9), ['3 dropped']);
  rig.pool(1).becomeReady();
  await rig.turn();
  // The only one of its group took the place of the one it dropped.
  assert.deepEqual(rig.pool(1).held(), [[5]]);
});

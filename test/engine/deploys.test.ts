/** A deploy does not cost what did not change, and requests in flight finish on the way they began. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModeletDescription } from '../../src/core/model.ts';
import { Rig, route, stage, upTo } from './rig.ts';

const NEVER = Number.POSITIVE_INFINITY;
const ONE = [route(1, [1])];

test('an unchanged stage keeps its workers, its queue and its running items', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1, 2]);
  await rig.apply({ stages: [stage(1, { name: 'renamed', capacity: 7 })], routes: ONE });
  assert.equal(rig.pools.length, 1);
  assert.deepEqual([pool.held(), rig.queueOf(1), pool.closes], [[[1]], 1, []]);
  pool.answer();
  await rig.turn();
  pool.answer();
  assert.deepEqual(rig.answers(), ['1', '2']);
});

test('changed batching applies to items that already wait', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 9, maxWaitMs: 60_000 } });
  await rig.submit([1, 2]);
  assert.deepEqual(pool.held(), []);
  await rig.apply({
    stages: [stage(1, { batching: { policy: 'greedy', maxBatchSize: 9, maxWaitMs: 0 } })],
    routes: ONE,
  });
  assert.deepEqual(pool.held(), [[1, 2]]);
  assert.equal(rig.clock.pending, 0);
});

test('a smaller capacity refuses new items and keeps the waiting ones', async () => {
  const rig = new Rig();
  await rig.single();
  await rig.submit([1, 2, 3, 4]);
  await rig.apply({ stages: [stage(1, { capacity: 2 })], routes: ONE });
  await rig.submit([5]);
  assert.deepEqual(rig.answers(), ['5 capacity_exceeded']);
  assert.equal(rig.queueOf(1), 3);
});

test('changed code: the old workers serve until a new one is ready, then finish their batches', async () => {
  const rig = new Rig();
  const old = await rig.single();
  await rig.submit([1, 2]);
  await rig.apply({ stages: [stage(1, { revision: 'r2' })], routes: ONE }, false);
  const fresh = rig.pool(1);
  assert.notEqual(fresh, old);
  assert.ok(fresh.started);
  old.answer();
  await rig.turn();
  assert.deepEqual([old.held(), old.closes], [[[2]], []]);
  fresh.becomeReady();
  assert.deepEqual(old.closes, [NEVER]);
  await rig.submit([3]);
  assert.deepEqual(fresh.held(), [[3]]);
  rig.engine.cancel([2]);
  assert.deepEqual(old.cancelled, [2]);
  old.answer();
  fresh.answer();
  assert.deepEqual(rig.answers(), ['1', '3']);
});

test('items that an old worker had not begun when it died go to the new workers', async () => {
  const rig = new Rig();
  const old = await rig.single();
  await rig.submit([1]);
  old.answer(0, 1);
  await rig.submit([2, 3]);
  await rig.apply({ stages: [stage(1, { revision: 'r2' })], routes: ONE });
  assert.deepEqual(old.held(), [[2], [3]]);
  old.lose();
  await rig.turn();
  assert.deepEqual(rig.pool(1).held(), [[3]]);
  assert.deepEqual(rig.answers(), ['1', '2 worker_lost']);
});

test('changed code that does not start changes only the status', async () => {
  const rig = new Rig();
  const old = await rig.single();
  await rig.apply({ stages: [stage(1, { revision: 'bad' })], routes: ONE }, false);
  rig.pool(1).fail('SyntaxError');
  await rig.submit([1]);
  assert.deepEqual(old.held(), [[1]]);
  const [status] = rig.engine.status().stages;
  assert.deepEqual([status?.successorError, status?.revision], ['SyntaxError', null]);
  const bad = rig.pool(1);
  await rig.apply({ stages: [stage(1, { revision: 'r3' })], routes: ONE }, false);
  assert.equal(bad.closes.length, 1);
  assert.equal(rig.engine.status().stages[0]?.successorError, null);
});

test('a return to the running code starts no workers and ends those that were starting', async () => {
  const rig = new Rig();
  const old = await rig.single();
  await rig.apply({ stages: [stage(1, { revision: 'r2' })], routes: ONE }, false);
  const starting = rig.pool(1);
  await rig.apply({ stages: [stage(1)], routes: ONE }, false);
  assert.equal(rig.pools.length, 2);
  assert.deepEqual([old.closes.length, starting.closes.length], [0, 1]);
  starting.becomeReady();
  await rig.submit([1]);
  assert.deepEqual(old.held(), [[1]]);
});

test('a repeated deploy does not start the new workers twice', async () => {
  const rig = new Rig();
  await rig.single();
  for (let times = 0; times < 3; times += 1)
    await rig.apply({ stages: [stage(1, { revision: 'r2' })], routes: ONE }, false);
  assert.equal(rig.pools.length, 2);
});

test('a stage that does not run refuses nothing while workers with new code start', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1)], routes: ONE }, false);
  rig.pool(1).fail('SyntaxError');
  await rig.submit([1]);
  await rig.apply({ stages: [stage(1, { revision: 'fixed' })], routes: ONE }, false);
  await rig.submit([2]);
  assert.deepEqual(rig.answers(), ['1 stage_unavailable']);
  rig.pool(1).becomeReady();
  await rig.turn();
  assert.deepEqual(rig.pool(1).held(), [[2]]);
});

test('a removed stage serves the items on their way, then its workers get five seconds', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2)], routes: [route(1, [1, 2])] });
  await rig.submit([1]);
  const leaving = rig.pool(2);
  await rig.apply({ stages: [stage(1)], routes: [route(2, [1])] });
  await rig.submit([2], { routeRef: 2 });
  rig.pool(1).answer();
  await rig.turn();
  assert.deepEqual([leaving.held(), leaving.closes], [[[1]], []]);
  leaving.answer();
  assert.deepEqual(leaving.closes, [rig.clock.now() + 5000]);
  await rig.turn();
  rig.pool(1).answer();
  assert.deepEqual(rig.answers(), ['1', '2']);
});

test('an idle stage ends at once when a deploy removes it', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.apply({ stages: [], routes: [] });
  assert.equal(pool.closes.length, 1);
  await rig.submit([1]);
  assert.deepEqual(rig.answers(), ['1 shutting_down']);
});

test('requests from several deploys ago keep their stages', async () => {
  const rig = new Rig();
  const plan = { stages: [stage(1), stage(2)], routes: [route(1, [1, 2])] };
  await rig.apply(plan);
  await rig.submit([1]);
  await rig.apply(plan);
  await rig.submit([2]);
  await rig.apply({ stages: [stage(1)], routes: [route(2, [1])] });
  const leaving = rig.pool(2);
  assert.deepEqual(leaving.closes, []);
  for (const id of [1, 2]) {
    rig.pool(1).answer();
    await rig.turn();
    assert.deepEqual([leaving.held(), leaving.closes], [[[id]], []]);
    leaving.answer();
  }
  assert.equal(leaving.closes.length, 1);
  assert.deepEqual(rig.answers(), ['1', '2']);
});

test('a removed stage ends when its last request is cancelled', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1, 2]);
  await rig.apply({ stages: [], routes: [] });
  rig.engine.cancel([2]);
  assert.deepEqual(pool.closes, []);
  rig.engine.cancel([1]);
  assert.equal(pool.closes.length, 1);
});

test('a stage that a deploy restores is new, and items on their way stay with the old one', async () => {
  const rig = new Rig();
  const old = await rig.single();
  await rig.submit([1, 2]);
  await rig.apply({ stages: [], routes: [] });
  await rig.apply({ stages: [stage(1)], routes: ONE });
  await rig.submit([3]);
  assert.deepEqual([old.held(), rig.pool(1).held()], [[[1]], [[3]]]);
  old.answer();
  await rig.turn();
  old.answer();
  rig.pool(1).answer();
  assert.deepEqual(rig.answers(), ['1', '2', '3']);
  assert.equal(old.closes.length, 1);
});

test('close gives one deadline to all workers, those of removed stages and retired generations included', async () => {
  const rig = new Rig();
  await rig.apply({ stages: upTo(3).map((ref) => stage(ref)), routes: upTo(3).map((ref) => route(ref, [ref])) });
  for (const ref of upTo(3)) await rig.submit([ref], { routeRef: ref });
  await rig.apply({
    stages: [stage(1, { revision: 'r2' }), stage(2)],
    routes: upTo(2).map((ref) => route(ref, [ref])),
  });
  await rig.apply(
    { stages: [stage(1, { revision: 'r3' }), stage(2)], routes: upTo(2).map((ref) => route(ref, [ref])) },
    false,
  );
  let ended = false;
  const closing = rig.engine.close(9000).then(() => {
    ended = true;
  });
  for (const pool of rig.pools)
    assert.ok(pool.closes.includes(9000), `${pool.definition.name} ${pool.definition.revision}`);
  await rig.turn();
  assert.equal(ended, false);
  for (const pool of rig.pools) if (pool.held().length > 0) pool.answer();
  await closing;
  assert.deepEqual(rig.answers(), ['1', '2', '3']);
});

test('the engine reports the description of a modelet once, and again when new code has another', async () => {
  const rig = new Rig();
  const describe = (example: string): ModeletDescription => ({
    inputSchema: null,
    outputSchema: null,
    examples: [example],
  });
  const told = (): unknown[] => rig.described.map(({ stage, description }) => [stage, ...description.examples]);
  await rig.apply({ stages: [stage(1)], routes: ONE }, false);
  const old = rig.pool(1);
  old.description = describe('a');
  old.becomeReady();
  old.description = describe('a');
  old.becomeReady();
  assert.deepEqual(told(), [[1, 'a']]);
  await rig.apply({ stages: [stage(1, { revision: 'r2' })], routes: ONE }, false);
  const fresh = rig.pool(1);
  fresh.description = describe('b');
  await rig.turn();
  assert.deepEqual(told(), [[1, 'a']], 'it does not serve yet');
  fresh.becomeReady();
  assert.deepEqual(told(), [
    [1, 'a'],
    [1, 'b'],
  ]);
});

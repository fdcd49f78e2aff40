/** Requests that began on a route of an earlier plan and come late are served on it, at no cost for others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Rig, route, stage, upTo } from './rig.ts';

async function answer(rig: Rig, ref: number): Promise<void> {
  rig.pool(ref).answer();
  await rig.turn();
}

test('a late item passes the stages of its route with the taps of that route', async () => {
  const rig = new Rig();
  const stages = [stage(1), stage(2)];
  await rig.apply({ stages, routes: [route(7, [1, 2], [1])] });
  await rig.apply({ stages, routes: [route(8, [2])], earlier: [route(7, [1, 2], [1])] });
  await rig.submit([1], { routeRef: 7 });
  await answer(rig, 1);
  await answer(rig, 2);
  assert.deepEqual([rig.answers(), rig.taps.map(({ stageRef }) => stageRef)], [['1'], [1]]);
});

test('an item stays on a route that the next plan lacks, and the stages of that route end after it', async () => {
  const rig = new Rig();
  const stages = [stage(1), stage(2)];
  await rig.apply({ stages, routes: [route(7, [1, 2])] });
  await rig.apply({ stages, routes: [route(8, [1])], earlier: [route(7, [1, 2])] });
  await rig.submit([1], { routeRef: 7 });
  await rig.apply({ stages: [stage(1)], routes: [route(8, [1])] });
  await answer(rig, 1);
  assert.deepEqual([rig.pool(2).held(), rig.pool(2).closes], [[[1]], []]);
  await answer(rig, 2);
  assert.deepEqual([rig.answers(), rig.pool(2).closes.length], [['1'], 1]);
});

test('an item fails if its route has lost a stage or is in no plan', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1)], routes: [route(8, [1])], earlier: [route(7, [1, 2])] });
  await rig.submit([1], { routeRef: 7 });
  await rig.submit([2], { routeRef: 6 });
  assert.deepEqual(rig.answers(), ['1 shutting_down', '2 shutting_down']);
});

test('a check asks the stages on planned routes only', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2)], routes: [route(8, [1])], earlier: [route(7, [2])] });
  const checked = await rig.engine.check(rig.clock.now() + 1000);
  assert.deepEqual(
    checked.map((result) => result.stage),
    [1],
  );
});

test('a full queue holds back late items as well', async () => {
  const rig = new Rig();
  const stages = [stage(1), stage(2, { capacity: 1 })];
  await rig.apply({ stages, routes: [route(8, [1]), route(9, [2])], earlier: [route(7, [1, 2])] });
  await rig.submit(upTo(3), { routeRef: 7 });
  await answer(rig, 1);
  await answer(rig, 1);
  assert.deepEqual([rig.pool(1).held(), rig.queueOf(2)], [[], 1]);
});

test('an earlier route in the opposite direction causes no deadlock, and planned routes hold back as before', async () => {
  const rig = new Rig();
  const stages = [stage(1, { capacity: 1 }), stage(2, { capacity: 1 })];
  await rig.apply({ stages, routes: [route(8, [1, 2])], earlier: [route(7, [2, 1])] });
  await rig.submit(upTo(3), { routeRef: 8, patient: true });
  await answer(rig, 1);
  await answer(rig, 1);
  assert.deepEqual([rig.pool(1).held(), rig.queueOf(2)], [[], 1]);
  for (const id of [4, 5, 6]) await rig.submit([id], { routeRef: 7, patient: true });
  for (let rest = 0; rest < 20; rest += 1) {
    for (const ref of [1, 2]) if (rig.pool(ref).held().length > 0) await answer(rig, ref);
  }
  assert.equal(rig.answers().length, 6);
});

/** Inside a route nothing is refused: a full queue holds back the stage before it, and never for ever. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { Rig, route, stage, upTo } from './rig.ts';

/** Stage 1 in front of stage 2, which has room for `capacity`. */
async function chain(capacity: number): Promise<Rig> {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2, { capacity })], routes: [route(1, [1, 2])] });
  return rig;
}

async function answer(rig: Rig, ref: number): Promise<void> {
  rig.pool(ref).answer();
  await rig.turn();
}

/** Fills stage 2: one item runs, two wait, the others are held back in stage 1. */
async function standing(): Promise<Rig> {
  const rig = await chain(2);
  await rig.submit(upTo(6));
  for (let times = 0; times < 3; times += 1) await answer(rig, 1);
  assert.deepEqual([rig.pool(1).held(), rig.queueOf(1)], [[], 3]);
  assert.deepEqual([rig.pool(2).held(), rig.queueOf(2)], [[[1]], 2]);
  assert.deepEqual(rig.answers(), []);
  return rig;
}

test('a full queue holds back the stage before it until there is room', async () => {
  const rig = await standing();
  await answer(rig, 2);
  assert.deepEqual(rig.pool(1).held(), [[4]]);
  for (let rest = 0; rest < 12; rest += 1) {
    for (const ref of [1, 2]) if (rig.pool(ref).held().length > 0) await answer(rig, ref);
  }
  assert.deepEqual(rig.answers(), ['1', '2', '3', '4', '5', '6']);
});

test('a queue with too many bytes holds back the stage before it until there is room', async () => {
  const rig = new Rig(2 ** 20, 2 ** 30);
  await rig.apply({ stages: [stage(1), stage(2, { queueMb: 1 })], routes: [route(1, [1, 2])] });
  const payload = { codec: CODEC.bytes, bytes: new Uint8Array(600 * 1024) };
  const pass = async (): Promise<void> => {
    rig.pool(1).answerFromHost(() => ({ ok: true, payload, timings: [] }));
    await rig.turn();
  };
  const bytesOf2 = (): number | undefined => rig.engine.status().stages[1]?.queueBytes;
  await rig.submit(upTo(6), { payload });
  while (rig.pool(1).held().length > 0) await pass();
  // The items that stage 1 had when the queue became full come as well.
  assert.deepEqual([rig.queueOf(1), rig.queueOf(2), bytesOf2()], [2, 3, 3 * 600 * 1024]);
  await answer(rig, 2);
  assert.deepEqual(rig.pool(1).held(), []);
  await answer(rig, 2);
  assert.deepEqual([rig.pool(1).held(), bytesOf2()], [[[5], [6]], 600 * 1024]);
  for (let rest = 0; rest < 4; rest += 1) {
    if (rig.pool(1).held().length > 0) await pass();
    await answer(rig, 2);
  }
  assert.deepEqual(rig.answers().length, 6);
  assert.equal(bytesOf2(), 0);
});

test('a cancelled item makes room for items held back', async () => {
  const rig = await standing();
  rig.engine.cancel([2]);
  await rig.turn();
  assert.deepEqual(rig.pool(1).held(), [[4]]);
});

test('an expired item makes room for items held back', async () => {
  const rig = await chain(1);
  await rig.submit([1]);
  await answer(rig, 1);
  await rig.submit([2], { deadline: rig.clock.now() + 10 });
  await answer(rig, 1);
  await rig.submit([3]);
  assert.deepEqual(rig.pool(1).held(), []);
  rig.clock.advance(10);
  await answer(rig, 2);
  assert.deepEqual(rig.answers(), ['1', '2 deadline_exceeded']);
  assert.deepEqual(rig.pool(1).held(), [[3]]);
});

test('a failed pool releases the items held back, which fail there', async () => {
  const rig = await standing();
  rig.pool(2).fail('gone');
  await rig.turn();
  for (let rest = 0; rest < 3; rest += 1) await answer(rig, 1);
  const expected = [2, 3, 4, 5, 6].map((id) => `${id} stage_unavailable`);
  assert.deepEqual(rig.answers(), expected);
});

test('a reset makes room for items held back', async () => {
  const rig = await standing();
  rig.engine.act(2, 'reset');
  await rig.turn();
  assert.deepEqual(rig.answers(), ['2 dropped', '3 dropped']);
  assert.deepEqual(rig.pool(1).held(), [[4]]);
});

test('a larger capacity makes room for items held back', async () => {
  const rig = await standing();
  await rig.apply({ stages: [stage(1), stage(2, { capacity: 9 })], routes: [route(1, [1, 2])] });
  assert.deepEqual(rig.pool(1).held(), [[4]]);
});

test('a deploy that removes the way of items held back releases them', async () => {
  const rig = await standing();
  await rig.apply({ stages: [stage(2, { capacity: 2 })], routes: [route(2, [2])] });
  const leaving = rig.pool(1);
  assert.deepEqual(leaving.held(), [[4]]);
  for (let rest = 0; rest < 12; rest += 1) {
    for (const pool of [leaving, rig.pool(2)]) if (pool.held().length > 0) pool.answer();
    await rig.turn();
  }
  assert.deepEqual(rig.answers(), ['1', '2', '3', '4', '5', '6']);
});

test('a stage holds back only items on their way to the full stage, and others pass them', async () => {
  const rig = new Rig();
  const stages = [stage(1), stage(2, { capacity: 1 })];
  await rig.apply({ stages, routes: [route(1, [1, 2]), route(2, [1])] });
  await rig.submit([1, 2, 3], { routeRef: 1 });
  await answer(rig, 1);
  await answer(rig, 1);
  assert.deepEqual(rig.pool(1).held(), []);
  await rig.submit([9], { routeRef: 2 });
  assert.deepEqual(rig.pool(1).held(), [[9]]);
});

test('two routes through two full stages in opposite order do not block each other', async () => {
  const rig = new Rig();
  const stages = [stage(1, { capacity: 1 }), stage(2, { capacity: 1 })];
  await rig.apply({ stages, routes: [route(1, [1, 2]), route(2, [2, 1])] });
  const ids = upTo(20);
  for (const id of ids) await rig.submit([id], { routeRef: 1 + (id % 2), patient: true });
  for (let rest = 0; rest < 60; rest += 1) {
    for (const ref of [1, 2]) if (rig.pool(ref).held().length > 0) await answer(rig, ref);
  }
  assert.deepEqual(
    rig
      .answers()
      .map(Number)
      .sort((a, b) => a - b),
    ids,
  );
});

test('a circle of three stages does not block itself or a stage in front of it', async () => {
  const rig = new Rig();
  const stages = upTo(4).map((ref) => stage(ref, { capacity: 1 }));
  const routes = [route(1, [1, 2]), route(2, [2, 3]), route(3, [3, 1]), route(4, [4, 1])];
  await rig.apply({ stages, routes });
  for (const id of upTo(40)) await rig.submit([id], { routeRef: 1 + (id % 4), patient: true });
  for (let rest = 0; rest < 200; rest += 1) {
    for (const ref of upTo(4)) if (rig.pool(ref).held().length > 0) await answer(rig, ref);
  }
  assert.equal(rig.answers().length, 40);
});

test('a stage that drops its oldest items holds nothing back: it keeps the newest of each group', async () => {
  const rig = new Rig();
  const dropping = { capacity: 2, overflow: 'drop-oldest' } as const;
  await rig.apply({ stages: [stage(1, dropping), stage(2, dropping)], routes: [route(1, [1, 2])] });
  for (const id of upTo(8)) {
    await rig.submit([id], { group: 1 + (id % 2) });
    await answer(rig, 1);
  }
  assert.deepEqual(rig.answers(), ['2 dropped', '3 dropped', '4 dropped', '5 dropped', '6 dropped']);
  for (let rest = 0; rest < 3; rest += 1) await answer(rig, 2);
  assert.deepEqual(rig.answers().map(Number), [1, 8, 7]);
});

test('an item of a patient sender is dropped, too, at a later stage that drops its oldest', async () => {
  const rig = new Rig();
  const stages = [stage(1), stage(2, { capacity: 1, overflow: 'drop-oldest' })];
  await rig.apply({ stages, routes: [route(1, [1, 2])] });
  for (const id of upTo(4)) {
    await rig.submit([id], { patient: true });
    await answer(rig, 1);
  }
  assert.deepEqual(rig.answers(), ['2 dropped', '3 dropped']);
});

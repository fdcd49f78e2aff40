/** Results that come in parts, on their way through the engine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Rig, route, stage } from './rig.ts';

const wanted = { streams: true };
const indexes = (rig: Rig): string[] => rig.parts.splice(0).map(({ id, part }) => `${id}.${part}`);

test('the engine asks only the last stage of a route for parts, and only if the request wants them', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2)], routes: [route(1, [1, 2])] });
  await rig.submit([1], wanted);
  assert.deepEqual(rig.pool(1).streaming(), [false]);
  rig.pool(1).answer();
  await rig.turn();
  assert.deepEqual(rig.pool(2).streaming(), [true]);
  rig.pool(2).answer();
  await rig.submit([2]);
  rig.pool(1).answer();
  await rig.turn();
  assert.deepEqual(rig.pool(2).streaming(), [false]);
});

test('parts leave in order before the outcome, and the worker learns how many were taken', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([7], wanted);
  for (let times = 0; times < 3; times += 1) pool.sendPart();
  assert.deepEqual([indexes(rig), rig.answers()], [['7.0', '7.1', '7.2'], []]);
  rig.engine.taken([
    [7, 2],
    [8, 1],
  ]);
  assert.deepEqual(pool.taken, ['7: 2']);
  pool.answer();
  await rig.turn();
  assert.deepEqual(rig.answers(), ['7']);
  rig.engine.taken([[7, 3]]);
  assert.deepEqual(pool.taken, ['7: 2'], 'settled requests are not reported');
});

test('the engine discards the parts of an abandoned request', async () => {
  const rig = new Rig();
  const pool = await rig.single();
  await rig.submit([1], wanted);
  pool.sendPart();
  rig.engine.cancel([1]);
  pool.sendPart();
  assert.deepEqual(indexes(rig), ['1.0']);
  assert.deepEqual(pool.cancelled, [1]);
});

test('with retryLost a request does not run again after parts have left', async () => {
  const rig = new Rig();
  const pool = await rig.single({ retryLost: true });
  await rig.submit([1], wanted);
  pool.sendPart();
  pool.lose();
  await rig.turn();
  assert.deepEqual([pool.held(), rig.answers()], [[], ['1 worker_lost']]);
  await rig.submit([2], wanted);
  pool.lose();
  await rig.turn();
  assert.deepEqual([pool.held(), pool.streaming(), rig.answers()], [[[2]], [true], []], 'one of which none has is');
});

test('closing ends requests that stream parts, and lets the others finish', async () => {
  const rig = new Rig();
  const pool = await rig.single({}, 2);
  await rig.submit([1], wanted);
  await rig.submit([2]);
  void rig.engine.close(9000);
  assert.deepEqual(pool.cancelled, [1]);
  pool.answer(1);
  assert.deepEqual(rig.answers(), ['2']);
});

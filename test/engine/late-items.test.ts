/** A stage passes over late items while it gets more than it can answer in time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StageQueue } from '../../src/runtime/engine/stage/stage-queue.ts';
import { ids, NEVER, queued } from './queued.ts';
import { Rig } from './rig.ts';

/** A queue with items that came at 0 and have these deadlines. */
function queueOf(...deadlines: readonly number[]): StageQueue {
  const queue = new StageQueue();
  for (const [id, deadline] of deadlines.entries()) queue.push(queued(id, 0, { deadline }));
  return queue;
}

test('the stage passes over an item that would hardly finish in time if others would', () => {
  const queue = queueOf(10, 104, 112, NEVER);
  assert.deepEqual(ids(queue.sweepLate(100, 5)), [0, 1]);
  assert.deepEqual(ids(queue.sweepLate(101, 5)), [], 'a twentieth of its time is left');
  assert.deepEqual(ids(queue.sweepLate(102, 5)), [2], 'less is left, and one without a deadline has the time');
});

test('the stage runs a late item if no other item would finish in time either', () => {
  const queue = queueOf(10, 104, 106);
  assert.deepEqual(ids(queue.sweepLate(103, 5)), [0]);
  assert.deepEqual(ids(queue.sweepLate(104, 5)), [1]);
  assert.deepEqual(ids(queue.take(9, () => true)), [2]);
});

test('the stage passes over no item in the first half of its time', () => {
  const queue = queueOf(100, NEVER);
  assert.deepEqual(ids(queue.sweepLate(44, 10_000)), []);
  assert.deepEqual(ids(queue.sweepLate(46, 10_000)), [0]);
});

test('after a slow run the stage passes over items that waited half their time for new ones', () => {
  const queue = queueOf(1000, 1000);
  queue.push(queued(2, 900, { deadline: 1900 }));
  assert.deepEqual(ids(queue.sweepLate(901, 5000)), [0, 1]);
  assert.deepEqual(ids(queue.take(9, () => true)), [2]);
});

test('items have enough time again when answers take less', () => {
  const queue = queueOf(100, 140);
  assert.deepEqual(ids(queue.sweepLate(80, 400)), []);
  assert.deepEqual(ids(queue.sweepLate(96, 400)), []);
  assert.deepEqual(ids(queue.sweepLate(96, 5)), [0]);
});

/** How many items a queue of 100 looks at in 200 sweeps, one each millisecond, after a first one. */
function looksAt(from: number, turnaround: (time: number) => number): number {
  const queue = new StageQueue();
  let looks = 0;
  for (let id = 0; id < 100; id += 1) {
    const get = (): number => {
      looks += 1;
      return 1000;
    };
    queue.push(Object.defineProperty(queued(id, 0), 'deadline', { get }));
  }
  queue.sweepLate(from, turnaround(from));
  looks = 0;
  for (let time = from; time < from + 200; time += 1) {
    assert.deepEqual(queue.sweepLate(time, turnaround(time)), []);
  }
  return looks;
}

for (const { when, from } of [
  { when: 'long before any is late', from: 300 },
  { when: 'where all are', from: 750 },
]) {
  test(`the stage does not check each item each time: ${when}`, () => {
    assert.equal(
      looksAt(from, () => 400),
      0,
    );
    assert.ok(looksAt(from, (time) => 400 + (time % 3)) < 2000, 'where the last answers took now more, now less');
  });
}

test('the stage passes over no item while a batch fills for a free worker', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 8, maxWaitMs: 60 } });
  await rig.submit([1]);
  await rig.advance(60);
  await rig.advance(48);
  pool.answer(0, 48);
  await rig.turn();
  await rig.submit([2], { deadline: rig.clock.now() + 110 });
  await rig.submit([3], { deadline: rig.clock.now() + 58 });
  await rig.advance(58);
  await rig.submit([4], { deadline: rig.clock.now() + 110 });
  assert.deepEqual([pool.held(), rig.answers()], [[], ['1', '3 deadline_exceeded']]);
  await rig.advance(2);
  assert.deepEqual(pool.held(), [[2, 4]]);
});

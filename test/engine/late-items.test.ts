/** Who is passed over while more comes than can be answered in time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StageQueue } from '../../src/engine/stage-queue.ts';
import { ids, NEVER, queued } from './queued.ts';

/** A queue with items that came at 0 and have these deadlines. */
function queueOf(...deadlines: readonly number[]): StageQueue {
  const queue = new StageQueue();
  for (const [id, deadline] of deadlines.entries()) queue.push(queued(id, 0, { deadline }));
  return queue;
}

test('what would hardly be answered in time goes where others would be', () => {
  const queue = queueOf(10, 104, 112, NEVER);
  assert.deepEqual(ids(queue.sweepLate(100, 5)), [0, 1]);
  assert.deepEqual(ids(queue.sweepLate(101, 5)), [], 'a twentieth of its time is left');
  assert.deepEqual(ids(queue.sweepLate(102, 5)), [2], 'less is left, and one without a deadline has the time');
});

test('where nothing else would be answered in time either, it may try', () => {
  const queue = queueOf(10, 104, 106);
  assert.deepEqual(ids(queue.sweepLate(103, 5)), [0]);
  assert.deepEqual(ids(queue.sweepLate(104, 5)), [1]);
  assert.deepEqual(ids(queue.take(9, () => true)), [2]);
});

test('for half its time none is passed over, however long the last answers took', () => {
  const queue = queueOf(100, NEVER);
  assert.deepEqual(ids(queue.sweepLate(44, 10_000)), []);
  assert.deepEqual(ids(queue.sweepLate(46, 10_000)), [0]);
});

test('after a slow run what has waited half its time is passed over for what has just come', () => {
  const queue = queueOf(1000, 1000);
  queue.push(queued(2, 900, { deadline: 1900 }));
  assert.deepEqual(ids(queue.sweepLate(901, 5000)), [0, 1]);
  assert.deepEqual(ids(queue.take(9, () => true)), [2]);
});

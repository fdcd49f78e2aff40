/** The readings of a stage's meter, which continue after an engine's death. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StageStatus } from '../../src/core/model.ts';
import { MOST_OWN_SERIES } from '../../src/core/readings.ts';
import { countOf } from '../../src/observe/meters/histogram.ts';
import { NOTHING_READ, OwnMeter, StageMeter, StageReadings } from '../../src/observe/meters/stage-meter.ts';
import { NOT_RUNNING } from '../../src/observe/views/snapshot.ts';

/** A meter that has seen two batches, five items, a tap and three items that were not served. */
function used(): StageMeter {
  const meter = new StageMeter();
  meter.batchLeft('full', 4);
  meter.batchLeft('timer', 1);
  meter.batchRan(10, 4, 3);
  for (const waitMs of [0, 1, 2, 3]) meter.itemWaited(waitMs, 0.5);
  meter.tapped();
  meter.workerEnded('run_timeout');
  meter.notServed('dropped');
  meter.notServed('dropped');
  meter.notServed('deadline_exceeded');
  return meter;
}

function status(ref: number, meter: StageMeter): StageStatus {
  return { ...NOT_RUNNING, ref, reading: meter.read() };
}

test('a meter returns the counts that it was given', () => {
  const reading = used().read();
  assert.deepEqual([reading.batches, reading.items, reading.busyMs, reading.taps], [2, 5, 10, 1]);
  assert.deepEqual([reading.runs, reading.countedBatches], [3, 1]);
  assert.deepEqual(reading.reasons, { full: 1, idle: 0, timer: 1, gap: 0, retry: 0 });
  assert.deepEqual(reading.restarts, { died: 0, not_started: 0, run_timeout: 1, recycled: 0, asked: 0 });
  assert.deepEqual(reading.unserved, { dropped: 2, deadline_exceeded: 1 });
  assert.deepEqual([countOf(reading.run), reading.run.sum], [4, 40]);
  assert.deepEqual([countOf(reading.queueWait), reading.queueWait.sum], [4, 6]);
  assert.deepEqual([countOf(reading.batchWait), reading.batchWait.sum], [4, 2]);
  assert.deepEqual([countOf(reading.batchSize), reading.batchSize.sum], [2, 5]);
});

test('totals continue from the last reading of a dead engine, and never fall', () => {
  const totals = new StageReadings();
  assert.deepEqual(totals.of(1), NOTHING_READ);
  totals.update([status(1, used())]);
  const before = totals.of(1);
  totals.engineLost();
  assert.deepEqual(totals.of(1), before);
  const next = new StageMeter();
  next.batchLeft('gap', 2);
  next.notServed('worker_lost');
  totals.update([status(1, next)]);
  totals.update([status(1, next)]);
  assert.deepEqual([totals.of(1).batches, totals.of(1).items], [3, 7]);
  assert.deepEqual(totals.of(1).unserved, { dropped: 2, deadline_exceeded: 1, worker_lost: 1 });
  totals.engineLost();
  totals.engineLost();
  assert.equal(totals.of(1).items, 7);
});

test('the meter forgets a removed stage, which starts at 0 when it returns', () => {
  const totals = new StageReadings();
  totals.update([status(1, used()), status(2, used())]);
  totals.engineLost();
  totals.update([status(1, used()), status(2, used())]);
  totals.keep(new Set([2]));
  assert.deepEqual([totals.of(1).items, totals.of(2).items], [0, 10]);
});

test('a metric of which nothing is kept takes no place in the readings', () => {
  const meter = new OwnMeter();
  const key = (name: string): string => JSON.stringify({ type: 'counter', name, help: '', labels: ['n'] });
  const full = Object.fromEntries(Array.from({ length: MOST_OWN_SERIES }, (_, at) => [`["${at}"]`, 1]));
  meter.add({ counts: { [key('first')]: full }, dropped: 0 });
  meter.add({ counts: { [key('second')]: { '["0"]': 1 } }, dropped: 0 });
  assert.deepEqual([Object.keys(meter.values), meter.dropped], [[key('first')], 1]);
});

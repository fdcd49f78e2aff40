/** How often a worker tells what it uses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkerUsage } from '../../src/core/model.ts';
import { UsageReporter } from '../../src/observe/meters/usage.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

test('a worker reports its usage at once, then once a second while it runs batches, and once more afterwards', () => {
  const clock = new FakeClock();
  const told: number[] = [];
  const reporter = new UsageReporter(clock, () => told.push(clock.now()));
  for (let batch = 0; batch < 5000; batch += 1) {
    reporter.note();
    clock.advance(0.5);
  }
  assert.deepEqual(told, [1000, 2000, 3000]);
  clock.advance(60_000);
  assert.deepEqual(told, [1000, 2000, 3000, 4000]);
  assert.equal(clock.pending, 0, 'an idle worker has no timer');
  reporter.note();
  assert.equal(told.length, 5);
});

test('a usage report has the memory in bytes and the CPU time so far', () => {
  const told: WorkerUsage[] = [];
  const clock = new FakeClock();
  const reporter = new UsageReporter(clock, (usage) => told.push(usage));
  reporter.note();
  clock.advance(1000);
  const kept = Array.from({ length: 8 }, () => Buffer.alloc(8 * 1024 * 1024, 1));
  const end = performance.now() + 30;
  while (performance.now() < end);
  reporter.note();
  const [before, after] = told as [WorkerUsage, WorkerUsage];
  assert.ok(after.rssBytes - before.rssBytes > 32 * 1024 * 1024, `${kept.length} buffers`);
  assert.ok(after.cpuMs > before.cpuMs);
});

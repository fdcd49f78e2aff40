import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecentBatches } from '../../src/engine/stage/recent-batches.ts';

/** What is usual after batches that took so long from leaving to the reply, each of which ran 5 ms. */
function usual(...turnarounds: readonly number[]): number {
  const recent = new RecentBatches();
  for (const turnaroundMs of turnarounds) recent.ran(5, turnaroundMs);
  return recent.usualTurnaroundMs;
}

test('no time is usual before the first reply', () => {
  assert.equal(usual(), 0);
});

test('the usual time is the time until the reply, not only the run', () => {
  assert.equal(usual(7, 7, 7), 7);
});

test('nearly all batches stay within the usual time when times vary', () => {
  const varied = Array.from({ length: 100 }, (_, n) => 6 + (n % 3));
  assert.ok(usual(...varied) >= 8, `${usual(...varied)} ms`);
});

test('the usual time is at most twice the mean', () => {
  const recent = [1, 100, 1, 1, 100, 1, 1, 100];
  const mean = recent.reduce((smoothed, next) => smoothed + 0.2 * (next - smoothed));
  assert.ok(Math.abs(usual(...recent) - 2 * mean) < 1e-9);
});

test('one slow batch does not raise the usual time for long', () => {
  assert.ok(usual(1000, ...Array.from({ length: 100 }, () => 5)) < 6);
});

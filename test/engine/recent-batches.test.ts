import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecentBatches } from '../../src/engine/stage/recent-batches.ts';

/** What is usual after batches that took so long from leaving to the reply, each of which ran 5 ms. */
function usual(...turnarounds: readonly number[]): number {
  const recent = new RecentBatches();
  for (const turnaroundMs of turnarounds) recent.ran(5, turnaroundMs);
  return recent.usualTurnaroundMs;
}

test('before the first reply nothing is usual', () => {
  assert.equal(usual(), 0);
});

test('the usual time is the time until the reply, not the run alone', () => {
  assert.equal(usual(7, 7, 7), 7);
});

test('nearly all batches are within the usual time where times vary', () => {
  const varied = Array.from({ length: 100 }, (_, n) => 6 + (n % 3));
  assert.ok(usual(...varied) >= 8, `${usual(...varied)} ms`);
});

test('however much it varies, no more than twice the mean is usual', () => {
  const recent = [1, 100, 1, 1, 100, 1, 1, 100];
  const mean = recent.reduce((smoothed, next) => smoothed + 0.2 * (next - smoothed));
  assert.ok(Math.abs(usual(...recent) - 2 * mean) < 1e-9);
});

test('a batch that was slow once is forgotten', () => {
  assert.ok(usual(1000, ...Array.from({ length: 100 }, () => 5)) < 6);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Payload } from '../../src/core/model.ts';
import { RecentBatches } from '../../src/runtime/engine/stage/recent-batches.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';

/** The usual time after batches with these times from leaving to the reply, each of which ran 5 ms. */
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

test('the last input is a copy, taken at most ten times a second, and never of a large one', () => {
  const recent = new RecentBatches();
  const input = (text: string): Payload => ({ codec: CODEC.json, bytes: Buffer.from(text) });
  const last = (): string | null => recent.lastInput && Buffer.from(recent.lastInput.bytes).toString();
  recent.noteInput(input('"x"'.padEnd(70_000)), 0);
  assert.equal(last(), null);
  const first = input('1');
  recent.noteInput(first, 0);
  first.bytes.fill(0);
  recent.noteInput(input('2'), 99);
  assert.equal(last(), '1');
  recent.noteInput(input('3'), 100);
  assert.equal(last(), '3');
});

/** The pauses before restarts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { BACKOFF, Backoff } from '../../src/process/parent/backoff.ts';

const longest = (): number => 1;
const shortest = (): number => 0;

function pauses(deaths: number, random: () => number): number[] {
  const backoff = new Backoff(random);
  return Array.from({ length: deaths }, () => backoff.afterDeath(0));
}

test('the first restart is immediate, and each next pause doubles up to the longest', () => {
  assert.deepEqual(pauses(12, longest), [0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
  assert.equal(pauses(5000, longest).at(-1), 30_000);
});

test('jitter shortens a pause by up to a quarter, so that workers do not start together', () => {
  assert.deepEqual(pauses(4, shortest), [0, 75, 150, 300]);
  fc.assert(
    fc.property(fc.nat({ max: 100 }), fc.double({ min: 0, max: 1, noNaN: true }), (deaths, random) => {
      const pause = pauses(deaths + 1, () => random).at(-1) as number;
      const full = pauses(deaths + 1, longest).at(-1) as number;
      assert.ok(pause >= full * 0.75 && pause <= full);
    }),
  );
});

test('only a stable process resets the count', () => {
  const backoff = new Backoff(longest);
  for (let death = 0; death < 6; death += 1) backoff.afterDeath(0);
  assert.equal(backoff.afterDeath(BACKOFF.stableMs - 1), 3200);
  assert.equal(backoff.failures, 7);
  assert.equal(backoff.afterDeath(BACKOFF.stableMs), 0);
  assert.equal(backoff.failures, 1);
  assert.equal(backoff.afterDeath(0), 100);
});

test('the default random source spreads the pauses', () => {
  const seen = new Set(
    Array.from({ length: 20 }, () => {
      const backoff = new Backoff();
      backoff.afterDeath(0);
      return backoff.afterDeath(0);
    }),
  );
  assert.ok(seen.size > 1);
});

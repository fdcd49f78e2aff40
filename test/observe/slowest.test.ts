import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { KEPT, SLOT_MS, Slowest, WINDOW_MS } from '../../src/observe/meters/request-meters.ts';

interface Settled {
  readonly at: number;
  readonly totalMs: number;
}

type Numbered = Pick<Settled, 'totalMs'> & { readonly number: number };

function note(slowest: Slowest<Numbered>, { at, totalMs }: Settled, number: number): void {
  if (slowest.accepts(at, totalMs)) slowest.add(at, { totalMs, number });
}

function slowestOf(settled: readonly Settled[]): number[] {
  return settled
    .map(({ totalMs }) => totalMs)
    .sort((a, b) => b - a)
    .slice(0, KEPT);
}

/** Pauses between requests that make several share a slot, and now and then a window pass. */
const pause = fc.oneof(
  { weight: 40, arbitrary: fc.nat({ max: 500 }) },
  { weight: 4, arbitrary: fc.nat({ max: 2 * SLOT_MS }) },
  { weight: 1, arbitrary: fc.nat({ max: 2 * WINDOW_MS }) },
);
const requests = fc.array(fc.tuple(pause, fc.nat({ max: 50 })), { maxLength: 300, size: 'max' });

describe('the slowest requests', () => {
  test('come from the last window of time, less at most one slot', () => {
    fc.assert(
      fc.property(requests, pause, (drawn, wait) => {
        const slowest = new Slowest<Numbered>();
        const settled: Settled[] = [];
        let now = 0;
        for (const [ms, totalMs] of drawn) {
          now += ms;
          settled.push({ at: now, totalMs });
          note(slowest, { at: now, totalMs }, settled.length - 1);
        }
        now += wait;
        const listed = slowest.list(now);

        // Each is the request it says.
        for (const { at, request } of listed)
          assert.deepEqual({ at, totalMs: request.totalMs }, settled[request.number]);
        assert.equal(new Set(listed.map(({ request }) => request.number)).size, listed.length);
        assert.ok(listed.every(({ at }) => at >= now - WINDOW_MS));

        // From some time on, exactly the slowest of all are listed.
        const longest = now - WINDOW_MS;
        const shortest = longest + SLOT_MS;
        const between = settled.map(({ at }) => at).filter((at) => at > longest && at < shortest);
        const times = JSON.stringify(listed.map(({ request }) => request.totalMs));
        const matching = [longest, ...between, shortest].some(
          (begin) => JSON.stringify(slowestOf(settled.filter(({ at }) => at >= begin))) === times,
        );
        assert.ok(matching, `${times} are not the slowest of any such time`);
      }),
    );
  });

  test('have a maximum number, the slowest first', () => {
    const slowest = new Slowest<Numbered>();
    for (let number = 0; number < 1000; number += 1)
      note(slowest, { at: number, totalMs: (number * 7) % 1000 }, number);
    const times = slowest.list(1000).map(({ request }) => request.totalMs);
    assert.deepEqual(
      times,
      Array.from({ length: KEPT }, (_, index) => 999 - index),
    );
  });

  test('skip the details of a request that is quicker than all of them', () => {
    const slowest = new Slowest<Numbered>();
    for (let number = 0; number < KEPT; number += 1) slowest.add(0, { totalMs: 100 + number, number });
    assert.equal(slowest.accepts(1, 100), false);
    assert.equal(slowest.accepts(1, 101), true);
  });

  test('accept quicker requests again in the next slot', () => {
    const slowest = new Slowest<Numbered>();
    for (let number = 0; number < KEPT; number += 1) slowest.add(0, { totalMs: 100 + number, number });
    assert.equal(slowest.accepts(SLOT_MS, 1), true);
    slowest.add(SLOT_MS, { totalMs: 1, number: KEPT });
    assert.equal(slowest.list(SLOT_MS).length, KEPT);
    assert.deepEqual(
      slowest.list(WINDOW_MS + 1).map(({ request }) => request.number),
      [KEPT],
    );
  });
});

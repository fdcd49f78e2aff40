/** When a batch leaves: every policy at its boundaries, and what holds for any queue. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Batching } from '../../src/core/model.ts';
import { decideBatch, type QueueView } from '../../src/core/queues/batch-policy.ts';

const NEVER = Number.POSITIVE_INFINITY;

const greedy: Batching = { policy: 'greedy', maxBatchSize: 4, maxWaitMs: 100 };
const oldest: Batching = { policy: 'oldest', maxBatchSize: 4, maxWaitMs: 100 };
const gap: Batching = { policy: 'gap', maxBatchSize: 4, maxWaitMs: 100 };

/** Queue as `length, oldest arrival, newest arrival, worker free since`; all at `now`. */
function decide(batching: Batching, queue: readonly [number, number, number, number], now: number): string {
  const [length, oldestAt, newestAt, freeSince] = queue;
  const decision = decideBatch(batching, { length, oldestAt, newestAt, freeSince }, now);
  return decision.go ? `go ${decision.size} ${decision.reason}` : `wait ${decision.until}`;
}

const TABLE: readonly (readonly [string, Batching, readonly [number, number, number, number], number, string])[] = [
  ['greedy: nothing there', greedy, [0, 0, 0, 0], 50, `wait ${NEVER}`],
  ['greedy: one is enough', greedy, [1, 50, 50, 0], 50, 'go 1 idle'],
  ['greedy: one less than full', greedy, [3, 10, 50, 0], 50, 'go 3 idle'],
  ['greedy: full', greedy, [4, 10, 50, 0], 50, 'go 4 full'],
  ['greedy: more than full', greedy, [9, 10, 50, 0], 50, 'go 4 full'],
  ['oldest: nothing there', oldest, [0, 0, 0, 0], 50, `wait ${NEVER}`],
  ['oldest: just arrived', oldest, [1, 50, 50, 0], 50, 'wait 150'],
  ['oldest: a later one does not move the time', oldest, [2, 50, 120, 0], 120, 'wait 150'],
  ['oldest: a moment before', oldest, [2, 50, 120, 0], 149.9, 'wait 150'],
  ['oldest: the time has come', oldest, [2, 50, 120, 0], 150, 'go 2 timer'],
  ['oldest: the time has passed while no worker was free', oldest, [2, 50, 120, 400], 400, 'go 2 timer'],
  ['oldest: full before its time', oldest, [4, 50, 60, 0], 60, 'go 4 full'],
  ['gap: nothing there', gap, [0, 0, 0, 0], 50, `wait ${NEVER}`],
  ['gap: the first within the wait of a free worker gives the next its time', gap, [1, 50, 50, 0], 50, 'wait 150'],
  ['gap: each next one gives the next its time', gap, [2, 50, 140, 0], 140, 'wait 240'],
  ['gap: a moment before', gap, [2, 50, 140, 0], 239.9, 'wait 240'],
  ['gap: none came in time', gap, [2, 50, 140, 0], 240, 'go 2 gap'],
  ['gap: full', gap, [4, 50, 140, 0], 141, 'go 4 full'],
  [
    'gap: a worker free for longer than the wait takes the first at once (seed 000)',
    gap,
    [1, 150, 150, 49],
    150,
    'go 1 idle',
  ],
  ['gap: free for exactly the wait is not longer', gap, [1, 150, 150, 50], 150, 'wait 250'],
  ['gap: items that came while no worker was free get the wait from then', gap, [2, 50, 60, 200], 200, 'wait 300'],
  ['gap: and leave when it is over', gap, [2, 50, 60, 200], 300, 'go 2 gap'],
];

for (const [name, batching, queue, now, expected] of TABLE) {
  test(name, () => assert.equal(decide(batching, queue, now), expected));
}

test('a batch size of 1 needs no timer under any policy', () => {
  for (const policy of ['greedy', 'oldest', 'gap'] as const) {
    const single: Batching = { policy, maxBatchSize: 1, maxWaitMs: 60_000 };
    assert.equal(decide(single, [1, 50, 50, 0], 50), 'go 1 full');
  }
});

test('with a wait of 0 a batch leaves at once', () => {
  for (const policy of ['oldest', 'gap'] as const) {
    const hasty: Batching = { policy, maxBatchSize: 4, maxWaitMs: 0 };
    assert.match(decide(hasty, [2, 50, 50, 50], 50), /^go 2/);
  }
});

const anyBatching: fc.Arbitrary<Batching> = fc.record({
  policy: fc.constantFrom('greedy' as const, 'oldest' as const, 'gap' as const),
  maxBatchSize: fc.integer({ min: 1, max: 50 }),
  maxWaitMs: fc.double({ min: 0, max: 1000, noNaN: true }),
});

/** A queue as it may really be: arrivals in order, none in the future, the worker free until now. */
const anyQueue: fc.Arbitrary<{ queue: QueueView; now: number }> = fc
  .tuple(fc.nat({ max: 60 }), fc.array(fc.double({ min: 0, max: 2000, noNaN: true }), { minLength: 4, maxLength: 4 }))
  .map(([length, times]) => {
    const [freeSince, a, b, late] = times as [number, number, number, number];
    const now = Math.max(freeSince, a, b, late);
    return { queue: { length, oldestAt: Math.min(a, b), newestAt: Math.max(a, b), freeSince }, now };
  });

function always(check: (batching: Batching, queue: QueueView, now: number) => void): void {
  fc.assert(
    fc.property(anyBatching, anyQueue, (batching, { queue, now }) => check(batching, queue, now)),
    { numRuns: 2000 },
  );
}

test('a full batch always leaves, and no batch exceeds the limit or the queue', () => {
  always((batching, queue, now) => {
    const decision = decideBatch(batching, queue, now);
    if (queue.length >= batching.maxBatchSize)
      assert.deepEqual(decision, { go: true, size: batching.maxBatchSize, reason: 'full' });
    if (decision.go) assert.ok(decision.size > 0 && decision.size <= Math.min(batching.maxBatchSize, queue.length));
  });
});

test('greedy: a batch never waits while the queue has an item', () => {
  always((batching, queue, now) => {
    const decision = decideBatch({ ...batching, policy: 'greedy' }, queue, now);
    assert.equal(decision.go, queue.length > 0);
  });
});

test('a wait ends in the future, and the batch leaves then if nothing changes', () => {
  always((batching, queue, now) => {
    const decision = decideBatch(batching, queue, now);
    if (decision.go || queue.length === 0) return;
    assert.ok(decision.until > now && decision.until < NEVER);
    assert.equal(decideBatch(batching, queue, decision.until).go, true);
  });
});

test('oldest: no item waits longer than the wait, and only full batches leave earlier', () => {
  always((batching, queue, now) => {
    if (queue.length === 0 || queue.length >= batching.maxBatchSize) return;
    const due = queue.oldestAt + batching.maxWaitMs;
    const decision = decideBatch({ ...batching, policy: 'oldest' }, queue, now);
    assert.deepEqual(
      decision,
      now >= due ? { go: true, size: queue.length, reason: 'timer' } : { go: false, until: due },
    );
  });
});

test('gap: the newest item never waits longer than the wait for another', () => {
  always((batching, queue, now) => {
    const decision = decideBatch({ ...batching, policy: 'gap' }, queue, now);
    if (!decision.go && queue.length > 0) {
      assert.ok(decision.until <= Math.max(queue.newestAt, queue.freeSince) + batching.maxWaitMs);
    }
  });
});

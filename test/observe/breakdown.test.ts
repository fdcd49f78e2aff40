import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ErrorCode } from '../../src/core/errors.ts';
import type { SettledRequest, StageTiming } from '../../src/core/model.ts';
import { layOut } from '../../src/core/routes/concurrent-timings.ts';
import { breakDown } from '../../src/observe/meters/request-meters.ts';

const nameOf = (ref: number): string => `stage ${ref}`;
const PARTS = ['gateMs', 'entranceMs', 'waitMs', 'batchMs', 'runMs', 'transportMs', 'unansweredMs'] as const;

function timing(stage: number, waitMs: number, batchMs: number, runMs: number): StageTiming {
  return { stage, waitMs, batchMs, runMs, batchSize: 4, worker: 1 };
}

function settled(request: Partial<SettledRequest>): SettledRequest {
  const usual = { requestId: 'r', code: 'ok', stage: null, totalMs: 100, gateMs: 0, entranceMs: 0 } as const;
  return { ...usual, timings: [], gathered: null, ...request };
}

test('the breakdown of a result has the measurements of its stages, and the rest is transport', () => {
  const timings = [timing(1, 10, 2, 30), timing(2, 5, 1, 20)];
  assert.deepEqual(breakDown(settled({ gateMs: 7, entranceMs: 3, timings }), 250, nameOf), {
    requestId: 'r',
    code: 'ok',
    stage: null,
    agoMs: 250,
    totalMs: 100,
    gateMs: 7,
    entranceMs: 3,
    waitMs: 15,
    batchMs: 3,
    runMs: 50,
    transportMs: 22,
    unansweredMs: 0,
    stages: [
      { name: 'stage 1', waitMs: 10, batchMs: 2, runMs: 30, batchSize: 4, worker: 1 },
      { name: 'stage 2', waitMs: 5, batchMs: 1, runMs: 20, batchSize: 4, worker: 1 },
    ],
  });
});

test('of branches at the same time, only the longest counts', () => {
  const timings = [
    timing(1, 1, 0, 9),
    timing(2, 5, 0, 15),
    timing(3, 10, 0, 10),
    timing(4, 0, 0, 20),
    timing(5, 2, 0, 3),
  ];
  const gathered = [{ node: 9, passed: 4, branches: [1, 2] }];
  const report = { gathered, branches: {}, failed: null };
  const { waitMs, runMs, transportMs, stages } = breakDown(settled({ timings, gathered: report }), 0, nameOf);
  assert.deepEqual([waitMs, runMs, transportMs], [13, 42, 45]);
  assert.equal(stages.length, 5);
});

test('branches begin together, also inside others, and what follows begins behind the longest', () => {
  const run = (ms: number): StageTiming => timing(1, 0, 0, ms);
  const timings = [run(1), run(5), run(2), run(3), run(9), run(4)];
  const gathered = [
    { node: 8, passed: 4, branches: [1, 1] },
    { node: 9, passed: 5, branches: [3, 1] },
  ];
  // 1 -> {5 -> {2 | 3} | 9} -> 4
  const { starts, totalMs, critical } = layOut(timings, gathered);
  assert.deepEqual(starts, [0, 1, 6, 6, 1, 10]);
  assert.equal(totalMs, 14);
  assert.deepEqual([...critical], [0, 4, 5]);
});

const failures: readonly [string, Partial<SettledRequest>, 'transportMs' | 'unansweredMs'][] = [
  ['an error of a worker: the rest is transport', { code: 'modelet_failed', stage: 'stage 2' }, 'transportMs'],
  ['a worker that died: the rest is the time without an answer', { code: 'worker_lost', stage: 'x' }, 'unansweredMs'],
  ['a deadline that passed: the same', { code: 'deadline_exceeded', stage: null }, 'unansweredMs'],
];
for (const [name, request, rest] of failures) {
  test(name, () => {
    const timings = [timing(1, 10, 0, 20), timing(2, 0, 0, 10)];
    const broken = breakDown(settled({ ...request, timings }), 0, nameOf);
    assert.equal(broken[rest], 60);
    assert.equal(broken.transportMs + broken.unansweredMs, 60);
  });
}

test('the parts add up to the whole, unless clocks and rounding make them more', () => {
  const ms = fc.double({ min: 0, max: 1e6, noNaN: true });
  const timings = fc.array(fc.tuple(fc.nat({ max: 9 }), ms, ms, ms).map((parts) => timing(...parts)));
  const code = fc.constantFrom<'ok' | ErrorCode>('ok', 'cancelled', 'worker_lost');
  fc.assert(
    fc.property(ms, ms, ms, timings, code, (totalMs, gateMs, entranceMs, measured, how) => {
      const request = settled({ totalMs, gateMs, entranceMs, timings: measured, code: how });
      const broken = breakDown(request, 0, nameOf);
      const sum = PARTS.reduce((total, part) => total + broken[part], 0);
      assert.ok(PARTS.every((part) => broken[part] >= 0));
      assert.ok(Math.abs(sum - totalMs) < 1e-6 * (1 + totalMs) || (sum > totalMs && broken.transportMs === 0));
    }),
  );
});

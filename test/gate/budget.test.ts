/** From a measurement to how much may be sent. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ceilingOf, clampBudget, fits, isOpen, type QuotaRule, quotaOf } from '../../src/gate/admission/budget.ts';

const rule = (baseline: number, change: Partial<QuotaRule> = {}): QuotaRule => ({
  baseline,
  rounding: 'floor',
  atLeastOne: true,
  ...change,
});
const NONE = { atLeastOne: false };
/** As the sources give it, not clamped. */
const budgetOfSaturation = (saturation: number): number => 1 - saturation;

test('the example of the specification: F 0.3, B 0.1, five servers of ten give 30', () => {
  assert.equal(quotaOf(rule(0.1), budgetOfSaturation(0.3), 5 * 10), 30);
});

/** Case, D, B, max_SYS, open, N. */
const BOUNDARIES: readonly (readonly [string, number, number, number, boolean, number])[] = [
  ['D = B', 0.3, 0.3, 100, false, 0],
  ['D below B', 0.2, 0.3, 100, false, 0],
  ['D just above B', 0.3001, 0.3, 100, true, 1],
  ['D above B by less than can be told', 0.3 + 1e-12, 0.3, 100, false, 0],
  ['all is free and nothing reserved', 1, 0, 100, true, 100],
  ['all is reserved', 1, 1, 100, false, 0],
  ['nothing is free', 0, 0, 100, false, 0],
  ['no worker is ready', 0.9, 0.1, 0, true, 0],
  ['capacity below 0', 0.9, 0.1, -5, true, 0],
  ['capacity is no number', 0.9, 0.1, Number.NaN, true, 0],
  ['capacity without end', 0.9, 0.1, Number.POSITIVE_INFINITY, true, 0],
  ['overshoot: F above 1', budgetOfSaturation(1.73), 0, 100, false, 0],
  ['F below 0', budgetOfSaturation(-0.5), 0, 100, true, 100],
  ['D above 1', 7, 0, 100, true, 100],
  ['D below 0', -1, 0, 100, false, 0],
  ['D is no number', Number.NaN, 0, 100, false, 0],
  ['D without end', Number.POSITIVE_INFINITY, 0, 100, false, 0],
  ['F is no number', budgetOfSaturation(Number.NaN), 0, 100, false, 0],
  ['F is endlessly negative', budgetOfSaturation(Number.NEGATIVE_INFINITY), 0, 100, false, 0],
  ['one worker that takes one', 1, 0.05, 1, true, 1],
];

describe('at the boundaries', () => {
  for (const [what, budget, baseline, maxSys, open, quota] of BOUNDARIES) {
    test(`${what}: ${open ? 'open' : 'closed'}, N ${quota}`, () => {
      assert.equal(isOpen(budget, baseline), open);
      assert.equal(quotaOf(rule(baseline), budget, maxSys), quota);
    });
  }
});

test('the gate clamps a budget to 0..1 and takes NaN for 0', () => {
  const pairs = [
    [0.42, 0.42],
    [-0.1, 0],
    [1.1, 1],
    [Number.NaN, 0],
    [Number.NEGATIVE_INFINITY, 0],
  ] as const;
  for (const [given, expected] of pairs) assert.equal(clampBudget(given), expected);
});

test('N is exact in every case whose exact answer is a whole number', () => {
  let cases = 0;
  for (const maxSys of [10, 20, 50, 100, 500]) {
    for (let fullness = 0; fullness <= 100; fullness += 1) {
      for (let baseline = 0; baseline <= 50; baseline += 5) {
        const hundredths = maxSys * (100 - fullness - baseline);
        if (hundredths <= 0 || hundredths % 100 !== 0) continue;
        cases += 1;
        for (const rounding of ['floor', 'ceil'] as const) {
          const quota = quotaOf(rule(baseline / 100, { rounding }), budgetOfSaturation(fullness / 100), maxSys);
          assert.equal(quota, hundredths / 100, `max_SYS ${maxSys}, F ${fullness} %, B ${baseline} %, ${rounding}`);
        }
      }
    }
  }
  assert.equal(cases, 2305);
});

test('the gate is closed at equality and open just above it, for every F and B in steps of 0.01', () => {
  for (let fullness = 0; fullness <= 100; fullness += 1) {
    for (let baseline = 0; baseline <= 100; baseline += 1) {
      const budget = budgetOfSaturation(fullness / 100);
      const open = 100 - fullness > baseline;
      assert.equal(isOpen(budget, baseline / 100), open, `F ${fullness} %, B ${baseline} %`);
      assert.equal(quotaOf(rule(baseline / 100), budget, 1000) > 0, open, `F ${fullness} %, B ${baseline} %`);
    }
  }
});

test('the gate rounds N down or up as set, and an open gate admits one unless that is off', () => {
  assert.equal(quotaOf(rule(0.1), 0.75, 10), 6);
  assert.equal(quotaOf(rule(0.1, { rounding: 'ceil' }), 0.75, 10), 7);
  assert.equal(quotaOf(rule(0.1), 0.15, 10), 1);
  assert.equal(quotaOf(rule(0.1, NONE), 0.15, 10), 0);
  assert.equal(quotaOf(rule(0.1, { ...NONE, rounding: 'ceil' }), 0.15, 10), 1);
  assert.equal(quotaOf(rule(0.1, NONE), 0.1, 10), 0);
});

test('in bytes: 1024 KiB at D 0.7 and B 0.1 admit 600 KiB, and not 100 KiB more', () => {
  const quota = quotaOf(rule(0.1), 0.7, 1024 * 1024);
  assert.equal(quota, Math.floor(614.4 * 1024));
  assert.ok(fits(600 * 1024, quota, 1024 * 1024));
  assert.ok(!fits(700 * 1024, quota, 1024 * 1024));
});

test('the ceiling is max_SYS x (1 - B) and N never comes above it, but for the rounding up and the one', () => {
  assert.equal(ceilingOf(0.05, 100), 95);
  assert.equal(ceilingOf(1, 100), 0);
  assert.equal(ceilingOf(0.1, Number.NaN), 0);
  for (let baseline = 0; baseline < 100; baseline += 1) {
    for (let budget = 0; budget <= 100; budget += 1) {
      const quota = quotaOf(rule(baseline / 100, NONE), budget / 100, 100);
      assert.ok(fits(quota, ceilingOf(baseline / 100, 100), 100), `D ${budget} %, B ${baseline} %`);
    }
  }
});

/** Quantiles are close to the exact ones, and never outside the values that were measured. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { addReadings, type FineReading, subtractReadings } from '../../src/core/readings.ts';
import { Quantiles, quantile } from '../../src/observe/meters/histogram.ts';

/** Means of values that a float holds exactly are rounded in their last digits. */
const ROUNDING = 1e-9;

/** From microseconds to days, evenly over their magnitudes. */
const duration = fc.double({ min: 0, max: 11, noNaN: true }).map((exponent) => 10 ** (exponent - 3));
const durations = fc.array(duration, { minLength: 1, maxLength: 300 });
const rank = fc.constantFrom(0, 0.01, 0.5, 0.95, 0.99, 1);

function counted(values: readonly number[], meter = new Quantiles()): Quantiles {
  for (const value of values) meter.observe(value);
  return meter;
}

function assertClose(reading: FineReading, values: readonly number[], q: number): void {
  const sorted = values.toSorted((a, b) => a - b);
  const exact = sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] as number;
  const found = quantile(reading, q) ?? Number.NaN;
  assert.ok(Math.abs(found - exact) <= 0.1 * exact, `${found} instead of ${exact}`);
  const [least, most] = [sorted[0] as number, sorted.at(-1) as number];
  assert.ok(found >= least * (1 - ROUNDING) && found <= most * (1 + ROUNDING), `${found} of ${least} to ${most}`);
}

describe('a quantile', () => {
  test('is at most 10 % off and never outside the observed values', () => {
    fc.assert(fc.property(durations, rank, (values, q) => assertClose(counted(values).read(), values, q)));
  });

  test('is as close over an interval, whatever earlier values were', () => {
    fc.assert(
      fc.property(durations, durations, rank, (before, since, q) => {
        const meter = counted(before);
        const earlier = meter.read();
        const later = counted(since, meter).read();
        const interval = subtractReadings(later, earlier);
        const values = since.toSorted((a, b) => a - b);
        // Subtraction leaves the rounding error of the larger sum: far below a microsecond here.
        const slack = 1e-12 * Object.values(later.sums).reduce((sum, ms) => sum + ms, 0);
        const found = quantile(interval, q) ?? Number.NaN;
        const exact = values[Math.max(0, Math.ceil(q * values.length) - 1)] as number;
        assert.ok(Math.abs(found - exact) <= 0.1 * exact + slack, `${found} instead of ${exact}`);
      }),
    );
  });

  test('is that duration when all are equal', () => {
    fc.assert(
      fc.property(duration, fc.integer({ min: 1, max: 1000 }), rank, (ms, times, q) => {
        const meter = new Quantiles();
        meter.observe(ms, times);
        assert.ok(Math.abs((quantile(meter.read(), q) ?? Number.NaN) - ms) <= ROUNDING * ms);
      }),
    );
  });

  test('is null without observations in the interval', () => {
    assert.equal(quantile(new Quantiles().read(), 0.5), null);
    const reading = counted([1, 2, 3]).read();
    assert.equal(quantile(subtractReadings(reading, reading), 0.5), null);
  });
});

describe('a reading', () => {
  test('has at most one bucket for each sixteenth of a power of two', () => {
    const values = Array.from({ length: 100_000 }, (_, index) => 1 + index / 100_000);
    assert.ok(Object.keys(counted(values).read().counts).length <= 17);
  });

  test('adds up with those of other engines', () => {
    fc.assert(
      fc.property(durations, durations, rank, (one, other, q) => {
        assertClose(addReadings(counted(one).read(), counted(other).read()), [...one, ...other], q);
      }),
    );
  });
});

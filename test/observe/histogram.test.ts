/** Histograms count every value once, and quantiles come within 5 % of the truth. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { coarsen, countOf, DURATION_BOUNDS, FINE_BOUNDS, Histogram, quantile } from '../../src/observe/histogram.ts';
import { addReadings, subtractReadings } from '../../src/observe/totals.ts';

function counted(bounds: readonly number[], values: readonly number[]): Histogram {
  const histogram = new Histogram(bounds);
  for (const value of values) histogram.observe(value);
  return histogram;
}

const durations = fc.array(fc.double({ min: 0, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 200 });

describe('histogram', () => {
  test('a value that is a bound belongs to the bucket that ends there, one above all bounds to the last', () => {
    assert.deepEqual(counted([1, 2, 4], [0, 1, 1.5, 2, 4, 5, 1e9]).read(), { counts: [2, 2, 1, 2], sum: 1e9 + 13.5 });
  });

  test('a value is counted as often as it is said to occur', () => {
    const histogram = new Histogram([1, 2]);
    histogram.observe(1.5, 32);
    assert.deepEqual(histogram.read(), { counts: [0, 32, 0], sum: 48 });
  });

  test('a reading stays as it was when more is counted', () => {
    const histogram = counted([1], [1]);
    const before = histogram.read();
    histogram.observe(1);
    assert.deepEqual(before, { counts: [1, 0], sum: 1 });
  });

  test('fine buckets grow by at most 5 % and end at every coarse bound', () => {
    for (const [index, bound] of FINE_BOUNDS.slice(1).entries()) {
      const growth = bound / (FINE_BOUNDS[index] as number);
      assert.ok(growth > 1 && growth < 1.0501, `${bound} is ${growth} times the bound before`);
    }
    assert.deepEqual(
      DURATION_BOUNDS.filter((bound) => !FINE_BOUNDS.includes(bound)),
      [],
    );
  });

  test('fine buckets put together are what coarse ones would have counted', () => {
    fc.assert(
      fc.property(durations, (values) => {
        const coarse = coarsen(counted(FINE_BOUNDS, values).read());
        assert.deepEqual(coarse, counted(DURATION_BOUNDS, values).read());
        assert.equal(countOf(coarse), values.length);
      }),
    );
  });
});

describe('quantiles', () => {
  test('lie within a bucket of the value of that rank', () => {
    fc.assert(
      fc.property(durations, fc.constantFrom(0.5, 0.95, 0.99, 1), (values, q) => {
        const sorted = values.toSorted((a, b) => a - b);
        const exact = sorted[Math.ceil(q * sorted.length) - 1] as number;
        const found = quantile(FINE_BOUNDS, counted(FINE_BOUNDS, values).read(), q) as number;
        const inside = Math.min(Math.max(exact, 0.01), 60_000);
        assert.ok(found >= inside / 1.0501 - 0.01 && found <= inside * 1.0501, `${found} instead of ${exact}`);
      }),
    );
  });

  test('there are none of nothing', () => {
    assert.equal(quantile([1, 2], new Histogram([1, 2]).read(), 0.5), null);
  });

  test('those of an interval come from the difference of two readings', () => {
    const histogram = counted(FINE_BOUNDS, [1, 1, 1, 1]);
    const before = histogram.read();
    for (const value of [10, 10, 10, 40]) histogram.observe(value);
    const interval = subtractReadings(histogram.read(), before);
    assert.equal(countOf(interval), 4);
    const [median, high] = [0.5, 0.99].map((q) => quantile(FINE_BOUNDS, interval, q) as number);
    assert.ok(Math.abs((median as number) - 10) < 0.5 && Math.abs((high as number) - 40) < 2, `${median}, ${high}`);
    assert.deepEqual(addReadings(before, interval), histogram.read());
  });
});

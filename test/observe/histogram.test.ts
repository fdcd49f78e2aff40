/** Histograms count every value once. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { addReadings, type ClientReadings, subtractReadings } from '../../src/core/readings.ts';
import { countOf, DURATION_BOUNDS, Histogram } from '../../src/observe/meters/histogram.ts';

function counted(bounds: readonly number[], values: readonly number[]): Histogram {
  const histogram = new Histogram(bounds);
  for (const value of values) histogram.observe(value);
  return histogram;
}

describe('histogram', () => {
  test('a value equal to a bound belongs to the bucket that ends there, and a value above all bounds to the last', () => {
    assert.deepEqual(counted([1, 2, 4], [0, 1, 1.5, 2, 4, 5, 1e9]).read(), { counts: [2, 2, 1, 2], sum: 1e9 + 13.5 });
  });

  test('a histogram counts a value as often as given', () => {
    const histogram = new Histogram([1, 2]);
    histogram.observe(1.5, 32);
    assert.deepEqual(histogram.read(), { counts: [0, 32, 0], sum: 48 });
  });

  test('a reading does not change with later values', () => {
    const histogram = counted([1], [1]);
    const before = histogram.read();
    histogram.observe(1);
    assert.deepEqual(before, { counts: [1, 0], sum: 1 });
  });

  test('the reading of an interval is the difference of two readings', () => {
    const histogram = counted(DURATION_BOUNDS, [1, 1, 1, 1]);
    const before = histogram.read();
    for (const value of [10, 10, 10, 40]) histogram.observe(value);
    const interval = subtractReadings(histogram.read(), before);
    assert.deepEqual([countOf(interval), interval.sum], [4, 70]);
    assert.deepEqual(addReadings(before, interval), histogram.read());
  });

  test('readings add up under any name of a client', () => {
    const clients: ClientReadings = { constructor: { 200: 1 } };
    assert.deepEqual(addReadings<ClientReadings>({}, clients), clients);
  });
});

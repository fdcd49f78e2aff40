/** Counts values: a histogram with fixed bounds, and buckets fine enough to estimate quantiles of durations. */
import type { FineReading, HistogramReading } from '../../core/readings.ts';

/** Bucket bounds of durations, in ms. */
export const DURATION_BOUNDS: readonly number[] = [
  0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000,
];
/** Bucket bounds of batch sizes. */
export const SIZE_BOUNDS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/** One count per bucket. Cheap enough for every item: counting allocates nothing. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds upper bounds of the buckets, in ascending order */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  /** Counts `value` the given number of times. */
  observe(value: number, times = 1): void {
    const bounds = this.#bounds;
    let from = 0;
    let to = bounds.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (value <= (bounds[middle] as number)) to = middle;
      else from = middle + 1;
    }
    (this.#counts[from] as number) += times;
    this.#sum += value * times;
  }

  read(): HistogramReading {
    return { counts: [...this.#counts], sum: this.#sum };
  }
}

export function countOf({ counts }: HistogramReading): number {
  return counts.reduce((total, count) => total + count, 0);
}

const BUCKETS_PER_DOUBLING = 16;
/** Microseconds per ms. Values below one microsecond share a bucket: no clock here can distinguish them. */
const PER_MS = 1000;

interface QuantileBucket {
  count: number;
  sum: number;
}

/**
 * Estimates quantiles of durations. A bucket spans a sixteenth of a power of two and has the number and the sum of its
 * values. A quantile is the mean of the bucket that its rank falls into. So it is at most 4.5 % off, and lies between
 * the smallest and the largest value. This holds for all values and for the values between two readings.
 */
export class Quantiles {
  /** Non-empty buckets by number: at most about 400 from a microsecond to a minute. */
  readonly #buckets: Map<number, QuantileBucket> = new Map();

  /** Counts a duration the given number of times. */
  observe(ms: number, times = 1): void {
    const number = bucketOf(ms);
    const bucket = this.#buckets.get(number);
    if (bucket) {
      bucket.count += times;
      bucket.sum += ms * times;
    } else {
      this.#buckets.set(number, { count: times, sum: ms * times });
    }
  }

  read(): FineReading {
    const counts: Record<string, number> = {};
    const sums: Record<string, number> = {};
    for (const [number, { count, sum }] of this.#buckets) {
      counts[number] = count;
      sums[number] = sum;
    }
    return { counts, sums };
  }
}

/** Returns the duration that the fraction `q` (0..1) of all durations does not exceed, or null. */
export function quantile({ counts, sums }: FineReading, q: number): number | null {
  const numbers = Object.keys(counts).filter((number) => (counts[number] ?? 0) > 0);
  const total = numbers.reduce((sum, number) => sum + (counts[number] ?? 0), 0);
  let below = 0;
  for (const number of numbers.sort((a, b) => Number(a) - Number(b))) {
    const count = counts[number] ?? 0;
    below += count;
    if (below >= q * total) return (sums[number] ?? 0) / count;
  }
  return null;
}

function bucketOf(ms: number): number {
  const micros = ms * PER_MS;
  return micros < 1 ? 0 : 1 + Math.floor(Math.log2(micros) * BUCKETS_PER_DOUBLING);
}

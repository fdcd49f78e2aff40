/** A histogram with fixed bounds and one count per bucket. Cheap enough for every item: counting allocates nothing. */
import type { HistogramReading } from '../../core/readings.ts';

/** Bucket bounds of durations, in ms. */
export const DURATION_BOUNDS: readonly number[] = [
  0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000,
];
/** Bucket bounds of batch sizes. */
export const SIZE_BOUNDS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

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

/** Returns the number of counted values. */
export function countOf({ counts }: HistogramReading): number {
  return counts.reduce((total, count) => total + count, 0);
}

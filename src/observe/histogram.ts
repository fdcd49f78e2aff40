/** Counts values by size: fixed bounds, a number per bucket. Cheap enough for every item, allocates nothing. */
import type { HistogramReading } from '../core/readings.ts';

/** Bounds of durations that are shown bucket by bucket, in ms. */
export const DURATION_BOUNDS: readonly number[] = [
  0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000,
];
/** Bounds of batch sizes. */
export const SIZE_BOUNDS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/** From bound to bound a fine histogram grows by at most this, and so errs a quantile. */
const FINE_GROWTH = 1.05;

/** Bounds from which quantiles are read, in ms: all of `DURATION_BOUNDS`, with steps of at most 5 % between. */
export const FINE_BOUNDS: readonly number[] = refine([0.01, ...DURATION_BOUNDS]);

export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  /** `bounds` rise. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  /** Counts `value` as often as given. */
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

export function emptyReading(bounds: readonly number[]): HistogramReading {
  return { counts: new Array<number>(bounds.length + 1).fill(0), sum: 0 };
}

/** How many values were counted. */
export function countOf({ counts }: HistogramReading): number {
  return counts.reduce((total, count) => total + count, 0);
}

/** A reading of `FINE_BOUNDS` with the buckets of `DURATION_BOUNDS`. */
export function coarsen({ counts, sum }: HistogramReading): HistogramReading {
  const coarse = new Array<number>(DURATION_BOUNDS.length + 1).fill(0);
  let at = 0;
  counts.forEach((count, index) => {
    while (
      at < DURATION_BOUNDS.length &&
      (FINE_BOUNDS[index] ?? Number.POSITIVE_INFINITY) > (DURATION_BOUNDS[at] as number)
    )
      at += 1;
    (coarse[at] as number) += count;
  });
  return { counts: coarse, sum };
}

/**
 * The value below which the part `q` (0..1) of all values lies, as far as the buckets tell; values above the last
 * bound count as that bound. Null where there are no values.
 */
export function quantile(bounds: readonly number[], reading: HistogramReading, q: number): number | null {
  const total = countOf(reading);
  if (total === 0) return null;
  const rank = q * total;
  let below = 0;
  for (const [index, count] of reading.counts.entries()) {
    if (count > 0 && below + count >= rank) {
      const from = index === 0 ? 0 : (bounds[index - 1] as number);
      const to = bounds[index] ?? from;
      return from + ((to - from) * Math.max(0, rank - below)) / count;
    }
    below += count;
  }
  return bounds.at(-1) ?? null;
}

function refine(bounds: readonly number[]): number[] {
  const fine = bounds.slice(0, 1);
  for (const [index, to] of bounds.slice(1).entries()) {
    const from = bounds[index] as number;
    const steps = Math.ceil(Math.log(to / from) / Math.log(FINE_GROWTH));
    for (let step = 1; step < steps; step += 1) fine.push(from * (to / from) ** (step / steps));
    fine.push(to);
  }
  return fine;
}

/** What every metric of the exposition says of itself, and what one series is. */
import type { HistogramReading } from '../../core/readings.ts';

export type Labels = Readonly<Record<string, string>>;

/** One series: a number, or the buckets of a histogram in base units. */
export type Sample =
  | { readonly labels: Labels; readonly value: number }
  | { readonly labels: Labels; readonly bounds: readonly number[]; readonly reading: HistogramReading };

export interface Described {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  /** Besides `runtime`, which all have. */
  readonly labels: readonly string[];
}

/** The common fields of all metrics of the exposition, and the type of one series. */
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
  /** Labels besides `runtime`, which every metric has. */
  readonly labels: readonly string[];
}

/** Measures how long requests took, apart for each way they ended. */
import type { ErrorCode } from '../core/errors.ts';
import type { HistogramReading } from '../core/readings.ts';
import { FINE_BOUNDS, Histogram } from './histogram.ts';

/** How a request ended. */
export type OutcomeCode = 'ok' | ErrorCode;

/** By outcome, those that never occurred absent; the buckets are those of `FINE_BOUNDS`. */
export type DurationReadings = Readonly<Partial<Record<OutcomeCode, HistogramReading>>> & {
  readonly ok: HistogramReading;
};

export class DurationMeter {
  readonly #ok: Histogram = new Histogram(FINE_BOUNDS);
  readonly #failed: Map<ErrorCode, Histogram> = new Map();

  observe(code: OutcomeCode, ms: number): void {
    if (code === 'ok') this.#ok.observe(ms);
    else this.#histogramOf(code).observe(ms);
  }

  read(): DurationReadings {
    const failed = [...this.#failed].map(([code, histogram]) => [code, histogram.read()] as const);
    return { ok: this.#ok.read(), ...Object.fromEntries(failed) };
  }

  #histogramOf(code: ErrorCode): Histogram {
    let histogram = this.#failed.get(code);
    if (!histogram) {
      histogram = new Histogram(FINE_BOUNDS);
      this.#failed.set(code, histogram);
    }
    return histogram;
  }
}

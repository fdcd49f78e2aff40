/** Measures the durations of requests, separately for each outcome. */
import type { ErrorCode } from '../../core/errors.ts';
import type { DurationReadings, FineReading, OutcomeCode } from '../../core/readings.ts';
import { DURATION_BOUNDS, Histogram } from './histogram.ts';
import { Quantiles } from './quantiles.ts';

export class DurationMeter {
  readonly #ok: Histogram = new Histogram(DURATION_BOUNDS);
  readonly #results: Quantiles = new Quantiles();
  readonly #failed: Map<ErrorCode, Histogram> = new Map();

  observe(code: OutcomeCode, ms: number): void {
    if (code === 'ok') {
      this.#ok.observe(ms);
      this.#results.observe(ms);
    } else {
      this.#histogramOf(code).observe(ms);
    }
  }

  /** Returns the durations of the requests that ended with a result. */
  readResults(): FineReading {
    return this.#results.read();
  }

  read(): DurationReadings {
    const failed = [...this.#failed].map(([code, histogram]) => [code, histogram.read()] as const);
    return { ok: this.#ok.read(), ...Object.fromEntries(failed) };
  }

  #histogramOf(code: ErrorCode): Histogram {
    let histogram = this.#failed.get(code);
    if (!histogram) {
      histogram = new Histogram(DURATION_BOUNDS);
      this.#failed.set(code, histogram);
    }
    return histogram;
  }
}

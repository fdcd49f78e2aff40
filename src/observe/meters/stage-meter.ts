/** Measures one stage, and sums the metrics that its modelet declares itself; runs in the engine. */
import type { ErrorCode } from '../../core/errors.ts';
import type { StageTiming } from '../../core/model.ts';
import {
  BATCH_REASONS,
  type BatchReason,
  CACHE_RESULTS,
  type CacheResult,
  type HistogramReading,
  MOST_OWN_METRICS,
  MOST_OWN_SERIES,
  type OwnMetric,
  type OwnValues,
  RESTART_CAUSES,
  type RestartCause,
  type StageReading,
} from '../../core/readings.ts';
import { DURATION_BOUNDS, Histogram, Quantiles, SIZE_BOUNDS } from './histogram.ts';

/** See `OwnMeter.add`. */
interface GainedMetrics {
  readonly counts: OwnValues;
  readonly dropped: number;
  readonly droppedAt?: string | null;
}

export class StageMeter {
  readonly #reasons: Record<BatchReason, number> = noneOf(BATCH_REASONS);
  readonly #restarts: Record<RestartCause, number> = noneOf(RESTART_CAUSES);
  readonly #cache: Record<CacheResult, number> = noneOf(CACHE_RESULTS);
  readonly #unserved: Partial<Record<ErrorCode, number>> = {};
  readonly #failed: Partial<Record<ErrorCode, number>> = {};
  readonly #queueWait: Histogram = new Histogram(DURATION_BOUNDS);
  readonly #batchWait: Histogram = new Histogram(DURATION_BOUNDS);
  readonly #run: Histogram = new Histogram(DURATION_BOUNDS);
  readonly #runTimes: Quantiles = new Quantiles();
  readonly #batchSize: Histogram = new Histogram(SIZE_BOUNDS);
  /** The metrics that the modelet declares itself. */
  readonly own: OwnMeter = new OwnMeter();
  readonly #counts = {
    batches: 0,
    items: 0,
    runs: 0,
    countedBatches: 0,
    busyMs: 0,
    taps: 0,
    parts: 0,
    redirected: 0,
    rollbacks: 0,
  };
  /** The share of a batch that items have passed on worker hosts. */
  #passedBatches = 0;

  batchLeft(reason: BatchReason, size: number): void {
    this.#counts.batches += 1;
    this.#counts.items += size;
    this.#reasons[reason] += 1;
    this.#batchSize.observe(size);
  }

  /** Adds what the modelet's own metrics have gained. Returns the warning that they are too many, once; otherwise null. */
  ownChanged({ counts, dropped, droppedAt }: GainedMetrics): string | null {
    const first = this.own.add(counts, dropped, droppedAt);
    return first === null ? null : tooManyOwn(first);
  }

  /** @param runs how often the model ran; 0: not known */
  batchRan(runMs: number, size: number, runs: number): void {
    this.#counts.runs += runs;
    if (runs > 0) this.#counts.countedBatches += 1;
    this.#counts.busyMs += runMs;
    this.#run.observe(runMs, size);
    this.#runTimes.observe(runMs, size);
  }

  /** Records an item that passed the stage on a worker host. A batch counts when as many as it held have come. */
  itemPassed({ waitMs, batchMs, runMs, batchSize }: StageTiming, reason: BatchReason): void {
    this.itemWaited(waitMs, batchMs);
    this.#counts.items += 1;
    this.#counts.busyMs += runMs / batchSize;
    this.#run.observe(runMs);
    this.#runTimes.observe(runMs);
    this.#passedBatches += 1 / batchSize;
    if (this.#passedBatches < 1 - ROUNDING) return;
    this.#passedBatches -= 1;
    this.#counts.batches += 1;
    this.#reasons[reason] += 1;
    this.#batchSize.observe(batchSize);
  }

  /** Records the waits of one item of a batch that ran. */
  itemWaited(waitMs: number, batchMs: number): void {
    this.#queueWait.observe(waitMs);
    this.#batchWait.observe(batchMs);
  }

  tapped(): void {
    this.#counts.taps += 1;
  }

  partSent(): void {
    this.#counts.parts += 1;
  }

  /** Counts a request to a stage whose cache is on. */
  cacheAsked(result: CacheResult): void {
    this.#cache[result] += 1;
  }

  /** Counts an item that ended here with this error, without an answer of a worker. */
  notServed(code: ErrorCode): void {
    this.#unserved[code] = (this.#unserved[code] ?? 0) + 1;
  }

  /** Counts an item that a worker answered with this error. */
  failed(code: ErrorCode): void {
    this.#failed[code] = (this.#failed[code] ?? 0) + 1;
  }

  /** Counts a request of this version that went to its base, because no worker of this stage serves. */
  redirected(): void {
    this.#counts.redirected += 1;
  }

  /** Counts that this version lost its share because too many requests failed. */
  rolledBack(): void {
    this.#counts.rollbacks += 1;
  }

  workerEnded(cause: RestartCause): void {
    this.#restarts[cause] += 1;
  }

  read(): StageReading {
    return {
      ...this.#counts,
      reasons: { ...this.#reasons },
      queueWait: this.#queueWait.read(),
      batchWait: this.#batchWait.read(),
      run: this.#run.read(),
      runTimes: this.#runTimes.read(),
      batchSize: this.#batchSize.read(),
      restarts: { ...this.#restarts },
      cache: { ...this.#cache },
      unserved: { ...this.#unserved },
      failed: { ...this.#failed },
      own: this.own.values,
      ownDropped: this.own.dropped,
    };
  }
}

/** Shares of a batch do not add up to 1 exactly. */
const ROUNDING = 1e-6;

function noneOf<Key extends string>(keys: readonly Key[]): Record<Key, number> {
  return Object.fromEntries(keys.map((key) => [key, 0])) as Record<Key, number>;
}

type MeterValue = number | HistogramReading;

/** Sums the counters and histograms that a stage's modelet declares itself, over its workers and their successors. */
export class OwnMeter {
  /** Replaced with each report, never changed: a status may be read more often than workers report. */
  #values: OwnValues = {};
  #series = 0;
  #dropped = 0;

  get values(): OwnValues {
    return this.#values;
  }

  /** Number of dropped updates, including those that the workers have dropped. */
  get dropped(): number {
    return this.#dropped;
  }

  /**
   * Adds what the metrics of one worker have gained.
   * @param dropped number of updates that the worker itself has dropped, of which the first was of the metric `droppedAt`
   * @returns the name of the first metric of which anything was dropped, if that happened just now; otherwise null
   */
  add(gained: OwnValues, dropped: number, droppedAt: string | null = null): string | null {
    const isFirst = this.#dropped === 0;
    let full = droppedAt;
    this.#dropped += dropped;
    const values: Record<string, OwnValues[string]> = { ...this.#values };
    for (const [metric, series] of Object.entries(gained)) {
      const known: Record<string, MeterValue> = { ...values[metric] };
      for (const [labels, more] of Object.entries(series)) {
        const present = known[labels];
        if (present !== undefined) known[labels] = sum(present, more);
        else if (this.#series < MOST_OWN_SERIES) {
          this.#series += 1;
          known[labels] = more;
        } else {
          this.#dropped += 1;
          full ??= (JSON.parse(metric) as OwnMetric).name;
        }
      }
      values[metric] = known;
    }
    this.#values = values;
    return isFirst && this.#dropped > 0 ? full : null;
  }
}

/** Returns the warning about a modelet with too many metrics. @param first the metric of which something was dropped first */
function tooManyOwn(first: string): string {
  const limits = `${MOST_OWN_METRICS} metrics or ${MOST_OWN_SERIES} sets of label values`;
  return `its modelet has more than ${limits}, first at ${first}: further ones are dropped, and counted in modelet_metrics_dropped_total`;
}

/** Adds two values of the same metric. Its key has the bounds, so both histograms have the same. */
function sum(one: MeterValue, other: MeterValue): MeterValue {
  if (typeof one === 'number' || typeof other === 'number') return Number(one) + Number(other);
  return { counts: one.counts.map((count, index) => count + (other.counts[index] ?? 0)), sum: one.sum + other.sum };
}

/** The reading of a stage that has done nothing yet. */
export const NOTHING_READ: StageReading = new StageMeter().read();

/** Measures one stage, and sums the metrics that its modelet declares itself; runs in the engine. */
import type { ErrorCode } from '../../core/errors.ts';
import type { StageStatus, StageTiming } from '../../core/model.ts';
import {
  addReadings,
  BATCH_REASONS,
  type BatchReason,
  CACHE_RESULTS,
  type CacheResult,
  MOST_OWN_METRICS,
  MOST_OWN_SERIES,
  type OwnMetric,
  type OwnValues,
  RESTART_CAUSES,
  type RestartCause,
  type StageReading,
} from '../../core/readings.ts';
import { DURATION_BOUNDS, Histogram, Quantiles, SIZE_BOUNDS } from './histogram.ts';

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

/** What the metrics of one worker have gained. */
interface GainedMetrics {
  readonly counts: OwnValues;
  /** Number of updates that the worker itself has dropped, of which the first was of the metric `droppedAt`. */
  readonly dropped: number;
  readonly droppedAt?: string;
}

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

  /** Returns the warning that the metrics are too many, once; otherwise null. */
  add({ counts, dropped, droppedAt }: GainedMetrics): string | null {
    const isFirst = this.#dropped === 0;
    let full = droppedAt;
    this.#dropped += dropped;
    const values: Record<string, OwnValues[string]> = { ...this.#values };
    for (const [metric, series] of Object.entries(counts)) {
      const known: Record<string, OwnValues[string][string]> = { ...values[metric] };
      for (const [labels, more] of Object.entries(series)) {
        const present = known[labels];
        // The key of a metric has the bounds, so all of its histograms have the same.
        if (present !== undefined) known[labels] = addReadings(present, more);
        else if (this.#series < MOST_OWN_SERIES) {
          this.#series += 1;
          known[labels] = more;
        } else {
          this.#dropped += 1;
          full ??= (JSON.parse(metric) as OwnMetric).name;
        }
      }
      // The metrics of the present code come last.
      delete values[metric];
      if (Object.keys(known).length > 0) values[metric] = known;
    }
    this.#values = values;
    return isFirst && full !== undefined ? tooManyOwn(full) : null;
  }
}

/** Returns the warning about a modelet with too many metrics. @param first the metric of which something was dropped first */
function tooManyOwn(first: string): string {
  const limits = `${MOST_OWN_METRICS} metrics or ${MOST_OWN_SERIES} sets of label values`;
  return `its modelet has more than ${limits}, first at ${first}: further ones are dropped, and counted in modelet_metrics_dropped_total`;
}

/** The reading of a stage that has done nothing yet. */
export const NOTHING_READ: StageReading = new StageMeter().read();

/** Adds up the readings of all engines of a runtime: an engine's meters die with it, its last readings stay. */
export class StageReadings {
  /** Sums of the readings of dead engines, by stage ref. */
  readonly #past: Map<number, StageReading> = new Map();
  /** Last readings of the live engine, by stage ref. */
  readonly #present: Map<number, StageReading> = new Map();

  /** Takes over the engine's report. */
  update(stages: readonly StageStatus[]): void {
    for (const { ref, reading } of stages) this.#present.set(ref, reading);
  }

  /** Keeps the readings of an engine that has died; the next engine counts from 0. */
  engineLost(): void {
    for (const ref of this.#present.keys()) this.#past.set(ref, this.of(ref));
    this.#present.clear();
  }

  /** Forgets all other stages. */
  keep(refs: ReadonlySet<number>): void {
    for (const readings of [this.#past, this.#present]) {
      for (const ref of readings.keys()) if (!refs.has(ref)) readings.delete(ref);
    }
  }

  of(ref: number): StageReading {
    const past = this.#past.get(ref);
    const present = this.#present.get(ref) ?? NOTHING_READ;
    return past ? addReadings(past, present) : present;
  }
}

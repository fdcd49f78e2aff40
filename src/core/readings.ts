/** Readings of the runtime's meters, as plain data that crosses processes, and how they add up. No number ever decreases. */
import type { ErrorCode } from './errors.ts';

/** Counts of values by size. The bounds are those of the histogram that was read. */
export interface HistogramReading {
  /** Values per bucket: above the previous bound, up to its own. The last bucket has the values above all bounds. */
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Description of a metric that a modelet declares itself. */
export interface OwnMetric {
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** The modelet's name for it, without the prefix of the exposition. */
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Bounds of a histogram; absent for the other types. */
  readonly buckets?: readonly number[];
}

/**
 * Values of the metrics that modelets declare: by the metric's description as JSON, then by its label values as a JSON
 * array. Readings add up by their keys alone, so the keys hold all that two values to be added must share.
 */
export type OwnValues<Value = number | HistogramReading> = Readonly<Record<string, Readonly<Record<string, Value>>>>;

/** Most metrics that a worker's modelet may declare. */
export const MOST_OWN_METRICS = 100;
/** Most sets of label values, over all metrics of a worker, and over all counters and histograms of a stage. */
export const MOST_OWN_SERIES = 1000;

/** Counts of durations in narrow buckets, for quantiles. Keyed by the bucket's number; empty buckets are absent. */
export interface FineReading {
  readonly counts: Readonly<Record<string, number>>;
  /** Sum of the durations of each bucket, in ms. */
  readonly sums: Readonly<Record<string, number>>;
}

/**
 * Why a batch left: it was full, an idle worker took the waiting items, the wait of its oldest item or the gap ended,
 * or a single item runs for the second time.
 */
export const BATCH_REASONS = ['full', 'idle', 'timer', 'gap', 'retry'] as const;
export type BatchReason = (typeof BATCH_REASONS)[number];

/**
 * Why a worker was replaced: it died, it did not start, its batch ran too long, it reached its limit of batches or
 * memory, or a new one was requested.
 */
export const RESTART_CAUSES = ['died', 'not_started', 'run_timeout', 'recycled', 'asked'] as const;
export type RestartCause = (typeof RESTART_CAUSES)[number];

/** How a stage that keeps results answered a request: from the cache, by its own run, or by another request's run. */
export const CACHE_RESULTS = ['hit', 'miss', 'joined'] as const;
export type CacheResult = (typeof CACHE_RESULTS)[number];

/** Totals of one stage since its engine started. Durations in milliseconds. */
export interface StageReading {
  readonly batches: number;
  readonly items: number;
  /** How often the model ran for the batches that were answered, and for how many of them the worker has counted that. */
  readonly runs: number;
  readonly countedBatches: number;
  readonly reasons: Readonly<Record<BatchReason, number>>;
  /** Per item that ran: wait for a free worker. */
  readonly queueWait: HistogramReading;
  /** Per item that ran: wait for its batch to fill while a worker was free. */
  readonly batchWait: HistogramReading;
  /** Per item that ran: run time of its batch. */
  readonly run: HistogramReading;
  /** The same run times, for quantiles. */
  readonly runTimes: FineReading;
  /** Per batch: number of items. */
  readonly batchSize: HistogramReading;
  /** Time that all workers together spent running batches. */
  readonly busyMs: number;
  /** Copies of intermediate values, made for tap nodes. */
  readonly taps: number;
  /** Parts of results that were sent on before the result was complete. */
  readonly parts: number;
  /** Workers that were replaced or will be, by cause. */
  readonly restarts: Readonly<Record<RestartCause, number>>;
  /** Requests that arrived while the stage kept results. A joined request counts as joined, even if the run fails. */
  readonly cache: Readonly<Record<CacheResult, number>>;
  /** Items that this stage did not serve, by error code. Codes that never occurred are absent. */
  readonly unserved: Readonly<Partial<Record<ErrorCode, number>>>;
  /** Items that a worker answered with an error, by its code. Codes that never occurred are absent. */
  readonly failed: Readonly<Partial<Record<ErrorCode, number>>>;
  /** Requests of a version that its base got, because no worker of the version served. */
  readonly redirected: number;
  /** How often a version lost its share because too many requests failed. */
  readonly rollbacks: number;
  /** Counters and histograms of the modelet's own, summed over the workers. */
  readonly own: OwnValues;
  /** Updates of the modelet's own metrics that were dropped because there are too many of them. */
  readonly ownDropped: number;
}

/** Requests that failed at one stage with one code. */
export interface FailureCount {
  /** Name of the stage; null: no stage caused the failure. */
  readonly stage: string | null;
  readonly code: ErrorCode;
  /** Message of the last, for people. */
  readonly message: string;
  readonly count: number;
  /** When the last failed, on the monotonic clock. */
  readonly at: number;
  /** Whether this was the last answer of an endpoint or entry: no request that began there has had a result since. */
  readonly isLast: boolean;
}

export type OutcomeCode = 'ok' | ErrorCode;

/** Durations by outcome, in the buckets of the histogram that was read; errors that never occurred are absent. */
export type DurationReadings = Readonly<Partial<Record<OutcomeCode, HistogramReading>>> & {
  readonly ok: HistogramReading;
};

export interface RequestReading {
  readonly counts: Readonly<Partial<Record<OutcomeCode, number>>>;
  /** Outcomes that arrived after their request had settled, and were ignored. */
  readonly late: number;
  /** How long requests were open. Refused requests do not count. */
  readonly durations: DurationReadings;
  /** Durations of the requests that ended with a result. */
  readonly results: FineReading;
}

/** Requests of clients with a key: by the client's name, then by the HTTP status of the answer. */
export type ClientReadings = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** Adds two numbers. The sum stays finite, because readings cross processes as JSON, which has no Infinity. */
export function finiteSum(one: number, other: number): number {
  return Math.max(-Number.MAX_VALUE, Math.min(one + other, Number.MAX_VALUE));
}

/** Adds two readings of the same kind, number by number. */
export function addReadings<T>(one: T, other: T): T {
  return combine(one, other, finiteSum) as T;
}

/** Subtracts an earlier reading from a later one of the same kind, number by number. */
export function subtractReadings<T>(later: T, earlier: T): T {
  return combine(later, earlier, (a, b) => a - b) as T;
}

function combine(one: unknown, other: unknown, operate: (a: number, b: number) => number): unknown {
  // A reading that is absent on one side counts as 0.
  const present = one ?? other;
  if (Array.isArray(present)) {
    const [a, b] = [one ?? [], other ?? []] as [unknown[], unknown[]];
    return present.map((_, index) => combine(a[index], b[index], operate));
  }
  if (typeof present !== 'object') return operate(Number(one ?? 0), Number(other ?? 0));
  // Maps, because a client may have a name such as `constructor`, which every object has.
  const [a, b] = [new Map(Object.entries(one ?? {})), new Map(Object.entries(other ?? {}))];
  const keys = [...new Set([...a.keys(), ...b.keys()])];
  return Object.fromEntries(keys.map((key) => [key, combine(a.get(key), b.get(key), operate)]));
}

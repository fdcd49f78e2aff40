/** Computes the activity of a runtime between two looks at it, small enough to send as a message. Pure. */
import { type FailureCount, type FineReading, type StageReading, subtractReadings } from '../../core/readings.ts';
import type { Measured } from '../export/metric.ts';
import { countOf, quantile } from '../meters/histogram.ts';
import { NOTHING_READ } from '../meters/stage-meter.ts';
import type { StageSnapshot } from './snapshot.ts';

/** A runtime's state at a time of the monotonic clock, in ms. */
export interface Measurement extends Measured {
  readonly at: number;
  /** Durations of the requests that ended with a result. */
  readonly results: FineReading;
  /** All requests that failed, by stage and code, whether or not a user has read of them. */
  readonly failed: readonly FailureCount[];
}

/** Mean times of the items that ran since an earlier look, in ms. */
export interface ItemTimes {
  /** Wait for a free worker. */
  readonly queueMs: number;
  /** Wait for the batch to fill while a worker was free. */
  readonly batchMs: number;
  readonly runMs: number;
}

export interface StageInterval {
  /** Number of items that wait now. */
  readonly queue: number;
  /** Number of workers that run a batch now. */
  readonly busy: number;
  readonly workers: number;
  /** Mean size of the batches that left; null if none did. */
  readonly meanBatch: number | null;
  /** Mean run time of the answered items, in ms; null if none was answered. */
  readonly runMs: number | null;
  /** Fraction (0 to 1) of requests that needed no separate run; null if the cache is off or no request came. */
  readonly cached: number | null;
}

/** Counts and durations of a runtime's requests. */
export interface RequestInterval {
  /** Number of requests that have ended, with any outcome, since the runtime started. */
  readonly requests: number;
  /** Number of requests that have ended with an error since the runtime started. */
  readonly errors: number;
  /** Rate of requests that ended in the interval. */
  readonly requestsPerSecond: number;
  /** Rate of requests that ended with an error in the interval. */
  readonly errorsPerSecond: number;
  /** Median duration of results, in ms; null if there were none. */
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

export interface RuntimeInterval extends RequestInterval {
  /** End of the interval, in ms since 1970. */
  readonly time: number;
  /** Number of requests that are open now. */
  readonly backlog: number;
  readonly stages: Readonly<Record<string, StageInterval>>;
}

/** @param time time of the later look, in ms since 1970 */
export function intervalBetween(earlier: Measurement, later: Measurement, time: number): RuntimeInterval {
  const readings = new Map(earlier.snapshot.stages.map(({ id, reading }) => [id, reading]));
  return {
    time,
    ...requestsBetween(earlier, later),
    backlog: later.snapshot.backlog,
    stages: Object.fromEntries(
      later.snapshot.stages.map((stage) => [stage.name, stageBetween(readings.get(stage.id) ?? NOTHING_READ, stage)]),
    ),
  };
}

export function requestsBetween(earlier: Measurement, later: Measurement): RequestInterval {
  const seconds = (later.at - earlier.at) / 1000;
  const { requests, errors } = ended(later);
  const before = ended(earlier);
  const took = subtractReadings(later.results, earlier.results);
  const [p50 = null, p95 = null, p99 = null] = [0.5, 0.95, 0.99].map((q) => rounded(quantile(took, q)));
  return {
    requests,
    errors,
    requestsPerSecond: perSecond(requests - before.requests, seconds),
    errorsPerSecond: perSecond(errors - before.errors, seconds),
    p50,
    p95,
    p99,
  };
}

function ended({ snapshot }: Measurement): { readonly requests: number; readonly errors: number } {
  const requests = totalOf(snapshot.requests);
  return { requests, errors: requests - (snapshot.requests['ok'] ?? 0) };
}

export function totalOf(counts: Readonly<Record<string, number | undefined>>): number {
  return Object.values(counts).reduce<number>((sum, count) => sum + (count ?? 0), 0);
}

function stageBetween(earlier: StageReading, { queue, workers, ready, reading }: StageSnapshot): StageInterval {
  const since = readingSince(earlier, reading);
  const { batchSize, run } = since;
  const busy = workers.filter((worker) => worker.busy).length;
  return {
    ...{ queue, busy, workers: ready, cached: cachedPart(since) },
    meanBatch: meanOf(batchSize.sum, countOf(batchSize)),
    runMs: meanOf(run.sum, countOf(run)),
  };
}

/** Returns the fraction of requests that needed no separate run; null if none came while the cache was on. */
export function cachedPart({ cache: { hit, miss, joined } }: StageReading): number | null {
  const asked = hit + miss + joined;
  return asked > 0 ? rounded((hit + joined) / asked) : null;
}

/** Returns a stage's reading since an earlier one. A stage that was removed and added again counts from 0. */
export function readingSince(earlier: StageReading, later: StageReading): StageReading {
  return later.batches < earlier.batches ? later : subtractReadings(later, earlier);
}

/** @returns the mean times of the items in a reading; null if none ran */
export function timesOf({ queueWait, batchWait, run }: StageReading): ItemTimes | null {
  const items = countOf(run);
  if (items === 0) return null;
  return { queueMs: queueWait.sum / items, batchMs: batchWait.sum / items, runMs: run.sum / items };
}

export function meanOf(sum: number, count: number): number | null {
  return count > 0 ? rounded(sum / count) : null;
}

export function perSecond(count: number, seconds: number): number {
  return seconds > 0 ? (rounded(count / seconds) ?? 0) : 0;
}

/** Rounds to three decimals: for ms, finer than microseconds is of no use. */
export function rounded(value: number | null): number | null {
  return value === null ? null : Math.round(value * 1000) / 1000;
}

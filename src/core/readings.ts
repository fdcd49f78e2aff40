/** What the meters of the runtime read, as plain data that crosses processes. Every number only ever grows. */
import type { ErrorCode } from './errors.ts';

/** Counts of values by size. The bounds are those of the histogram that it was read from. */
export interface HistogramReading {
  /** By bucket: values up to its bound and above the bound before; the last: above all bounds. */
  readonly counts: readonly number[];
  /** Of all values. */
  readonly sum: number;
}

/** Counts of durations in narrow buckets, from which quantiles are read. By the bucket's number; empty ones are absent. */
export interface FineReading {
  readonly counts: Readonly<Record<string, number>>;
  /** Of the values of a bucket, in ms. */
  readonly sums: Readonly<Record<string, number>>;
}

/**
 * Why a batch left: it was full, a worker took what was there, its oldest item's time or the gap's time was up, or it
 * is one item's second run.
 */
export const BATCH_REASONS = ['full', 'idle', 'timer', 'gap', 'retry'] as const;
export type BatchReason = (typeof BATCH_REASONS)[number];

/**
 * Why a worker was replaced: it died, it did not start, its batch ran too long, it had grown old or large, or a new one
 * was asked for.
 */
export const RESTART_CAUSES = ['died', 'not_started', 'run_timeout', 'recycled', 'asked'] as const;
export type RestartCause = (typeof RESTART_CAUSES)[number];

/** What came of a request at a stage that keeps results: answered at once, by a run of its own, by another's run. */
export const CACHE_RESULTS = ['hit', 'miss', 'joined'] as const;
export type CacheResult = (typeof CACHE_RESULTS)[number];

/** What one stage has done since its engine started. Durations in milliseconds. */
export interface StageReading {
  readonly batches: number;
  readonly items: number;
  readonly reasons: Readonly<Record<BatchReason, number>>;
  /** Per item that ran: waiting because no worker was free. */
  readonly queueWait: HistogramReading;
  /** Per item that ran: waiting for its batch to fill while a worker was free. */
  readonly batchWait: HistogramReading;
  /** Per item that ran: the run of the batch that held it. */
  readonly run: HistogramReading;
  /** The same runs, for quantiles. */
  readonly runTimes: FineReading;
  /** Per batch. */
  readonly batchSize: HistogramReading;
  /** Of all workers together: time spent running batches. */
  readonly busyMs: number;
  /** Copies of values made for nodes that look on. */
  readonly taps: number;
  /** Parts of results that were sent on before the rest was there. */
  readonly parts: number;
  /** Workers that were or are to be replaced by another. */
  readonly restarts: Readonly<Record<RestartCause, number>>;
  /** Requests that came while it kept results. Those that joined a run count as such whatever came of it. */
  readonly cache: Readonly<Record<CacheResult, number>>;
  /** Items that this stage did not serve, by the error they ended with; those that never occurred are absent. */
  readonly unserved: Readonly<Partial<Record<ErrorCode, number>>>;
}

/** Calls that run for far longer than usual, as an endless loop does, or past the time limit of their requests. Pure. */
import type { StageReading } from '../../core/readings.ts';
import { countOf } from '../meters/histogram.ts';

/** A run that is worth a word takes at least this long, in ms, ... */
const LONG_RUN_MS = 10_000;
/** ... and so many times as long as the mean of the runs before it. */
const LONGER = 10;

/** A call that runs for far longer than usual, or past the time limit of its requests. */
export interface LongRun {
  readonly ms: number;
  /** Mean time of the runs so far, in ms; null if none has ended. */
  readonly usualMs: number | null;
}

/**
 * @param runsMs how long the oldest batch that runs has run; null: none runs
 * @param usualMs mean time of the runs so far; null: none has ended
 * @param overdue number of running batches without callers
 */
export function longRunOf(runsMs: number | null, usualMs: number | null, overdue: number): LongRun | null {
  if (runsMs === null) return null;
  const isLong = runsMs >= LONG_RUN_MS && runsMs >= LONGER * (usualMs ?? 0);
  return isLong || overdue > 0 ? { ms: runsMs, usualMs } : null;
}

/** The oldest run of an old worker, see `StageSnapshot.retired`. */
export interface OldRun {
  readonly runsMs: number;
  readonly overdue: number;
}

/** @returns the first old worker that does not end soon by itself; undefined if all do */
export function lingering(retired: readonly OldRun[]): OldRun | undefined {
  return retired.find(({ runsMs, overdue }) => overdue > 0 || runsMs > LONG_RUN_MS);
}

/** @returns the mean time of the runs so far, in ms; null if none has ended */
export function meanRunMs({ run }: StageReading): number | null {
  const items = countOf(run);
  return items === 0 ? null : run.sum / items;
}

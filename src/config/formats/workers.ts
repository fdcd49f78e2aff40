/** The text form of a number of workers: `2`, a range `0-4`, or `auto`. Pure: does not look at the machine's cores. */
import { unreadable } from './unreadable.ts';

export const MOST_WORKERS = 256;

/** The least and most workers of a stage. */
export interface WorkerRange {
  readonly min: number;
  /** Null: one per core. */
  readonly max: number | null;
}

/**
 * Parses the number of workers; null for blank text.
 * @throws Unreadable
 */
export function parseWorkers(text: string): WorkerRange | null {
  const given = text.trim();
  if (given === '') return null;
  if (given === 'auto') return { min: 1, max: null };
  const [, first, last] = /^(\d{1,4})(?:\s*-\s*(\d{1,4}))?$/.exec(given) ?? [];
  const min = Number(first);
  const max = Number(last ?? first);
  if (first === undefined || max < 1 || max > MOST_WORKERS) {
    const message = `must be a whole number from 1 to ${MOST_WORKERS}, a range such as 0-4, auto, or blank; got "${text}"`;
    throw unreadable(message, 'workers', { max: MOST_WORKERS });
  }
  if (min > max) throw unreadable(`the range "${given}" runs backwards`, 'backwards', { token: given });
  return { min, max };
}

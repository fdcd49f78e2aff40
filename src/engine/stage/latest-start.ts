/** When an item has to leave the queue to be answered in time. */
import type { Item } from './item.ts';

/**
 * The part of an item's time that is to be left when its answer leaves the worker: for the way back, which this process
 * cannot measure. Else overload would have all answers leave in the last millisecond, and half of them come too late.
 */
const RESERVED = 0.05;
/** A run is expected to take no more than this part of an item's time: after one slow run none would else have the time. */
const MOST_EXPECTED = 0.5;

/**
 * Of those that share a run the one with the most time counts; but none is too late that has only just joined.
 *
 * @param turnaroundMs how long answers take; the longer, the earlier it is, by no more than that much
 */
export function latestStart({ arrivedAt, deadline, flight }: Item, turnaroundMs: number): number {
  if (!flight) return startOf(arrivedAt, deadline, turnaroundMs);
  // An answer that is known takes no time.
  const start = startOf(flight.longestSince, deadline, flight.known ? 0 : turnaroundMs);
  return Math.max(start, flight.earliestStart);
}

/** Before this a request is not too late, however long answers take. */
export function earliestStart({ arrivedAt, deadline }: Item): number {
  return startOf(arrivedAt, deadline, Number.POSITIVE_INFINITY);
}

function startOf(arrivedAt: number, deadline: number, turnaroundMs: number): number {
  if (deadline === Number.POSITIVE_INFINITY) return deadline;
  const whole = Math.max(deadline - arrivedAt, 0);
  return deadline - RESERVED * whole - Math.min(turnaroundMs, MOST_EXPECTED * whole);
}

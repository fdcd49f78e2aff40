/**
 * Computes when an item must leave its queue to be answered in time. Also keeps bounds on when a queue's items become
 * late, so that most sweeps for late items need not visit every item.
 */
import type { Deadline } from '../../core/clock.ts';

/**
 * Fraction of an item's time reserved for the way back, which this process cannot measure. Without the reserve, under
 * overload every answer would leave in its last millisecond, and half of them would arrive too late.
 */
const RESERVED = 0.05;
/** Largest expected run time as a fraction of an item's time: otherwise one slow run would make all items late. */
const MOST_EXPECTED = 0.5;

interface Waiting {
  readonly arrivedAt: number;
  readonly deadline: Deadline;
}

/** The fields of an item that decide its lateness; `run` is set if the item represents the requests of a shared run. */
interface TimedItem extends Waiting {
  readonly run: {
    /** Arrival time of the request whose deadline the item has. */
    readonly longestSince: number;
    /** The item is not late before this time, however long answers take. */
    readonly earliestStart: number;
    readonly known: object | null;
  } | null;
}

/**
 * Returns the latest time at which an item can leave its queue and be answered in time. A shared run uses its latest
 * deadline, but is never late for a request that has just joined.
 *
 * @param turnaroundMs how long answers take; an increase makes the result earlier by at most that increase
 */
export function latestStart({ arrivedAt, deadline, run }: TimedItem, turnaroundMs: number): number {
  if (!run) return startOf(arrivedAt, deadline, turnaroundMs);
  // A known answer takes no time.
  const start = startOf(run.longestSince, deadline, run.known ? 0 : turnaroundMs);
  return Math.max(start, run.earliestStart);
}

/** Returns the time before which a request is not late, however long answers take. */
export function earliestStart({ arrivedAt, deadline }: Waiting): number {
  return startOf(arrivedAt, deadline, Number.POSITIVE_INFINITY);
}

function startOf(arrivedAt: number, deadline: number, turnaroundMs: number): number {
  if (deadline === Number.POSITIVE_INFINITY) return deadline;
  const whole = Math.max(deadline - arrivedAt, 0);
  return deadline - RESERVED * whole - Math.min(turnaroundMs, MOST_EXPECTED * whole);
}

export class LateBounds {
  /** The turnaround that the bounds were computed with. */
  #turnaroundMs = 0;
  /** No item is late before this time. */
  #first = Number.POSITIVE_INFINITY;
  /** Every item is late from this time on. */
  #last = Number.NEGATIVE_INFINITY;
  /** No item expires before this time. */
  #expiry: Deadline = Number.POSITIVE_INFINITY;

  /** Widens the bounds for an item. Call when an item arrives or its times change; not needed when an item leaves. */
  note(item: TimedItem): void {
    const start = latestStart(item, this.#turnaroundMs);
    this.#first = Math.min(this.#first, start);
    this.#last = Math.max(this.#last, start);
    this.#expiry = Math.min(this.#expiry, item.deadline);
  }

  /** Computes the bounds again from the items in the queue. */
  renew(items: Iterable<TimedItem>, turnaroundMs: number = this.#turnaroundMs): void {
    this.#turnaroundMs = turnaroundMs;
    this.#first = Number.POSITIVE_INFINITY;
    this.#last = Number.NEGATIVE_INFINITY;
    this.#expiry = Number.POSITIVE_INFINITY;
    for (const item of items) this.note(item);
  }

  /** Returns true only if no item has expired. */
  noneExpired(now: number): boolean {
    return now < this.#expiry;
  }

  /** Returns true only if no item is late when answers take `turnaroundMs`. */
  noneLate(now: number, turnaroundMs: number): boolean {
    return now < this.#first - Math.max(turnaroundMs - this.#turnaroundMs, 0);
  }

  /** Returns true only if every item is late when answers take `turnaroundMs`. */
  allLate(now: number, turnaroundMs: number): boolean {
    return now >= this.#last + Math.max(this.#turnaroundMs - turnaroundMs, 0);
  }
}

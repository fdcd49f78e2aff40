/**
 * When an item has to leave its queue to be answered in time, and the bounds within which the items of a queue become
 * late, so that most sweeps for late items need not look at each.
 */
import type { Deadline } from '../../core/clock.ts';

/**
 * The part of an item's time that is kept for the way back, which this process cannot measure. Without it overload
 * would let every answer leave in its last millisecond, and half of them would come too late.
 */
const RESERVED = 0.05;
/** A run is expected to take at most this part of an item's time: after one slow run no item would have time otherwise. */
const MOST_EXPECTED = 0.5;

interface Waiting {
  readonly arrivedAt: number;
  readonly deadline: Deadline;
}

/** An item as far as its lateness goes; `run` where it stands for the requests that share a run. */
interface TimedItem extends Waiting {
  readonly run: {
    /** When the request came whose deadline the item has. */
    readonly longestSince: number;
    /** Before this time the item is never late, however long answers take. */
    readonly earliestStart: number;
    readonly known: object | null;
  } | null;
}

/**
 * A shared run uses its latest deadline, but is never late for a request that has just joined.
 *
 * @param turnaroundMs how long answers take; longer answers make it earlier, by at most that much
 */
export function latestStart({ arrivedAt, deadline, run }: TimedItem, turnaroundMs: number): number {
  if (!run) return startOf(arrivedAt, deadline, turnaroundMs);
  // A known answer takes no time.
  const start = startOf(run.longestSince, deadline, run.known ? 0 : turnaroundMs);
  return Math.max(start, run.earliestStart);
}

/** Before this time a request is not late, however long answers take. */
export function earliestStart({ arrivedAt, deadline }: Waiting): number {
  return startOf(arrivedAt, deadline, Number.POSITIVE_INFINITY);
}

function startOf(arrivedAt: number, deadline: number, turnaroundMs: number): number {
  if (deadline === Number.POSITIVE_INFINITY) return deadline;
  const whole = Math.max(deadline - arrivedAt, 0);
  return deadline - RESERVED * whole - Math.min(turnaroundMs, MOST_EXPECTED * whole);
}

export class LateBounds {
  /** The turnaround with which the bounds were found. */
  #turnaroundMs = 0;
  /** No item is late before this time. */
  #first = Number.POSITIVE_INFINITY;
  /** Every item is late from this time on. */
  #last = Number.NEGATIVE_INFINITY;
  /** No item expires before this time. */
  #expiry: Deadline = Number.POSITIVE_INFINITY;

  /** Call for an item that arrives, and for an item whose time has changed; an item that leaves needs no call. */
  note(item: TimedItem): void {
    const start = latestStart(item, this.#turnaroundMs);
    this.#first = Math.min(this.#first, start);
    this.#last = Math.max(this.#last, start);
    this.#expiry = Math.min(this.#expiry, item.deadline);
  }

  /** Finds the bounds again, for the items that are there. */
  renew(items: Iterable<TimedItem>, turnaroundMs: number = this.#turnaroundMs): void {
    this.#turnaroundMs = turnaroundMs;
    this.#first = Number.POSITIVE_INFINITY;
    this.#last = Number.NEGATIVE_INFINITY;
    this.#expiry = Number.POSITIVE_INFINITY;
    for (const item of items) this.note(item);
  }

  /** True only if no item has expired. */
  noneExpired(now: number): boolean {
    return now < this.#expiry;
  }

  /** True only if no item is late when answers take `turnaroundMs`. */
  noneLate(now: number, turnaroundMs: number): boolean {
    return now < this.#first - Math.max(turnaroundMs - this.#turnaroundMs, 0);
  }

  /** True only if every item is late when answers take `turnaroundMs`. */
  allLate(now: number, turnaroundMs: number): boolean {
    return now >= this.#last + Math.max(this.#turnaroundMs - turnaroundMs, 0);
  }
}

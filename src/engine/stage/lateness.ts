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

interface TimedItem {
  readonly arrivedAt: number;
  readonly deadline: Deadline;
}

/**
 * Returns the latest time at which an item can leave its queue and be answered in time.
 *
 * @param turnaroundMs how long answers take; an increase makes the result earlier by at most that increase
 */
export function latestStart({ arrivedAt, deadline }: TimedItem, turnaroundMs: number): number {
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

  /** Widens the bounds for an item. Call when an item arrives; not needed when an item leaves. */
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

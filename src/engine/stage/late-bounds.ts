/** Within which times the items of a queue become late: so that most looks for late ones need not look at each. */
import type { Deadline } from '../../core/clock.ts';
import type { Item } from './item.ts';
import { latestStart } from './latest-start.ts';

export class LateBounds {
  /** With which the bounds were found. */
  #turnaroundMs = 0;
  /** None is late before this. */
  #first = Number.POSITIVE_INFINITY;
  /** All are late from this on. */
  #last = Number.NEGATIVE_INFINITY;
  /** None expires before this. */
  #expiry: Deadline = Number.POSITIVE_INFINITY;

  /** To be called for an item that comes, and for one whose time has changed. For one that goes nothing needs to be done. */
  note(item: Item): void {
    const start = latestStart(item, this.#turnaroundMs);
    this.#first = Math.min(this.#first, start);
    this.#last = Math.max(this.#last, start);
    this.#expiry = Math.min(this.#expiry, item.deadline);
  }

  /** Begins anew, with what is there. */
  renew(items: Iterable<Item>, turnaroundMs: number = this.#turnaroundMs): void {
    this.#turnaroundMs = turnaroundMs;
    this.#first = Number.POSITIVE_INFINITY;
    this.#last = Number.NEGATIVE_INFINITY;
    this.#expiry = Number.POSITIVE_INFINITY;
    for (const item of items) this.note(item);
  }

  /** Whether for certain none has expired. */
  noneExpired(now: number): boolean {
    return now < this.#expiry;
  }

  /** Whether for certain none is late, with answers that take so long. */
  noneLate(now: number, turnaroundMs: number): boolean {
    return now < this.#first - Math.max(turnaroundMs - this.#turnaroundMs, 0);
  }

  /** Whether for certain all are. */
  allLate(now: number, turnaroundMs: number): boolean {
    return now >= this.#last + Math.max(this.#turnaroundMs - turnaroundMs, 0);
  }
}

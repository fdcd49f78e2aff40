/**
 * A stage's queue: by priority, then first in first out; constant-time removal. Items past their deadline are
 * swept out before anything is counted, the oldest included.
 */
import { Fifo } from '../core/fifo.ts';
import { type Item, MOVING } from './item.ts';

/** Payload bytes from which a batch is full whatever its count: it has to fit a frame and two processes' memory. */
const FULL_BATCH_BYTES = 256 * 1024 * 1024;

export class StageQueue {
  /** Levels with items or once had; sorted by falling priority. */
  readonly #levels: { readonly priority: number; readonly items: Fifo<Item> }[] = [];
  #length = 0;
  #newestAt = 0;
  /** No queued item expires before this. */
  #noExpiryBefore = Number.POSITIVE_INFINITY;

  get length(): number {
    return this.#length;
  }

  get newestAt(): number {
    return this.#newestAt;
  }

  /** Arrival of the item that has waited longest; 0 if there is none. */
  get oldestAt(): number {
    let oldest = Number.POSITIVE_INFINITY;
    for (const { items } of this.#levels) oldest = Math.min(oldest, items.first?.value.arrivedAt ?? oldest);
    return this.#length === 0 ? 0 : oldest;
  }

  push(item: Item): void {
    item.at = { tag: 'queued', node: this.#level(item.priority).push(item) };
    this.#newestAt = item.arrivedAt;
    this.#counted(item);
  }

  /** Puts items that were taken but did not start back where they were; `items` in the order they were taken. */
  putBack(items: readonly Item[]): void {
    for (const item of items.toReversed()) {
      item.at = { tag: 'queued', node: this.#level(item.priority).unshift(item) };
      this.#counted(item);
    }
  }

  /** False if it is not queued here. */
  remove(item: Item): boolean {
    if (item.at.tag !== 'queued' || !item.at.node.owner?.remove(item.at.node)) return false;
    item.at = MOVING;
    this.#length -= 1;
    return true;
  }

  /** Removes and returns the items whose deadline has passed. */
  sweepExpired(now: number): Item[] {
    if (now < this.#noExpiryBefore) return [];
    const expired: Item[] = [];
    let earliest = Number.POSITIVE_INFINITY;
    for (const { items } of this.#levels) {
      for (const item of items) {
        if (item.deadline <= now) expired.push(item);
        else earliest = Math.min(earliest, item.deadline);
      }
    }
    for (const item of expired) this.remove(item);
    this.#noExpiryBefore = earliest;
    return expired;
  }

  /** Takes up to `count` items in order, passing over those that `mayLeave` holds back. */
  take(count: number, mayLeave: (item: Item) => boolean): Item[] {
    const taken: Item[] = [];
    let bytes = 0;
    for (const { items } of this.#levels) {
      for (const item of items) {
        if (taken.length === count) return taken;
        if (!mayLeave(item)) continue;
        bytes += item.payload.bytes.byteLength;
        if (taken.length > 0 && bytes > FULL_BATCH_BYTES) return taken;
        this.remove(item);
        taken.push(item);
      }
    }
    return taken;
  }

  /** Empties the queue. */
  drain(): Item[] {
    return this.take(Number.POSITIVE_INFINITY, () => true);
  }

  #level(priority: number): Fifo<Item> {
    const found = this.#levels.find((level) => level.priority <= priority);
    if (found?.priority === priority) return found.items;
    const level = { priority, items: new Fifo<Item>() };
    this.#forgetEmptyLevels();
    const position = this.#levels.findIndex((other) => other.priority < priority);
    this.#levels.splice(position < 0 ? this.#levels.length : position, 0, level);
    return level.items;
  }

  /** Priorities come from messages: without this, a counter used as priority would grow the table for ever. */
  #forgetEmptyLevels(): void {
    for (let index = this.#levels.length - 1; index >= 0; index -= 1) {
      if (this.#levels[index]?.items.size === 0) this.#levels.splice(index, 1);
    }
  }

  #counted(item: Item): void {
    this.#length += 1;
    if (item.deadline < this.#noExpiryBefore) this.#noExpiryBefore = item.deadline;
  }
}

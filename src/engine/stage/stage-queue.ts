/**
 * A stage's queue: by priority, then first in first out; constant-time removal. Items past their deadline are
 * swept out before anything is counted, the oldest included.
 */
import type { ModeletError } from '../../core/errors.ts';
import type { StageDefinition } from '../../core/model.ts';
import { PriorityFifo } from '../../core/priority-fifo.ts';
import { type Item, isAlone, isKnown, MOVING } from './item.ts';
import { LateBounds, latestStart } from './lateness.ts';
import { dropped, queueFull } from './stage-errors.ts';

/** Payload bytes from which a batch is full whatever its count: it has to fit a frame and two processes' memory. */
const FULL_BATCH_BYTES = 256 * 1024 * 1024;

/** An item that a full queue sent away, and why. */
interface SentAway {
  readonly item: Item;
  readonly error: ModeletError;
}

export class StageQueue implements Iterable<Item> {
  readonly #items: PriorityFifo<Item> = new PriorityFifo();
  /** Items that are to run alone. */
  #alone = 0;
  /** Items whose answer is known. */
  #known = 0;
  #newestAt = 0;
  /** False while a later arrival may stand before an earlier one of its priority. */
  #inOrder = true;
  readonly #bounds: LateBounds = new LateBounds();

  get length(): number {
    return this.#items.size;
  }

  /** Items that may share a batch: all but those that are to run alone, and those that are not to run. */
  get batchable(): number {
    return this.length - this.#alone - this.#known;
  }

  get hasAlone(): boolean {
    return this.#alone > 0;
  }

  get newestAt(): number {
    return this.#newestAt;
  }

  /** Arrival of the item that has waited longest but for those that are to run alone; 0 if there is none. */
  get oldestAt(): number {
    if (this.length === this.#alone) return 0;
    let oldest = Number.POSITIVE_INFINITY;
    for (const item of this.#inOrder ? this.#items.heads : this.#items) {
      if (!isAlone(item)) oldest = Math.min(oldest, item.arrivedAt);
    }
    return oldest;
  }

  push(item: Item): void {
    if (this.length === 0) this.#inOrder = true;
    item.state = { tag: 'queued', node: this.#items.push(item.priority, item), alone: false };
    if (isKnown(item)) this.#known += 1;
    this.#newestAt = item.arrivedAt;
    this.#bounds.note(item);
  }

  /** Puts an item into a full queue in the place of another, or sends it away. `meanRunMs`: see `queueFull`. */
  pushFull(item: Item, definition: StageDefinition, meanRunMs: number): SentAway {
    const { name, overflow } = definition;
    if (overflow !== 'drop-oldest') return { item, error: queueFull(definition, meanRunMs) };
    const victim = this.victim(item.group);
    if (!victim || victim.priority > item.priority) {
      return { item, error: dropped(name, 'the queue is full of more important ones') };
    }
    this.replace(victim, item);
    return { item: victim, error: dropped(name, 'a newer one came and the queue was full') };
  }

  /** Puts items that were taken but did not start back where they were; `items` in the order they were taken. */
  putBack(items: readonly Item[]): void {
    for (const item of items.toReversed()) this.#unshift(item, isAlone(item));
  }

  /** Puts items that a dead worker may have begun before all others, each to run alone. */
  putBackAlone(items: readonly Item[]): void {
    for (const item of items.toReversed()) this.#unshift(item, true);
  }

  /** Gives a queued item a higher priority; it stands behind those that have it already. */
  raise(item: Item, priority: number): void {
    const alone = isAlone(item);
    if (!this.remove(item)) return;
    item.priority = priority;
    if (alone) this.#alone += 1;
    if (isKnown(item)) this.#known += 1;
    this.#inOrder = false;
    item.state = { tag: 'queued', node: this.#items.push(priority, item), alone };
  }

  /** Has a queued item count as one that came later; it keeps its place. */
  rejuvenate(item: Item, arrivedAt: number): void {
    item.arrivedAt = arrivedAt;
    this.#inOrder = false;
  }

  /** In the order of leaving. Removing the item just yielded while iterating is allowed. */
  [Symbol.iterator](): Iterator<Item> {
    return this.#items[Symbol.iterator]();
  }

  /** False if it is not queued here. */
  remove(item: Item): boolean {
    if (item.state.tag !== 'queued' || !this.#items.remove(item.state.node)) return false;
    if (item.state.alone) this.#alone -= 1;
    if (isKnown(item)) this.#known -= 1;
    item.state = MOVING;
    return true;
  }

  /** To be called when the answer of a queued item is not known any more. */
  unknown(item: Item): void {
    this.#known -= 1;
    this.retimed(item);
  }

  /** To be called when a queued item, or the run that it stands for, has another time than before. */
  retimed(item: Item): void {
    this.#bounds.note(item);
  }

  /** Removes and returns the items whose deadline has passed. */
  sweepExpired(now: number): Item[] {
    if (this.#bounds.noneExpired(now)) return [];
    const expired = this.#removeAll((item) => item.deadline <= now);
    this.#bounds.renew(this.#items);
    return expired;
  }

  /**
   * Removes and returns the items whose deadline has passed. Where others have the time for it, also those that would
   * hardly be answered in time if they left now: in overload first come is first late, and every run is in vain.
   *
   * @param turnaroundMs how long an answer takes; 0 where that is not known
   */
  sweepLate(now: number, turnaroundMs = 0): Item[] {
    if (this.#bounds.noneLate(now, turnaroundMs)) return [];
    if (this.#bounds.allLate(now, turnaroundMs)) return this.sweepExpired(now);
    const isLate = (item: Item): boolean => latestStart(item, turnaroundMs) <= now;
    let othersHaveTime = false;
    for (const item of this.#items) othersHaveTime ||= !isLate(item);
    const late = this.#removeAll((item) => item.deadline <= now || (othersHaveTime && isLate(item)));
    this.#bounds.renew(this.#items, turnaroundMs);
    return late;
  }

  /** False only if no item arrived before `time`. */
  mayHaveOlder(time: number): boolean {
    return this.oldestAt < time || this.#alone > 0;
  }

  /** Removes and returns the items that arrived before `time`. */
  sweepOlder(time: number): Item[] {
    if (!this.mayHaveOlder(time)) return [];
    return this.#removeAll((item) => item.arrivedAt < time);
  }

  /** Who goes if one must: the oldest of its group, else of all; of the lowest priority in either case. */
  victim(group: number): Item | undefined {
    let oldest: Item | undefined;
    for (const item of this.#items.fromLowest()) {
      if (item.group === group) return item;
      if (!oldest || (item.priority === oldest.priority && item.arrivedAt < oldest.arrivedAt)) oldest = item;
    }
    return oldest;
  }

  /**
   * Lets an item in for one that goes. The only one of a group is replaced in its place: a group that sends often
   * would else always stand behind the others.
   */
  replace(victim: Item, item: Item): void {
    const inPlace = item.group !== 0 && victim.priority === item.priority && this.#isOnlyOf(item.group, victim);
    const node = inPlace && victim.state.tag === 'queued' ? this.#items.replace(victim.state.node, item) : null;
    if (node) {
      if (isAlone(victim)) this.#alone -= 1;
      if (isKnown(victim)) this.#known -= 1;
      if (isKnown(item)) this.#known += 1;
      victim.state = MOVING;
      item.state = { tag: 'queued', node, alone: false };
      this.#inOrder = false;
      this.#newestAt = item.arrivedAt;
      this.#bounds.note(item);
    } else {
      this.remove(victim);
      this.push(item);
    }
  }

  /** Takes the first item that is to run alone, passing over those that `mayLeave` holds back. */
  takeAlone(mayLeave: (item: Item) => boolean): Item | undefined {
    if (this.#alone === 0) return undefined;
    for (const item of this.#items) {
      if (!isAlone(item) || !mayLeave(item)) continue;
      this.remove(item);
      return item;
    }
    return undefined;
  }

  /** Takes up to `count` items that may share a batch, in order, passing over those that `mayLeave` holds back. */
  take(count: number, mayLeave: (item: Item) => boolean): Item[] {
    const taken: Item[] = [];
    let bytes = 0;
    for (const item of this.#items) {
      if (taken.length === count) break;
      if (isAlone(item) || isKnown(item) || !mayLeave(item)) continue;
      bytes += item.payload.bytes.byteLength;
      if (taken.length > 0 && bytes > FULL_BATCH_BYTES) break;
      this.remove(item);
      taken.push(item);
    }
    return taken;
  }

  /** Empties the queue. */
  drain(): Item[] {
    return this.#removeAll(() => true);
  }

  #unshift(item: Item, alone: boolean): void {
    // Two workers may have died in either order.
    this.#inOrder = false;
    if (alone) this.#alone += 1;
    item.state = { tag: 'queued', node: this.#items.unshift(item.priority, item), alone };
    this.#bounds.note(item);
  }

  #removeAll(which: (item: Item) => boolean): Item[] {
    const found = [...this.#items].filter(which);
    for (const item of found) this.remove(item);
    return found;
  }

  #isOnlyOf(group: number, item: Item): boolean {
    if (item.group !== group) return false;
    for (const other of this.#items) if (other.group === group && other !== item) return false;
    return true;
  }
}

/**
 * A stage's queue: by priority, then first in first out; removes items in constant time. Knows which items will be late.
 * The stage sweeps out items past their deadline before it reads counts or the oldest arrival.
 */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { Deadline } from '../../../core/clock.ts';
import type { ModeletError } from '../../../core/errors.ts';
import { type BatchCosts, BYTES_PER_MB, COST_IN_BYTES, NO_COST } from '../../../core/model.ts';
import { PriorityFifo } from '../../../core/queues/fifo.ts';
import { byteLengthOf } from '../../../wire/codec/chunks.ts';
import { type KeptStates, keepsStates } from '../keys/kept-states.ts';
import { KeyLanes } from '../keys/key-lanes.ts';
import { type BatchSource, takeFrom } from './batching.ts';
import { type Item, isAlone, MOVING } from './item.ts';
import { dropped, noCost, noKey, queueFull } from './stage-errors.ts';
import type { StageHost } from './stage-host.ts';

/** An item that a full queue refused or evicted, and the reason. */
interface SentAway {
  readonly item: Item;
  readonly error: ModeletError;
}

export class StageQueue implements Iterable<Item>, BatchSource {
  readonly #items: PriorityFifo<Item> = new PriorityFifo();
  /** Number of items that must run alone. */
  #alone = 0;
  #bytes = 0;
  #newestAt = 0;
  /** Whether the items of each priority are certainly in order of arrival. */
  #inOrder = true;
  readonly #bounds: LateBounds = new LateBounds();
  /** Null: the stage has no keys. */
  #keys: KeyLanes | null = null;
  #keyBy = '';
  /** What keeps the states of the keys; null: they end with the engine. */
  #kept: KeptStates | null = null;

  get keys(): KeyLanes | null {
    return this.#keys;
  }

  /** Orders the items by their keys, if the stage has keys. @param onDue see `KeyLanes` */
  orderFor(definition: StageDefinition, { clock, kept }: Pick<StageHost, 'clock' | 'kept'>, onDue: () => void): void {
    const { modelet } = definition;
    if (modelet.keyBy !== this.#keyBy) {
      this.#keyBy = modelet.keyBy;
      this.#keys?.stop();
      // Keys of another property have other states, even if they read the same.
      this.#keys = modelet.keyBy === '' ? null : new KeyLanes(clock, onDue, this);
      for (const item of this) this.#keys?.queued(item, false);
    }
    this.#keys?.redefine(definition);
    const keptBefore = this.#kept;
    this.#kept = keepsStates(definition) ? kept : null;
    if (!keptBefore && this.#kept) this.#keys?.restore(this.#kept.take(definition));
  }

  /** Keeps the states of the keys for the next engine. */
  keepStates(definition: StageDefinition): void {
    if (this.#keys) this.#kept?.keep(definition, this.#keys.states);
  }

  get length(): number {
    return this.#items.size;
  }

  /** Bytes of the payloads of all items. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether the queue takes one more item: it is full at a number of items, and at a number of bytes if it has one. */
  hasRoom({ capacity, queueMb }: Pick<StageDefinition, 'capacity' | 'queueMb'>): boolean {
    return this.length < capacity && (queueMb === 0 || this.#bytes < queueMb * BYTES_PER_MB);
  }

  /** Number of items that may share a batch: all but those that must run alone. */
  get batchable(): number {
    return this.length - this.#alone;
  }

  get hasAlone(): boolean {
    return this.#alone > 0;
  }

  get newestAt(): number {
    return this.#newestAt;
  }

  /** Earliest arrival among the items that need not run alone; 0 without such items. */
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
    item.passedBy = 0;
    this.#newestAt = item.arrivedAt;
    this.#noteQueued(item, false);
  }

  /**
   * Takes in an item, and returns the item that cannot stay, or null. At a route's entry a full queue refuses the item or
   * drops the oldest. Inside a route it drops the oldest, or the previous stage holds its items back. At an entry a patient
   * item is always queued: it comes when there is room, see admission-queue.ts, but for one of the listener, which has no
   * other place where it could wait.
   *
   * @param meanRunMs see `queueFull`
   */
  enter(
    item: Item,
    entry: boolean,
    definition: StageDefinition,
    meanRunMs: number,
    { router }: Pick<StageHost, 'router'>,
  ): SentAway | null {
    const { name, overflow } = definition;
    if (this.#keys && item.key === 0) return { item, error: noKey(definition) };
    const { costs } = definition.batching;
    if (costs && costs.by !== COST_IN_BYTES && item.cost === NO_COST) return { item, error: noCost(name, costs) };
    const drops = overflow === 'drop-oldest';
    const hasMemory = !entry || item.patient || (drops && this.length === 0) || router.memory.takes(item);
    if (hasMemory && (this.hasRoom(definition) || (entry ? item.patient : !drops))) {
      this.push(item);
      return null;
    }
    if (!drops) return { item, error: queueFull(definition, this.length, meanRunMs, hasMemory) };
    const victim = this.victim(item.group);
    if (!victim || victim.priority > item.priority) {
      return { item, error: dropped(name, 'the queue is full of more important ones') };
    }
    this.replace(victim, item);
    return { item: victim, error: dropped(name, 'a newer one came and the queue was full') };
  }

  /**
   * Puts items back before all others of their priority; expects `items` in the order they were taken.
   *
   * @param alone whether each item must run alone, because a worker died that may have begun it, or its batch failed
   */
  putBack(items: readonly Item[], alone: boolean = false): void {
    for (const item of items.toReversed()) {
      // Two workers may have died in either order, so their items may come back out of order.
      this.#inOrder = false;
      if (alone) this.#alone += 1;
      item.state = { tag: 'queued', node: this.#items.unshift(item.priority, item), alone };
      this.#noteQueued(item, true);
    }
  }

  /** Iterates in the order of leaving. The caller may remove the item just yielded. */
  [Symbol.iterator](): Iterator<Item> {
    return this.#items[Symbol.iterator]();
  }

  remove(item: Item): boolean {
    if (item.state.tag !== 'queued' || !this.#items.remove(item.state.node)) return false;
    this.#noteGone(item);
    return true;
  }

  /** Removes and returns the items whose deadline has passed. */
  sweepExpired(now: number): Item[] {
    if (this.#bounds.noneExpired(now)) return [];
    const expired = this.#removeAll((item) => item.deadline <= now);
    this.#bounds.renew(this.#items);
    return expired;
  }

  /**
   * Removes and returns the items whose deadline has passed. If other items have enough time, also removes the items
   * that would probably be answered too late: under overload, first in first out would answer every item too late.
   *
   * @param turnaroundMs how long an answer takes; 0 if not known
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

  /** Removes and returns the items that arrived before `time`. */
  sweepOlder(time: number): Item[] {
    if (this.oldestAt >= time && this.#alone === 0) return [];
    return this.#removeAll((item) => item.arrivedAt < time);
  }

  /** Removes and returns the items that have waited for longer than the stage allows. */
  sweepAged({ name, maxAgeMs }: StageDefinition, now: number): SentAway[] {
    const aged = maxAgeMs === 0 ? [] : this.sweepOlder(now - maxAgeMs);
    return aged.map((item) => ({ item, error: dropped(name, `older than ${maxAgeMs} ms`) }));
  }

  /** Returns the item to evict: the oldest of the lowest priority, in the group or, if that is empty, in the queue. */
  victim(group: number): Item | undefined {
    let oldest: Item | undefined;
    for (const item of this.#items.fromLowest()) {
      if (item.group === group) return item;
      if (!oldest || (item.priority === oldest.priority && item.arrivedAt < oldest.arrivedAt)) oldest = item;
    }
    return oldest;
  }

  /**
   * Evicts `victim` and queues `item`. If `victim` is the only item of its group, `item` takes its place in the queue:
   * otherwise a group that sends often would always stand behind the others.
   */
  replace(victim: Item, item: Item): void {
    const inPlace = item.group !== 0 && victim.priority === item.priority && this.#isOnlyOf(item.group, victim);
    const node = inPlace && victim.state.tag === 'queued' ? this.#items.replace(victim.state.node, item) : null;
    if (node) {
      this.#noteGone(victim);
      item.state = { tag: 'queued', node, alone: false };
      this.#inOrder = false;
      this.#newestAt = item.arrivedAt;
      this.#noteQueued(item, false);
    } else {
      this.remove(victim);
      this.push(item);
    }
  }

  /** Takes the first item that must run alone and that `claim` gets for a worker. `claim` may remove another item. */
  takeAlone(claim: (item: Item) => boolean): Item | undefined {
    if (this.#alone === 0) return undefined;
    for (const item of this.#items) {
      if (!isAlone(item) || !claim(item)) continue;
      this.remove(item);
      return item;
    }
    return undefined;
  }

  /** Takes up to `count` items that may share a batch and that `claim` gets, in order; see `takeAlone`. */
  take(count: number, claim: (item: Item) => boolean, costs?: BatchCosts): Item[] {
    return takeFrom(this.#items, { count, costs, claim }, (item) => this.remove(item));
  }

  drain(): Item[] {
    return this.#removeAll(() => true);
  }

  #removeAll(which: (item: Item) => boolean): Item[] {
    const found = [...this.#items].filter(which);
    for (const item of found) this.remove(item);
    return found;
  }

  /** @param first whether the item goes before the others of its key */
  #noteQueued(item: Item, first: boolean): void {
    this.#bytes += byteLengthOf(item.payload);
    this.#bounds.note(item);
    this.#keys?.queued(item, first);
  }

  #noteGone(item: Item): void {
    this.#bytes -= byteLengthOf(item.payload);
    if (isAlone(item)) this.#alone -= 1;
    item.state = MOVING;
    this.#keys?.gone(item);
  }

  #isOnlyOf(group: number, item: Item): boolean {
    if (item.group !== group) return false;
    for (const other of this.#items) if (other.group === group && other !== item) return false;
    return true;
  }
}

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
function latestStart({ arrivedAt, deadline }: TimedItem, turnaroundMs: number): number {
  if (deadline === Number.POSITIVE_INFINITY) return deadline;
  const whole = Math.max(deadline - arrivedAt, 0);
  return deadline - RESERVED * whole - Math.min(turnaroundMs, MOST_EXPECTED * whole);
}

/** Bounds on when the items of a queue become late, so that most sweeps for late items need not visit every item. */
class LateBounds {
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

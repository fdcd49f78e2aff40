/**
 * Batches by the cost of their items: tokens, pixels, seconds of sound. A batch costs at most what its stage allows; an
 * item that costs more runs alone.
 *
 * A model that fills up the items of a batch to the longest computes as if all were as long. Its batches prefer items of
 * similar cost: the first item of the queue leads, and of the next ones those join that are nearest to it in cost. No item
 * starves, because the first always leads, and because no younger item joins before an item that several batches have passed by.
 */
import { type BatchCosts, COST_IN_BYTES } from '../../../core/model.ts';
import { byteLengthOf } from '../../../wire/codec/chunks.ts';

/** An item as far as its place in a batch depends on it. */
export interface Costly {
  readonly cost: number;
  readonly priority: number;
  readonly payload: Parameters<typeof byteLengthOf>[0];
  /** How many batches have taken younger items, of a cost that fitted better. */
  passedBy: number;
}

/** From how many items a batch chooses, for each that it may have, and at least. */
const LOOK_AHEAD = { perItem: 4, least: 64 } as const;
/**
 * Number of batches after which an item that they passed by goes before its neighbours. Twice the look-ahead: with four, most
 * items of a long queue would go in order, and batches of texts would be half padding; with more, nothing is gained.
 */
export const MOST_PASSED_BY = 8;

/** Returns the cost of an item. An item that came before its stage counted costs may have none. */
function costOf({ cost, payload }: Costly, by: string): number {
  return by === COST_IN_BYTES ? byteLengthOf(payload) : Math.max(cost, 0);
}

/** The items of a batch, as far as they matter for its cost. */
class Weight {
  readonly #costs: BatchCosts;
  count = 0;
  #sum = 0;
  #longest = 0;

  constructor(costs: BatchCosts) {
    this.#costs = costs;
  }

  /** Returns the cost of the batch with another item. */
  with(item: Costly): number {
    const cost = costOf(item, this.#costs.by);
    return this.#costs.padded ? (this.count + 1) * Math.max(this.#longest, cost) : this.#sum + cost;
  }

  /** Whether another item fits. The first always does. */
  fits(item: Costly): boolean {
    return this.count === 0 || this.#costs.most === 0 || this.with(item) <= this.#costs.most;
  }

  /** Returns how far an item is from the longest of the batch: 0 for equal costs, the same for half and for double. */
  distanceOf(item: Costly): number {
    return Math.abs(Math.log((costOf(item, this.#costs.by) + 1) / (this.#longest + 1)));
  }

  add(item: Costly): void {
    const cost = costOf(item, this.#costs.by);
    this.count += 1;
    this.#sum += cost;
    this.#longest = Math.max(this.#longest, cost);
  }
}

/** Whether some of these items cost as much together as a batch may, so that it need not wait for more. */
export function areFull(items: Iterable<Costly>, costs: BatchCosts): boolean {
  if (costs.most === 0) return false;
  const weight = new Weight(costs);
  for (const item of items) {
    if (weight.with(item) >= costs.most) return true;
    weight.add(item);
  }
  return false;
}

/**
 * Chooses the items of the next batch.
 * @param waiting in the order of the queue
 * @param count most items
 * @param join takes an item into the batch; returns false if it cannot leave now
 */
export function chooseByCost<T extends Costly>(
  waiting: Iterable<T>,
  count: number,
  costs: BatchCosts,
  join: (item: T) => boolean,
): void {
  const weight = new Weight(costs);
  const next: T[] = [];
  const ahead = Math.max(LOOK_AHEAD.least, LOOK_AHEAD.perItem * count);
  for (const item of waiting) {
    if (weight.count === count || next.length === ahead) break;
    if (costs.padded && weight.count > 0) {
      next.push(item);
      continue;
    }
    // In order: a batch that took a smaller item behind this one would make it wait longer.
    if (!weight.fits(item)) break;
    if (join(item)) weight.add(item);
  }
  joinNearest(next, weight, count, join);
}

/** An item that may join a batch. */
interface Neighbour<T extends Costly> {
  readonly item: T;
  /** Its place in the queue. */
  readonly place: number;
  /** See `Weight.distanceOf`. */
  readonly distance: number;
  joined: boolean;
}

/** Lets items join that are near to the first, which has joined. @param next in the order of the queue */
function joinNearest<T extends Costly>(
  next: readonly T[],
  weight: Weight,
  count: number,
  join: (item: T) => boolean,
): void {
  const neighbours = next.map((item, place) => ({ item, place, distance: weight.distanceOf(item), joined: false }));
  let [leastPriority, lastPlace] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (const neighbour of neighbours.toSorted(byPreference)) {
    const { item, place } = neighbour;
    if (weight.count === count || item.priority < leastPriority) break;
    if (place > lastPlace) continue;
    if (weight.fits(item)) {
      neighbour.joined = join(item);
      if (neighbour.joined) weight.add(item);
      continue;
    }
    // No less important item goes before it, and if it is due, no younger one.
    leastPriority = item.priority;
    if (isDue(item)) lastPlace = Math.min(lastPlace, place);
  }
  notePassed(neighbours);
}

function byPreference(one: Neighbour<Costly>, other: Neighbour<Costly>): number {
  const [oneDue, otherDue] = [isDue(one.item), isDue(other.item)];
  if (one.item.priority !== other.item.priority) return other.item.priority - one.item.priority;
  if (oneDue !== otherDue) return oneDue ? -1 : 1;
  return (oneDue ? 0 : one.distance - other.distance) || one.place - other.place;
}

function notePassed(neighbours: readonly Neighbour<Costly>[]): void {
  const youngest = neighbours.findLastIndex(({ joined }) => joined);
  for (const { item, place, joined } of neighbours) if (!joined && place < youngest) item.passedBy += 1;
}

function isDue({ passedBy }: Costly): boolean {
  return passedBy >= MOST_PASSED_BY;
}

/**
 * Takes the list that a stage has made apart: each item passes the next stages by itself, and their results become one
 * value again, in the order of the items.
 *
 * Only as many items of a list are on their way as the workers of the stages can run at a time, and no more than one beyond
 * what the queues take. Another request that comes then waits for one batch, however long or large the list is.
 */
import type { Timer } from '../../../core/clock.ts';
import { asModeletError, ModeletError, prefixed } from '../../../core/errors.ts';
import type { Payload } from '../../../core/model.ts';
import type { BranchOutcome, ListTerms } from '../../../core/routes/gather.ts';
import { byteLengthOf } from '../../../wire/codec/chunks.ts';
import { CODEC, itemsOf, joinItems, joinPayloads } from '../../../wire/codec/codec.ts';
import { decodeFailure } from '../../../wire/frames/failures.ts';
import { type Branches, type Item, itemOn, type LiveFork, type LiveLeg, MOVING, nextStage } from '../stage/item.ts';
import { type ForksHost, gatherReport, latestGather } from './forks.ts';

const NULL: Payload = { codec: CODEC.json, bytes: Buffer.from('null') };

/** Most items that a report names. */
const MOST_NAMED = 100;

/** Sends the items of a list through the only branch of a fork. */
export function eachItem(item: Item, at: LiveFork, list: ListTerms, host: ForksHost): void {
  const open = new OpenList(item, at, list, host);
  item.state = { tag: 'forked', branches: open };
  open.begin();
}

/** Returns the list that a stage has made as it goes on: as any other array, unless it is taken apart there. */
export function asItGoesOn(item: Item, list: Payload): Payload {
  const { next, route } = item.leg;
  const isTakenApart = next ? next.kind === 'fork' && next.terms.list : route.forEngine;
  if (!nextStage(item) && isTakenApart) return list;
  // The worker has checked its size.
  return joinItems(itemsOf(list), { blame: 'modelet_failed', maxBytes: Number.POSITIVE_INFINITY });
}

/** An item that has passed its stages, or has failed on the way. */
interface Ended {
  readonly item: Item;
  readonly payload: Payload;
  readonly error: ModeletError | null;
}

type FailedItem = readonly [index: number, error: ModeletError];

class OpenList implements Branches {
  readonly #item: Item;
  readonly #fork: LiveFork;
  readonly #terms: ListTerms;
  readonly #host: ForksHost;
  #items: readonly Payload[] = [];
  /** Indices of the items that are on their way. */
  readonly #open: Map<Item, number> = new Map();
  readonly #ended: Map<number, Ended> = new Map();
  #begun = 0;
  /** Bytes of the results that have come. */
  #bytes = 0;
  #isBeginning = false;
  #isWanted = true;
  #timer: Timer | null = null;

  constructor(item: Item, at: LiveFork, terms: ListTerms, host: ForksHost) {
    this.#item = item;
    this.#fork = at;
    this.#terms = terms;
    this.#host = host;
  }

  begin(): void {
    this.#host.onGathering(this.#fork.gather, 1);
    const { maxItems } = this.#terms;
    try {
      this.#items = itemsOf(this.#item.payload);
      const count = this.#items.length;
      if (count > maxItems)
        throw new ModeletError('modelet_failed', `the list has ${count} items; the limit is ${maxItems} items`);
    } catch (thrown) {
      this.#settle(asModeletError(thrown, 'modelet_failed'));
      return;
    }
    if (this.#items.length === 0) this.#settle(null);
    else this.#fill();
  }

  came(branch: Item, payload: Payload, error: ModeletError | null): void {
    const index = this.#open.get(branch);
    this.#open.delete(branch);
    // The value of a failed item is not needed any more, and that of any other counts until all have come.
    if (index === undefined || !this.#isWanted || error) this.#host.release(branch);
    if (index === undefined || !this.#isWanted) return;
    this.#ended.set(index, { item: branch, payload, error });
    if (!error) this.#bytes += byteLengthOf(payload);
    if (this.#bytes > this.#host.maxPayloadBytes) {
      this.#settle(this.#tooLarge());
    } else if (error && this.#fork.terms.partial === 'error') {
      this.#settle(this.#failed([[index, error]]));
    } else if (this.#ended.size === this.#items.length) {
      const failures = this.#failures();
      this.#settle(failures.length === this.#items.length ? this.#failed(failures) : null);
    } else {
      this.#timer ??= this.#host.clock.at(latestGather(this.#host.clock, this.#fork, this.#item), () => this.#expire());
      this.#fill();
    }
  }

  drop(): void {
    if (this.#isWanted) this.#host.onGathering(this.#fork.gather, -1);
    this.#isWanted = false;
    this.#timer?.cancel();
    for (const branch of this.#open.keys()) this.#host.drop(branch);
    this.#open.clear();
    for (const { item, error } of this.#ended.values()) if (!error) this.#host.release(item);
  }

  /** Begins items while there is room for them. An item may end at once: not in here, but in the loop that is running. */
  #fill(): void {
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    const leg = this.#fork.branches[0] as LiveLeg;
    const most = placesOn(leg);
    while (this.#isWanted && this.#begun < this.#items.length && this.#open.size < most) {
      // One always goes, and its end lets the next ones go.
      if (this.#open.size > 0 && isFull(leg)) break;
      const branch = itemOn(leg, this.#item, this.#host.nextNumber(), this.#item);
      branch.payload = this.#items[this.#begun] as Payload;
      this.#open.set(branch, this.#begun);
      this.#begun += 1;
      this.#host.begin(branch, leg);
    }
    this.#isBeginning = false;
  }

  #expire(): void {
    const results = this.#ended.size - this.#failures().length;
    const text = `${results} of ${this.#items.length} results came in time`;
    const isEnough = this.#fork.terms.partial === 'keep' && results > 0;
    this.#settle(isEnough ? null : new ModeletError('deadline_exceeded', text));
  }

  #settle(error: ModeletError | null): void {
    this.drop();
    this.#item.state = MOVING;
    const at = { node: this.#fork.gather, failed: error !== null };
    this.#item.gathered = gatherReport(this.#item, at, this.#outcomes(), this.#slowest());
    try {
      if (error) throw error;
      this.#host.gathered(this.#item, this.#fork, this.#value());
    } catch (thrown) {
      const [failed] = [...this.#ended.values()].filter((ended) => ended.error);
      const input = error && failed ? decodeFailure(failed.payload).input : null;
      this.#host.failed(this.#item, asModeletError(thrown, 'modelet_failed'), input);
    }
  }

  /** @throws ModeletError if the results are too large together */
  #value(): Payload {
    const options = { blame: 'invalid_input', maxBytes: this.#host.maxPayloadBytes } as const;
    const values = this.#items.map((item, index) => {
      const ended = this.#ended.get(index);
      const result = ended && !ended.error ? ended.payload : NULL;
      if (this.#terms.form === 'results') return result;
      return joinPayloads(
        [
          ['item', item],
          ['result', result],
        ],
        options,
      );
    });
    return joinItems(values, options);
  }

  #tooLarge(): ModeletError {
    const results = `the results of ${this.#ended.size} of ${this.#items.length} items have ${this.#bytes} bytes`;
    return new ModeletError('payload_too_large', `${results}; the limit is ${this.#host.maxPayloadBytes} bytes`);
  }

  /** Returns the item that took longest; none if none has ended. */
  #slowest(): Item[] {
    let slowest: Item | null = null;
    for (const { item } of this.#ended.values()) if (!slowest || timeOf(item) > timeOf(slowest)) slowest = item;
    return slowest ? [slowest] : [];
  }

  #failures(): FailedItem[] {
    return [...this.#ended].flatMap(([index, { error }]) => (error ? [[index, error] as const] : [])).sort(byIndex);
  }

  #failed([first, ...others]: readonly FailedItem[]): ModeletError {
    const [index, error] = first as FailedItem;
    const all = others.length === 0 ? '' : ` (${others.length + 1} of ${this.#items.length} items failed)`;
    return prefixed(`item ${index}`, error, all);
  }

  /** Returns what became of the items that have no result, by index. */
  #outcomes(): Record<string, BranchOutcome> {
    const late: BranchOutcome = { ok: false, code: 'deadline_exceeded', message: 'no result came in time' };
    const named: Record<string, BranchOutcome> = {};
    let count = 0;
    for (const index of this.#items.keys()) {
      const ended = this.#ended.get(index);
      if (ended && !ended.error) continue;
      named[index] = ended?.error ? { ok: false, code: ended.error.code, message: ended.error.message } : late;
      count += 1;
      if (count === MOST_NAMED) break;
    }
    return named;
  }
}

/** Returns how many items the workers of the stages on a leg run at a time. */
function placesOn({ stages, next }: LiveLeg): number {
  const here = stages.reduce((sum, { places }) => sum + places, 0);
  const behind = next === null ? [] : next.kind === 'choice' ? next.ways : [...next.branches, next.after];
  return Math.max(
    1,
    behind.reduce((sum, leg) => sum + placesOn(leg), here),
  );
}

/** Whether a queue in which an item begins a leg has no room. A stage that drops its oldest items always has. */
function isFull({ stages: [first], following }: LiveLeg): boolean {
  return (first ? [first] : following).some(({ holdsBack }) => holdsBack);
}

function byIndex([a]: readonly [number, unknown], [b]: readonly [number, unknown]): number {
  return a - b;
}

function timeOf({ timings }: Item): number {
  return timings.reduce((sum, { waitMs, batchMs, runMs }) => sum + waitMs + batchMs + runMs, 0);
}

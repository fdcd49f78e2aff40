/** Forms a stage's batches from its queue: decides by the stage's policy when a batch leaves, and which items it has. */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { Clock, Deadline, Timer } from '../../../core/clock.ts';
import type { AdaptiveStatus, BatchCosts, Batching } from '../../../core/model.ts';
import { Adaptive, type AdaptiveStage } from '../../../core/queues/adaptive.ts';
import { type BatchDecision, decideBatch, type QueueView } from '../../../core/queues/batch-policy.ts';
import type { BatchReason } from '../../../core/readings.ts';
import { byteLengthOf } from '../../../wire/codec/chunks.ts';
import type { Room } from '../pools/pool.ts';
import { areFull, chooseByCost } from './batch-costs.ts';
import { type Item, isAlone } from './item.ts';

/** Payload bytes at which a batch is full at any count: it must fit into a frame and into two processes' memory. */
const FULL_BATCH_BYTES = 256 * 1024 * 1024;

/** The items that a batch may have, in the order of the queue, and others that must run alone. */
export interface BatchSource extends Pick<QueueView, 'oldestAt' | 'newestAt'>, Iterable<Item> {
  readonly batchable: number;
  /** Takes up to `count` items that `claim` gets for a worker, in order. `claim` may remove another item. */
  take(count: number, claim: (item: Item) => boolean, costs?: BatchCosts): Item[];
}

/** Which items a batch takes. */
interface BatchWish {
  /** Most items. */
  readonly count: number;
  readonly costs: BatchCosts | undefined;
  /** Gets an item for a worker. */
  claim(item: Item): boolean;
}

/** Takes items that may share a batch; `remove` must take an item out of `items`. */
export function takeFrom(
  items: Iterable<Item>,
  { count, costs, claim }: BatchWish,
  remove: (item: Item) => void,
): Item[] {
  const taken: Item[] = [];
  let bytes = 0;
  const hasRoom = ({ payload }: Item): boolean =>
    taken.length === 0 || bytes + byteLengthOf(payload) <= FULL_BATCH_BYTES;
  const join = (item: Item): boolean => {
    if (!claim(item)) return false;
    bytes += byteLengthOf(item.payload);
    remove(item);
    taken.push(item);
    return true;
  };
  if (costs) {
    // An item that was claimed before may have taken another one into its run.
    const isThere = ({ state }: Item): boolean => state.tag === 'queued';
    chooseByCost(batchableOf(items), count, costs, (item) => isThere(item) && hasRoom(item) && join(item));
    return taken;
  }
  for (const item of items) {
    if (taken.length === count) break;
    if (isAlone(item)) continue;
    // Asked before `claim`: a claimed item must be taken.
    if (!hasRoom(item)) break;
    join(item);
  }
  return taken;
}

function* batchableOf(items: Iterable<Item>): Iterable<Item> {
  for (const item of items) if (!isAlone(item)) yield item;
}

function* both(taken: Iterable<Item>, waiting: Iterable<Item>): Iterable<Item> {
  yield* taken;
  yield* batchableOf(waiting);
}

/** The items that go to a worker now, and the reason. */
export interface TakenItems {
  readonly items: readonly Item[];
  readonly reason: BatchReason;
}

const NOTHING_LEAVES: TakenItems = { items: [], reason: 'idle' };

/** Also schedules the next look at the queue. */
export class BatchFormer {
  readonly #queue: Pick<BatchSource, 'batchable'>;
  readonly #clock: Clock;
  readonly #onDue: () => void;
  readonly #adaptive: Adaptive;
  /** Fires when the filling batch leaves. */
  #timer: Timer | null = null;
  #leavesAt: Deadline | null = null;
  /** Number of waiting items that leave at once, regardless of the policy. */
  #flushing = 0;
  /** Time since which a worker has been free; null if none is. */
  #freeSince: number | null = null;

  /**
   * @param onDue called when a filling batch need not wait any longer for more items
   * @param stage of which the policy `adaptive` asks the number of places, and to which it says its choices
   */
  constructor(queue: Pick<BatchSource, 'batchable'>, clock: Clock, onDue: () => void, stage: AdaptiveStage) {
    this.#queue = queue;
    this.#clock = clock;
    this.#onDue = onDue;
    this.#adaptive = new Adaptive(stage);
  }

  /** Time at which the filling batch leaves; null if no batch is filling. */
  get leavesAt(): Deadline | null {
    return this.#leavesAt;
  }

  /** Time since which a worker has been free. */
  get freeSince(): number {
    return this.#freeSince ?? this.#clock.now();
  }

  /** Notes whether a worker is free. */
  noteFree(free: boolean): void {
    if (!free) this.#freeSince = null;
    else this.#freeSince ??= this.#clock.now();
  }

  /** Lets all items that wait now leave at once, however small the batch. */
  flush(): void {
    this.#flushing = this.#queue.batchable;
  }

  /** Cancels the fill timer and shrinks the flush quota to the queue's length. Call after any queue change. */
  renew(): void {
    this.stop();
    this.#flushing = Math.min(this.#flushing, this.#queue.batchable);
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#leavesAt = null;
  }

  /** Notes the run of a batch. @param ms with its way to the worker and back */
  ran({ policy }: Batching, items: number, ms: number): void {
    if (policy === 'adaptive') this.#adaptive.ran(items, ms);
  }

  /** Forgets what runs cost. Call when other code runs. */
  forget(): void {
    this.#adaptive.forget();
  }

  /** What the policy `adaptive` does; nothing under another one. */
  statusFor({ policy }: Batching): { readonly adaptive?: AdaptiveStatus } {
    const { status } = this.#adaptive;
    return policy === 'adaptive' && status ? { adaptive: status } : {};
  }

  /**
   * Whether the next batch may go ahead to a busy worker. It cannot be taken back, so it must be full: no later item
   * could have joined it. None goes ahead if the stage drops its oldest items. While an item waits that must run alone,
   * only empty workers get batches: otherwise no worker might ever be empty.
   * @param ahead number of single items that may wait in a worker; larger batches give it enough to do one by one
   */
  roomFor({ batching, overflow, modelet }: StageDefinition, hasAlone: boolean, ahead: number): Room {
    if (hasAlone) return 'empty';
    const { maxBatchSize } = this.#ruleOf(batching);
    if (ahead === 0 || this.#queue.batchable < maxBatchSize || overflow === 'drop-oldest') return 'place';
    return maxBatchSize === 1 && modelet.concurrency === 1 ? ahead : 1;
  }

  #ruleOf(batching: Batching): Batching {
    if (batching.policy !== 'adaptive') return batching;
    return this.#adaptive.ruleFor(batching, this.#clock.now());
  }

  /** Takes the items that leave together now; sets the fill timer if they must wait for more. */
  take(queue: BatchSource, batching: Batching, claim: (item: Item) => boolean): TakenItems {
    if (queue.batchable === 0) return NOTHING_LEAVES;
    const { costs, policy } = batching;
    const decision = this.#decide(queue, this.#ruleOf(batching));
    if (!decision.go) {
      this.#wakeAt(decision.until);
      return NOTHING_LEAVES;
    }
    const items = queue.take(decision.size, claim, costs);
    this.#flushing = Math.max(0, this.#flushing - items.length);
    if (policy === 'adaptive') this.#adaptive.left(items.map(({ arrivedAt }) => arrivedAt));
    const isFull = costs && items.length < decision.size && areFull(both(items, queue), costs);
    return { items, reason: isFull ? 'full' : decision.reason };
  }

  #decide(queue: BatchSource, batching: Batching): BatchDecision {
    const { batchable: length } = queue;
    const flushed = Math.min(this.#flushing, batching.maxBatchSize);
    if (flushed > 0) return { go: true, size: flushed, reason: 'idle' };
    const view: QueueView = {
      length,
      freeSince: this.freeSince,
      // Read only while fewer items wait than make a batch: a keyed queue looks at them all.
      get oldestAt() {
        return queue.oldestAt;
      },
      get newestAt() {
        return queue.newestAt;
      },
    };
    const decision = decideBatch(batching, view, this.#clock.now());
    const isFull = !decision.go && batching.costs && areFull(batchableOf(queue), batching.costs);
    return isFull ? { go: true, size: length, reason: 'full' } : decision;
  }

  /** Several batches may fill at a time in a keyed stage: the first to leave counts. */
  #wakeAt(due: Deadline): void {
    if (this.#leavesAt !== null && this.#leavesAt <= due) return;
    this.stop();
    this.#leavesAt = due;
    this.#timer = this.#clock.at(due, this.#onDue);
  }
}

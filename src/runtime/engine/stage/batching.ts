/**
 * Forms a stage's batches from its queue: decides by the stage's policy when a batch leaves, and which items it has. Keeps
 * what the last batches tell: run times for planning, sizes for display, and an input to test the stage with.
 */
import type { Clock, Deadline, Timer } from '../../../core/clock.ts';
import type { BatchCosts, Batching, Payload } from '../../../core/model.ts';
import type { BatchReason } from '../../../core/readings.ts';
import { Growth } from '../routes/memory.ts';
import { areFull, chooseByCost } from './batch-costs.ts';
import { type Item, isAlone } from './item.ts';

/** The facts that a policy decides by. Times are on the engine's clock. */
export interface QueueView {
  readonly length: number;
  /** Arrival of the item that has waited longest. */
  readonly oldestAt: number;
  /** Arrival of the item that came last. */
  readonly newestAt: number;
  /** Time at which the free worker became free. */
  readonly freeSince: number;
}

export type BatchDecision =
  | { readonly go: true; readonly size: number; readonly reason: BatchReason }
  | { readonly go: false; readonly until: Deadline };

const NOTHING_TO_DO: BatchDecision = { go: false, until: Number.POSITIVE_INFINITY };

/**
 * Decides when a batch leaves. Pure: maps the queue, the settings and the time to "go now" or "wait until".
 * Call only while a worker is free. A full batch leaves at once under every policy.
 */
export function decideBatch(batching: Batching, queue: QueueView, now: number): BatchDecision {
  const { policy, maxBatchSize, maxWaitMs } = batching;
  if (queue.length === 0) return NOTHING_TO_DO;
  if (queue.length >= maxBatchSize) return { go: true, size: maxBatchSize, reason: 'full' };
  switch (policy) {
    case 'greedy':
      return { go: true, size: queue.length, reason: 'idle' };
    case 'oldest':
      return leaveAt(queue.oldestAt + maxWaitMs, queue, now, 'timer');
    case 'gap':
      return decideByGap(maxWaitMs, queue, now);
  }
}

/**
 * Seed 000: a worker that waited longer than `maxWaitMs` for the first item takes the whole queue at once. Otherwise it
 * waits up to `maxWaitMs` for each further item.
 */
function decideByGap(maxWaitMs: number, queue: QueueView, now: number): BatchDecision {
  if (queue.oldestAt - queue.freeSince > maxWaitMs) return { go: true, size: queue.length, reason: 'idle' };
  return leaveAt(Math.max(queue.newestAt, queue.freeSince) + maxWaitMs, queue, now, 'gap');
}

function leaveAt(at: Deadline, queue: QueueView, now: number, reason: BatchReason): BatchDecision {
  return now >= at ? { go: true, size: queue.length, reason } : { go: false, until: at };
}

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
    taken.length === 0 || bytes + payload.bytes.byteLength <= FULL_BATCH_BYTES;
  const join = (item: Item): boolean => {
    if (!claim(item)) return false;
    bytes += item.payload.bytes.byteLength;
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
  /** Fires when the filling batch leaves. */
  #timer: Timer | null = null;
  #leavesAt: Deadline | null = null;
  /** Number of waiting items that leave at once, regardless of the policy. */
  #flushing = 0;
  /** Time since which a worker has been free; null if none is. */
  #freeSince: number | null = null;

  /** @param onDue called when a filling batch need not wait any longer for more items */
  constructor(queue: Pick<BatchSource, 'batchable'>, clock: Clock, onDue: () => void) {
    this.#queue = queue;
    this.#clock = clock;
    this.#onDue = onDue;
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

  /** Takes the items that leave together now; sets the fill timer if they must wait for more. */
  take(queue: BatchSource, batching: Batching, claim: (item: Item) => boolean): TakenItems {
    if (queue.batchable === 0) return NOTHING_LEAVES;
    const { costs } = batching;
    const decision = this.#decide(queue, batching);
    if (!decision.go) {
      this.#wakeAt(decision.until);
      return NOTHING_LEAVES;
    }
    const items = queue.take(decision.size, claim, costs);
    this.#flushing = Math.max(0, this.#flushing - items.length);
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

const SMOOTHING = 0.2;
/** A busy worker gets a second batch only if runs are shorter than this: no other worker can take that batch over. */
const SHORT_RUN_MS = 4;
/** Number of mean deviations above the mean that still count as usual; RFC 6298's rule for a timeout. */
const USUAL_DEVIATIONS = 4;
/** Upper bound of "usual" as a multiple of the mean: a few slow batches say little about the next. */
const USUAL_MEANS = 2;
/** An input is copied after this pause, in ms, and up to this size, so that the copies cost nothing to speak of. */
const INPUT = { pauseMs: 100, mostBytes: 65_536 } as const;

/** A stage's last batches. */
export class RecentBatches {
  /** How much larger its results are than their inputs. */
  readonly growth: Growth = new Growth();
  #meanRunMs: number | null = null;
  #turnaround = { mean: 0, deviation: 0 };
  #shown = { batches: 0, items: 0, mean: 0 };
  #input: { readonly payload: Payload; readonly at: number } | null = null;

  /** A copy of the last input; null before the first, and while all have been large. */
  get lastInput(): Payload | null {
    return this.#input?.payload ?? null;
  }

  /** Smoothed mean run time; null before the first reply. */
  get meanRunMs(): number | null {
    return this.#meanRunMs;
  }

  /** Whether runs are short enough to send batches ahead; false before the first reply. */
  get areShort(): boolean {
    return this.#meanRunMs !== null && this.#meanRunMs < SHORT_RUN_MS;
  }

  /** Time within which nearly every batch is answered, estimated from the last batches; 0 before the first reply. */
  get usualTurnaroundMs(): number {
    const { mean, deviation } = this.#turnaround;
    return Math.min(mean + USUAL_DEVIATIONS * deviation, USUAL_MEANS * mean);
  }

  /** Takes the last input of a batch. A copy, because the payload lies in a frame that must not be kept. */
  noteInput({ codec, bytes }: Payload, now: number): void {
    if (bytes.byteLength > INPUT.mostBytes || (this.#input && now - this.#input.at < INPUT.pauseMs)) return;
    this.#input = { payload: { codec, bytes: new Uint8Array(bytes) }, at: now };
  }

  /** @param turnaroundMs from leaving to the reply: the run, transit both ways, and the wait of a batch sent ahead */
  ran(runMs: number, turnaroundMs: number): void {
    const { mean, deviation } = this.#meanRunMs === null ? { mean: turnaroundMs, deviation: 0 } : this.#turnaround;
    const off = turnaroundMs - mean;
    this.#turnaround = {
      mean: mean + SMOOTHING * off,
      deviation: deviation + SMOOTHING * (Math.abs(off) - deviation),
    };
    this.#meanRunMs = this.#meanRunMs === null ? runMs : this.#meanRunMs + SMOOTHING * (runMs - this.#meanRunMs);
  }

  /** Returns the mean batch size since the last call, or the previous mean if no batch ran; takes running totals. */
  meanSize(batches: number, items: number): number {
    const recent = batches - this.#shown.batches;
    if (recent > 0) this.#shown = { batches, items, mean: (items - this.#shown.items) / recent };
    return this.#shown.mean;
  }
}

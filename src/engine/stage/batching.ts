/** Forms a stage's batches from its queue: decides by the stage's policy when a batch leaves, and which items it has. */
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import type { Batching } from '../../core/model.ts';
import type { BatchReason } from '../../core/readings.ts';
import type { Item } from './item.ts';
import type { StageQueue } from './stage-queue.ts';

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

/** The items that go to a worker now, and the reason. */
export interface TakenItems {
  readonly items: readonly Item[];
  readonly reason: BatchReason;
}

const NOTHING_LEAVES: TakenItems = { items: [], reason: 'idle' };

/** Also schedules the next look at the queue. */
export class BatchFormer {
  readonly #queue: StageQueue;
  readonly #clock: Clock;
  readonly #onDue: () => void;
  /** Fires when the filling batch leaves. */
  #timer: Timer | null = null;
  #leavesAt: Deadline | null = null;
  /** Number of waiting items that leave at once, regardless of the policy. */
  #flushing = 0;

  /** @param onDue called when a filling batch need not wait any longer for more items */
  constructor(queue: StageQueue, clock: Clock, onDue: () => void) {
    this.#queue = queue;
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** Time at which the filling batch leaves; null if no batch is filling. */
  get leavesAt(): Deadline | null {
    return this.#leavesAt;
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
  take(batching: Batching, freeSince: number, claim: (item: Item) => boolean): TakenItems {
    const queue = this.#queue;
    if (queue.batchable === 0) return NOTHING_LEAVES;
    const { batchable: length, oldestAt, newestAt } = queue;
    const flushed = Math.min(this.#flushing, batching.maxBatchSize);
    const decision =
      flushed > 0
        ? ({ go: true, size: flushed, reason: 'idle' } as const)
        : decideBatch(batching, { length, oldestAt, newestAt, freeSince }, this.#clock.now());
    if (!decision.go) {
      this.#leavesAt = decision.until;
      this.#timer = this.#clock.at(decision.until, this.#onDue);
      return NOTHING_LEAVES;
    }
    const items = queue.take(decision.size, claim);
    this.#flushing = Math.max(0, this.#flushing - items.length);
    return { items, reason: decision.reason };
  }
}

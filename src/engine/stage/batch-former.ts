/** Forms a stage's batches from its queue, by the policy that is given, and says when to look again. */
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import type { Batching } from '../../core/model.ts';
import type { BatchReason } from '../../core/readings.ts';
import { decideBatch } from './batching.ts';
import type { Item } from './item.ts';
import type { StageQueue } from './stage-queue.ts';

/** What goes to a worker now, and why. */
export interface Leaving {
  readonly items: readonly Item[];
  readonly reason: BatchReason;
}

const NOTHING_LEAVES: Leaving = { items: [], reason: 'idle' };

export class BatchFormer {
  readonly #queue: StageQueue;
  readonly #clock: Clock;
  readonly #onDue: () => void;
  /** Rings when the batch that is filling leaves. */
  #timer: Timer | null = null;
  #leavesAt: Deadline | null = null;
  /** So many of the items that wait now leave at once, whatever the policy says. */
  #flushing = 0;

  /** `onDue` is called when a batch that was to wait for more items need not wait longer. */
  constructor(queue: StageQueue, clock: Clock, onDue: () => void) {
    this.#queue = queue;
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** When the batch that is filling leaves; null while none fills. */
  get leavesAt(): Deadline | null {
    return this.#leavesAt;
  }

  /** Lets what waits now leave at once, however small the batch. */
  flush(): void {
    this.#flushing = this.#queue.batchable;
  }

  /** To be called when the queue has changed: forgets what it was waiting for, and what was to leave and has left. */
  renew(): void {
    this.stop();
    this.#flushing = Math.min(this.#flushing, this.#queue.batchable);
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#leavesAt = null;
  }

  /** The items that leave together now; where they are to wait for more, sets the timer for it. */
  take(batching: Batching, freeSince: number, mayLeave: (item: Item) => boolean): Leaving {
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
    const items = queue.take(decision.size, mayLeave);
    this.#flushing = Math.max(0, this.#flushing - items.length);
    return { items, reason: decision.reason };
  }
}

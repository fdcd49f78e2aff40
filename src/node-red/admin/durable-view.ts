/** How many items wait in a durable gate's store, and when time alone will change that: looked at when something may have. */
import type { Clock, Timer } from '../../core/clock.ts';
import type { QueueStats, WorkQueue } from '../../store/work-queue.ts';

export interface ViewEvents {
  /** It was looked at. */
  onStats(stats: QueueStats): void;
  /** A delay, a lease or a deadline is over, or the store is worth another try. */
  onTime(): void;
  onTrouble(error: Error): void;
}

/** Between two looks. */
const LOOK_MS = 250;
const RETRY_MS = 1000;

export class DurableView {
  readonly #queue: WorkQueue;
  readonly #clock: Clock;
  readonly #events: ViewEvents;
  #stats: QueueStats | null = null;
  #lookTimer: Timer | null = null;
  #wakeTimer: Timer | null = null;
  #closed = false;

  constructor(queue: WorkQueue, clock: Clock, events: ViewEvents) {
    this.#queue = queue;
    this.#clock = clock;
    this.#events = events;
  }

  /** Null before the first look. */
  get stats(): QueueStats | null {
    return this.#stats;
  }

  /** Something has changed. */
  lookSoon(): void {
    if (this.#lookTimer || this.#closed) return;
    this.#lookTimer = this.#clock.at(this.#clock.now() + LOOK_MS, () => {
      this.#lookTimer = null;
      void this.look();
    });
  }

  async look(): Promise<void> {
    try {
      const stats = await this.#queue.stats();
      if (this.#closed) return;
      this.#stats = stats;
      this.#events.onStats(stats);
      if (stats.wakeInMs !== null) this.#wakeIn(Math.max(stats.wakeInMs, LOOK_MS));
    } catch (thrown) {
      if (this.#closed) return;
      this.#events.onTrouble(thrown as Error);
      this.retry();
    }
  }

  /** The store could not be asked: in a while it may be. */
  retry(): void {
    this.#wakeIn(RETRY_MS);
  }

  close(): void {
    this.#closed = true;
    this.#lookTimer?.cancel();
    this.#wakeTimer?.cancel();
  }

  #wakeIn(ms: number): void {
    this.#wakeTimer?.cancel();
    if (this.#closed) return;
    this.#wakeTimer = this.#clock.at(this.#clock.now() + ms, () => {
      this.#events.onTime();
      this.lookSoon();
    });
  }
}

/**
 * Keeps the statistics of a durable gate's store up to date: reads them after each change, and wakes the gate when a
 * delay, a lease or a deadline ends.
 */
import type { Clock, Timer } from '../../../core/clock.ts';
import type { QueueStats, WorkQueue } from '../../store/work-queue.ts';

export interface ViewEvents {
  /** Called with each new reading. */
  onStats(stats: QueueStats): void;
  /** Called when a delay, a lease or a deadline has ended, or when it is time to try the store again. */
  onTime(): void;
  onTrouble(error: Error): void;
}

/** Shortest time between two readings. */
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

  /** The latest reading; null before the first. */
  get stats(): QueueStats | null {
    return this.#stats;
  }

  /** Schedules a reading. Call after any change to the store. */
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

  /** Tries the store again after `RETRY_MS`. Call when the store is unavailable. */
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

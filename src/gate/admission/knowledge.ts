/** Keeps the last reading and the last refusal of the system behind a gate. Knows nothing of leases. */
import type { Clock, Timer } from '../../core/clock.ts';
import type { Reading, Sample } from '../source.ts';
import type { LastReading } from './gate-state.ts';
import { type LatchState, RefusalLatch } from './refusal-latch.ts';

export interface PastRefusal {
  readonly at: number;
  /** Pause that the system asked for; 0 if it did not ask. */
  readonly retryAfterMs: number;
}

export class Knowledge {
  readonly #clock: Clock;
  readonly #onTime: () => void;
  readonly #latch = new RefusalLatch();
  #known: LastReading = { tag: 'unread' };
  #lastSampleAt: number | null = null;
  #lastRefusal: PastRefusal | null = null;
  #timer: Timer | null = null;

  /** `onTime` is called when the pause that the system asked for after a refusal has passed. */
  constructor(clock: Clock, onTime: () => void) {
    this.#clock = clock;
    this.#onTime = onTime;
  }

  get known(): LastReading {
    return this.#known;
  }

  get latch(): LatchState {
    this.#latch.pass(this.#clock.now());
    return this.#latch.state;
  }

  /** Time at which the newest sample was measured; null if there was none. */
  get lastSampleAt(): number | null {
    return this.#lastSampleAt;
  }

  get lastRefusal(): PastRefusal | null {
    return this.#lastRefusal;
  }

  /**
   * Takes in a reading. Ignores a sample older than the last one. `baseOf` returns the cost of the gate's own requests
   * that the sample certainly includes.
   */
  accept(reading: Reading, baseOf: (sample: Sample, at: number) => number): void {
    if (!reading.ok) {
      this.#known = { tag: 'unreadable', reason: reading.reason };
      return;
    }
    const { sample } = reading;
    const now = this.#clock.now();
    const at = Math.min(sample.at, now);
    if (at < (this.#lastSampleAt ?? Number.NEGATIVE_INFINITY)) return;
    this.#lastSampleAt = at;
    this.#known = { tag: 'sampled', sample, base: baseOf(sample, at) };
    this.#latch.see(at, now);
    this.#arm();
  }

  refuse(retryAfterMs: number): void {
    const now = this.#clock.now();
    this.#latch.refuse(now, retryAfterMs);
    this.#lastRefusal = { at: now, retryAfterMs };
    this.#arm();
  }

  /** Drops the last reading after a change of source. */
  forget(): void {
    this.#known = { tag: 'unread' };
    this.#lastSampleAt = null;
  }

  close(): void {
    this.#timer?.cancel();
  }

  #arm(): void {
    this.#timer?.cancel();
    const { state } = this.#latch;
    this.#timer = state.tag === 'needs-time' ? this.#clock.at(state.until, this.#onTime) : null;
  }
}

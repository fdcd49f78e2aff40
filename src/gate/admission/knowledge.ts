/** What a gate knows of the system behind it: the last reading, and that it refused. Knows nothing of leases. */
import type { Clock, Timer } from '../../core/clock.ts';
import type { Reading, Sample } from '../source.ts';
import { type LatchState, RefusalLatch } from './refusal-latch.ts';
import type { Known } from './standing.ts';

export interface Refusal {
  readonly at: number;
  /** As the system asked; 0 if it did not. */
  readonly retryAfterMs: number;
}

export class Knowledge {
  readonly #clock: Clock;
  readonly #onTime: () => void;
  readonly #latch = new RefusalLatch();
  #known: Known = { tag: 'unread' };
  #lastSampleAt: number | null = null;
  #lastRefusal: Refusal | null = null;
  #timer: Timer | null = null;

  /** `onTime`: the time that the system asked for after a refusal is over. */
  constructor(clock: Clock, onTime: () => void) {
    this.#clock = clock;
    this.#onTime = onTime;
  }

  get known(): Known {
    return this.#known;
  }

  get latch(): LatchState {
    this.#latch.pass(this.#clock.now());
    return this.#latch.state;
  }

  /** When the newest sample was measured; null: there never was one. */
  get lastSampleAt(): number | null {
    return this.#lastSampleAt;
  }

  get lastRefusal(): Refusal | null {
    return this.#lastRefusal;
  }

  /** A sample that is older than the last one is passed over. `baseOf`: what it includes of the gate's own for sure. */
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

  /** What was read is of another source: nothing is known until this one is read. */
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

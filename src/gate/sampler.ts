/**
 * Reads a source at start, at every interval, and whenever the source reports a change. Runs one reading at a time: if
 * a reading is slow, the next begins when the slow one has ended.
 *
 *   idle     waits for the next reading; the timer is set
 *   reading  entered by the timer, or when the source reports a change; `again`: a change was reported meanwhile
 *   closed   final; the result of a running reading is ignored
 */
import type { Clock, Timer } from '../core/clock.ts';
import { asError } from '../core/errors.ts';
import type { BudgetSource, Reading } from './source.ts';

type SamplerState =
  | { readonly tag: 'idle'; readonly timer: Timer }
  | { readonly tag: 'reading'; readonly abort: AbortController; readonly ended: Promise<void>; again: boolean }
  | { readonly tag: 'closed' };

export interface SamplerOptions {
  readonly source: BudgetSource;
  readonly clock: Clock;
  readonly intervalMs: number;
  readonly onReading: (reading: Reading) => void;
}

export class Sampler {
  readonly #source: BudgetSource;
  readonly #clock: Clock;
  readonly #onReading: (reading: Reading) => void;
  readonly #unwatch: () => void;
  #intervalMs: number;
  #state: SamplerState;

  /** Starts the first reading. */
  constructor({ source, clock, intervalMs, onReading }: SamplerOptions) {
    this.#source = source;
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#onReading = onReading;
    this.#state = this.#wait(clock.now());
    this.#read();
    this.#unwatch = source.watch?.(() => this.#changed()) ?? (() => {});
  }

  /** Takes effect when the timer is next set. */
  setInterval(intervalMs: number): void {
    this.#intervalMs = intervalMs;
  }

  /** Aborts a running reading and waits until the source has ended it. */
  async close(): Promise<void> {
    const state = this.#state;
    this.#state = { tag: 'closed' };
    this.#unwatch();
    if (state.tag === 'idle') state.timer.cancel();
    if (state.tag !== 'reading') return;
    state.abort.abort();
    await state.ended;
  }

  #changed(): void {
    if (this.#state.tag === 'reading') this.#state.again = true;
    else this.#read();
  }

  #read(): void {
    if (this.#state.tag !== 'idle') return;
    this.#state.timer.cancel();
    const abort = new AbortController();
    const startedAt = this.#clock.now();
    const ended = this.#readOnce(abort.signal).then((reading) => this.#done(reading, startedAt));
    this.#state = { tag: 'reading', abort, ended, again: false };
  }

  async #readOnce(signal: AbortSignal): Promise<Reading> {
    try {
      return await this.#source.read(signal);
    } catch (thrown) {
      return { ok: false, reason: `${this.#source.description}: ${asError(thrown).message}` };
    }
  }

  #done(reading: Reading, startedAt: number): void {
    if (this.#state.tag !== 'reading') return;
    const { again } = this.#state;
    this.#state = this.#wait(startedAt + this.#intervalMs);
    this.#onReading(reading);
    if (again) this.#read();
  }

  #wait(at: number): SamplerState {
    return { tag: 'idle', timer: this.#clock.at(at, () => this.#read()) };
  }
}

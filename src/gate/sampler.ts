/**
 * Reads a source at once, at every interval, and when the source itself says that it is worth while. One reading at a
 * time: the next begins when a slow one has ended.
 *
 *   idle     waits for the next time; the timer is set
 *   reading  entered at that time, or by the source's word; `again`: the source has said so meanwhile
 *   closed   for good; what a reading still brings reaches nobody
 */
import type { Clock, Timer } from '../core/clock.ts';
import { asError } from '../core/errors.ts';
import type { BudgetSource, Reading } from './source.ts';

type State =
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
  #state: State;

  /** Begins to read. */
  constructor({ source, clock, intervalMs, onReading }: SamplerOptions) {
    this.#source = source;
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#onReading = onReading;
    this.#state = this.#wait(clock.now());
    this.#read();
    this.#unwatch = source.watch?.(() => this.#changed()) ?? (() => {});
  }

  /** From the next reading on. */
  setInterval(intervalMs: number): void {
    this.#intervalMs = intervalMs;
  }

  /** Gives up a reading that is under way, and waits until the source has let go of it. */
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

  #wait(at: number): State {
    return { tag: 'idle', timer: this.#clock.at(at, () => this.#read()) };
  }
}

/**
 * Keeps a stage whose workers die again and again from taking more and more requests with it. Pure: it is told what
 * happens and tells what to do.
 *
 *   closed     all workers serve; deaths of the last minute are remembered   -> open (the fifth of them)
 *   open       no worker serves, requests are refused                        -> half-open (it is time) | closed (reset)
 *   half-open  one worker, the probe, serves                                 -> open (it died) | closed (it proved well | reset)
 *
 * The probe proves well when it gets further than those that died: by its first answer, or by being ready where all
 * that happened were failed starts. Each opening after another without a proof between them lasts longer.
 */
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { CircuitStatus, CircuitTag } from '../../core/model.ts';
import { growingPause } from '../../process/parent/backoff.ts';

export const CIRCUIT = { deaths: 5, withinMs: 60_000, firstMs: 1000, longestMs: 30_000 } as const;

/** How far a worker had come when it died, and so how far the probe has to come. */
export type Step = 'ready' | 'answer';

/** Why it is not closed. */
interface Opening {
  /** Deaths that opened it, those of probes included. */
  readonly deaths: number;
  readonly cause: Error;
  readonly proof: Step;
  /** How often it has opened without a proof between. */
  readonly times: number;
}

export type CircuitState =
  | { readonly tag: 'closed'; readonly deaths: readonly { readonly at: number; readonly missed: Step }[] }
  | { readonly tag: 'open'; readonly opening: Opening; readonly retryAt: Deadline; readonly timer: Timer }
  | { readonly tag: 'half-open'; readonly opening: Opening };

export const CIRCUIT_TRANSITIONS: Readonly<Record<CircuitTag, readonly CircuitTag[]>> = {
  closed: ['closed', 'open'],
  open: ['half-open', 'closed'],
  'half-open': ['open', 'closed'],
};

export class Circuit {
  readonly #clock: Clock;
  readonly #onEnter: (tag: CircuitTag) => void;
  readonly #random: () => number;
  #state: CircuitState = { tag: 'closed', deaths: [] };

  /** `onEnter` is called at each entry into another state; `random` gives 0..1 and spreads stages that opened together. */
  constructor(clock: Clock, onEnter: (tag: CircuitTag) => void, random: () => number = Math.random) {
    this.#clock = clock;
    this.#onEnter = onEnter;
    this.#random = random;
  }

  get tag(): CircuitTag {
    return this.#state.tag;
  }

  get status(): CircuitStatus {
    return { circuit: this.#state.tag, retryAt: this.#state.tag === 'open' ? this.#state.retryAt : null };
  }

  /** It is not closed, as no worker starts: none died in service. */
  get isOfStarts(): boolean {
    return this.#state.tag !== 'closed' && this.#state.opening.proof === 'ready';
  }

  /** What to say to requests while it is not closed; null while it is. */
  get refusal(): ModeletError | null {
    if (this.#state.tag === 'closed') return null;
    const { deaths, cause } = this.#state.opening;
    const waitMs = this.#state.tag === 'open' ? Math.max(0, this.#state.retryAt - this.#clock.now()) : 0;
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
    const next = this.#state.tag === 'open' ? `next try in ${retryAfterSeconds} s` : 'being tried again';
    const message = this.isOfStarts
      ? `${cause.message} (tried ${deaths} times, ${next})`
      : `its workers died ${deaths} times in short order, ${next}; the last one: ${cause.message}`;
    return new ModeletError('stage_unavailable', message, { cause, retryAfterSeconds });
  }

  /** A worker died, of the probes only the present one. `missed` is what it died before: being ready, or an answer. */
  died(cause: Error, missed: Step): void {
    const state = this.#state;
    if (state.tag === 'half-open') {
      const { deaths, proof, times } = state.opening;
      this.#open({ deaths: deaths + 1, cause, proof: proof === 'answer' ? proof : missed, times: times + 1 });
    } else if (state.tag === 'closed') {
      const now = this.#clock.now();
      const deaths = [...state.deaths.filter(({ at }) => now - at < CIRCUIT.withinMs), { at: now, missed }];
      if (deaths.length < CIRCUIT.deaths) {
        this.#enter({ tag: 'closed', deaths });
        return;
      }
      const proof = deaths.some((death) => death.missed === 'answer') ? 'answer' : 'ready';
      this.#open({ deaths: deaths.length, cause, proof, times: 1 });
    }
  }

  /** The probe came so far. */
  proved(step: Step): void {
    if (this.#state.tag !== 'half-open') return;
    if (step === 'answer' || this.#state.opening.proof === 'ready') this.reset();
  }

  /** Forgets everything. */
  reset(): void {
    if (this.#state.tag === 'open') this.#state.timer.cancel();
    this.#enter({ tag: 'closed', deaths: [] });
  }

  /** Does nothing by itself any more. */
  stop(): void {
    if (this.#state.tag === 'open') this.#state.timer.cancel();
  }

  #open(opening: Opening): void {
    const retryAt = this.#clock.now() + growingPause(opening.times, CIRCUIT, this.#random);
    const timer = this.#clock.at(retryAt, () => this.#enter({ tag: 'half-open', opening }));
    this.#enter({ tag: 'open', opening, retryAt, timer });
  }

  #enter(next: CircuitState): void {
    const { tag } = this.#state;
    if (!CIRCUIT_TRANSITIONS[tag].includes(next.tag)) throw new Error(`no way from ${tag} to ${next.tag}`);
    this.#state = next;
    if (next.tag !== tag) this.#onEnter(next.tag);
  }
}

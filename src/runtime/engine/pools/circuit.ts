/**
 * The circuit breaker of a stage: keeps workers that die again and again from taking more and more requests with them.
 * Touches no worker: the pool reports deaths and proofs, and the circuit calls back when it changes state.
 *
 *   closed     all workers serve; deaths of the last minute are counted      -> open (fifth death)
 *   open       no worker serves; requests are refused                        -> half-open (timer) | closed (reset)
 *   half-open  one worker, the probe, serves                                 -> open (it died) | closed (proof | reset)
 *
 * The probe gives its proof when it gets further than the workers that died: by its first answer, or by becoming ready
 * if all deaths were failed starts. Without a proof in between, each opening lasts longer than the one before.
 */
import type { Clock, Deadline, Timer } from '../../../core/clock.ts';
import { ModeletError } from '../../../core/errors.ts';
import { retrySeconds } from '../../../core/figures.ts';
import type { CircuitStatus, CircuitTag } from '../../../core/model.ts';
import { growingPause } from '../../../process/parent/backoff.ts';

export const CIRCUIT = { deaths: 5, withinMs: 60_000, firstMs: 1000, longestMs: 30_000 } as const;

/** The step that a worker missed when it died, and so the step that the probe must reach. */
export type ProvenStep = 'ready' | 'answer';

/** The reason why the circuit is not closed. */
interface Opening {
  /** Number of deaths that opened the circuit, including deaths of probes. */
  readonly deaths: number;
  readonly cause: Error;
  readonly proof: ProvenStep;
  /** Number of openings in a row without a proof. */
  readonly times: number;
}

export type CircuitState =
  | { readonly tag: 'closed'; readonly deaths: readonly { readonly at: number; readonly missed: ProvenStep }[] }
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

  /**
   * @param onEnter called at each entry into another state
   * @param random returns 0..1; spreads the retries of stages that opened together
   */
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

  /** Whether the circuit is not closed only because workers fail to start: none died in service. */
  get isOfStarts(): boolean {
    return this.#state.tag !== 'closed' && this.#state.opening.proof === 'ready';
  }

  /** The error for requests while the circuit is not closed; null while it is closed. */
  get refusal(): ModeletError | null {
    if (this.#state.tag === 'closed') return null;
    const { deaths, cause } = this.#state.opening;
    const waitMs = this.#state.tag === 'open' ? Math.max(0, this.#state.retryAt - this.#clock.now()) : 0;
    const retryAfterSeconds = retrySeconds(waitMs);
    const next = this.#state.tag === 'open' ? `next try in ${retryAfterSeconds} s` : 'being tried again';
    const message = this.isOfStarts
      ? `${cause.message} (tried ${deaths} times, ${next})`
      : `its workers died ${deaths} times in a short time, ${next}; the last one: ${cause.message}`;
    return new ModeletError('stage_unavailable', message, { cause, retryAfterSeconds });
  }

  /**
   * Notes that a worker died. While half-open, call only for the present probe.
   *
   * @param missed the step before which it died: becoming ready, or giving an answer
   */
  died(cause: Error, missed: ProvenStep): void {
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

  /** Notes that the probe has reached a step. */
  proved(step: ProvenStep): void {
    if (this.#state.tag !== 'half-open') return;
    if (step === 'answer' || this.#state.opening.proof === 'ready') this.reset();
  }

  /** Closes the circuit and forgets all deaths. */
  reset(): void {
    if (this.#state.tag === 'open') this.#state.timer.cancel();
    this.#enter({ tag: 'closed', deaths: [] });
  }

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

/**
 * A window that finds by itself how much the system behind the gate takes: it grows while requests succeed, and shrinks
 * when they are refused for load (additive increase, multiplicative decrease, as in TCP).
 *
 * The window is max_SYS, and D is 1; while a refusal holds the gate closed, D is 0.
 * - Until the first refusal a success adds its own cost, so that a window of successes doubles it; then a window of
 *   successes adds `increase`. Only while at least half of what may be used is in use: an idle window learns nothing.
 * - A refusal multiplies it by `decreaseFactor` and holds the gate for `Retry-After`, else for `holdMs`. What was
 *   admitted before that belongs to the same flight, and neither shrinks nor grows the window any more.
 * - Errors that say nothing of load, cancelled and lost requests leave it as it is.
 */
import type { GateSource } from '../../config/compile-gate.ts';
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import type { BudgetSource, EndedLease, LeaseEnd, Reading } from '../source.ts';
import { shown } from './reading.ts';

export interface AimdOptions extends Omit<Extract<GateSource, { kind: 'aimd' }>, 'kind'> {
  /** B: of the window only 1 - B is used. */
  readonly baseline: number;
}

export class AimdSource implements BudgetSource {
  readonly description = 'AIMD';
  readonly #options: AimdOptions;
  readonly #clock: Clock;
  readonly #watchers = new Set<() => void>();
  #window: number;
  #decreasedAt: Deadline = Number.NEGATIVE_INFINITY;
  #heldUntil: Deadline = Number.NEGATIVE_INFINITY;
  #holdEnd: Timer | undefined;

  constructor(options: AimdOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#window = options.minWindow;
  }

  async read(): Promise<Reading> {
    const now = this.#clock.now();
    const left = this.#heldUntil - now;
    const window = `window ${shown(this.#window)}`;
    const raw = left > 0 ? `${window}, held for ${Math.ceil(left)} ms after a refusal` : window;
    return { ok: true, sample: { budget: left > 0 ? 0 : 1, at: now, maxSys: this.#window, fixed: true, raw } };
  }

  ended(end: LeaseEnd, lease: EndedLease): void {
    const ofThisFlight = lease.admittedAt > this.#decreasedAt;
    if (end.kind === 'done' && ofThisFlight) this.#grow(lease);
    if (end.kind !== 'refused') return;
    if (ofThisFlight) this.#shrink();
    if (ofThisFlight || end.retryAfterMs > 0) this.#hold(end.retryAfterMs || this.#options.holdMs);
    this.#tell();
  }

  watch(changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  async close(): Promise<void> {
    this.#holdEnd?.cancel();
    this.#watchers.clear();
  }

  #grow({ cost, inFlightCost }: EndedLease): void {
    if (inFlightCost * 2 < this.#window * (1 - this.#options.baseline)) return;
    const slowStart = this.#decreasedAt === Number.NEGATIVE_INFINITY;
    const added = slowStart ? cost : (this.#options.increase * cost) / this.#window;
    const before = Math.floor(this.#window);
    this.#window = Math.min(this.#options.maxWindow, this.#window + added);
    // Less than a whole more admits nobody.
    if (Math.floor(this.#window) !== before) this.#tell();
  }

  #shrink(): void {
    this.#window = Math.max(this.#options.minWindow, this.#window * this.#options.decreaseFactor);
    this.#decreasedAt = this.#clock.now();
  }

  /** Never shortens a hold: who asked for more time gets it. */
  #hold(ms: number): void {
    const until = this.#clock.now() + ms;
    if (until <= this.#heldUntil) return;
    this.#heldUntil = until;
    this.#holdEnd?.cancel();
    this.#holdEnd = this.#clock.at(until, () => this.#tell());
  }

  #tell(): void {
    for (const changed of [...this.#watchers]) changed();
  }
}

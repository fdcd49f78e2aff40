/**
 * Finds the capacity of the system behind the gate with a window that grows while requests succeed and shrinks when the
 * system refuses them for load (additive increase, multiplicative decrease, as in TCP).
 *
 * The window is max_SYS, and D is 1; while a refusal holds the gate closed, D is 0.
 * - Until the first refusal each success adds its own cost, so a full window of successes doubles the window. After it,
 *   a full window of successes adds `increase`. The window grows only while at least half of its usable part is in use.
 * - A refusal multiplies the window by `decreaseFactor` and holds the gate closed for `Retry-After`, else for `holdMs`.
 *   Requests admitted before the refusal belong to the same flight: they neither shrink nor grow the window again.
 * - Errors unrelated to load, cancelled requests and lost requests leave the window unchanged.
 */
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import type { BudgetSource, EndedLease, LeaseEnd, Reading, SourceSettings } from '../source.ts';
import { shown } from './reading.ts';

export interface AimdOptions extends Omit<SourceSettings<'aimd'>, 'kind'> {
  /** B: the gate uses only 1 - B of the window. */
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
    // Growth by less than a whole unit admits no further request.
    if (Math.floor(this.#window) !== before) this.#tell();
  }

  #shrink(): void {
    this.#window = Math.max(this.#options.minWindow, this.#window * this.#options.decreaseFactor);
    this.#decreasedAt = this.#clock.now();
  }

  /** Holds the gate closed for `ms`. Never shortens a hold. */
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

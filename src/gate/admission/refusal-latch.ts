/**
 * Keeps a gate closed after the system behind it refused (429, 503): until a sample newer than the refusal arrives, and
 * until the pause that the system asked for has passed.
 *
 *   clear         no refusal is in effect
 *   needs-sample  entered on every refusal; left when a sample newer than the refusal arrives
 *   needs-time    such a sample has arrived, but the pause is not over; left when the pause has passed
 */

export type LatchState =
  | { readonly tag: 'clear' }
  | { readonly tag: 'needs-sample'; readonly refusedAt: number; readonly until: number }
  | { readonly tag: 'needs-time'; readonly refusedAt: number; readonly until: number };

const MOVES: Readonly<Record<LatchState['tag'], readonly LatchState['tag'][]>> = {
  clear: ['needs-sample'],
  'needs-sample': ['needs-sample', 'needs-time', 'clear'],
  'needs-time': ['needs-sample', 'clear'],
};

/** Longest pause that a gate keeps, whatever the system asked for. */
export const LONGEST_RETRY_AFTER_MS: number = 60 * 60 * 1000;

export class RefusalLatch {
  #state: LatchState = { tag: 'clear' };

  get state(): LatchState {
    return this.#state;
  }

  /** Records a refusal. `retryAfterMs`: pause that the system asked for; 0 if it did not ask. */
  refuse(now: number, retryAfterMs: number): void {
    const asked = Number.isFinite(retryAfterMs) ? Math.min(LONGEST_RETRY_AFTER_MS, Math.max(0, retryAfterMs)) : 0;
    const before = this.#state.tag === 'clear' ? now : this.#state.until;
    this.#enter({ tag: 'needs-sample', refusedAt: now, until: Math.max(before, now + asked) });
  }

  /** Records that a sample measured at `at` has arrived. */
  see(at: number, now: number): void {
    if (this.#state.tag !== 'needs-sample' || at <= this.#state.refusedAt) return;
    const { refusedAt, until } = this.#state;
    this.#enter({ tag: 'needs-time', refusedAt, until });
    this.pass(now);
  }

  /** Clears the latch if the pause is over at `now`. */
  pass(now: number): void {
    if (this.#state.tag === 'needs-time' && now >= this.#state.until) this.#enter({ tag: 'clear' });
  }

  #enter(next: LatchState): void {
    if (!MOVES[this.#state.tag].includes(next.tag))
      throw new Error(`a latch goes from ${this.#state.tag} to ${next.tag}`);
    this.#state = next;
  }
}

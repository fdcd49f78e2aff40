/**
 * What a gate does when the system behind it refuses (429, 503): it takes its budget for 0 until a sample says
 * otherwise that is newer than the refusal, and until the time that the system asked for has passed.
 *
 *   clear         nothing was refused, or all of it is over
 *   needs-sample  entered by every refusal; left by a sample newer than it
 *   needs-time    there is such a sample, but the system asked to wait; left when that time has passed
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

/** A system that asks for longer is asked again after this. */
export const LONGEST_RETRY_AFTER_MS: number = 60 * 60 * 1000;

export class RefusalLatch {
  #state: LatchState = { tag: 'clear' };

  get state(): LatchState {
    return this.#state;
  }

  /** The system refused. `retryAfterMs`: as it asked; 0 if it did not. */
  refuse(now: number, retryAfterMs: number): void {
    const asked = Number.isFinite(retryAfterMs) ? Math.min(LONGEST_RETRY_AFTER_MS, Math.max(0, retryAfterMs)) : 0;
    const before = this.#state.tag === 'clear' ? now : this.#state.until;
    this.#enter({ tag: 'needs-sample', refusedAt: now, until: Math.max(before, now + asked) });
  }

  /** There is a sample that was measured at `at`. */
  see(at: number, now: number): void {
    if (this.#state.tag !== 'needs-sample' || at <= this.#state.refusedAt) return;
    const { refusedAt, until } = this.#state;
    this.#enter({ tag: 'needs-time', refusedAt, until });
    this.pass(now);
  }

  /** Time has passed. */
  pass(now: number): void {
    if (this.#state.tag === 'needs-time' && now >= this.#state.until) this.#enter({ tag: 'clear' });
  }

  #enter(next: LatchState): void {
    if (!MOVES[this.#state.tag].includes(next.tag))
      throw new Error(`a latch goes from ${this.#state.tag} to ${next.tag}`);
    this.#state = next;
  }
}

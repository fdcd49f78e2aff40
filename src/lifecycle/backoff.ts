/**
 * When a dead process is started again: the first time at once, then after growing pauses, so that a modelet
 * that dies at every start does not take the machine with it.
 */

export const BACKOFF = { firstMs: 100, longestMs: 30_000, stableMs: 10_000 } as const;

export class Backoff {
  readonly #random: () => number;
  #failures = 0;

  /** `random` gives 0..1 and spreads restarts that would fall together. */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  get failures(): number {
    return this.#failures;
  }

  /** Forgets the failures so far. */
  reset(): void {
    this.#failures = 0;
  }

  /**
   * Milliseconds to wait before the next start.
   * @param readyMs how long the process that died had been ready; a stable one starts the count again.
   */
  afterDeath(readyMs: number): number {
    if (readyMs >= BACKOFF.stableMs) this.#failures = 0;
    this.#failures += 1;
    if (this.#failures === 1) return 0;
    const pause = Math.min(BACKOFF.longestMs, BACKOFF.firstMs * 2 ** (this.#failures - 2));
    return pause * (0.75 + 0.25 * this.#random());
  }
}

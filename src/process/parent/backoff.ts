/**
 * Decides when to restart a dead process: the first time at once, then after growing pauses, so that a modelet that
 * dies at every start does not overload the machine.
 */

export const BACKOFF = { firstMs: 100, longestMs: 30_000, stableMs: 10_000 } as const;

interface PauseGrowth {
  readonly firstMs: number;
  readonly longestMs: number;
}

/**
 * Returns the length of pause number `count` (from 1) in ms. Each pause is twice the previous one, up to `longestMs`,
 * reduced at random by up to a quarter.
 */
export function growingPause(count: number, { firstMs, longestMs }: PauseGrowth, random: () => number): number {
  return Math.min(longestMs, firstMs * 2 ** (count - 1)) * (0.75 + 0.25 * random());
}

export class Backoff {
  readonly #random: () => number;
  #failures = 0;

  /** @param random returns 0..1; spreads restarts that would otherwise happen at the same time. */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  get failures(): number {
    return this.#failures;
  }

  reset(): void {
    this.#failures = 0;
  }

  /**
   * Counts a death and returns the pause before the next start, in ms.
   * @param readyMs how long the dead process had been ready; `BACKOFF.stableMs` or more resets the count first.
   */
  afterDeath(readyMs: number): number {
    if (readyMs >= BACKOFF.stableMs) this.#failures = 0;
    this.#failures += 1;
    return this.#failures === 1 ? 0 : growingPause(this.#failures - 1, BACKOFF, this.#random);
  }
}

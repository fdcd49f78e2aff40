/**
 * When a dead process is started again: the first time at once, then after growing pauses, so that a modelet
 * that dies at every start does not take the machine with it.
 */

export const BACKOFF = { firstMs: 100, longestMs: 30_000, stableMs: 10_000 } as const;

interface Growth {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** Milliseconds of the pause number `count`, from 1: twice the one before, up to the longest, less a random quarter. */
export function growingPause(count: number, { firstMs, longestMs }: Growth, random: () => number): number {
  return Math.min(longestMs, firstMs * 2 ** (count - 1)) * (0.75 + 0.25 * random());
}

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
    return this.#failures === 1 ? 0 : growingPause(this.#failures - 1, BACKOFF, this.#random);
  }
}

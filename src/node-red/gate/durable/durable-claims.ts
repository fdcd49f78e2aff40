/** What is claimed of a store and not ended: kept from being given to others by a sign of life before each lease ends. */
import type { Clock, Timer } from '../../../core/clock.ts';
import type { Claim, WorkQueue } from '../../../store/work-queue.ts';

/** Long enough for a machine that swaps; after a kill of this process nobody waits for it. */
const LEASE_MS = 30_000;

export class HeldClaims {
  readonly leaseMs: number = LEASE_MS;
  readonly #queue: WorkQueue;
  readonly #clock: Clock;
  readonly #onLost: (claim: Claim) => void;
  readonly #claims: Set<Claim> = new Set();
  #timer: Timer | null = null;

  /** `onLost`: somebody else may have the item now. */
  constructor(queue: WorkQueue, clock: Clock, onLost: (claim: Claim) => void) {
    this.#queue = queue;
    this.#clock = clock;
    this.#onLost = onLost;
  }

  has(claim: Claim): boolean {
    return this.#claims.has(claim);
  }

  add(claim: Claim): void {
    this.#claims.add(claim);
    this.#timer ??= this.#clock.at(this.#clock.now() + LEASE_MS / 3, () => void this.#extend());
  }

  remove(claim: Claim): void {
    this.#claims.delete(claim);
  }

  /** Gives all of them back, no attempt counted. */
  async giveBack(reason: string): Promise<void> {
    this.#timer?.cancel();
    const claims = [...this.#claims];
    this.#claims.clear();
    if (claims.length === 0) return;
    try {
      await this.#queue.nack(claims, { delayMs: 0, reason, countAttempt: false, alone: false });
    } catch {
      // Whoever opens the store next takes them back.
    }
  }

  async #extend(): Promise<void> {
    this.#timer = null;
    const claims = [...this.#claims];
    if (claims.length === 0) return;
    try {
      const extended = await this.#queue.extend(claims, LEASE_MS);
      for (const [index, claim] of claims.entries()) {
        if (!extended[index] && this.#claims.delete(claim)) this.#onLost(claim);
      }
    } catch {
      // A store that cannot be asked ends no lease either.
    }
    if (this.#claims.size > 0 && !this.#timer) {
      this.#timer = this.#clock.at(this.#clock.now() + LEASE_MS / 3, () => void this.#extend());
    }
  }
}

/** Holds the open claims of a store, and extends their leases in time so that nobody else gets the items. */
import type { Clock, Timer } from '../../../core/clock.ts';
import type { Claim, WorkQueue } from '../../../store/work-queue.ts';

/** Long enough for a machine that swaps. The next start does not wait for it after this process was killed. */
const LEASE_MS = 30_000;

export class HeldClaims {
  readonly leaseMs: number = LEASE_MS;
  readonly #queue: WorkQueue;
  readonly #clock: Clock;
  readonly #onLost: (claim: Claim) => void;
  readonly #claims: Set<Claim> = new Set();
  #timer: Timer | null = null;

  /** @param onLost called when a lease has ended and another process may have the item */
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

  /** Gives back all claims without counting an attempt. */
  async giveBack(reason: string): Promise<void> {
    this.#timer?.cancel();
    const claims = [...this.#claims];
    this.#claims.clear();
    if (claims.length === 0) return;
    try {
      await this.#queue.nack(claims, { delayMs: 0, reason, countAttempt: false, alone: false });
    } catch {
      // The next process that opens the store takes the claims back.
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
      // A store that does not answer does not end leases either, so try again later.
    }
    if (this.#claims.size > 0 && !this.#timer) {
      this.#timer = this.#clock.at(this.#clock.now() + LEASE_MS / 3, () => void this.#extend());
    }
  }
}

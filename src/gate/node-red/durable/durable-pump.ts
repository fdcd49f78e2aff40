/**
 * Claims as many items from a durable gate's store as the budget admits, and none while the gate has no room.
 *
 *   idle      the store has no items, or the gate no room   -> claiming | closed
 *   claiming  asks the store as long as there is room       -> idle | closed
 *   closed
 */
import { type Clock, type Timer, wallTime } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import type { Gate } from '../../gate.ts';
import type { Lease } from '../../leases.ts';
import type { Claim } from '../../store/work-queue.ts';

/** Callbacks of the pump. They do not throw or reject unless their comment says so. */
export interface PumpWork {
  /** Claims only items whose deadline has passed, or only the others. Rejects if the store is unavailable. */
  claim(max: number, expired: boolean): Promise<Claim[]>;
  /** Returns the cost in the gate's unit. @throws ModeletError if the item does not tell its cost. */
  costOf(claim: Claim): number;
  countsRequests(): boolean;
  admit(claim: Claim, lease: Lease): void;
  expire(claim: Claim): Promise<void>;
  reject(claim: Claim, error: Error): Promise<void>;
  /** Called when the store is unavailable. The callee must wake the pump later. */
  onTrouble(error: Error): void;
}

/** Most items in one claim. */
export const AT_ONCE = 64;

export class DurablePump {
  readonly #gate: Gate;
  readonly #work: PumpWork;
  readonly #clock: Clock;
  readonly #leaveGate: () => void;
  #state: 'idle' | 'claiming' | 'closed' = 'idle';
  /** Whether the store may have items to claim. */
  #more = true;
  #mayHaveExpired = true;
  /**
   * A claimed item that waits until the gate has room for its cost. Written by `#hold` and `takeHead`. `timer` fires at its
   * deadline, at which the store ends only items that are not claimed; null: it has none.
   */
  #head: { readonly claim: Claim; readonly timer: Timer | null } | null = null;
  /** Number of items that may pass regardless of the budget, after a flush. */
  #free = 0;

  constructor(gate: Gate, work: PumpWork, clock: Clock) {
    this.#gate = gate;
    this.#work = work;
    this.#clock = clock;
    this.#leaveGate = gate.admission.onRoom(() => void this.#run());
  }

  /** Call when the store may have items to claim. */
  wake(): void {
    this.#more = true;
    void this.#run();
  }

  /** Call when the deadline of an item may have passed. */
  wakeForExpiry(): void {
    this.#mayHaveExpired = true;
    this.wake();
  }

  /** Lets the next `count` items of the store pass regardless of the budget, and a claimed item that waits. */
  release(count: number): void {
    this.#free = count + (this.#head ? 1 : 0);
    this.wake();
  }

  /** Returns the claimed item that waits, for the caller to end. @param only if it is this item; null: whichever it is */
  takeHead(only: Claim | null = null): Claim | null {
    if (!this.#head || (only !== null && only !== this.#head.claim)) return null;
    const { claim, timer } = this.#head;
    timer?.cancel();
    this.#head = null;
    return claim;
  }

  close(): void {
    this.#state = 'closed';
    this.#head?.timer?.cancel();
    this.#leaveGate();
  }

  async #run(): Promise<void> {
    if (this.#state !== 'idle') return;
    this.#state = 'claiming';
    try {
      while (this.#more && (await this.#claimSome()));
    } catch (thrown) {
      this.#more = true;
      this.#work.onTrouble(thrown as Error);
    }
    if (this.#isClaiming()) this.#state = 'idle';
  }

  /** Whether the pump is still claiming. Check after each `await`: the pump may have been closed meanwhile. */
  #isClaiming(): boolean {
    return this.#state === 'claiming';
  }

  /** Claims and admits items. Returns false if there is no room or nothing to claim. */
  async #claimSome(): Promise<boolean> {
    if (this.#mayHaveExpired) await this.#claimExpired();
    if (this.#head || !this.#work.countsRequests()) return this.#claimOne();
    const leases = this.#takeLeases();
    if (leases.length === 0) return false;
    this.#more = false;
    let claims: Claim[] = [];
    try {
      claims = await this.#claim(leases.length);
    } finally {
      for (const lease of leases.slice(claims.length)) this.#gate.end(lease.id, { kind: 'cancelled' });
    }
    for (const [index, claim] of claims.entries()) this.#work.admit(claim, this.#stillHeld(leases[index] as Lease));
    if (claims.length === leases.length) this.#more = true;
    return this.#more && this.#isClaiming();
  }

  /** Claims one item and admits it if it fits. Its cost is known only after the claim, so it may wait as the head. */
  async #claimOne(): Promise<boolean> {
    if (!this.#head) await this.#claimHead();
    if (!this.#head) return false;
    const { claim } = this.#head;
    try {
      const lease = this.#takeLease(this.#work.costOf(claim));
      if (!lease) return false;
      this.takeHead();
      this.#work.admit(claim, lease);
    } catch (thrown) {
      this.takeHead();
      await this.#work.reject(claim, thrown as Error);
    }
    return this.#isClaiming();
  }

  async #claimHead(): Promise<void> {
    if (this.#gate.admission.room() <= 0 && this.#free === 0) return;
    this.#more = false;
    const [claim] = await this.#claim(1);
    if (!claim || !this.#isClaiming()) return;
    this.#more = true;
    this.#hold(claim);
  }

  #hold(claim: Claim): void {
    const expire = (): void => {
      if (!this.takeHead(claim)) return;
      this.#work.expire(claim).catch((thrown: unknown) => this.#work.onTrouble(asError(thrown)));
    };
    const { deadline } = claim;
    const timer = deadline === null ? null : this.#clock.at(this.#clock.now() + deadline - wallTime(), expire);
    this.#head = { claim, timer };
  }

  async #claimExpired(): Promise<void> {
    this.#mayHaveExpired = false;
    for (let claims = await this.#claim(AT_ONCE, true); claims.length > 0; claims = await this.#claim(AT_ONCE, true)) {
      await Promise.all(claims.map((claim) => this.#work.expire(claim)));
    }
  }

  async #claim(max: number, expired = false): Promise<Claim[]> {
    return this.#isClaiming() ? this.#work.claim(max, expired) : [];
  }

  #takeLeases(): Lease[] {
    const leases: Lease[] = [];
    while (leases.length < AT_ONCE) {
      const lease = this.#takeLease(1);
      if (!lease) break;
      leases.push(lease);
    }
    return leases;
  }

  /** Returns the lease, or another if it ended by the clock while the store was slow: the item has been claimed. */
  #stillHeld(lease: Lease): Lease {
    const { admission } = this.#gate;
    return admission.holds(lease.id) ? lease : admission.seize(lease.cost);
  }

  #takeLease(cost: number): Lease | null {
    const { admission } = this.#gate;
    if (this.#free === 0) return admission.take(cost);
    this.#free -= 1;
    return admission.seize(cost);
  }
}

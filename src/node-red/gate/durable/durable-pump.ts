/**
 * Claims of a durable gate's store what its budget admits, and nothing while that is nothing.
 *
 *   idle      nothing can be claimed, or nothing may be   -> claiming | closed
 *   claiming  asks the store as long as there is room     -> idle | closed
 *   closed
 */
import type { Gate } from '../../../gate/gate.ts';
import type { Lease } from '../../../gate/leases.ts';
import type { Claim } from '../../../store/work-queue.ts';

/** What the pump is for. None of it throws but where it says so. */
export interface PumpWork {
  /** Of items whose deadline has passed, or of others. Rejects where the store cannot be asked. */
  claim(max: number, expired: boolean): Promise<Claim[]>;
  /** In the gate's unit. @throws ModeletError for an item that does not say. */
  costOf(claim: Claim): number;
  countsRequests(): boolean;
  admit(claim: Claim, lease: Lease): void;
  expire(claim: Claim): Promise<void>;
  reject(claim: Claim, error: Error): Promise<void>;
  /** The store could not be asked: whoever is told wakes it again. */
  onTrouble(error: Error): void;
}

/** Most items of one claim. */
export const AT_ONCE = 64;

export class DurablePump {
  readonly #gate: Gate;
  readonly #work: PumpWork;
  readonly #leaveGate: () => void;
  #state: 'idle' | 'claiming' | 'closed' = 'idle';
  /** There may be something to claim. */
  #more = true;
  #mayHaveExpired = true;
  /** Claimed, and larger than what there is room for now. */
  #head: Claim | null = null;
  /** How many may go whatever the budget: by a message. */
  #free = 0;

  constructor(gate: Gate, work: PumpWork) {
    this.#gate = gate;
    this.#work = work;
    this.#leaveGate = gate.admission.onRoom(() => void this.#run());
  }

  /** Something may be there to claim. */
  wake(): void {
    this.#more = true;
    void this.#run();
  }

  /** The deadline of something may have passed. */
  wakeForExpiry(): void {
    this.#mayHaveExpired = true;
    this.wake();
  }

  /** So many may go whatever the budget. */
  release(count: number): void {
    this.#free = count;
    this.wake();
  }

  close(): void {
    this.#state = 'closed';
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

  /** It may have been closed while something was waited for. */
  #isClaiming(): boolean {
    return this.#state === 'claiming';
  }

  /** False: there is no room, or nothing to claim. */
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
    for (const [index, claim] of claims.entries()) this.#work.admit(claim, leases[index] as Lease);
    if (claims.length === leases.length) this.#more = true;
    return this.#more && this.#isClaiming();
  }

  /** Where what an item costs is known only when it is there: it stands at the head until there is room for it. */
  async #claimOne(): Promise<boolean> {
    const head = this.#head ?? (await this.#claimHead());
    if (!head) return false;
    try {
      const lease = this.#takeLease(this.#work.costOf(head));
      if (!lease) return false;
      this.#head = null;
      this.#work.admit(head, lease);
    } catch (thrown) {
      this.#head = null;
      await this.#work.reject(head, thrown as Error);
    }
    return this.#isClaiming();
  }

  async #claimHead(): Promise<Claim | null> {
    if (this.#gate.admission.room() <= 0 && this.#free === 0) return null;
    this.#more = false;
    const [claim] = await this.#claim(1);
    if (!claim || !this.#isClaiming()) return null;
    this.#more = true;
    this.#head = claim;
    return claim;
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

  #takeLease(cost: number): Lease | null {
    const { admission } = this.#gate;
    if (this.#free === 0) return admission.take(cost);
    this.#free -= 1;
    return admission.seize(cost);
  }
}

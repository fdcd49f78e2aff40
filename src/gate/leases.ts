/**
 * Holds the leases of one gate. Each lease ends exactly once: when the gate first learns how the request ended, or
 * after `leaseMs`. Knows nothing of budgets.
 *
 * There is one lease, and this table alone counts it and ends it by the clock. Two other tables refer to it by its id and
 * learn of its end by `Admission.onEnded`, because they answer other questions:
 * - message-leases.ts, for all gates: which messages hold the lease now. A message passes several gates, has clones, and
 *   can get lost in a deploy.
 * - durable-room.ts: which stored item has the lease.
 * The claim of a stored item is no lease of a gate. It belongs to a process that may die, so the store itself ends it, its
 * holder extends it, and an item is also claimed to be refused, without any lease.
 */
import type { Clock, Timer } from '../core/clock.ts';
import { Fifo, type FifoNode } from '../core/queues/fifo.ts';
import { Table } from '../core/queues/table.ts';

/** A held admission. Its owner ends it, however the request ends; after `leaseMs` it ends as lost. */
export interface Lease {
  /** Unique among all gates and all processes. */
  readonly id: string;
  /** In the gate's unit. */
  readonly cost: number;
  /** On the monotonic clock. */
  readonly admittedAt: number;
}

export interface LeaseWithShares<Share> {
  readonly lease: Lease;
  readonly shares: readonly Share[];
}

export interface LeasesOptions {
  /** Prefix of all ids; unique to this gate and this run. */
  readonly prefix: string;
  readonly clock: Clock;
  readonly leaseMs: number;
  /** Called when a lease is due. The lease is still held; the callee ends it. */
  readonly onDue: (id: string) => void;
}

export class Leases<Share> {
  readonly #prefix: string;
  readonly #clock: Clock;
  readonly #onDue: (id: string) => void;
  readonly #byNumber: Table<FifoNode<LeaseWithShares<Share>>> = new Table();
  /** All leases last equally long, so the oldest is due first. */
  readonly #byAge: Fifo<LeaseWithShares<Share>> = new Fifo();
  #leaseMs: number;
  #number = 0;
  #cost = 0;
  #timer: Timer | null = null;

  constructor({ prefix, clock, leaseMs, onDue }: LeasesOptions) {
    this.#prefix = prefix;
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#onDue = onDue;
  }

  get count(): number {
    return this.#byAge.size;
  }

  /** Sum of the costs of all leases held. */
  get cost(): number {
    return this.#cost;
  }

  holds(id: string): boolean {
    return this.#find(id) !== undefined;
  }

  take(cost: number, shares: readonly Share[]): Lease {
    this.#number += 1;
    const lease = { id: `${this.#prefix}${this.#number}`, cost, admittedAt: this.#clock.now() };
    this.#byNumber.set(this.#number, this.#byAge.push({ lease, shares }));
    this.#cost += cost;
    if (this.#byAge.size === 1) this.#arm();
    return lease;
  }

  /** Ends a lease and returns it; null if it has ended before or is not one of these. */
  end(id: string): LeaseWithShares<Share> | null {
    const node = this.#find(id);
    if (!node) return null;
    const wasFirst = this.#byAge.first === node;
    this.#byNumber.delete(this.#numberOf(id));
    this.#byAge.remove(node);
    // Sums of fractions drift, so the sum is reset to 0 when no lease is left.
    this.#cost = this.#byAge.size === 0 ? 0 : this.#cost - node.value.lease.cost;
    if (wasFirst) this.#arm();
    return node.value;
  }

  /** Also applies to leases already taken. */
  setLeaseMs(leaseMs: number): void {
    this.#leaseMs = leaseMs;
    this.#arm();
  }

  /** Returns the ids of all leases held, oldest first. */
  ids(): string[] {
    return [...this.#byAge].map(({ lease }) => lease.id);
  }

  #find(id: string): FifoNode<LeaseWithShares<Share>> | undefined {
    const number = this.#numberOf(id);
    return Number.isSafeInteger(number) && number > 0 ? this.#byNumber.get(number) : undefined;
  }

  /** Returns NaN if the id is not of this gate and this run. */
  #numberOf(id: string): number {
    return id.startsWith(this.#prefix) ? Number(id.slice(this.#prefix.length)) : Number.NaN;
  }

  #arm(): void {
    this.#timer?.cancel();
    const oldest = this.#byAge.first?.value.lease;
    this.#timer = oldest ? this.#clock.at(oldest.admittedAt + this.#leaseMs, () => this.#expire()) : null;
  }

  #expire(): void {
    const due = this.#clock.now() - this.#leaseMs;
    const late: string[] = [];
    for (const { lease } of this.#byAge) {
      if (lease.admittedAt > due) break;
      late.push(lease.id);
    }
    for (const id of late) this.#onDue(id);
    this.#arm();
  }
}

/**
 * The waiting room of a durable gate. Items wait in a store on disk. The room claims them as the gate's budget allows,
 * sends them on, and reports their outcome to the store. An item that was claimed but has no outcome runs again.
 */
import type { GateConfig } from '../../../config/compile-gate.ts';
import type { Clock } from '../../../core/clock.ts';
import { ModeletError } from '../../../core/errors.ts';
import type { GateDecision } from '../../../observe/views/gate-snapshot.ts';
import type { Gate } from '../../gate.ts';
import type { Lease } from '../../leases.ts';
import type { LeaseEnd } from '../../source.ts';
import type {
  Cancelled,
  Claim,
  Enqueued,
  ItemResult,
  QueueItem,
  QueueStats,
  WorkQueue,
} from '../../store/work-queue.ts';
import type { RequestEnd } from '../message-leases.ts';
import { Batches } from './durable-batches.ts';
import { Claims } from './durable-claims.ts';
import { AT_ONCE, DurablePump, type PumpWork } from './durable-pump.ts';
import { type DeliveryVerdict, deliveryVerdictOn, failedVerdict, verdictOnSilence } from './durable-verdict.ts';
import { DurableView } from './durable-view.ts';

/** Receives the items that leave the room. Only `costOf` may throw. */
export interface Outlet {
  /** Returns the cost in the gate's unit. @throws ModeletError if the item is unreadable or does not tell its cost. */
  costOf(claim: Claim): number;
  /** Sends an item on. The message holds the lease until `settle` or `bury` is called for it. */
  admit(claim: Claim, lease: Lease): void;
  /** Reports the error of an item whose deadline has passed or that a drop order removed. */
  refuse(claim: Claim, error: ModeletError): void;
  onChange(): void;
  onTrouble(error: Error): void;
}

export interface RoomOptions {
  readonly gate: Gate;
  readonly queue: WorkQueue;
  readonly config: GateConfig;
  /** Largest result to keep, in bytes. */
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly outlet: Outlet;
}

/** Most items in one write. */
const STORED_AT_ONCE = 256;

export class DurableRoom {
  readonly #gate: Gate;
  readonly #queue: WorkQueue;
  readonly #outlet: Outlet;
  readonly #maxBytes: number;
  readonly #incoming: Batches<QueueItem, Enqueued>;
  readonly #claims: Claims;
  readonly #pump: DurablePump;
  readonly #view: DurableView;
  /** The items on their way through the flow, by lease id. */
  readonly #runs: Map<string, Claim> = new Map();
  readonly #leaveGate: () => void;
  readonly #decisions: Partial<Record<GateDecision, number>> = {};
  #config: GateConfig;

  constructor({ gate, queue, config, maxBytes, clock, outlet }: RoomOptions) {
    this.#gate = gate;
    this.#queue = queue;
    this.#config = config;
    this.#maxBytes = maxBytes;
    this.#outlet = outlet;
    this.#incoming = new Batches((items) => queue.enqueue(items), STORED_AT_ONCE);
    this.#claims = new Claims(queue, clock, {
      onLost: (claim) => this.#lost(claim),
      onTrouble: (error) => outlet.onTrouble(error),
    });
    this.#view = new DurableView(queue, clock, {
      onStats: ({ ready }) => {
        // An item that must run alone, or an item that waited for such an item, may be claimable by now.
        if (ready > 0) this.#pump.wake();
        outlet.onChange();
      },
      onTime: () => this.#pump.wakeForExpiry(),
      onTrouble: (error) => outlet.onTrouble(error),
    });
    const work: PumpWork = {
      claim: (max, expired) => this.#claim(max, expired),
      costOf: (claim) => outlet.costOf(claim),
      countsRequests: () => this.#config.unit === 'requests',
      admit: (claim, lease) => this.#admit(claim, lease),
      expire: (claim) =>
        this.#refuse(claim, 'expired', this.#error('deadline_exceeded', 'has not let it through in time')),
      reject: (claim, error) => this.#conclude(claim, { kind: 'bury', reason: error.message }),
      onTrouble: (error) => {
        outlet.onTrouble(error);
        this.#view.retry();
      },
    };
    this.#pump = new DurablePump(gate, work, clock);
    this.#leaveGate = gate.admission.onEnded((_, lease) => this.#expired(lease.id));
    this.#pump.wake();
    void this.#view.look();
  }

  get stats(): QueueStats | null {
    return this.#view.stats;
  }

  get decisions(): Readonly<Partial<Record<GateDecision, number>>> {
    return this.#decisions;
  }

  /** Stores an item. Resolves when it is on disk. @throws ModeletError `store_unavailable`, `capacity_exceeded`. */
  async store(item: QueueItem): Promise<Enqueued> {
    const enqueued = await this.#incoming.add(item);
    if (enqueued === 'full') this.#decide('refused_full');
    if (enqueued === 'new') this.#wake();
    return enqueued;
  }

  /** Ends one attempt and reports its verdict to the store. */
  settle(leaseId: string, how: RequestEnd): void {
    const claim = this.#endRun(leaseId, how.end);
    if (claim) void this.#conclude(claim, deliveryVerdictOn(how, claim, this.#maxBytes));
  }

  /** Makes an item that can never be sent on a dead letter. */
  bury(leaseId: string, reason: string): void {
    const claim = this.#endRun(leaseId, { kind: 'cancelled' });
    if (claim) void this.#conclude(claim, { kind: 'bury', reason });
  }

  /** Lets all items that wait now pass regardless of the budget. */
  async flush(): Promise<void> {
    const { ready, delayed } = await this.#queue.stats();
    this.#pump.release(ready + delayed);
  }

  /** Refuses all claimable items with `dropped`. */
  async drop(): Promise<void> {
    const error = this.#error('dropped', 'was told by a message to drop it');
    const next = async (): Promise<readonly Claim[]> => {
      const head = this.#pump.takeHead();
      return head ? [head] : this.#claim(AT_ONCE, false);
    };
    for (let claims = await next(); claims.length > 0; claims = await next()) {
      await Promise.all(claims.map((claim) => this.#refuse(claim, 'dropped', error)));
    }
  }

  /** Puts dead letters back with all their attempts; null: all dead letters. Resolves to their number. */
  async redrive(ids: readonly string[] | null): Promise<number> {
    const driven = await this.#queue.redrive(ids);
    this.#wake();
    return driven;
  }

  async cancel(id: string): Promise<Cancelled> {
    const cancelled = await this.#queue.cancel(id);
    if (cancelled === 'cancelled') this.#decide('cancelled');
    this.#view.lookSoon();
    return cancelled;
  }

  result(id: string): Promise<ItemResult | null> {
    return this.#queue.result(id);
  }

  reconfigure(config: GateConfig): void {
    this.#config = config;
    this.#queue.configure(config).catch((thrown: Error) => this.#outlet.onTrouble(thrown));
    this.#wake();
  }

  /** Gives back running items, which run again after the next start, and closes the store. */
  async close(): Promise<void> {
    this.#pump.close();
    this.#view.close();
    this.#leaveGate();
    this.#runs.clear();
    await Promise.all([this.#incoming.settled(), this.#claims.close()]);
    await this.#queue.close();
  }

  #wake(): void {
    this.#pump.wake();
    this.#view.lookSoon();
  }

  async #claim(max: number, expired: boolean): Promise<Claim[]> {
    const claims = await this.#claims.claim(max, expired);
    if (claims.length > 0) this.#view.lookSoon();
    return claims;
  }

  #admit(claim: Claim, lease: Lease): void {
    this.#runs.set(lease.id, claim);
    this.#decide('admitted_late');
    this.#outlet.admit(claim, lease);
  }

  async #refuse(claim: Claim, decision: GateDecision, error: ModeletError): Promise<void> {
    this.#decide(decision);
    await this.#conclude(claim, failedVerdict(error));
    this.#outlet.refuse(claim, error);
  }

  /** Ends a run and its lease, and returns its item; null if the run has ended before. */
  #endRun(leaseId: string, end: LeaseEnd): Claim | null {
    const claim = this.#runs.get(leaseId) ?? null;
    // Delete the run first: `#expired` concludes each run whose lease has ended.
    this.#runs.delete(leaseId);
    this.#gate.end(leaseId, end);
    return claim;
  }

  /** Reports silence for a run whose lease the gate itself has ended. */
  #expired(leaseId: string): void {
    const claim = this.#runs.get(leaseId);
    if (!claim) return;
    this.#runs.delete(leaseId);
    void this.#conclude(claim, verdictOnSilence(this.#config.leaseMs));
  }

  async #conclude(claim: Claim, verdict: DeliveryVerdict): Promise<void> {
    await this.#claims.conclude(claim, verdict);
    // Other items may have waited for an item that ran alone, or an item to run alone for the others to end.
    if (claim.alone || verdict.kind === 'nack' || (this.stats?.ready ?? 0) > 0) this.#wake();
    else this.#view.lookSoon();
  }

  /** Drops a run whose lease in the store has ended. The item is claimed again; this attempt's outcome is ignored. */
  #lost(claim: Claim): void {
    this.#pump.takeHead(claim);
    for (const [leaseId, running] of [...this.#runs]) {
      if (running === claim) this.#endRun(leaseId, { kind: 'lost' });
    }
    this.#wake();
  }

  #decide(decision: GateDecision): void {
    this.#decisions[decision] = (this.#decisions[decision] ?? 0) + 1;
  }

  #error(code: 'deadline_exceeded' | 'dropped', what: string): ModeletError {
    return new ModeletError(code, `the gate "${this.#gate.admission.name}" ${what}`);
  }
}

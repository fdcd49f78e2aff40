/**
 * Claims items of a durable gate's store. Extends the leases of open claims in time so that no other process gets the items,
 * and reports verdicts until the store has taken them.
 */
import { randomUUID } from 'node:crypto';
import { atLatest, type Clock, type Timer } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import type { Ack, Claim, WorkQueue } from '../../store/work-queue.ts';
import { Batches } from './durable-batches.ts';
import type { DeliveryVerdict } from './durable-verdict.ts';

export interface ClaimEvents {
  /** Called when a lease has ended and another process may have the item. */
  onLost(claim: Claim): void;
  onTrouble(error: Error): void;
}

/** Long enough for a machine that swaps. The next start does not wait for it after this process was killed. */
const LEASE_MS = 30_000;
/** Delay before a failed report is repeated. */
const RETRY_MS = 1000;
/** Longest wait at the end for claims that the store has not answered. */
const LAST_CLAIMS_MS = 1000;
/** Most results in one write. */
const STORED_AT_ONCE = 256;

export class Claims {
  readonly #queue: WorkQueue;
  readonly #clock: Clock;
  readonly #events: ClaimEvents;
  readonly #acks: Batches<Ack, boolean>;
  readonly #open: Set<Claim> = new Set();
  /** Claims that the store has not answered. */
  readonly #asked: Set<Promise<Claim[]>> = new Set();
  #timer: Timer | null = null;
  #closed = false;

  constructor(queue: WorkQueue, clock: Clock, events: ClaimEvents) {
    this.#queue = queue;
    this.#clock = clock;
    this.#events = events;
    this.#acks = new Batches((acks) => queue.ack(acks), STORED_AT_ONCE);
  }

  /** Claims with a new token per call: if the answer is lost, a retry with the same token returns the same claims. */
  async claim(max: number, expired: boolean): Promise<Claim[]> {
    if (this.#closed) return [];
    const asked = this.#queue.claim({ max, leaseMs: LEASE_MS, token: randomUUID(), expired }).then((claims) => {
      for (const claim of claims) this.#open.add(claim);
      return claims;
    });
    this.#asked.add(asked);
    const claims = await asked.finally(() => this.#asked.delete(asked));
    // Then `close` gives them back.
    if (this.#closed) return [];
    if (this.#open.size > 0) this.#extendInTime();
    return claims;
  }

  /** Reports a verdict. Resolves when the store has taken it, the claim is lost, or the room is closed. */
  async conclude(claim: Claim, verdict: DeliveryVerdict): Promise<void> {
    while (this.#open.has(claim)) {
      try {
        await this.#write(claim, verdict);
        this.#open.delete(claim);
      } catch (thrown) {
        if (this.#closed) return;
        this.#events.onTrouble(asError(thrown));
        await new Promise<void>((resolve) => this.#clock.at(this.#clock.now() + RETRY_MS, resolve));
      }
    }
  }

  /** Gives back the open claims without counting an attempt. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#acks.settled(), this.#answered()]);
    this.#timer?.cancel();
    const claims = [...this.#open];
    this.#open.clear();
    if (claims.length === 0) return;
    try {
      await this.#queue.nack(claims, {
        delayMs: 0,
        reason: 'the gate was stopped',
        countAttempt: false,
        alone: false,
      });
    } catch {
      // The next process that opens the store takes the claims back.
    }
  }

  /** Resolves when the store has answered all claims, at the latest after `LAST_CLAIMS_MS`. */
  async #answered(): Promise<void> {
    if (this.#asked.size === 0) return;
    await atLatest(this.#clock, this.#clock.now() + LAST_CLAIMS_MS, Promise.allSettled(this.#asked));
  }

  async #write({ id, token }: Claim, verdict: DeliveryVerdict): Promise<void> {
    switch (verdict.kind) {
      case 'ack':
        await this.#acks.add({ id, token, ok: verdict.ok, result: verdict.result });
        return;
      case 'nack':
        await this.#queue.nack([{ id, token }], verdict.options);
        return;
      case 'bury':
        await this.#queue.deadLetter([{ id, token }], verdict.reason);
    }
  }

  #extendInTime(): void {
    this.#timer ??= this.#clock.at(this.#clock.now() + LEASE_MS / 3, () => void this.#extend());
  }

  async #extend(): Promise<void> {
    this.#timer = null;
    const claims = [...this.#open];
    if (claims.length === 0) return;
    try {
      const extended = await this.#queue.extend(claims, LEASE_MS);
      for (const [index, claim] of claims.entries()) {
        if (!extended[index] && this.#open.delete(claim)) this.#events.onLost(claim);
      }
    } catch {
      // A store that does not answer does not end leases either, so try again later.
    }
    if (this.#open.size > 0) this.#extendInTime();
  }
}

/**
 * What admitted messages hold of gates. A message carries tokens in `msg.modelet.leases`; clones of it carry the same,
 * and the first of them to come to an end ends the lease.
 */
import { systemClock } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { LeaseEnd } from '../../gate/source.ts';
import type { PipelineMessage } from './messages.ts';

/** What there is to know of a request that has come to its end. */
export interface Ended {
  /** As it was then; undefined if it was lost. */
  readonly msg?: PipelineMessage;
  readonly error?: ModeletError | undefined;
}

interface HeldLease {
  readonly gate: string;
  readonly end: (end: LeaseEnd, ended: Ended) => void;
  /** The gate has ended it by itself from then on. */
  readonly until: number;
  /** Pipelines and gates that have a message with it now. */
  inside: number;
}

/** A message's leases while a pipeline or a gate has it: no deploy can lose it there. Only the first call counts. */
export interface Stay {
  /** The message goes on, and keeps them. */
  leave(): void;
  end(end: LeaseEnd, error?: ModeletError): void;
}

/** Tables smaller than this are not worth looking through for leases that ended by themselves. */
const WORTH_SWEEPING = 1024;

export class Leases {
  readonly #held: Map<string, HeldLease> = new Map();
  readonly #noneHeld: () => void;
  #sweepAt = WORTH_SWEEPING;

  /** @param noneHeld called when the last lease has ended */
  constructor(noneHeld: () => void = () => {}) {
    this.#noneHeld = noneHeld;
  }

  get isNoneHeld(): boolean {
    this.#sweep(systemClock.now());
    return this.#held.size === 0;
  }

  /** @param token unique among all gates and processes. @param end may be called for a lease that has ended. */
  hold(token: string, gate: string, leaseMs: number, end: HeldLease['end']): void {
    const now = systemClock.now();
    if (this.#held.size >= this.#sweepAt) this.#sweep(now);
    this.#held.set(token, { gate, end, until: now + leaseMs, inside: 0 });
  }

  /** A pipeline or gate takes a message in. */
  enter(msg: PipelineMessage): Stay {
    const held = tokensOf(msg).flatMap((token) => this.#held.get(token) ?? []);
    for (const lease of held) lease.inside += 1;
    let isOver = false;
    const leave = (): boolean => {
      if (isOver) return false;
      isOver = true;
      for (const lease of held) lease.inside -= 1;
      return true;
    };
    return {
      leave: () => void leave(),
      end: (end, error) => {
        if (leave()) this.end(msg, end, { error });
      },
    };
  }

  /** A request has come to its end, or only as far as one gate is concerned. */
  end(
    msg: PipelineMessage,
    end: LeaseEnd,
    { gate, error }: { gate?: string; error?: ModeletError | undefined } = {},
  ): void {
    const trace = msg.modelet;
    if (!trace?.leases) return;
    const ended = tokensOf(msg).filter((token) => gate === undefined || this.#held.get(token)?.gate === gate);
    trace.leases = tokensOf(msg).filter((token) => !ended.includes(token));
    if (trace.leases.length === 0) delete trace.leases;
    for (const token of ended) this.#end(token, end, { msg, error });
  }

  /** Ends one whose message is in no pipeline and no gate. */
  endIfElsewhere(token: string, end: LeaseEnd): void {
    if (this.#held.get(token)?.inside === 0) this.#end(token, end, {});
  }

  #end(token: string, end: LeaseEnd, ended: Ended): void {
    const lease = this.#held.get(token);
    this.#held.delete(token);
    lease?.end(end, ended);
    if (this.#held.size === 0) this.#noneHeld();
  }

  #sweep(now: number): void {
    for (const [token, { until }] of this.#held) if (until <= now) this.#held.delete(token);
    this.#sweepAt = Math.max(WORTH_SWEEPING, 2 * this.#held.size);
  }
}

/** Flows can write anything into a message. */
function tokensOf(msg: PipelineMessage): readonly string[] {
  const leases: unknown = msg.modelet?.leases;
  return Array.isArray(leases) ? leases : [];
}

/**
 * What admitted messages hold of gates. A message carries tokens in `msg.modelet.leases`; clones of it carry the same,
 * and the first of them to come to an end ends the lease. The end of a request tells the gate how it ended.
 */
import { httpDate, systemClock, wallTime } from '../../core/clock.ts';
import { type ErrorCode, isErrorCode, type ModeletError } from '../../core/errors.ts';
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
export interface LeaseHold {
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
  enter(msg: PipelineMessage): LeaseHold {
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

/** This runtime refuses with these because it has too much to do, or nobody to do it. */
const OVERLOAD: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'capacity_exceeded',
  'gate_refused',
  'stage_unavailable',
  'engine_lost',
]);

export function endOfError({
  code,
  retryAfterSeconds = 0,
}: Pick<ModeletError, 'code' | 'retryAfterSeconds'>): LeaseEnd {
  if (code === 'cancelled') return { kind: 'cancelled' };
  return OVERLOAD.has(code) ? { kind: 'refused', retryAfterMs: retryAfterSeconds * 1000 } : { kind: 'failed' };
}

/** Of a message that comes back from anywhere: an `http request` node, a Catch node, or a stage's result. */
export function endOfMessage(msg: PipelineMessage): LeaseEnd {
  const { error, statusCode, headers } = msg;
  const retryAfterMs = retryAfter(headers);
  if (isErrorCode(error?.code)) return endOfError({ code: error.code, retryAfterSeconds: retryAfterMs / 1000 });
  const answered = typeof msg['responseUrl'] === 'string';
  if (answered && (statusCode === 429 || statusCode === 503)) return { kind: 'refused', retryAfterMs };
  // Where there was no answer, `http request` writes why as the status: ECONNREFUSED.
  const failed = error !== undefined || typeof statusCode === 'string' || (answered && Number(statusCode) >= 500);
  return { kind: failed ? 'failed' : 'done' };
}

/** `Retry-After` in ms: seconds, or a date. 0 where there is none, or none that can be read. */
function retryAfter(headers: PipelineMessage['headers']): number {
  const [, value] = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === 'retry-after') ?? [];
  if (value === undefined) return 0;
  const text = String(value).trim();
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : httpDate(text) - wallTime();
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}

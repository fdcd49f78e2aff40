/**
 * The gate leases that admitted messages hold. A message carries lease tokens in `msg.modelet.leases`. Its clones carry
 * the same tokens, and the first of them to end ends the lease. The gate then learns how the request ended. The gate
 * itself ends a lease of which it hears nothing (src/gate/leases.ts), and has this table forget it.
 */
import { httpDate, wallTime } from '../../core/clock.ts';
import { type ErrorCode, isErrorCode, type ModeletError } from '../../core/errors.ts';
import type { LeaseHold } from '../../node-red/gate-port.ts';
import type { PipelineMessage } from '../../node-red/request/messages.ts';
import { LONGEST_RETRY_AFTER_MS } from '../admission/refusal-latch.ts';
import type { LeaseEnd } from '../source.ts';

/** How the request of a lease ended, with its message as it reached the collector or failed, and its error. */
export interface RequestEnd {
  readonly end: LeaseEnd;
  /** Undefined if the message was lost. */
  readonly msg?: PipelineMessage | undefined;
  readonly error?: ModeletError | undefined;
}

interface HeldLease {
  readonly gate: string;
  readonly end: (how: RequestEnd) => void;
  /** Number of pipelines and gates that now have a message with this lease. */
  inside: number;
}

export class MessageLeases {
  readonly #held: Map<string, HeldLease> = new Map();

  /**
   * Records a lease.
   * @param token unique among all gates and processes
   * @param end called once, when a message with this lease ends, unless `forget` came first
   */
  hold(token: string, gate: string, end: HeldLease['end']): void {
    this.#held.set(token, { gate, end, inside: 0 });
  }

  /** Drops a lease that its gate has ended. Does nothing if it has ended here. */
  forget(token: string): void {
    this.#held.delete(token);
  }

  /** Records that a pipeline or gate takes in a message. */
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
      end: (how) => {
        if (!leave()) return;
        if (typeof how === 'string') this.end(msg, { kind: how });
        else this.end(msg, endOfError(how), { error: how });
      },
    };
  }

  /** Ends all leases of a message, or only those of `gate` if it is given. */
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
    for (const token of ended) this.#end(token, { end, msg, error });
  }

  /** Ends a lease if its message is in no pipeline and no gate. */
  endIfElsewhere(token: string, end: LeaseEnd): void {
    if (this.#held.get(token)?.inside === 0) this.#end(token, { end });
  }

  #end(token: string, how: RequestEnd): void {
    const lease = this.#held.get(token);
    this.#held.delete(token);
    lease?.end(how);
  }
}

/** Returns a message's lease tokens, or none if the flow has written something else there. */
function tokensOf(msg: PipelineMessage): readonly string[] {
  const leases: unknown = msg.modelet?.leases;
  return Array.isArray(leases) ? leases : [];
}

/** Codes with which this runtime refuses a request because it is overloaded or has no workers. */
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

/** Returns how a request ended, from its message: after an `http request` node, a Catch node, or a stage's result. */
export function endOfMessage(msg: PipelineMessage): LeaseEnd {
  const { error, statusCode, headers } = msg;
  const retryAfterMs = retryAfter(headers);
  if (isErrorCode(error?.code)) return endOfError({ code: error.code, retryAfterSeconds: retryAfterMs / 1000 });
  const answered = typeof msg['responseUrl'] === 'string';
  if (answered && (statusCode === 429 || statusCode === 503)) return { kind: 'refused', retryAfterMs };
  // If there was no answer, `http request` writes the reason as the status, for example ECONNREFUSED.
  const failed = error !== undefined || typeof statusCode === 'string' || (answered && Number(statusCode) >= 500);
  return { kind: failed ? 'failed' : 'done' };
}

/** Returns `Retry-After` (seconds or a date) in ms, up to the longest pause; 0 if it is missing or unreadable. */
function retryAfter(headers: PipelineMessage['headers']): number {
  const [, value] = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === 'retry-after') ?? [];
  if (value === undefined) return 0;
  const text = String(value).trim();
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : httpDate(text) - wallTime();
  return Number.isNaN(ms) ? 0 : Math.min(LONGEST_RETRY_AFTER_MS, Math.max(0, ms));
}

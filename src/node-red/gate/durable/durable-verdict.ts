/** What the end of one attempt makes of a stored item. */
import { asError, type ErrorCode, isErrorCode, type ModeletError } from '../../../core/errors.ts';
import type { Payload } from '../../../core/model.ts';
import type { LeaseEnd } from '../../../gate/source.ts';
import type { NackOptions } from '../../../store/work-queue.ts';
import { encodePayload } from '../../../wire/codec/codec.ts';
import type { PipelineMessage } from '../../request/messages.ts';

/** How an attempt ended: what its lease was told, and with what. */
export interface AttemptEnd {
  readonly end: LeaseEnd;
  /** As it came to the collector, or failed. */
  readonly msg?: PipelineMessage | undefined;
  readonly error?: ModeletError | undefined;
}

export type Verdict =
  | { readonly kind: 'ack'; readonly ok: boolean; readonly result: Payload | null }
  | { readonly kind: 'nack'; readonly options: NackOptions }
  /** To be a dead letter at once. */
  | { readonly kind: 'bury'; readonly reason: string };

/** An error as it is kept for whoever asks. */
export interface KeptError {
  readonly code: string;
  readonly message: string;
}

/** The same again would end the same: another attempt is of no use. */
const FINAL: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'invalid_input',
  'bad_request',
  'payload_too_large',
  'unsupported_media',
  'deadline_exceeded',
  'dropped',
]);
/** Says nothing of the item: it waits until the runtime has got over it. */
const NOT_ITS_FAULT: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'capacity_exceeded',
  'gate_refused',
  'stage_unavailable',
  'store_unavailable',
  'shutting_down',
  'config_invalid',
  'cancelled',
]);

/** Before an item that was refused comes again: the gate, which is closed meanwhile, decides when. */
const REFUSED_DELAY_MS = 250;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 60_000;

/** @param attempt from 1. @param alone it ran with nothing else of its gate beside it. */
export function verdictOn(
  { end, msg, error }: AttemptEnd,
  { attempt, alone }: { readonly attempt: number; readonly alone: boolean },
  maxBytes: number,
): Verdict {
  const code = error?.code ?? codeIn(msg);
  const reason = reasonOf(end, code, error?.message ?? msg?.error?.message);
  if (code !== null && FINAL.has(code)) return failed({ code, message: error?.message ?? reason });
  if (code === 'worker_lost') return nack(reason, { countAttempt: true, alone: true });
  // The death of an engine is many items' at once: it counts for one that was alone there.
  if (code === 'engine_lost') return nack(reason, { countAttempt: alone, alone: true });
  if (code !== null && NOT_ITS_FAULT.has(code)) return again(reason, end);
  switch (end.kind) {
    case 'done':
      return succeeded(msg, maxBytes);
    case 'failed':
      return nack(reason, { countAttempt: true, delayMs: backoff(attempt) });
    case 'refused':
    case 'cancelled':
    case 'lost':
      return again(reason, end);
  }
}

/** Nothing was seen of it for as long as it may take. */
export function verdictOnSilence(leaseMs: number): Verdict {
  return nack(`no result was seen within ${leaseMs} ms`, { countAttempt: true, alone: true });
}

export function failed(error: KeptError): Verdict {
  return { kind: 'ack', ok: false, result: keptError(error) };
}

export function keptError({ code, message }: KeptError): Payload {
  return encodePayload({ code, message }, { blame: 'modelet_failed', maxBytes: Number.MAX_SAFE_INTEGER });
}

function succeeded(msg: PipelineMessage | undefined, maxBytes: number): Verdict {
  try {
    const result = encodePayload(msg?.payload ?? null, { blame: 'modelet_failed', maxBytes });
    return { kind: 'ack', ok: true, result };
  } catch (thrown) {
    // The work is done, and doing it again would end the same.
    return failed({ code: 'modelet_failed', message: `the result cannot be kept: ${asError(thrown).message}` });
  }
}

function again(reason: string, end: LeaseEnd): Verdict {
  const delayMs = end.kind === 'refused' ? Math.max(REFUSED_DELAY_MS, end.retryAfterMs) : 0;
  return nack(reason, { delayMs });
}

function nack(reason: string, options: Partial<NackOptions>): Verdict {
  return { kind: 'nack', options: { delayMs: 0, countAttempt: false, alone: false, ...options, reason } };
}

/** Doubles with each attempt. */
function backoff(attempt: number): number {
  return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (attempt - 1));
}

function codeIn(msg: PipelineMessage | undefined): ErrorCode | null {
  const code = msg?.error?.code;
  return isErrorCode(code) ? code : null;
}

function reasonOf(end: LeaseEnd, code: ErrorCode | null, message: string | undefined): string {
  if (code !== null) return message ? `${code}: ${message}` : code;
  return message ?? end.kind;
}

/** Decides what happens to a stored item after an attempt: it is done, runs again, or becomes a dead letter. */
import { asError, type ErrorCode, isErrorCode } from '../../../core/errors.ts';
import type { Payload } from '../../../core/model.ts';
import type { PipelineMessage } from '../../../node-red/request/messages.ts';
import { growingPause } from '../../../process/parent/backoff.ts';
import { encodePayload } from '../../../wire/codec/codec.ts';
import type { LeaseEnd } from '../../source.ts';
import type { NackOptions } from '../../store/work-queue.ts';
import type { RequestEnd } from '../message-leases.ts';

export type DeliveryVerdict =
  | { readonly kind: 'ack'; readonly ok: boolean; readonly result: Payload | null }
  | { readonly kind: 'nack'; readonly options: NackOptions }
  /** Makes the item a dead letter at once. */
  | { readonly kind: 'bury'; readonly reason: string };

/** An error as the store keeps it for status queries. */
export interface KeptError {
  readonly code: string;
  readonly message: string;
}

/** Errors after which another attempt is useless, because it would end the same. */
const FINAL: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'invalid_input',
  'bad_request',
  'payload_too_large',
  'unsupported_media',
  'deadline_exceeded',
  'dropped',
]);
/** Errors that the item did not cause: it waits and runs again, and the attempt does not count. */
const NOT_ITS_FAULT: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'capacity_exceeded',
  'gate_refused',
  'stage_unavailable',
  'store_unavailable',
  'shutting_down',
  'config_invalid',
  'cancelled',
]);

/** Shortest delay of an item that was refused. The gate is closed meanwhile and decides when it lets the item in. */
const REFUSED_DELAY_MS = 250;
const RETRY = { firstMs: 500, longestMs: 60_000 } as const;

/** Returns the verdict on an attempt. @param attempt from 1. @param alone whether no other item of the gate ran. */
export function deliveryVerdictOn(
  { end, msg, error }: RequestEnd,
  { attempt, alone }: { readonly attempt: number; readonly alone: boolean },
  maxBytes: number,
): DeliveryVerdict {
  const code = error?.code ?? codeIn(msg);
  const reason = reasonOf(end, code, error?.message ?? msg?.error?.message);
  if (code !== null && FINAL.has(code)) return failedVerdict({ code, message: error?.message ?? reason });
  if (code === 'worker_lost') return nack(reason, { countAttempt: true, alone: true });
  // An engine's death hits many items at once, so it counts as an attempt only for an item that ran alone.
  if (code === 'engine_lost') return nack(reason, { countAttempt: alone, alone: true });
  if (code !== null && NOT_ITS_FAULT.has(code)) return again(reason, end);
  switch (end.kind) {
    case 'done':
      return succeeded(msg, maxBytes);
    case 'failed':
      return nack(reason, { countAttempt: true, delayMs: growingPause(attempt, RETRY, () => 1) });
    case 'refused':
    case 'cancelled':
    case 'lost':
      return again(reason, end);
  }
}

/** Returns the verdict on an attempt without an outcome after `leaseMs`. */
export function verdictOnSilence(leaseMs: number): DeliveryVerdict {
  return nack(`no result was seen within ${leaseMs} ms`, { countAttempt: true, alone: true });
}

export function failedVerdict(error: KeptError): DeliveryVerdict {
  return { kind: 'ack', ok: false, result: keptError(error) };
}

export function keptError({ code, message }: KeptError): Payload {
  return encodePayload({ code, message }, { blame: 'modelet_failed', maxBytes: Number.MAX_SAFE_INTEGER });
}

function succeeded(msg: PipelineMessage | undefined, maxBytes: number): DeliveryVerdict {
  try {
    const result = encodePayload(msg?.payload ?? null, { blame: 'modelet_failed', maxBytes });
    return { kind: 'ack', ok: true, result };
  } catch (thrown) {
    // The work is done, and another attempt would end the same.
    return failedVerdict({ code: 'modelet_failed', message: `the result cannot be kept: ${asError(thrown).message}` });
  }
}

function again(reason: string, end: LeaseEnd): DeliveryVerdict {
  const delayMs = end.kind === 'refused' ? Math.max(REFUSED_DELAY_MS, end.retryAfterMs) : 0;
  return nack(reason, { delayMs });
}

function nack(reason: string, options: Partial<NackOptions>): DeliveryVerdict {
  return { kind: 'nack', options: { delayMs: 0, countAttempt: false, alone: false, ...options, reason } };
}

function codeIn(msg: PipelineMessage | undefined): ErrorCode | null {
  const code = msg?.error?.code;
  return isErrorCode(code) ? code : null;
}

function reasonOf(end: LeaseEnd, code: ErrorCode | null, message: string | undefined): string {
  if (code !== null) return message ? `${code}: ${message}` : code;
  return message ?? end.kind;
}

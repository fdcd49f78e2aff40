/** Encodes the calls of a queue and their answers, which its client and its process exchange. */
import { ModeletError } from '../../core/errors.ts';
import { CODEC, decodePayload, encodePayload } from '../../wire/codec/codec.ts';
import { decodeModeletError, encodeError } from '../../wire/codec/error-codec.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { bareItem } from '../../wire/frames/items.ts';
import { QUEUE_CALLS, type QueueCall } from './work-queue.ts';

/** Keeps a call within the size of a frame; payloads have a smaller limit. */
const MOST_BYTES = 512 * 1024 * 1024;
const OPTIONS = { blame: 'invalid_input', maxBytes: MOST_BYTES } as const;

export interface Call {
  readonly name: QueueCall;
  readonly args: readonly unknown[];
}

/** @throws ModeletError `payload_too_large`, or `invalid_input` for values that cannot be sent. */
export function encodeCall(number: number, call: Call): WireItem {
  return bareItem(number, encodePayload(call, OPTIONS));
}

/** @throws ModeletError `protocol_error` */
export function decodeCall({ payload }: WireItem): Call {
  const { name, args } = decodePayload(payload) as Partial<Call>;
  if (!name || !QUEUE_CALLS.includes(name) || !Array.isArray(args)) {
    throw new ModeletError('protocol_error', `a queue cannot be asked for ${String(name)}`);
  }
  return { name, args };
}

/** Never throws: an answer that cannot be encoded becomes an error answer. */
export function encodeAnswer(number: number, value: unknown): WireItem {
  try {
    return bareItem(number, encodePayload([value ?? null], OPTIONS));
  } catch (thrown) {
    return encodeFailed(number, thrown);
  }
}

export function encodeFailed(number: number, error: unknown): WireItem {
  return { ...bareItem(number, { codec: CODEC.none, bytes: encodeError(error) }), ok: false };
}

/** @throws ModeletError if the answer is an error. */
export function decodeAnswer({ ok, payload }: WireItem): unknown {
  if (!ok) throw decodeModeletError(payload.bytes, 'store_unavailable');
  return (decodePayload(payload) as unknown[])[0];
}

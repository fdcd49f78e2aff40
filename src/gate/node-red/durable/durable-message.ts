/** Converts messages to and from the bytes that a durable gate stores: all encodable fields except the HTTP client. */
import { wallTime } from '../../../core/clock.ts';
import { ModeletError } from '../../../core/errors.ts';
import type { Payload } from '../../../core/model.ts';
import type { PipelineMessage } from '../../../node-red/request/messages.ts';
import { decodePayload, encodePayload } from '../../../wire/codec/codec.ts';

/** Fields bound to this process, this client, or this run of the flow. They are meaningless after a restart. */
const LEFT_OUT: ReadonlySet<string> = new Set(['req', 'res', 'modelet', 'gate', 'error', '_error']);

export interface StoredMessage {
  /** The message without `modelet`. */
  readonly msg: PipelineMessage;
  readonly requestId: string | null;
}

interface Envelope {
  readonly requestId: string | null;
  readonly fields: Readonly<Record<string, unknown>>;
}

/**
 * Encodes a message for the store.
 * @returns the bytes, and the names of the fields that cannot be stored, such as functions and sockets
 * @throws ModeletError `invalid_input` if the payload cannot be stored, or `payload_too_large`
 */
export function encodeMessage(
  msg: PipelineMessage,
  maxBytes: number,
): { readonly payload: Payload; readonly dropped: readonly string[] } {
  const options = { blame: 'invalid_input', maxBytes } as const;
  const requestId = msg.modelet?.requestId ?? null;
  const names = Object.keys(msg).filter((name) => !LEFT_OUT.has(name));
  const envelope = (kept: readonly string[]): Envelope => ({
    requestId,
    // Not by assignment: a field named `__proto__` must stay plain data.
    fields: Object.fromEntries(kept.map((name) => [name, msg[name as keyof PipelineMessage]])),
  });
  try {
    return { payload: encodePayload(envelope(names), options), dropped: [] };
  } catch (thrown) {
    if (!(thrown instanceof ModeletError) || thrown.code !== 'invalid_input') throw thrown;
    const dropped = names.filter((name) => !canBeStored(msg[name as keyof PipelineMessage], maxBytes));
    if (dropped.includes('payload')) throw thrown;
    const kept = names.filter((name) => !dropped.includes(name));
    return { payload: encodePayload(envelope(kept), options), dropped };
  }
}

/** Decodes a stored message. @throws ModeletError `protocol_error` if the bytes are not a message. */
export function decodeMessage(payload: Payload): StoredMessage {
  const { requestId, fields } = (decodePayload(payload) ?? {}) as Partial<Envelope>;
  if (fields === null || typeof fields !== 'object')
    throw new ModeletError('protocol_error', 'the item contains no message');
  return { msg: fields as PipelineMessage, requestId: requestId ?? null };
}

/** Returns the deadline as a time of day, in ms since 1970; null if the timeout is 0 (no limit). */
export function storedDeadline(timeoutMs: number): number | null {
  return timeoutMs > 0 ? wallTime() + timeoutMs : null;
}

function canBeStored(value: unknown, maxBytes: number): boolean {
  try {
    encodePayload(value, { blame: 'invalid_input', maxBytes });
    return true;
  } catch {
    return false;
  }
}

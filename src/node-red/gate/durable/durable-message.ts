/** A message as a durable gate stores it: what of it can be bytes, without its HTTP client. */
import { wallTime } from '../../../core/clock.ts';
import { ModeletError } from '../../../core/errors.ts';
import type { Payload } from '../../../core/model.ts';
import { decodePayload, encodePayload } from '../../../wire/codec/codec.ts';
import type { PipelineMessage } from '../../request/messages.ts';

/** Of this process, this client, or this way through the flow: nothing of them means anything later. */
const LEFT_OUT: ReadonlySet<string> = new Set(['req', 'res', 'modelet', 'gate', 'error', '_error']);

export interface StoredMessage {
  /** Without `modelet`. */
  readonly msg: PipelineMessage;
  readonly requestId: string | null;
}

interface Envelope {
  readonly requestId: string | null;
  readonly fields: Readonly<Record<string, unknown>>;
}

/**
 * @returns what is stored, and the names of the fields that cannot be: functions, sockets and their like
 * @throws ModeletError `invalid_input` where that is the payload, or `payload_too_large`
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
    // Not assignment: a field called `__proto__` must stay plain data.
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

/** @throws ModeletError `protocol_error` for bytes that are no message. */
export function decodeMessage(payload: Payload): StoredMessage {
  const { requestId, fields } = (decodePayload(payload) ?? {}) as Partial<Envelope>;
  if (fields === null || typeof fields !== 'object') throw new ModeletError('protocol_error', 'no message is stored');
  return { msg: fields as PipelineMessage, requestId: requestId ?? null };
}

/** The time of day at which its time is over; null for one without limit. */
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

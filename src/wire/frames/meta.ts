/** What a request brings along besides its payload, as JSON, for stages that ask for it. */
import { ModeletError } from '../../core/errors.ts';
import { ByteBudget } from '../codec/payload-limits.ts';

/** The names and the message's id are free: a payload of just the largest size must not fail for them. */
const FREE_BYTES = 64;

/**
 * @param maxBytes what the payload has left of the most that a request may have
 * @returns null for what JSON cannot hold
 * @throws ModeletError `payload_too_large`
 */
export function encodeMeta(
  meta: { readonly topic?: unknown; readonly _msgid?: string },
  maxBytes: number,
): Uint8Array | null {
  const budget = new ByteBudget({ blame: 'invalid_input', maxBytes: maxBytes + FREE_BYTES });
  let bytes: Uint8Array;
  try {
    // Counted on the way: what is referred to again and again would be written as often.
    bytes = Buffer.from(JSON.stringify(meta, (_key, value) => budget.count(value)));
  } catch (thrown) {
    if (thrown instanceof ModeletError) throw topicTooLarge(maxBytes);
    return null;
  }
  if (bytes.byteLength > maxBytes + FREE_BYTES) throw topicTooLarge(maxBytes);
  return bytes;
}

function topicTooLarge(maxBytes: number): ModeletError {
  return new ModeletError('payload_too_large', `the topic is too large: the payload leaves ${maxBytes} bytes for it`);
}

/** Encodes what a request brings besides its payload: the meta of an item, see items.ts. */
import { ModeletError } from '../../core/errors.ts';
import { ByteBudget } from '../codec/sizes.ts';

/** Bytes that do not count: a payload of exactly the maximum size must not fail because of field names and the id. */
const FREE_BYTES = 64;

/**
 * Encodes the fields as JSON.
 * @param maxBytes the request's size limit minus the size of its payload
 * @returns null if JSON cannot hold the fields
 * @throws ModeletError `payload_too_large`
 */
export function encodeMeta(
  meta: {
    readonly topic?: unknown;
    readonly _msgid?: string;
    readonly modelet?: { readonly options?: unknown };
    readonly message?: { readonly codec: number; readonly bytes: string };
    readonly key?: string;
    readonly keyStart?: true;
    readonly keyEnd?: true;
  },
  maxBytes: number,
): Uint8Array | null {
  const budget = new ByteBudget({ blame: 'invalid_input', maxBytes: maxBytes + FREE_BYTES });
  let bytes: Uint8Array;
  try {
    // Count during the encoding: JSON repeats an object for each reference, and could grow without a limit.
    bytes = Buffer.from(JSON.stringify(meta, (_key, value) => budget.count(value)));
  } catch (thrown) {
    if (thrown instanceof ModeletError) throw topicTooLarge(maxBytes);
    return null;
  }
  if (bytes.byteLength > maxBytes + FREE_BYTES) throw topicTooLarge(maxBytes);
  return bytes;
}

function topicTooLarge(maxBytes: number): ModeletError {
  return new ModeletError(
    'payload_too_large',
    `the topic is too large, or the options are: the payload leaves ${maxBytes} bytes for them`,
  );
}

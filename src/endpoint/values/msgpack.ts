/**
 * Decodes and encodes msgpack. Types that JSON lacks are kept: binaries are Buffers, timestamps are dates, and integers
 * that a number cannot hold are BigInts.
 */
import { types } from 'node:util';
import {
  DecodeError,
  decode,
  decodeTimestampExtension,
  EXT_TIMESTAMP,
  ExtensionCodec,
  encode,
  encodeDateToTimeSpec,
  encodeTimeSpecToTimestamp,
} from '@msgpack/msgpack';
import { asError, ModeletError } from '../../core/errors.ts';
import { shapeOf } from './msgpack-shape.ts';
import { packable } from './packable.ts';

/** Most levels of a value to encode: those of the deepest payload, plus some for the objects that wrap it. */
const DEEPEST = 1100;

const extensionCodec: ExtensionCodec = new ExtensionCodec();
extensionCodec.register({
  type: EXT_TIMESTAMP,
  // Function nodes make dates in another realm, so `instanceof Date` would miss them.
  encode: (value) => (types.isDate(value) ? encodeTimeSpecToTimestamp(encodeDateToTimeSpec(value)) : null),
  decode: (data) => {
    const date = decodeTimestampExtension(data);
    if (Number.isNaN(date.getTime())) throw new DecodeError('a timestamp beyond what a date can be');
    return date;
  },
});

/**
 * Decodes one msgpack value. Its binaries are views of `bytes`.
 * @throws ModeletError `bad_request` unless the bytes are exactly one msgpack value, or if it has a key `__proto__`;
 * `payload_too_large` if it has too many values to hold in memory.
 */
export function decodeMsgpack(bytes: Buffer): unknown {
  const { wide } = shapeOf(bytes);
  try {
    const value = decode(bytes, { extensionCodec, useBigInt64: wide });
    return wide ? narrow(value) : value;
  } catch (thrown) {
    throw new ModeletError('bad_request', `the body is not valid msgpack: ${asError(thrown).message}`);
  }
}

/**
 * Encodes a value as msgpack.
 * @throws ModeletError `modelet_failed` for a value that msgpack cannot hold, or that contains itself.
 */
export function encodeMsgpack(value: unknown): Buffer {
  try {
    const { value: made, wide } = packable(value);
    const bytes = encode(made, { extensionCodec, ignoreUndefined: true, useBigInt64: wide, maxDepth: DEEPEST });
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  } catch (thrown) {
    throw new ModeletError('modelet_failed', `the result cannot be sent as msgpack: ${asError(thrown).message}`);
  }
}

/** Converts each BigInt that a number can hold exactly. Changes arrays and maps in place: they were just decoded. */
function narrow(value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value) || types.isDate(value)) return value;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) value[index] = narrow(value[index]);
    return value;
  }
  const map = value as Record<string, unknown>;
  for (const key of Object.keys(map)) map[key] = narrow(map[key]);
  return map;
}

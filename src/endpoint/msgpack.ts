/**
 * Msgpack in and out. What it holds beyond JSON stays what it is: binaries are Buffers, timestamps dates, and integers
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
import { asError, ModeletError } from '../core/errors.ts';
import { shapeOf } from './msgpack-shape.ts';
import { packable } from './packable.ts';

/** Values of our own making may be as deep as payloads may be, and some for what is wrapped around them. */
const DEEPEST = 1100;

const extensionCodec: ExtensionCodec = new ExtensionCodec();
extensionCodec.register({
  type: EXT_TIMESTAMP,
  // Also dates that a function node has made, which are of another realm.
  encode: (value) => (types.isDate(value) ? encodeTimeSpecToTimestamp(encodeDateToTimeSpec(value)) : null),
  decode: (data) => {
    const date = decodeTimestampExtension(data);
    if (Number.isNaN(date.getTime())) throw new DecodeError('a timestamp beyond what a date can be');
    return date;
  },
});

/**
 * Binaries in it are views of `bytes`.
 * @throws ModeletError `bad_request` for what is not one whole msgpack value or has a key `__proto__`;
 * `payload_too_large` for one of more values than are good to have in memory.
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

/** @throws ModeletError `modelet_failed` for what msgpack cannot hold, and for values that contain themselves. */
export function encodeMsgpack(value: unknown): Buffer {
  try {
    const { value: made, wide } = packable(value);
    const bytes = encode(made, { extensionCodec, ignoreUndefined: true, useBigInt64: wide, maxDepth: DEEPEST });
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  } catch (thrown) {
    throw new ModeletError('modelet_failed', `the result cannot be sent as msgpack: ${asError(thrown).message}`);
  }
}

/** In what has just been decoded: integers of 64 bits that a number can hold become one. */
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

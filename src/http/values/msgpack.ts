/**
 * Decodes and encodes msgpack. Types that JSON lacks are kept: binaries are Buffers, timestamps are dates, integers that
 * a number cannot hold are BigInts, and `{data, dims, type}` with bytes is a tensor with a typed array.
 */
import { types } from 'node:util';
import {
  DecodeError,
  decode,
  decodeTimestampExtension,
  Encoder,
  type EncoderOptions,
  EXT_TIMESTAMP,
  ExtensionCodec,
  encodeDateToTimeSpec,
  encodeTimeSpecToTimestamp,
} from '@msgpack/msgpack';
import { asError, ModeletError } from '../../core/errors.ts';
import { tensorOfBytes } from '../../core/tensor.ts';
import { shapeOf } from './msgpack-shape.ts';
import { packable } from './packable.ts';

/** Most levels of a value to encode: those of the deepest payload, plus some for the objects that wrap it. */
const DEEPEST = 1100;

/** The key `dims` as msgpack has it: only a body with these bytes can have a tensor. */
const DIMS = Buffer.from('\xa4dims', 'latin1');

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

/** The library writes -0 as the integer 0. Its methods for numbers are not public, but changing one is the only way. */
const NumberEncoder = Encoder as unknown as new (
  options: EncoderOptions,
) => {
  encodeSharedRef(value: unknown): Uint8Array;
  encodeNumber(value: number): void;
  encodeNumberAsFloat(value: number): void;
};

class SignedEncoder extends NumberEncoder {
  override encodeNumber(value: number): void {
    if (Object.is(value, -0)) this.encodeNumberAsFloat(value);
    else super.encodeNumber(value);
  }
}

/**
 * Decodes one msgpack value. Its binaries are views of `bytes`, except for those of tensors.
 * @throws ModeletError `bad_request` unless the bytes are exactly one msgpack value, or if it has a key `__proto__`;
 * `payload_too_large` if it has too many values to hold in memory.
 */
export function decodeMsgpack(bytes: Buffer): unknown {
  const { wide } = shapeOf(bytes);
  try {
    const value = decode(bytes, { extensionCodec, useBigInt64: wide });
    const narrowed = wide ? narrow(value) : value;
    return bytes.includes(DIMS) ? withTensors(narrowed) : narrowed;
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
    const options = { extensionCodec, ignoreUndefined: true, useBigInt64: wide, maxDepth: DEEPEST };
    const bytes = new SignedEncoder(options).encodeSharedRef(made);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  } catch (thrown) {
    throw new ModeletError('modelet_failed', `the result cannot be sent as msgpack: ${asError(thrown).message}`);
  }
}

/** Gives tensors their typed arrays. Changes arrays and maps in place: they were just decoded. */
function withTensors(value: unknown): unknown {
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value) || types.isDate(value)) return value;
  if (!Array.isArray(value) && 'dims' in value) {
    const tensor = tensorOfBytes(value);
    if (tensor) return tensor;
  }
  // An array's keys are its indexes.
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) members[key] = withTensors(members[key]);
  return value;
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

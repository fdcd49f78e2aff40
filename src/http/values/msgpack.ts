/**
 * Decodes and encodes msgpack. Types that JSON lacks are kept: binaries are Buffers, timestamps are dates, integers that
 * a number cannot hold are BigInts, and `{data, dims, type}` with bytes is a tensor with a typed array.
 */
import { toUSVString, types } from 'node:util';
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
import { toHalfBits } from '../../core/float16.ts';
import { elementType, type Tensor, tensorOfBytes } from '../../core/tensor.ts';
import { converted, copyOf, type ValueForm } from './conversion.ts';
import { shapeOf } from './msgpack-shape.ts';

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
    return wide || bytes.includes(DIMS) ? restored(value) : value;
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
    const { made, wide } = packable(value);
    const options = { extensionCodec, ignoreUndefined: true, useBigInt64: wide, maxDepth: DEEPEST };
    const bytes = new SignedEncoder(options).encodeSharedRef(made);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  } catch (thrown) {
    throw new ModeletError('modelet_failed', `the result cannot be sent as msgpack: ${asError(thrown).message}`);
  }
}

/** Returns the msgpack of an array of values that are encoded already. */
export function joinMsgpack(values: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(5, 0xdd);
  head.writeUInt32BE(values.length, 1);
  return Buffer.concat([head, ...values]);
}

/**
 * Converts each BigInt that a number can hold exactly, and gives tensors their typed arrays. Changes arrays and maps in
 * place: they were just decoded.
 */
function restored(value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) value[index] = restored(value[index]);
    return value;
  }
  if (!isMap(value)) return value;
  for (const key of Object.keys(value)) value[key] = restored(value[key]);
  return 'dims' in value ? (tensorOfBytes(value) ?? value) : value;
}

/** Whether a value that is no array has values in it. */
function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !ArrayBuffer.isView(value) && !types.isDate(value);
}

const MOST_VALUES = 20_000_000;
const LEAST_BIGINT = -(2n ** 63n);
const LARGEST_BIGINT = 2n ** 64n - 1n;
const LARGEST_SHORT = 2 ** 32 - 1;
const LEAST_SHORT = -(2 ** 31);

/**
 * Returns the value in a form that msgpack can hold. Objects with `toJSON` become its result, as in JSON. Maps become
 * objects and sets become arrays. Typed arrays become `{data, dims, type}` with their bytes, because bytes alone do not
 * tell the type; arrays of bytes stay unchanged.
 * @throws Error for functions, symbols, BigInts of more than 64 bits, objects without data, and a value that is too
 * deep or too large.
 * @returns also whether the value has BigInts: then whole numbers of more than 32 bits are BigInts as well
 */
function packable(value: unknown): { readonly made: unknown; readonly wide: boolean } {
  let wide = false;
  const made = converted(value, {
    ...FORM,
    bigint: (bigint) => {
      if (bigint < LEAST_BIGINT || bigint > LARGEST_BIGINT) throw new Error(`${bigint} has more than 64 bits`);
      wide = true;
      return bigint;
    },
  });
  return { made: wide ? widened(made) : made, wide };
}

const FORM: Omit<ValueForm, 'bigint'> = {
  mostValues: MOST_VALUES,
  // UTF-8 has no half of a surrogate pair. Clients would refuse the whole answer.
  text: toUSVString,
  code: (value) => {
    throw new Error(`there is a ${typeof value} in it`);
  },
  binary: (value) => {
    if (!ArrayBuffer.isView(value)) return Buffer.from(value);
    const type = elementType(value);
    if (type === undefined || type === 'uint8') return value;
    return inBytes({ data: value as unknown as ArrayLike<unknown>, dims: [lengthOf(value)], type });
  },
  tensor: inBytes,
  pairs: (map) => {
    const odd = [...map.keys()].find((key) => typeof key !== 'string' && typeof key !== 'number');
    throw new Error(
      odd === undefined ? 'there is a Map with the same key twice' : `there is a Map with a ${typeof odd} as key`,
    );
  },
};

function lengthOf(view: ArrayBufferView): number {
  return (view as unknown as ArrayLike<unknown>).length;
}

/** Replaces the elements by their bytes, except texts. Assumes a little-endian machine. */
function inBytes({ data, dims, type }: Tensor): Tensor {
  if (Array.isArray(data)) return { data, dims, type };
  const view = type === 'float16' ? toHalfBits(data as ArrayLike<number>) : (data as unknown as ArrayBufferView);
  return { data: new Uint8Array(view.buffer, view.byteOffset, view.byteLength), dims, type };
}

/** Converts whole numbers of more than 32 bits to BigInts: an encoder that takes BigInts writes them as floats. */
function widened(value: unknown): unknown {
  if (typeof value === 'number') {
    const isShort = value >= LEAST_SHORT && value <= LARGEST_SHORT;
    return isShort || !Number.isSafeInteger(value) ? value : BigInt(value);
  }
  if (Array.isArray(value)) return value.map(widened);
  if (!isMap(value)) return value;
  const made = copyOf(value);
  for (const key of Object.keys(made)) made[key] = widened(made[key]);
  return made;
}

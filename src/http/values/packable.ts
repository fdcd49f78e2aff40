/** Converts values that msgpack cannot hold unchanged. */
import { toUSVString, types } from 'node:util';
import { toHalfBits } from '../../core/float16.ts';
import { elementType, type Tensor } from '../../core/tensor.ts';
import { converted, copyOf, type ValueForm } from './conversion.ts';

const MOST_VALUES = 20_000_000;
const LEAST_BIGINT = -(2n ** 63n);
const LARGEST_BIGINT = 2n ** 64n - 1n;
const LARGEST_SHORT = 2 ** 32 - 1;
const LEAST_SHORT = -(2 ** 31);

export interface Packable {
  readonly value: unknown;
  /** Whether the value has BigInts. If so, whole numbers of more than 32 bits are BigInts as well. */
  readonly wide: boolean;
}

/**
 * Returns the value in a form that msgpack can hold. Objects with `toJSON` become its result, as in JSON. Maps become
 * objects and sets become arrays. Typed arrays become `{data, dims, type}` with their bytes, because bytes alone do not
 * tell the type; arrays of bytes stay unchanged.
 * @throws Error for functions, symbols, BigInts of more than 64 bits, objects without data, and a value that is too
 * deep or too large.
 */
export function packable(value: unknown): Packable {
  let wide = false;
  const made = converted(value, {
    ...FORM,
    bigint: (bigint) => {
      if (bigint < LEAST_BIGINT || bigint > LARGEST_BIGINT) throw new Error(`${bigint} has more than 64 bits`);
      wide = true;
      return bigint;
    },
  });
  return { value: wide ? widened(made) : made, wide };
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
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value) || types.isDate(value)) return value;
  if (Array.isArray(value)) return value.map(widened);
  const made = copyOf(value as Record<string, unknown>);
  for (const key of Object.keys(made)) made[key] = widened(made[key]);
  return made;
}

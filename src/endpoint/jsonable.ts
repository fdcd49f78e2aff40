/** A value as JSON can hold it, where JSON would make something else of it: typed arrays, sets, maps, BigInts. */
import { elementType, nested } from '../core/tensor.ts';
import { converted, type Form } from './conversion.ts';

/** Fewer than the longest text has characters. */
const MOST_VALUES = 2 ** 28;

/**
 * Typed arrays and tensors become arrays, nested by their shape; sets arrays; maps objects, or arrays of `[key, value]`
 * where a key is no text and no number; BigInts numbers, or texts where a number would not be exact.
 * @throws Error for objects without data, and for what is too deep or too large.
 */
export function jsonable(value: unknown): unknown {
  return converted(value, FORM);
}

const FORM: Form = {
  mostValues: MOST_VALUES,
  bigint: exact,
  // JSON leaves them out.
  code: (value) => value,
  binary: (value) => {
    // It says itself how it becomes JSON, and Node-RED knows it as that.
    if (Buffer.isBuffer(value)) return value;
    if (!ArrayBuffer.isView(value)) return Array.from(new Uint8Array(value));
    if (elementType(value) !== undefined) return Array.from(value as unknown as ArrayLike<unknown>, exact);
    return Array.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  },
  tensor: (value) => nested(value, value.type === 'bool' ? (element) => element === 1 : exact),
  pairs: (map) => [...map],
};

function exact(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

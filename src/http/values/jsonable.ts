/** Converts values that JSON would distort: typed arrays, sets, maps, BigInts. */
import { elementType, nested } from '../../core/tensor.ts';
import { converted, type ValueForm } from './conversion.ts';

/** Most values of an answer. The limit is below the length of the longest text. */
const MOST_VALUES = 2 ** 28;

/**
 * Returns the value in a form that JSON can hold. Typed arrays and tensors become arrays, nested by their shape. Sets
 * become arrays. Maps become objects, or arrays of `[key, value]` if a key is neither text nor a number. BigInts become
 * numbers, or texts if a number would not be exact.
 * @throws Error for objects without data, and for a value that is too deep or too large.
 */
export function jsonable(value: unknown): unknown {
  return converted(value, FORM);
}

const FORM: ValueForm = {
  mostValues: MOST_VALUES,
  text: (value) => value,
  bigint: exact,
  // JSON.stringify omits functions and symbols.
  code: (value) => value,
  binary: (value) => {
    // A Buffer has its own JSON form, which Node-RED recognizes.
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

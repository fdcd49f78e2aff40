/** Arrays of numbers with a type and a shape: typed arrays, and the `{data, dims, type}` of ONNX models and numpy. */
import { types } from 'node:util';
import { fromHalfBits } from './float16.ts';

/** Elements in row-major order, with their shape and type. */
export interface Tensor {
  readonly data: ArrayLike<unknown>;
  readonly dims: readonly number[];
  /** Name of the element type in ONNX and numpy. */
  readonly type: string;
}

/** One input or output of a model. */
export interface ModelPort {
  readonly name: string;
  readonly type: string;
  /** A number is a fixed dimension; text is the name of a variable one, '' if unnamed. [] is a scalar, or unknown. */
  readonly shape: readonly (number | string)[];
}

const TYPE_OF: ReadonlyMap<string, string> = new Map([
  ['Int8Array', 'int8'],
  ['Uint8Array', 'uint8'],
  ['Uint8ClampedArray', 'uint8'],
  ['Int16Array', 'int16'],
  ['Uint16Array', 'uint16'],
  ['Int32Array', 'int32'],
  ['Uint32Array', 'uint32'],
  ['Float16Array', 'float16'],
  ['Float32Array', 'float32'],
  ['Float64Array', 'float64'],
  ['BigInt64Array', 'int64'],
  ['BigUint64Array', 'uint64'],
]);

/** Element types that are stored in an array of another type. */
const HELD_BY: ReadonlyMap<string, string> = new Map([
  ['bool', 'uint8'],
  ['float16', 'float32'],
]);

/** Makes the elements of each type from their bytes, little-endian as this machine is assumed to be. */
const FROM_BYTES: ReadonlyMap<unknown, (bytes: ArrayBuffer) => ArrayLike<unknown>> = new Map<
  unknown,
  (bytes: ArrayBuffer) => ArrayLike<unknown>
>([
  ['bool', (bytes) => new Uint8Array(bytes)],
  ['int8', (bytes) => new Int8Array(bytes)],
  ['uint8', (bytes) => new Uint8Array(bytes)],
  ['int16', (bytes) => new Int16Array(bytes)],
  ['uint16', (bytes) => new Uint16Array(bytes)],
  ['int32', (bytes) => new Int32Array(bytes)],
  ['uint32', (bytes) => new Uint32Array(bytes)],
  ['float16', (bytes) => fromHalfBits(new Uint16Array(bytes))],
  ['float32', (bytes) => new Float32Array(bytes)],
  ['float64', (bytes) => new Float64Array(bytes)],
  ['int64', (bytes) => new BigInt64Array(bytes)],
  ['uint64', (bytes) => new BigUint64Array(bytes)],
]);

/**
 * Most nested arrays of a tensor: some per element, plus a fixed number. A client's input may become its answer, so a
 * few bytes of `dims` must not produce many more arrays than there are elements.
 */
const MOST_ARRAYS_AN_ELEMENT = 8;
const MOST_ARRAYS_OF_NOTHING = 10_000;

/** Returns the element type of a typed array; undefined for other views, such as a DataView. */
export function elementType(view: ArrayBufferView): string | undefined {
  return TYPE_OF.get(String((view as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag]));
}

/** Returns the value if it is a tensor, else null. A tensor has exactly three properties, and they fit each other. */
export function asTensor(value: object): Tensor | null {
  const { data, dims, type } = value as Partial<Tensor>;
  if (typeof type !== 'string' || !Array.isArray(dims) || Object.keys(value).length !== 3) return null;
  if (!isData(data, type)) return null;
  if (!dims.every((dim) => Number.isSafeInteger(dim) && dim >= 0) || sizeOf(dims) !== data.length) return null;
  return arraysOf(dims) <= MOST_ARRAYS_AN_ELEMENT * data.length + MOST_ARRAYS_OF_NOTHING ? { data, dims, type } : null;
}

/** Returns the tensor for a `{data, dims, type}` whose data are bytes; null if they do not fit the type and the shape. */
export function tensorOfBytes(value: object): Tensor | null {
  const { data, dims, type } = value as Partial<Tensor>;
  const read = FROM_BYTES.get(type);
  if (read === undefined || !types.isUint8Array(data) || Object.keys(value).length !== 3) return null;
  // A copy, because a typed array begins at a multiple of its elements' size.
  const bytes = Uint8Array.from(data).buffer;
  try {
    return asTensor({ data: read(bytes), dims, type });
  } catch {
    return null; // The bytes end in the middle of an element.
  }
}

/** Returns the number of arrays that `nested` makes for the shape. */
function arraysOf(dims: readonly number[]): number {
  let arrays = 0;
  let within = 1;
  for (const dim of dims) {
    arrays += within;
    within *= dim;
  }
  return arrays;
}

function isData(data: unknown, type: string): data is ArrayLike<unknown> {
  // Bytes that are no text have no other element type.
  if (Array.isArray(data))
    return type === 'string' && data.every((element) => typeof element === 'string' || Buffer.isBuffer(element));
  if (!types.isTypedArray(data)) return false;
  const own = elementType(data);
  return own === type || (own !== undefined && own === HELD_BY.get(type));
}

/** Returns the number of elements that a tensor of the shape has. */
export function sizeOf(dims: readonly number[]): number {
  return dims.reduce((size, dim) => size * dim, 1);
}

/**
 * Returns arrays nested as deep as there are dimensions; `read` converts each element. Without dimensions, returns the
 * single element.
 */
export function nested({ data, dims }: Tensor, read: (element: unknown) => unknown): unknown {
  const from = (offset: number, depth: number): unknown => {
    const length = dims[depth];
    if (length === undefined) return read(data[offset]);
    const step = sizeOf(dims.slice(depth + 1));
    return Array.from({ length }, (_, index) => from(offset + index * step, depth + 1));
  };
  return from(0, 0);
}

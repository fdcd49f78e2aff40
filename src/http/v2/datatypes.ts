/** The data types of tensors in the KServe v2 protocol: how their elements come and go as JSON and as bytes. */
import { isUtf8 } from 'node:buffer';
import { toUSVString } from 'node:util';
import { ModeletError } from '../../core/errors.ts';
import { fromHalfBits, toHalfBits } from '../../core/float16.ts';
import type { Tensor } from '../../core/tensor.ts';

/** A typed array, texts, or bytes. */
type TensorData = Tensor['data'];

export interface Datatype {
  readonly name: string;
  /** Name in a tensor; see core/tensor.ts. */
  readonly type: string;
  /** Bytes of one element; 0: each has its own length. */
  readonly width: number;
  /** Whether an element of a request's JSON is one of this type, exactly. */
  readonly isFromJson: Fits;
  /** Whether a plain value that a model has given is one. */
  readonly isFromModel: Fits;
  /** Makes the elements of such values. */
  of(values: readonly unknown[]): TensorData;
  /** Copies the elements, so that the request's body need not stay in memory. */
  fromBytes(bytes: Buffer): TensorData;
  toBytes(elements: TensorData): Buffer;
  /**
   * Returns the elements as the text of a JSON array.
   * @throws ModeletError `bad_request` for bytes that are no text: the client must ask for them in binary
   */
  toJson(elements: TensorData): string;
}

type Fits = (value: unknown) => boolean;

type Numbers = ArrayBufferView & ArrayLike<number | bigint>;
/** A constructor of typed arrays. They have no common type. */
interface AnyArray {
  readonly BYTES_PER_ELEMENT: number;
}
interface NumberArray extends AnyArray {
  new (buffer: ArrayBuffer): Numbers;
  from(values: readonly unknown[]): Numbers;
}

const LENGTH_BYTES = 4;
/** The least numbers that become infinite as 16-bit and 32-bit floats. */
const INFINITE_HALF = 65_520;
const INFINITE_FLOAT = 2 ** 128 - 2 ** 103;

function numeric(name: string, type: string, any: AnyArray, isFromJson: Fits, isFromModel = isFromJson): Datatype {
  const array = any as NumberArray;
  return {
    ...{ name, type, width: array.BYTES_PER_ELEMENT, isFromJson, isFromModel },
    of: (values) => array.from(values),
    fromBytes: (bytes) => new array(copyOf(bytes)),
    toBytes: (elements) => bytesOf(elements as unknown as Numbers),
    toJson: (elements) => JSON.stringify(Array.from(elements)),
  };
}

/**
 * JSON.stringify writes -0 without its sign. A model may give infinities and NaN, which JSON cannot.
 * @param infinite least size that the type rounds to infinity
 */
function float(name: string, type: string, array: AnyArray, infinite: number): Datatype {
  const fits: Fits = (value) => typeof value === 'number' && Math.abs(value) < infinite;
  const orNotFinite: Fits = (value) => fits(value) || (typeof value === 'number' && !Number.isFinite(value));
  return {
    ...numeric(name, type, array, fits, orNotFinite),
    toJson: (elements) => {
      const numbers = Array.from(elements);
      if (!numbers.some((element) => Object.is(element, -0))) return JSON.stringify(numbers);
      return `[${numbers.map((element) => (Object.is(element, -0) ? '-0.0' : JSON.stringify(element))).join()}]`;
    },
  };
}

/** A JSON number beyond 2^53 may have lost digits while it was parsed, so it must come in binary. */
function wide(name: string, type: string, array: AnyArray, least: number): Datatype {
  const fits = whole(least, Number.MAX_SAFE_INTEGER);
  const numbers = numeric(name, type, array, fits, (value) => typeof value === 'bigint' || fits(value));
  return {
    ...numbers,
    of: (values) => numbers.of((values as (number | bigint)[]).map(BigInt)),
    toJson: (elements) => `[${Array.from(elements).join()}]`,
  };
}

const HALF: Datatype = {
  ...float('FP16', 'float16', Float32Array, INFINITE_HALF),
  width: 2,
  of: (values) => fromHalfBits(toHalfBits(values as number[])),
  fromBytes: (bytes) => fromHalfBits(new Uint16Array(copyOf(bytes))),
  toBytes: (elements) => bytesOf(toHalfBits(elements as ArrayLike<number>)),
};

const BOOL: Datatype = {
  ...numeric('BOOL', 'bool', Uint8Array, (value) => typeof value === 'boolean' || value === 0 || value === 1),
  fromBytes: (bytes) => Uint8Array.from(bytes, (byte) => (byte === 0 ? 0 : 1)),
  toJson: (elements) => JSON.stringify(Array.from(elements, (element) => element !== 0)),
};

const TEXTS: Datatype = {
  ...{ name: 'BYTES', type: 'string', width: 0 },
  // Half of a surrogate pair has no bytes in UTF-8.
  isFromJson: (value) => typeof value === 'string' && toUSVString(value) === value,
  isFromModel: (value) => typeof value === 'string',
  of: (values) => values,
  fromBytes: textsOrBytes,
  toBytes: (elements) =>
    Buffer.concat(
      Array.from(elements as ArrayLike<string | Uint8Array>).flatMap((element) => {
        const bytes = Buffer.from(element as string);
        const length = Buffer.alloc(LENGTH_BYTES);
        length.writeUInt32LE(bytes.length);
        return [length, bytes];
      }),
    ),
  toJson: (elements) => JSON.stringify(Array.from(elements as ArrayLike<string | Uint8Array>, textOf)),
};

const ALL: readonly Datatype[] = [
  BOOL,
  numeric('UINT8', 'uint8', Uint8Array, whole(0, 2 ** 8 - 1)),
  numeric('UINT16', 'uint16', Uint16Array, whole(0, 2 ** 16 - 1)),
  numeric('UINT32', 'uint32', Uint32Array, whole(0, 2 ** 32 - 1)),
  wide('UINT64', 'uint64', BigUint64Array, 0),
  numeric('INT8', 'int8', Int8Array, whole(-(2 ** 7), 2 ** 7 - 1)),
  numeric('INT16', 'int16', Int16Array, whole(-(2 ** 15), 2 ** 15 - 1)),
  numeric('INT32', 'int32', Int32Array, whole(-(2 ** 31), 2 ** 31 - 1)),
  wide('INT64', 'int64', BigInt64Array, Number.MIN_SAFE_INTEGER),
  HALF,
  float('FP32', 'float32', Float32Array, INFINITE_FLOAT),
  float('FP64', 'float64', Float64Array, Number.POSITIVE_INFINITY),
  TEXTS,
];

const BY_NAME: ReadonlyMap<unknown, Datatype> = new Map(ALL.map((datatype) => [datatype.name, datatype]));
const BY_TYPE: ReadonlyMap<string, Datatype> = new Map(ALL.map((datatype) => [datatype.type, datatype]));

/** Returns the data type with a name of the protocol. @throws ModeletError `bad_request` */
export function datatypeNamed(name: unknown, of: string): Datatype {
  const found = BY_NAME.get(name);
  if (found) return found;
  throw new ModeletError('bad_request', `${of} needs one of these as its datatype: ${[...BY_NAME.keys()].join(', ')}`);
}

/** Returns the data type of a tensor's elements; undefined if the protocol has none. */
export function datatypeOf(type: string): Datatype | undefined {
  return BY_TYPE.get(type);
}

/**
 * Makes the elements of a request's JSON.
 * @param of names the tensor in an error
 * @throws ModeletError `bad_request` for a value that the type cannot hold
 */
export function elementsOfJson(datatype: Datatype, values: readonly unknown[], of: string): TensorData {
  const at = values.findIndex((value) => !datatype.isFromJson(value));
  if (at < 0) return datatype.of(values);
  const why = `element ${at} of the data is no ${datatype.name} that JSON can carry exactly`;
  throw new ModeletError('bad_request', `${of}: ${why}`);
}

/** Returns texts, or all elements as bytes if one of them is no text: a picture, say. */
function textsOrBytes(bytes: Buffer): (string | Buffer)[] {
  const found: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const from = at + LENGTH_BYTES;
    const to = from <= bytes.length ? from + bytes.readUInt32LE(at) : Number.POSITIVE_INFINITY;
    if (to > bytes.length) throw new ModeletError('bad_request', 'a BYTES element is longer than the bytes that came');
    found.push(bytes.subarray(from, to));
    at = to;
  }
  return found.every(isUtf8) ? found.map(String) : found.map((element) => Buffer.from(element));
}

function textOf(element: string | Uint8Array): string {
  if (typeof element === 'string') return element;
  if (isUtf8(element)) return Buffer.from(element).toString();
  throw new ModeletError('bad_request', 'an output has bytes that JSON cannot carry: ask for it with binary_data');
}

function whole(least: number, most: number): Fits {
  return (value) => Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}

function copyOf(bytes: Buffer): ArrayBuffer {
  return Uint8Array.from(bytes).buffer;
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

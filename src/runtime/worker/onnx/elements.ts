/** Defines the types of a tensor's elements: their storage, and the JavaScript values that each type accepts. */
import { Float16Storage } from '../../../core/float16.ts';

export type ElementType =
  | 'float16'
  | 'float32'
  | 'float64'
  | 'int8'
  | 'uint8'
  | 'int16'
  | 'uint16'
  | 'int32'
  | 'uint32'
  | 'int64'
  | 'uint64'
  | 'bool'
  | 'string';

/** The elements of a tensor in row-major order. */
export type TensorElements = NumberElements | BigInt64Array | BigUint64Array | string[];

export interface SessionTensor {
  readonly type: ElementType;
  readonly dims: readonly number[];
  readonly data: TensorElements;
}

type NumberElements =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array;

type MakesElements = new (length: number) => TensorElements;

interface ElementKind {
  readonly storage: MakesElements;
  /** Returns the stored form of a value, or undefined if the value is not of this type. */
  take(value: unknown): number | bigint | string | undefined;
}

/** Numbers of this size and more would become infinite in half floats, as a larger double does in single floats. */
const FLOAT16_OVERFLOW = 65_520;

const isNumber = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);

/** Accepts numbers that stay finite. Infinities and NaN themselves are valid. */
function float(storage: MakesElements, staysFinite: (value: number) => boolean): ElementKind {
  const take = (value: unknown): number | undefined =>
    typeof value === 'number' && (staysFinite(value) || !Number.isFinite(value)) ? value : undefined;
  return { storage, take };
}

/** Accepts only integers in range. Rounding or wrapping would turn an invalid index into another valid one. */
function integer(storage: MakesElements, min: number, max: number): ElementKind {
  const take = (value: unknown): number | undefined =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max ? (value as number) : undefined;
  return { storage, take };
}

function long(storage: MakesElements, min: bigint, max: bigint): ElementKind {
  const take = (value: unknown): bigint | undefined => {
    if (typeof value !== 'bigint' && !Number.isSafeInteger(value)) return undefined;
    const exact = BigInt(value as number | bigint);
    return exact >= min && exact <= max ? exact : undefined;
  };
  return { storage, take };
}

const KINDS: Readonly<Record<string, ElementKind>> = {
  float16: float(Float16Storage, (value) => Math.abs(value) < FLOAT16_OVERFLOW),
  float32: float(Float32Array, (value) => Number.isFinite(Math.fround(value))),
  float64: { storage: Float64Array, take: isNumber },
  int8: integer(Int8Array, -128, 127),
  uint8: integer(Uint8Array, 0, 255),
  int16: integer(Int16Array, -32_768, 32_767),
  uint16: integer(Uint16Array, 0, 65_535),
  int32: integer(Int32Array, -(2 ** 31), 2 ** 31 - 1),
  uint32: integer(Uint32Array, 0, 2 ** 32 - 1),
  int64: long(BigInt64Array, -(2n ** 63n), 2n ** 63n - 1n),
  uint64: long(BigUint64Array, 0n, 2n ** 64n - 1n),
  bool: {
    storage: Uint8Array,
    take: (value) => (value === true || value === 1 ? 1 : value === false || value === 0 ? 0 : undefined),
  },
  string: {
    storage: Array as unknown as MakesElements,
    // onnxruntime-node cuts text at a NUL character.
    take: (value) => (typeof value === 'string' && !value.includes('\0') ? value : undefined),
  },
};

export function isKnownType(type: string): type is ElementType {
  return Object.hasOwn(KINDS, type);
}

export function makeElements(type: ElementType, length: number): TensorElements {
  return new (kindOf(type).storage)(length);
}

/**
 * Returns the values as elements of the type, or the index of the first value that is not of the type. Does not copy
 * values that are in the right storage already.
 */
export function toElements(type: ElementType, values: ArrayLike<unknown>): TensorElements | number {
  const { storage, take } = kindOf(type);
  // The bytes of a bool must be checked: only 0 and 1 are valid. A Buffer is a Uint8Array.
  if (type !== 'bool' && type !== 'string' && values instanceof storage) return values as TensorElements;
  const elements = new storage(values.length) as unknown as unknown[];
  for (let index = 0; index < values.length; index += 1) {
    const taken = take(values[index]);
    if (taken === undefined) return index;
    elements[index] = taken;
  }
  return elements as unknown as TensorElements;
}

/** Copies one item's elements into those of a batch. */
export function putElements(into: TensorElements, from: TensorElements, offset: number): void {
  if (Array.isArray(into))
    for (let index = 0; index < from.length; index += 1) into[offset + index] = from[index] as string;
  else (into as Float32Array).set(from as Float32Array, offset);
}

/** Returns an element as plain data. A 64-bit integer becomes a number if a number can hold it exactly. */
export function fromElement(type: ElementType, value: unknown): unknown {
  if (type === 'bool') return value === 1;
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function kindOf(type: ElementType): ElementKind {
  return KINDS[type] as ElementKind;
}

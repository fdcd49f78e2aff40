/** Makes tensors of a modelet's result, for the outputs of the KServe v2 protocol. */
import { types } from 'node:util';
import { ModeletError } from '../../core/errors.ts';
import { asTensor, elementType, sizeOf, type Tensor } from '../../core/tensor.ts';
import { datatypeOf } from './datatypes.ts';
import { ONLY_OUTPUT, type PromisedOutput } from './metadata.ts';

/** Returns the outputs by name: the properties of an object, the columns of rows, or the result itself. */
export function outputsOfResult(result: unknown, promised: readonly PromisedOutput[]): ReadonlyMap<string, unknown> {
  if (types.isMap(result)) return new Map([...result].map(([name, value]) => [String(name), value]));
  // A Date or a Set has no properties either, so it is one result: no tensor, and so an error.
  const isOne = !isPlain(result) || asTensor(result) !== null;
  const columns = Array.isArray(result) ? columnsOf(result) : null;
  if (columns) return columns;
  const [only] = promised;
  const name = only && promised.length === 1 ? only.name : ONLY_OUTPUT;
  return new Map(isOne ? [[name, result]] : Object.entries(result));
}

/** Returns the values of rows by name, if the rows are objects with the same properties; else null. */
function columnsOf(rows: readonly unknown[]): ReadonlyMap<string, unknown> | null {
  const [first] = rows;
  if (!isRow(first)) return null;
  const names = Object.keys(first);
  const areRows = (all: readonly unknown[]): all is readonly Record<string, unknown>[] =>
    all.every((row) => isRow(row) && names.length === Object.keys(row).length && names.every((name) => name in row));
  return areRows(rows) ? new Map(names.map((name) => [name, rows.map((row) => row[name])])) : null;
}

function isRow(value: unknown): value is Record<string, unknown> {
  return isPlain(value) && asTensor(value) === null;
}

function isPlain(value: unknown): value is object {
  return Object.prototype.toString.call(value) === '[object Object]';
}

/**
 * Makes the tensor of an output.
 * @param promised the output as the model's metadata have it
 * @throws ModeletError `modelet_failed`
 */
export function tensorOf(value: unknown, name: string, promised: PromisedOutput | undefined): Tensor {
  const tensor = knownTensor(value, name) ?? tensorOfPlain(value, name, promised);
  if (!promised) return tensor;
  const { shape, ofModel } = promised;
  const { dims } = tensor;
  // An array without elements does not show its rank.
  const missing = shape.slice(dims.length).map((size) => (typeof size === 'number' ? size : 0));
  if (sizeOf(dims) === 0) return { ...tensor, dims: [...dims, ...missing] };
  // A stage in front of the model may have given it one row without the first dimension.
  return ofModel && dims.length === shape.length - 1 ? { ...tensor, dims: [1, ...dims] } : tensor;
}

/** Returns the tensor of a value that has a type; null for plain values. */
function knownTensor(value: unknown, name: string): Tensor | null {
  if (typeof value !== 'object' || value === null) return null;
  if (!ArrayBuffer.isView(value)) return asTensor(value);
  const type = elementType(value);
  if (type === undefined) throw unfit(name, 'is a DataView');
  const data = value as unknown as ArrayLike<unknown>;
  return { data, dims: [data.length], type };
}

/** @param value elements of one kind, arrays of them, nested to one depth and of one length at each depth, or one element */
function tensorOfPlain(value: unknown, name: string, promised: PromisedOutput | undefined): Tensor {
  const array: readonly unknown[] = Array.isArray(value) ? value : [value];
  const dims: number[] = [];
  for (let level: unknown = promised?.ofModel ? value : array; Array.isArray(level); level = level[0])
    dims.push(level.length);
  let elements = array;
  for (const length of dims.slice(1)) {
    if (!elements.every((inner) => Array.isArray(inner) && inner.length === length))
      throw unfit(name, 'has nested arrays of different lengths');
    elements = elements.flat(1);
  }
  const datatype = promised && (promised.ofModel || elements.length === 0) ? datatypeOf(promised.type) : undefined;
  if (datatype && elements.every(datatype.isFromModel))
    return { data: datatype.of(elements), dims, type: datatype.type };
  return { dims, ...inferred(elements, name) };
}

/** Finds the type of plain elements. Those of one kind have it; large integers are BigInts beside numbers. */
function inferred(elements: readonly unknown[], name: string): Omit<Tensor, 'dims'> {
  const kind = elements.length === 0 ? 'number' : kindOf(elements[0]);
  const odd = elements.find((element) => kindOf(element) !== kind);
  if (odd !== undefined || elements.includes(undefined)) {
    const areWhole = elements.every((element) => typeof element === 'bigint' || Number.isSafeInteger(element));
    if (areWhole) return integers(Array.from(elements as (number | bigint)[], BigInt), name);
    throw unfit(name, `mixes a ${kind} with ${odd === null ? 'null' : `a ${kindOf(odd)}`}`);
  }
  switch (kind) {
    case 'number':
      return { data: Float64Array.from(elements as number[]), type: 'float64' };
    case 'bigint':
      return integers(elements as bigint[], name);
    case 'boolean':
      return { data: Uint8Array.from(elements as boolean[], Number), type: 'bool' };
    case 'string':
    case 'bytes':
      return { data: elements, type: 'string' };
    default:
      throw unfit(name, elements[0] === null ? 'has a null in it' : `has an ${kind} in it`);
  }
}

function kindOf(element: unknown): string {
  return types.isUint8Array(element) ? 'bytes' : typeof element;
}

function integers(elements: readonly bigint[], name: string): Omit<Tensor, 'dims'> {
  if (elements.some((element) => BigInt.asIntN(64, element) !== element))
    throw unfit(name, 'has an integer of more than 64 bits');
  return { data: BigInt64Array.from(elements), type: 'int64' };
}

export function unfit(name: string, why: string): ModeletError {
  const advice = 'return numbers, texts, booleans, arrays of them, typed arrays or tensors';
  return new ModeletError(
    'modelet_failed',
    `the result's ${JSON.stringify(name)} ${why}, which is no tensor: ${advice}`,
  );
}

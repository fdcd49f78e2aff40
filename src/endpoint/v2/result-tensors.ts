/** Makes tensors of a modelet's result, for the outputs of the KServe v2 protocol. */
import { types } from 'node:util';
import { ModeletError } from '../../core/errors.ts';
import { asTensor, elementType, sizeOf, type Tensor } from '../../core/tensor.ts';
import { ONLY_OUTPUT, type PromisedOutput } from './metadata.ts';

/** Returns the outputs by name: the properties of an object, or the result itself. */
export function outputsOfResult(result: unknown): ReadonlyMap<string, unknown> {
  if (types.isMap(result)) return new Map([...result].map(([name, value]) => [String(name), value]));
  // A Date or a Set has no properties either, so it is one result: no tensor, and so an error.
  const isOne = !isPlain(result) || asTensor(result) !== null;
  return new Map(isOne ? [[ONLY_OUTPUT, result]] : Object.entries(result));
}

function isPlain(value: unknown): value is object {
  return Object.prototype.toString.call(value) === '[object Object]';
}

/**
 * Makes the tensor of an output.
 * @param promised the output as the model's metadata have it: an array without elements shows neither type nor rank
 * @throws ModeletError `modelet_failed`
 */
export function tensorOf(value: unknown, name: string, promised: PromisedOutput | undefined): Tensor {
  const tensor = knownTensor(value, name);
  const made = tensor ?? tensorOfArray(Array.isArray(value) ? value : [value], name);
  if (!promised || sizeOf(made.dims) > 0) return made;
  const missing = promised.shape.slice(made.dims.length).map((size) => (typeof size === 'number' ? size : 0));
  return { data: made.data, dims: [...made.dims, ...missing], type: tensor ? made.type : promised.type };
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

/** @param array elements of one kind, or arrays nested to one depth and of one length at each depth */
function tensorOfArray(array: readonly unknown[], name: string): Tensor {
  const dims: number[] = [];
  for (let level: unknown = array; Array.isArray(level); level = level[0]) dims.push(level.length);
  let level: readonly unknown[] = array;
  for (const length of dims.slice(1)) {
    if (!level.every((inner) => Array.isArray(inner) && inner.length === length))
      throw unfit(name, 'has nested arrays of different lengths');
    level = level.flat(1);
  }
  const kind = level.length === 0 ? 'number' : typeof level[0];
  const odd = level.find((element) => typeof element !== kind);
  if (odd !== undefined || level.includes(undefined)) return tensorOfMixed(level, dims, name, kind, odd);
  switch (kind) {
    case 'number':
      return { data: Float64Array.from(level as number[]), dims, type: 'float64' };
    case 'bigint':
      return integers(level as bigint[], dims, name);
    case 'boolean':
      return { data: Uint8Array.from(level as boolean[], Number), dims, type: 'bool' };
    case 'string':
      return { data: level, dims, type: 'string' };
    default:
      throw unfit(name, level[0] === null ? 'has a null in it' : `has an ${kind} in it`);
  }
}

/** Large integers are BigInts, and those beside them may be numbers. */
function tensorOfMixed(
  level: readonly unknown[],
  dims: readonly number[],
  name: string,
  kind: string,
  odd: unknown,
): Tensor {
  const areWhole = level.every((element) => typeof element === 'bigint' || Number.isSafeInteger(element));
  if (areWhole) return integers(Array.from(level as (number | bigint)[], BigInt), dims, name);
  throw unfit(name, `mixes a ${kind} with ${odd === null ? 'null' : `a ${typeof odd}`}`);
}

function integers(elements: readonly bigint[], dims: readonly number[], name: string): Tensor {
  if (elements.some((element) => BigInt.asIntN(64, element) !== element))
    throw unfit(name, 'has an integer of more than 64 bits');
  return { data: BigInt64Array.from(elements), dims, type: 'int64' };
}

export function unfit(name: string, why: string): ModeletError {
  const advice = 'return numbers, texts, booleans, arrays of them, typed arrays or tensors';
  return new ModeletError(
    'modelet_failed',
    `the result's ${JSON.stringify(name)} ${why}, which is no tensor: ${advice}`,
  );
}

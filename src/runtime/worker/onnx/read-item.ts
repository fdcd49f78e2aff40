/** Reads tensors from an item's value: plain, nested and typed arrays, `{data, dims, type}`, and single values. */
import { types } from 'node:util';
import { ModeletError } from '../../../core/errors.ts';
import { counted } from '../../../core/figures.ts';
import { fromHalfBits } from '../../../core/float16.ts';
import { isFields } from '../../../core/objects.ts';
import { sizeOf } from '../../../core/tensor.ts';
import { type TensorElements, toElements } from './elements.ts';
import { describeShape, mayBeRow, type SessionPort, type Stacking } from './ports.ts';

/** One item's tensor for one input, with the first dimension. */
export interface ItemPart {
  readonly dims: readonly number[];
  readonly data: TensorElements;
}

/** The tensors of an item, in the order of the inputs. */
export interface ItemParts {
  readonly parts: readonly ItemPart[];
  /** Whether the item came without the first dimension, as one row; then its results have no first dimension either. */
  readonly isRow: boolean;
}

/** `row`: without the first dimension. `whole`: with it, though it could be absent. `fixed`: with it, as it must be. */
type ItemForm = 'row' | 'whole' | 'fixed';

interface FoundShape {
  readonly values: ArrayLike<unknown>;
  /** null: a flat list, which takes its shape from the model. */
  readonly dims: readonly number[] | null;
}

/**
 * Reads an item. For a model with one input, an item is the value or an object that has the value by the input's name.
 * For several inputs, an item must be such an object.
 * @throws ModeletError `invalid_input`.
 */
export function readItem(item: unknown, inputs: readonly SessionPort[], stacking: Stacking): ItemParts {
  refuseUnknown(item, inputs);
  const read = inputs.map((port) => readPart(pick(item, port, inputs), port, stacking));
  const wholes = read.filter(({ form }) => form === 'whole');
  // A list with one element may be one row of an input without other dimensions.
  const isRow = read.some(({ form }) => form === 'row') && wholes.every(({ dims }) => dims.join() === '1');
  return { parts: read, isRow };
}

/** Reads those that can be read: the warm-up reports the others. */
export function readExamples(
  examples: readonly unknown[],
  inputs: readonly SessionPort[],
  stacking: Stacking,
): ItemParts[] {
  return examples.flatMap((example) => {
    try {
      return readItem(example, inputs, stacking);
    } catch {
      return [];
    }
  });
}

function readPart(value: unknown, port: SessionPort, stacking: Stacking): ItemPart & { readonly form: ItemForm } {
  const { values, dims } = find(value, port);
  const fitted = fit(dims, values.length, port, stacking);
  const data = toElements(port.type, values);
  if (typeof data === 'number') throw refuse(port, `element ${data} ${whyNot(values[data], port)}`);
  return { ...fitted, data };
}

/** A misspelt or forgotten input must not run with anything else in its place. */
function refuseUnknown(item: unknown, inputs: readonly SessionPort[]): void {
  if (!isFields(item) || (inputs.length === 1 && isTensor(item))) return;
  const unknown = Object.keys(item).filter((name) => !inputs.some((port) => port.name === name));
  if (unknown.length === 0 || unknown.length === Object.keys(item).length) return;
  const which = unknown.map((name) => JSON.stringify(name)).join(', ');
  throw new ModeletError('invalid_input', `the model has no input ${which}; its inputs are ${namesOf(inputs)}`);
}

function namesOf(inputs: readonly SessionPort[]): string {
  return inputs.map(({ name }) => `"${name}"`).join(', ');
}

function whyNot(value: unknown, { type }: SessionPort): string {
  if (typeof value === 'number' && type.startsWith('float')) return `is ${value}, which is infinite as a ${type}`;
  if (typeof value === 'string' && type === 'string') return 'has a NUL character, at which the text would be cut';
  return `is no ${type}`;
}

function pick(item: unknown, port: SessionPort, inputs: readonly SessionPort[]): unknown {
  const isNamed = isFields(item) && Object.hasOwn(item, port.name);
  if (isNamed && !(inputs.length === 1 && isTensor(item))) return item[port.name];
  if (inputs.length === 1) return item;
  throw new ModeletError('invalid_input', `input must be an object with ${namesOf(inputs)}; "${port.name}" is missing`);
}

function isTensor(value: unknown): value is { data: ArrayLike<unknown>; dims?: unknown; type?: unknown } {
  return isFields(value) && (Array.isArray(value['data']) || types.isTypedArray(value['data']));
}

function find(value: unknown, port: SessionPort): FoundShape {
  if (types.isTypedArray(value)) return { values: value, dims: null };
  if (Array.isArray(value)) return flatten(value, port);
  if (isTensor(value)) return tensor(value, port);
  if (value === null || typeof value === 'object' || value === undefined) {
    throw refuse(port, `must be an array, a typed array or {data, dims, type}, found ${describe(value)}`);
  }
  return { values: [value], dims: [] };
}

function describe(value: unknown): string {
  return value === null || value === undefined
    ? String(value)
    : `an object with ${Object.keys(value).slice(0, 5).join(', ')}`;
}

function tensor(
  { data, dims, type }: { data: ArrayLike<unknown>; dims?: unknown; type?: unknown },
  port: SessionPort,
): FoundShape {
  if (type !== undefined && type !== port.type)
    throw refuse(port, `must be of type ${port.type}, found ${String(type)}`);
  // onnxruntime-node gives half floats as bits if Node.js has no Float16Array.
  const values = type === 'float16' && data instanceof Uint16Array ? fromHalfBits(data) : data;
  if (dims === undefined) return { values, dims: null };
  const isShape = Array.isArray(dims) && dims.every((dim) => Number.isSafeInteger(dim) && dim >= 0);
  if (!isShape) throw refuse(port, 'dims must be an array of whole numbers');
  const size = sizeOf(dims as number[]);
  if (size !== data.length)
    throw refuse(port, `dims ${describeShape(dims)} are ${counted(size, 'element')}, data has ${data.length}`);
  return { values, dims: dims as number[] };
}

/** More than any model has. */
const MOST_DIMS = 100;

/** Flattens nested arrays. Takes the dimensions from the first array at each depth; the others must match. */
function flatten(nested: readonly unknown[], port: SessionPort): FoundShape {
  const dims: number[] = [];
  for (let level: unknown = nested; isList(level); level = level[0]) {
    // A message of a flow may have an array that contains itself.
    if (dims.length === MOST_DIMS) throw refuse(port, `has more than ${MOST_DIMS} dimensions`);
    dims.push(level.length);
  }
  if (dims.length === 1) return { values: nested, dims: null };
  const values: unknown[] = [];
  const visit = (list: ArrayLike<unknown>, depth: number): void => {
    if (list.length !== dims[depth]) throw refuse(port, `the arrays at depth ${depth} are not of one length`);
    const isLast = depth === dims.length - 1;
    for (let index = 0; index < list.length; index += 1) {
      const value = list[index];
      if (isList(value) === isLast) throw refuse(port, 'is not nested to the same depth throughout');
      if (isLast) values.push(value);
      else visit(value as ArrayLike<unknown>, depth + 1);
    }
  };
  visit(nested, 0);
  return { values, dims };
}

function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || types.isTypedArray(value);
}

/** Returns the dimensions of the part's tensor. */
function fit(
  dims: readonly number[] | null,
  length: number,
  port: SessionPort,
  stacking: Stacking,
): { readonly dims: readonly number[]; readonly form: ItemForm } {
  const { shape } = port;
  const isRowToo = mayBeRow(port, stacking);
  const whole = (own: readonly number[]): { dims: readonly number[]; form: ItemForm } => ({
    dims: own,
    form: isRowToo ? 'whole' : 'fixed',
  });
  // The input is a scalar, or the model does not state its shape.
  if (shape.length === 0 || matches(dims ?? [length], shape)) return whole(dims ?? [length]);
  const inShape = dims === null || dims.length === 0 ? infer(shape, length) : null;
  // One element or list of a model whose first dimension has a size is the whole of it, not one row.
  if (inShape && (!isRowToo || (typeof shape[0] === 'number' && shape[0] !== 1))) return whole(inShape);
  const row = isRowToo ? rowOf(dims, length, shape.slice(1)) : null;
  if (row) return { dims: [1, ...row], form: 'row' };
  // A list that is no row of a batch is a mistake rather than several rows.
  if (inShape && stacking.tag === 'single') return whole(inShape);
  throw refuse(port, `must be of shape ${shapesOf(shape, isRowToo)}, found ${found(dims, length, shape)}`);
}

function rowOf(
  dims: readonly number[] | null,
  length: number,
  shape: readonly (number | string)[],
): readonly number[] | null {
  if (dims !== null && matches(dims, shape)) return dims;
  return dims === null || dims.length === 0 ? infer(shape, length) : null;
}

function shapesOf(shape: readonly (number | string)[], isRowToo: boolean): string {
  return `${describeShape(shape)}${isRowToo ? `, or ${describeShape(shape.slice(1))} for one row` : ''}`;
}

function found(dims: readonly number[] | null, length: number, shape: readonly (number | string)[]): string {
  if (dims !== null) return describeShape(dims);
  const open = shape.filter((dimension) => typeof dimension === 'string').length;
  return `${counted(length, 'element')}${open > 1 ? ': give nested arrays, or {data, dims, type}' : ''}`;
}

function matches(dims: readonly number[], shape: readonly (number | string)[]): boolean {
  if (dims.length !== shape.length) return false;
  return shape.every((dimension, index) => typeof dimension === 'string' || dimension === dims[index]);
}

/** Returns the dimensions of a flat list in a shape with at most one open dimension, or null if it does not fit. */
function infer(shape: readonly (number | string)[], length: number): readonly number[] | null {
  const open = shape.filter((dimension) => typeof dimension === 'string').length;
  const known = sizeOf(shape.filter((dimension) => typeof dimension === 'number') as number[]);
  if (open === 0) return known === length ? (shape as number[]) : null;
  if (open > 1 || known === 0 || length % known !== 0) return null;
  return shape.map((dimension) => (typeof dimension === 'string' ? length / known : dimension));
}

function refuse(port: SessionPort, message: string): ModeletError {
  return new ModeletError('invalid_input', `input "${port.name}": ${message}`);
}

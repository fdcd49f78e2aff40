/**
 * Takes the rows of a request apart, and puts their results together. Only for models that have shown that each row may
 * be an item: the answer is the same as if the whole request were one item.
 */
import { ModeletError } from '../../core/errors.ts';
import { asTensor, type ModelPort, sizeOf, type Tensor } from '../../core/tensor.ts';

type NamedTensors = Readonly<Record<string, Tensor>>;

/**
 * Returns an input for each row, with 1 as its first dimension. Null for a request that is one item: it has one row, or is
 * not of the model's types and shapes, which the model says better.
 * @param most how many rows may be items; 0: none may
 * @throws ModeletError `bad_request` if the inputs have different numbers of rows; `payload_too_large` for too many
 */
export function rowsOf(input: NamedTensors, ports: readonly ModelPort[], most: number): NamedTensors[] | null {
  const tensors = Object.entries(input);
  const fit = tensors.every(([name, tensor]) => ports.some((port) => port.name === name && fits(tensor, port)));
  const [first] = tensors;
  if (most === 0 || !first || !fit || tensors.length !== ports.length) return null;
  const [name, { dims }] = first;
  const count = dims[0] as number;
  const other = tensors.find(([, tensor]) => tensor.dims[0] !== count);
  if (other) {
    const words = `${JSON.stringify(name)} has ${count}, ${JSON.stringify(other[0])} has ${other[1].dims[0]}`;
    throw new ModeletError('bad_request', `the inputs must have the same number of rows: ${words}`);
  }
  if (count > most) throw new ModeletError('payload_too_large', `the request has ${count} rows, ${tooMany(most)}`);
  if (count < 2) return null;
  return Array.from({ length: count }, (_, row) =>
    Object.fromEntries(tensors.map(([of, tensor]) => [of, rowOf(tensor, row, count)])),
  );
}

function tooMany(most: number): string {
  return `and at most ${most} may wait: send several requests, or raise the capacity of the runtime and of the stage`;
}

/** Whether a tensor has the type and the shape of a port, with any number of rows. */
function fits({ dims, type }: Tensor, { shape, type: wanted }: ModelPort): boolean {
  const isOpen = typeof shape[0] === 'string' && type === wanted && dims.length === shape.length;
  return isOpen && shape.every((size, at) => typeof size === 'string' || size === dims[at]);
}

function rowOf({ data, dims, type }: Tensor, row: number, count: number): Tensor {
  const size = data.length / count;
  const [from, to] = [row * size, (row + 1) * size];
  const part = Array.isArray(data) ? data.slice(from, to) : (data as Float32Array).subarray(from, to);
  return { data: part as ArrayLike<unknown>, dims: [1, ...dims.slice(1)], type };
}

/**
 * Returns the result of the whole request.
 * @param outputs of the last model; undefined: its results are labels, one object for a row or a list of them
 * @throws ModeletError `modelet_failed` if the results do not fit together
 */
export function resultOfRows(results: readonly unknown[], outputs: readonly ModelPort[] | undefined): unknown {
  if (!outputs) return results.flat(1);
  const named = outputs.length === 1 ? null : (results as readonly Readonly<Record<string, unknown>>[]);
  const columns = outputs.map(({ name }) => {
    const column = named?.map((result) => result[name]) ?? results;
    return [name, joined(column, name)] as const;
  });
  return named ? Object.fromEntries(columns) : columns[0]?.[1];
}

/** Joins values along their first dimension, which is 1. */
function joined(values: readonly unknown[], name: string): unknown {
  const tensors = values.flatMap((value) => (typeof value === 'object' && value ? (asTensor(value) ?? []) : []));
  const [first] = tensors;
  const isLikeFirst = ({ dims, type }: Tensor): boolean => type === first?.type && dims.join() === first.dims.join();
  if (!first && values.every((value) => Array.isArray(value) && value.length === 1)) return values.flat(1);
  if (first?.dims[0] === 1 && tensors.length === values.length && tensors.every(isLikeFirst))
    return { data: together(tensors), dims: [values.length, ...first.dims.slice(1)], type: first.type };
  const message = `the rows of the result's ${JSON.stringify(name)} are not all of one shape and type`;
  throw new ModeletError('modelet_failed', message);
}

function together(tensors: readonly Tensor[]): ArrayLike<unknown> {
  const [{ data, dims }] = tensors as [Tensor];
  if (Array.isArray(data)) return tensors.flatMap((tensor) => tensor.data as unknown[]);
  const size = sizeOf(dims);
  const whole = new (data.constructor as new (length: number) => Float32Array)(size * tensors.length);
  for (const [row, tensor] of tensors.entries()) whole.set(tensor.data as Float32Array, row * size);
  return whole;
}

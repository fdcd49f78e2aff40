/** Makes the answer to an inference request of the KServe v2 protocol from a result. */
import { types } from 'node:util';
import { ModeletError } from '../../core/errors.ts';
import { asTensor, elementType, type Tensor } from '../../core/tensor.ts';
import { datatypeOf } from './datatypes.ts';
import type { InferRequest, WantedOutput } from './infer-request.ts';

export interface InferAnswer {
  readonly body: Buffer;
  /** Length of the JSON text, if the bytes of tensors follow it; null: the body is nothing else. */
  readonly jsonLength: number | null;
}

/** The only version of each model: a deploy replaces it. */
export const VERSION = '1';

/** Name of the only output, if the result is a tensor instead of tensors by name. */
export const ONLY_OUTPUT = 'output';

/**
 * Makes the answer.
 * @throws ModeletError `bad_request` if the client asks for an output that the result lacks; `modelet_failed` for a
 * result that is no tensor
 */
export function inferAnswer(model: string, request: InferRequest, result: unknown): InferAnswer {
  const found = outputsOf(result);
  const wanted = request.outputs ?? [...found.keys()].map((name) => ({ name, binary: request.binary }));
  const parts: Buffer[] = [];
  const outputs = wanted.map((output) => {
    if (!found.has(output.name)) throw unknownOutput(output, found);
    return written(output, tensorOf(found.get(output.name), output.name), parts);
  });
  const id = request.id === undefined ? '' : `"id":${JSON.stringify(request.id)},`;
  const names = `"model_name":${JSON.stringify(model)},"model_version":${JSON.stringify(VERSION)}`;
  const json = Buffer.from(`{${id}${names},"outputs":[${outputs.join()}]}`);
  if (parts.length === 0) return { body: json, jsonLength: null };
  return { body: Buffer.concat([json, ...parts]), jsonLength: json.length };
}

/** Returns the JSON text of an output. Adds its bytes to `parts` if they go behind the JSON. */
function written({ name, binary }: WantedOutput, { data, dims, type }: Tensor, parts: Buffer[]): string {
  const datatype = datatypeOf(type);
  if (!datatype) throw unfit(name, `has elements of type ${type}`);
  const head = `"name":${JSON.stringify(name)},"datatype":"${datatype.name}","shape":${JSON.stringify(dims)}`;
  if (!binary) return `{${head},"data":${datatype.toJson(data)}}`;
  const bytes = datatype.toBytes(data);
  parts.push(bytes);
  return `{${head},"parameters":{"binary_data_size":${bytes.length}}}`;
}

/** Returns the outputs by name: the properties of an object, or the result itself. */
function outputsOf(result: unknown): ReadonlyMap<string, unknown> {
  if (types.isMap(result)) return new Map([...result].map(([name, value]) => [String(name), value]));
  // A Date or a Set has no properties either, so it is one result: no tensor, and so an error.
  const isOne = !isPlain(result) || asTensor(result) !== null;
  return new Map(isOne ? [[ONLY_OUTPUT, result]] : Object.entries(result));
}

function isPlain(value: unknown): value is object {
  return Object.prototype.toString.call(value) === '[object Object]';
}

/** @throws ModeletError `modelet_failed` */
function tensorOf(value: unknown, name: string): Tensor {
  if (ArrayBuffer.isView(value)) {
    const type = elementType(value);
    if (type === undefined) throw unfit(name, 'is a DataView');
    const data = value as unknown as ArrayLike<unknown>;
    return { data, dims: [data.length], type };
  }
  if (Array.isArray(value)) return tensorOfArray(value, name);
  const tensor = typeof value === 'object' && value !== null ? asTensor(value) : null;
  return tensor ?? { ...tensorOfArray([value], name) };
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
  if (odd !== undefined || level.includes(undefined))
    throw unfit(name, `mixes a ${kind} with ${odd === null ? 'null' : `a ${typeof odd}`}`);
  switch (kind) {
    case 'number':
      return { data: Float64Array.from(level as number[]), dims, type: 'float64' };
    case 'bigint':
      if (level.some((element) => BigInt.asIntN(64, element as bigint) !== element))
        throw unfit(name, 'has an integer of more than 64 bits');
      return { data: BigInt64Array.from(level as bigint[]), dims, type: 'int64' };
    case 'boolean':
      return { data: Uint8Array.from(level as boolean[], Number), dims, type: 'bool' };
    case 'string':
      return { data: level, dims, type: 'string' };
    default:
      throw unfit(name, level[0] === null ? 'has a null in it' : `has an ${kind} in it`);
  }
}

function unfit(name: string, why: string): ModeletError {
  const advice = 'return numbers, texts, booleans, arrays of them, typed arrays or tensors';
  return new ModeletError(
    'modelet_failed',
    `the result's ${JSON.stringify(name)} ${why}, which is no tensor: ${advice}`,
  );
}

function unknownOutput({ name }: WantedOutput, found: ReadonlyMap<string, unknown>): ModeletError {
  const names = [...found.keys()].map((known) => JSON.stringify(known)).join(', ');
  return new ModeletError('bad_request', `there is no output ${JSON.stringify(name)}; the outputs are ${names}`);
}

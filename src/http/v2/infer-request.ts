/** Reads the body of an inference request of the KServe v2 protocol: a JSON text, and behind it the bytes of tensors. */
import { ModeletError } from '../../core/errors.ts';
import { counted } from '../../core/figures.ts';
import { isFields } from '../../core/objects.ts';
import { sizeOf, type Tensor } from '../../core/tensor.ts';
import { LONGEST_KEY, quoted } from '../../core/text.ts';
import { parseJsonText } from '../../wire/codec/json-text.ts';
import type { ClientSequence } from '../served-endpoint.ts';
import { datatypeNamed, elementsOfJson } from './datatypes.ts';

/** An output that the client asks for. */
export interface WantedOutput {
  readonly name: string;
  /** Whether its elements go as bytes behind the JSON. */
  readonly binary: boolean;
}

export interface InferRequest {
  /** The client's name for the request, which the answer repeats; undefined: it has none. */
  readonly id: string | undefined;
  /** The input of the first stage: tensors by name. */
  readonly input: Readonly<Record<string, Tensor>>;
  /** null: all outputs, in the order of the result. */
  readonly outputs: readonly WantedOutput[] | null;
  /** Form of outputs that are not listed. */
  readonly binary: boolean;
  /** Time limit in ms; 0: none. */
  readonly timeoutMs: number;
  /** undefined: the request belongs to none. */
  readonly sequence: ClientSequence | undefined;
}

type JsonFields = Readonly<Record<string, unknown>>;

/** Most dimensions of a tensor, as in numpy. */
export const MOST_DIMENSIONS = 64;
const US_PER_MS = 1000;

/**
 * Reads a request.
 * @param jsonLength length of the JSON text in bytes; null: the body is nothing else
 * @throws ModeletError `bad_request` with the reason
 */
export function readInferRequest(body: Buffer, jsonLength: number | null): InferRequest {
  const length = jsonLength ?? body.length;
  return inferRequestOf(parseJsonText(body.subarray(0, length)), body.subarray(length));
}

/**
 * The same for JSON that is parsed.
 * @param bytes the bytes behind the JSON
 */
export function inferRequestOf(parsed: unknown, bytes: Buffer): InferRequest {
  const request = objectOf(parsed, 'the request');
  const { id, inputs, outputs } = request;
  const parameters = parametersOf(request, 'the request');
  if (id !== undefined && typeof id !== 'string') throw wrong('the id must be a text');
  const { timeout = 0 } = parameters;
  if (typeof timeout !== 'number' || timeout < 0) throw wrong('the timeout must be a number of microseconds');
  const binary = isTrue(parameters, 'binary_data_output', 'the request');
  return {
    id,
    input: readInputs(inputs, new Remaining(bytes)),
    outputs: outputs === undefined ? null : readOutputs(outputs, binary),
    binary,
    timeoutMs: timeout / US_PER_MS,
    sequence: sequenceOf(parameters),
  };
}

/** Returns the sequence of a request. As in Triton, an id of 0 or a blank one stands for none. */
function sequenceOf(parameters: JsonFields): ClientSequence | undefined {
  const { sequence_id: id = 0 } = parameters;
  const keyStart = isTrue(parameters, 'sequence_start', 'the request');
  const keyEnd = isTrue(parameters, 'sequence_end', 'the request');
  if (id === 0 || id === '') return;
  const isId = typeof id === 'number' ? Number.isSafeInteger(id) && id > 0 : typeof id === 'string';
  if (!isId || String(id).length > LONGEST_KEY)
    throw wrong(`the sequence_id must be a whole number from 1, or a text of at most ${LONGEST_KEY} characters`);
  return { id: id as number | string, keyStart, keyEnd };
}

function readInputs(inputs: unknown, remaining: Remaining): Record<string, Tensor> {
  if (!Array.isArray(inputs) || inputs.length === 0) throw wrong('inputs must be a list of at least one tensor');
  // Without a prototype, so that any name is a property like any other.
  const read = Object.create(null) as Record<string, Tensor>;
  for (const [at, given] of inputs.entries()) {
    const input = objectOf(given, `input ${at}`);
    const name = nameOf(input, `input ${at}`);
    if (name in read) throw wrong(`there are two inputs ${JSON.stringify(name)}`);
    read[name] = readTensor(input, `input ${JSON.stringify(name)}`, remaining);
  }
  remaining.checkEmpty();
  return read;
}

function readTensor(input: JsonFields, of: string, remaining: Remaining): Tensor {
  const datatype = datatypeNamed(input['datatype'], of);
  const dims = shapeOf(input, of);
  const size = parametersOf(input, of)['binary_data_size'];
  const { data } = input;
  let elements: Tensor['data'];
  if (size !== undefined) {
    if (data !== undefined) throw wrong(`${of} has both data and a binary_data_size`);
    const bytes = remaining.take(size, of);
    if (datatype.width > 0 && bytes.length !== sizeOf(dims) * datatype.width)
      throw wrong(`${of}: shape [${dims}] of ${datatype.name} is not ${bytes.length} bytes long`);
    elements = datatype.fromBytes(bytes);
  } else {
    if (!Array.isArray(data)) throw wrong(`${of} needs data, or a binary_data_size`);
    elements = elementsOfJson(datatype, flattened(data, dims, of), of);
  }
  if (elements.length !== sizeOf(dims))
    throw wrong(`${of}: shape [${dims}] has ${counted(sizeOf(dims), 'element')}, but the data has ${elements.length}`);
  return { data: elements, dims, type: datatype.type };
}

/** Returns the elements of data, which are a flat list or nested by the shape; lists of other lengths would shift them. */
function flattened(data: readonly unknown[], dims: readonly number[], of: string): readonly unknown[] {
  if (!data.some(Array.isArray)) return data;
  let level: readonly unknown[] = [data];
  for (const [depth, length] of dims.entries()) {
    if (!level.every((list) => Array.isArray(list) && list.length === length))
      throw wrong(`${of}: at depth ${depth} the data must be lists of ${length}, as in its shape [${dims}]`);
    level = level.flat(1);
  }
  return level;
}

function shapeOf({ shape }: JsonFields, of: string): number[] {
  const isShape =
    Array.isArray(shape) &&
    shape.length <= MOST_DIMENSIONS &&
    shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0);
  if (!isShape) throw wrong(`${of} needs a shape, a list of at most ${MOST_DIMENSIONS} whole numbers`);
  return shape as number[];
}

/** Returns null for an empty list: as in Triton, it asks for no output in particular. */
function readOutputs(outputs: unknown, binary: boolean): WantedOutput[] | null {
  if (!Array.isArray(outputs)) throw wrong('outputs must be a list');
  const names = new Set<string>();
  const read = outputs.map((given, at) => {
    const output = objectOf(given, `output ${at}`);
    const name = nameOf(output, `output ${at}`);
    const of = `output ${JSON.stringify(name)}`;
    if (names.has(name)) throw wrong(`${of} is asked for twice`);
    names.add(name);
    const parameters = parametersOf(output, of);
    if (parameters['classification'] !== undefined && parameters['classification'] !== 0)
      throw wrong(`${of}: classification is not supported`);
    return { name, binary: parameters['binary_data'] === undefined ? binary : isTrue(parameters, 'binary_data', of) };
  });
  return read.length === 0 ? null : read;
}

function parametersOf({ parameters = {} }: JsonFields, of: string): JsonFields {
  const found = objectOf(parameters, `the parameters of ${of}`);
  if ('shared_memory_region' in found) throw wrong(`${of}: shared memory is not supported`);
  return found;
}

function isTrue(parameters: JsonFields, name: string, of: string): boolean {
  const value = parameters[name] ?? false;
  if (typeof value !== 'boolean') throw wrong(`${of}: ${name} must be true or false`);
  return value;
}

function nameOf({ name }: JsonFields, of: string): string {
  if (typeof name !== 'string' || name === '') throw wrong(`${of} needs a name`);
  return quoted(name);
}

function objectOf(value: unknown, what: string): JsonFields {
  if (isFields(value)) return value;
  throw wrong(`${what} must be an object`);
}

/** The bytes behind the JSON, which the inputs take in their order. */
class Remaining {
  #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  take(size: unknown, of: string): Buffer {
    const fits = Number.isSafeInteger(size) && (size as number) >= 0 && (size as number) <= this.#bytes.length;
    if (!fits) throw wrong(`${of}: binary_data_size is not a number of bytes that came`);
    const taken = this.#bytes.subarray(0, size as number);
    this.#bytes = this.#bytes.subarray(size as number);
    return taken;
  }

  checkEmpty(): void {
    if (this.#bytes.length > 0) throw wrong(`${counted(this.#bytes.length, 'byte')} came that belong to no input`);
  }
}

function wrong(message: string): ModeletError {
  return new ModeletError('bad_request', message);
}

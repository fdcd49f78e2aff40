/** Reads a model's inputs and outputs from its metadata, and decides whether the first dimension is the batch. */
import type { ModelPort } from '../../../core/tensor.ts';
import { type ElementType, isKnownType } from './elements.ts';

/** One input or output of a supported type. */
export interface SessionPort extends ModelPort {
  readonly type: ElementType;
}

export interface Ports {
  readonly inputs: readonly SessionPort[];
  readonly outputs: readonly SessionPort[];
}

/**
 * Ways to turn items into tensors:
 *
 *   stacked  along the first dimension, which is the batch: any number of items, or exactly `size`
 *   single   one item per run
 */
export type Stacking =
  | { readonly tag: 'stacked'; readonly size: number | null }
  | { readonly tag: 'single'; readonly why: string };

/** Metadata of a session. onnxruntime-node has shapes since version 1.22. */
export interface SessionMetadata {
  readonly inputMetadata?: readonly RawPort[];
  readonly outputMetadata?: readonly RawPort[];
}

interface RawPort {
  readonly name: string;
  readonly isTensor: boolean;
  readonly type?: string;
  readonly shape?: readonly (number | string)[];
}

/** @throws Error with advice if the model cannot be served. */
export function portsOf({ inputMetadata, outputMetadata }: SessionMetadata): Ports {
  if (!inputMetadata || !outputMetadata) throw new Error('onnxruntime-node is older than 1.22: install a newer one');
  return {
    inputs: inputMetadata.map((raw) => portOf(raw, 'input')),
    outputs: outputMetadata.map((raw) => portOf(raw, 'output')),
  };
}

/** WebAssembly's size of an open dimension without a name. */
const NAMELESS = 2 ** 32 - 1;

function portOf({ name, isTensor, type = '', shape = [] }: RawPort, kind: 'input' | 'output'): SessionPort {
  const which = `${kind} "${name}" of the model`;
  if (!isTensor)
    throw new Error(`${which} is a sequence, a map or optional, which onnxruntime-node cannot ${WITHOUT_MAPS[kind]}`);
  if (!isKnownType(type)) throw new Error(`${which} has the type ${type}, which is not supported: ${CAST}`);
  return { name, type, shape: shape.map((dimension) => (dimension === NAMELESS ? '' : dimension)) };
}

const CAST = 'cast it inside the model, to float32 or to integers of 8 bits or more';

/** Types of tensors of which onnxruntime-node gives only the number in onnx.proto. */
const NUMBERED: Readonly<Record<string, string>> = {
  14: 'complex64',
  15: 'complex128',
  16: 'bfloat16',
  17: 'float8e4m3fn',
  18: 'float8e4m3fnuz',
  19: 'float8e5m2',
  20: 'float8e5m2fnuz',
  21: 'uint4',
  22: 'int4',
  23: 'float4e2m1',
  24: 'float8e8m0',
};

/** Names what keeps a model from loading, where onnxruntime-node says it in its own terms only. */
export function whyNotLoaded(message: string): string {
  const newer = 'install a newer onnxruntime-node, or export the model for an older one';
  const [, number] = /Unsupported data type: (\d+)/.exec(message) ?? [];
  if (number !== undefined)
    return `an input or output of the model has the type ${NUMBERED[number] ?? number}, which is not supported: ${CAST}`;
  const [, format, known] = /IR version: (\d+), max supported IR version: (\d+)/.exec(message) ?? [];
  if (format)
    return `the model file has IR version ${format}, of which ${known} is the newest that can be read: ${newer}`;
  const [, opset, domain, till] =
    /Opset (\d+) is under development.*support for domain (\S+) is till opset (\d+)/s.exec(message) ?? [];
  if (opset) return `the model needs opset ${opset} of ${domain}, of which ${till} is the newest that runs: ${newer}`;
  const [unread, path] = /(?:Load model from (.+) failed:\s*)?Protobuf parsing failed/i.exec(message) ?? [];
  if (unread) return `not an ONNX model, or an incomplete file${path ? `: ${path}` : ''}`;
  return message;
}

const WITHOUT_MAPS = {
  input: 'take: export the model with tensors as inputs',
  output: 'return: export the model without them, from scikit-learn by to_onnx(model, X, options={"zipmap": False})',
};

/**
 * Returns how items could be stacked, by the first dimensions of the inputs. Names and sizes are no proof: a sequence or
 * the channels of a picture may come first, and items would get each other's answers.
 */
export function stackingToProve({ inputs }: Ports): Stacking {
  const [first] = inputs;
  const scalar = inputs.find(({ shape }) => shape.length === 0);
  if (!first || scalar) return single(`input "${scalar?.name ?? ''}" has no first dimension`);
  const [size] = first.shape;
  const other = inputs.find(({ shape }) => typeof shape[0] !== typeof size || (size !== shape[0] && isSize(size)));
  if (other) return single(`the first dimension of "${other.name}" is another than that of "${first.name}"`);
  if (size === 0) return single('its first dimension is 0');
  if (size === 1) return single('its first dimension is 1: export the model with an open first dimension');
  return { tag: 'stacked', size: isSize(size) ? size : null };
}

function single(why: string): Stacking {
  return { tag: 'single', why };
}

function isSize(dimension: number | string | undefined): dimension is number {
  return typeof dimension === 'number';
}

/** Whether an item may come without the first dimension of the input, as one row. */
export function mayBeRow({ shape }: SessionPort, stacking: Stacking): boolean {
  if (shape.length === 0) return false;
  return stacking.tag === 'stacked' || !isSize(shape[0]) || shape[0] === 1;
}

/** Whether people should read of items as rows: the batch is proven, or there is one row. */
export function hasRows({ inputs }: Ports, stacking: Stacking): boolean {
  return stacking.tag === 'stacked' || inputs.every(({ shape }) => shape[0] === 1);
}

/** Describes a port for people: `image float32 [batch, 1, 28, 28]`. */
export function describePort({ name, type, shape }: SessionPort): string {
  return `${name} ${type} ${describeShape(shape)}`;
}

export function describeShape(shape: readonly (number | string)[]): string {
  return `[${shape.map((dimension) => (dimension === '' ? '?' : dimension)).join(', ')}]`;
}

/** Reads a model's inputs and outputs from its metadata, and decides whether the first dimension is the batch. */
import type { ModelPort } from '../../core/tensor.ts';
import { type ElementType, isKnownType } from './elements.ts';

/** One input or output of a supported type. */
export interface Port extends ModelPort {
  readonly type: ElementType;
}

export interface Ports {
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
}

/**
 * Ways to turn items into tensors:
 *
 *   stacked  along the first dimension, which is the batch: any number of items, or exactly `size`.
 *            With `ownRows` an item may bring the first dimension with several rows, and then runs alone: the model
 *            does not say that an item is one row.
 *   single   one item per run
 */
export type Stacking =
  | { readonly tag: 'stacked'; readonly size: number | null; readonly ownRows: boolean }
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

function portOf({ name, isTensor, type = '', shape = [] }: RawPort, kind: 'input' | 'output'): Port {
  const which = `${kind} "${name}" of the model`;
  if (!isTensor)
    throw new Error(`${which} is a sequence or a map, which onnxruntime-node cannot ${WITHOUT_MAPS[kind]}`);
  if (!isKnownType(type)) throw new Error(`${which} has the type ${type}, which is not supported`);
  return { name, type, shape };
}

const WITHOUT_MAPS = {
  input: 'take: export the model with tensors as inputs',
  output: 'return: export the model without them, from scikit-learn by to_onnx(model, X, options={"zipmap": False})',
};

/**
 * Decides by the first dimensions in the model and by `forced`, the user's setting (null if not set). Another dimension
 * must never be mistaken for the batch: the split would give items each other's answers.
 */
export function stackingOf({ inputs, outputs }: Ports, forced: boolean | null): Stacking {
  if (forced === false) return { tag: 'single', why: 'the stage is set so' };
  const firsts = inputs.map(({ shape }) => shape[0]);
  const [first] = firsts;
  const scalar = inputs.find(({ shape }) => shape.length === 0);
  if (first === undefined || scalar)
    return { tag: 'single', why: `input "${scalar?.name ?? ''}" has no first dimension` };
  const size = typeof first === 'number' ? first : null;
  if (forced) return { tag: 'stacked', size, ownRows: false };
  const odd = inputs.find(({ shape }) => shape[0] !== first) ?? outputs.find(({ shape }) => !isBatch(shape[0], first));
  if (!odd) return { tag: 'stacked', size, ownRows: false };
  const what = odd.shape.length === 0 ? 'none that is known' : `${JSON.stringify(odd.shape[0])}`;
  return {
    tag: 'single',
    why: `the first dimension of "${odd.name}" is ${what}, that of "${inputs[0]?.name}" ${JSON.stringify(first)}`,
  };
}

/** Whether the model leaves the size of all first dimensions open. */
export function mayStack({ inputs }: Ports): boolean {
  return inputs.every(({ shape }) => typeof shape[0] === 'string');
}

/** Whether the first dimension of an output is the same as that of the inputs. */
export function isBatch(dimension: number | string | undefined, first: number | string | undefined): boolean {
  return dimension !== undefined && dimension !== '' && dimension === first;
}

/** Returns the inputs as one item brings them. A dimension for the batch is 1, unless an item may bring several rows. */
export function inputsOfItem({ inputs }: Ports, stacking: Stacking): Port[] {
  if (stacking.tag === 'single' || stacking.ownRows) return [...inputs];
  return inputs.map((port) => ({ ...port, shape: [1, ...port.shape.slice(1)] }));
}

/** Returns the outputs as tensors of one item; none if its shape depends on the item. */
export function outputsOfItem({ outputs }: Ports, stacking: Stacking): Port[] {
  if (stacking.tag === 'single' || stacking.ownRows) return [];
  return outputs.map((port) => ({ ...port, shape: port.shape.slice(1) }));
}

/** Describes a port for people: `image float32 [batch, 1, 28, 28]`. */
export function describePort({ name, type, shape }: Port): string {
  return `${name} ${type} ${describeShape(shape)}`;
}

export function describeShape(shape: readonly (number | string)[]): string {
  return `[${shape.map((dimension) => (dimension === '' ? '?' : dimension)).join(', ')}]`;
}

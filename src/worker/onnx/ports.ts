/** What goes into a model and what comes out, as the model says it, and whether its first dimension is the batch. */
import type { ModelPort } from '../../core/model.ts';
import { type ElementType, isKnownType } from './elements.ts';

/** One input or output of a type that is supported. */
export interface Port extends ModelPort {
  readonly type: ElementType;
}

export interface Ports {
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
}

/**
 * How items become tensors:
 *
 *   stacked  along the first dimension, which is the batch: of any number, or of `size` exactly. With `ownRows` an item
 *            may bring several rows of its own, and then runs alone: the model does not say that it must be one.
 *   single   one item a run
 */
export type Stacking =
  | { readonly tag: 'stacked'; readonly size: number | null; readonly ownRows: boolean }
  | { readonly tag: 'single'; readonly why: string };

/** What a session tells; shapes are there since version 1.22. */
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

/** @throws Error for a model that cannot be served, which says what would help. */
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
 * By what the model says of its first dimensions, and `forced`, what the user says of them; null where nothing. A
 * dimension that is not the batch must not be taken for it: the split would hand items each other's answers.
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

/** Whether the model leaves open what its first dimensions are. */
export function mayStack({ inputs }: Ports): boolean {
  return inputs.every(({ shape }) => typeof shape[0] === 'string');
}

/** Whether the first dimension of an output is that of the inputs. */
export function isBatch(dimension: number | string | undefined, first: number | string | undefined): boolean {
  return dimension !== undefined && dimension !== '' && dimension === first;
}

/** For people: `image float32 [batch, 1, 28, 28]`. */
export function describePort({ name, type, shape }: Port): string {
  return `${name} ${type} ${describeShape(shape)}`;
}

export function describeShape(shape: readonly (number | string)[]): string {
  return `[${shape.map((dimension) => (dimension === '' ? '?' : dimension)).join(', ')}]`;
}

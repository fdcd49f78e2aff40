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
 *   stacked  along the first dimension, which is the batch: of any number, or of `size` exactly
 *   single   one item a run
 */
export type Stacking =
  | { readonly tag: 'stacked'; readonly size: number | null }
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

/** @throws Error for a model that cannot be served. */
export function portsOf({ inputMetadata, outputMetadata }: SessionMetadata): Ports {
  if (!inputMetadata || !outputMetadata) throw new Error('onnxruntime-node is older than 1.22: install a newer one');
  const inputs = inputMetadata.map((raw) => {
    const port = portOf(raw);
    if (port) return port;
    throw new Error(`input "${raw.name}" of the model has the type ${raw.type ?? 'sequence or map'}, ${NOT_SUPPORTED}`);
  });
  // Sequences and maps that scikit-learn's converter adds are left out.
  const outputs = outputMetadata.flatMap((raw) => portOf(raw) ?? []);
  if (outputs.length === 0) throw new Error('no output of the model is a tensor of a type that is supported');
  return { inputs, outputs };
}

const NOT_SUPPORTED = 'which is not supported (float16 is, from Node.js 24 on)';

function portOf({ name, isTensor, type, shape = [] }: RawPort): Port | null {
  return isTensor && type !== undefined && isKnownType(type) ? { name, type, shape } : null;
}

/**
 * Only what the model says makes a dimension the batch: splitting a result along another one would hand items each
 * other's answers. `forced`: what the user says of it; null where nothing.
 */
export function stackingOf({ inputs, outputs }: Ports, forced: boolean | null): Stacking {
  if (forced === false) return { tag: 'single', why: 'the stage is set so' };
  const firsts = inputs.map(({ shape }) => shape[0]);
  const [first] = firsts;
  const scalar = inputs.find(({ shape }) => shape.length === 0);
  if (first === undefined || scalar)
    return { tag: 'single', why: `input "${scalar?.name ?? ''}" has no first dimension` };
  const size = typeof first === 'number' ? first : null;
  if (forced) return { tag: 'stacked', size };
  const odd = inputs.find(({ shape }) => shape[0] !== first) ?? outputs.find(({ shape }) => !isBatch(shape[0], first));
  if (!odd) return { tag: 'stacked', size };
  const what = odd.shape.length === 0 ? 'none that is known' : `${JSON.stringify(odd.shape[0])}`;
  return {
    tag: 'single',
    why: `the first dimension of "${odd.name}" is ${what}, that of "${inputs[0]?.name}" ${JSON.stringify(first)}`,
  };
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

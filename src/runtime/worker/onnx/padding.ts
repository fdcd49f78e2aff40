/**
 * Lets items of different lengths share a run: fills the open dimensions of chosen inputs up to the longest item, and
 * cuts the outputs back to the length of each item. Only a model that ignores the filling, as one with a mask does, gives
 * the same answers then; trial.ts tries it.
 */
import type { OnnxOptions } from '../../../config/stage-source.ts';
import { sizeOf } from '../../../core/tensor.ts';
import { makeElements, putElements, type SessionTensor, type TensorElements, toElements } from './elements.ts';
import type { Ports, SessionPort } from './ports.ts';
import type { ItemPart } from './read-item.ts';

type Dims = readonly number[];

interface PaddedInput {
  /** Index of the input. */
  readonly at: number;
  /** The open dimensions, without the first, which is the batch. */
  readonly axes: readonly number[];
  /** The one element with which they are filled up. */
  readonly filling: TensorElements;
}

/** How much larger than its smallest item the largest of one run may be: the run computes as if all were as large. */
const LARGEST_RATIO = 2;

export class Padding {
  readonly #inputs: readonly PaddedInput[];
  /** The padded dimension of an input, by the name that the model gives it. */
  readonly #named: ReadonlyMap<string, { readonly at: number; readonly axis: number }>;

  /**
   * @param values by the name of an input, the value with which its open dimensions are filled up
   * @throws Error for an input that the model does not have, that has no open dimension, or whose type lacks the value
   */
  constructor({ inputs }: Ports, values: NonNullable<OnnxOptions['pad']>) {
    this.#inputs = Object.entries(values).map(([name, value]) => paddedInput(inputs, name, value));
    this.#named = new Map(
      this.#inputs.flatMap(({ at, axes }) =>
        axes.map((axis) => [(inputs[at] as SessionPort).shape[axis] as string, { at, axis }] as const),
      ),
    );
  }

  /** Returns the same text for items that fit one run, by the shapes of their parts. */
  shapesOf(parts: readonly ItemPart[]): string {
    return parts.map(({ dims }, at) => dims.map((dim, axis) => (this.#fills(at, axis) ? '*' : dim)).join()).join(';');
  }

  /** Splits items that fit one run into runs without much filling. @param items indexes of the items */
  runsOf(items: readonly number[], partsOf: (item: number) => readonly ItemPart[]): number[][] {
    const sizes = new Map(items.map((item) => [item, this.#sizeOf(partsOf(item))]));
    const sizeOfItem = (item: number): number => sizes.get(item) as number;
    const runs: number[][] = [];
    for (const item of [...items].sort((one, other) => sizeOfItem(one) - sizeOfItem(other))) {
      const run = runs.at(-1);
      if (run && sizeOfItem(item) <= LARGEST_RATIO * sizeOfItem(run[0] as number)) run.push(item);
      else runs.push([item]);
    }
    return runs;
  }

  /** Returns the parts of one input in the shape of the longest of them. */
  filled(parts: readonly ItemPart[], at: number, { type }: SessionPort): readonly ItemPart[] {
    const input = this.#inputs.find((padded) => padded.at === at);
    const [first] = parts as readonly [ItemPart];
    if (!input || parts.every(({ dims }) => dims.join() === first.dims.join())) return parts;
    const dims = first.dims.map((_, axis) => Math.max(...parts.map((part) => part.dims[axis] as number)));
    return parts.map((part) => {
      const data = makeElements(type, sizeOf(dims)).fill(input.filling[0] as never) as TensorElements;
      copyBlock({ into: data, intoDims: dims, from: part.data, fromDims: part.dims, dims: part.dims });
      return { dims, data };
    });
  }

  /** Cuts the output of an item to the item's own length, where the model gives both dimensions one name. */
  cut(tensor: SessionTensor, { shape }: SessionPort, parts: readonly ItemPart[]): SessionTensor {
    const dims = tensor.dims.map((dim, axis) => {
      const source = axis === 0 ? undefined : this.#named.get(String(shape[axis]));
      return source ? Math.min(dim, parts[source.at]?.dims[source.axis] ?? dim) : dim;
    });
    if (dims.join() === tensor.dims.join()) return tensor;
    const data = makeElements(tensor.type, sizeOf(dims));
    copyBlock({ into: data, intoDims: dims, from: tensor.data, fromDims: tensor.dims, dims });
    return { type: tensor.type, dims, data };
  }

  /** Returns a row whose padded dimensions are half as long, for a trial. */
  shortened(row: readonly ItemPart[], inputs: readonly SessionPort[]): readonly ItemPart[] {
    return row.map((part, at) => {
      const dims = part.dims.map((dim, axis) => (this.#fills(at, axis) ? Math.ceil(dim / 2) : dim));
      const data = makeElements((inputs[at] as SessionPort).type, sizeOf(dims));
      copyBlock({ into: data, intoDims: dims, from: part.data, fromDims: part.dims, dims });
      return { dims, data };
    });
  }

  #fills(at: number, axis: number): boolean {
    return this.#inputs.some((input) => input.at === at && input.axes.includes(axis));
  }

  #sizeOf(parts: readonly ItemPart[]): number {
    return this.#inputs.reduce((sum, { at }) => sum + sizeOf(parts[at]?.dims ?? []), 0);
  }
}

function paddedInput(inputs: readonly SessionPort[], name: string, value: unknown): PaddedInput {
  const at = inputs.findIndex((input) => input.name === name);
  const port = inputs[at];
  if (!port) {
    const names = inputs.map((input) => `"${input.name}"`).join(', ');
    throw new Error(`pad: the model has no input "${name}"; its inputs are ${names}`);
  }
  const axes = port.shape.flatMap((dim, axis) => (axis > 0 && typeof dim === 'string' ? [axis] : []));
  if (axes.length === 0) throw new Error(`pad: input "${name}" has no open dimension beside the first`);
  const filling = toElements(port.type, [value]);
  if (typeof filling === 'number')
    throw new Error(`pad: ${JSON.stringify(value)} is no ${port.type} for input "${name}"`);
  return { at, axes, filling };
}

interface Block {
  readonly into: TensorElements;
  readonly intoDims: Dims;
  readonly from: TensorElements;
  readonly fromDims: Dims;
  /** The block that is copied: the first elements of each dimension. */
  readonly dims: Dims;
}

function copyBlock({ into, intoDims, from, fromDims, dims }: Block): void {
  const last = dims.length - 1;
  const length = dims[last] as number;
  const copy = (axis: number, intoAt: number, fromAt: number): void => {
    if (axis === last) {
      putElements(into, from.slice(fromAt, fromAt + length) as TensorElements, intoAt);
      return;
    }
    const [intoStep, fromStep] = [sizeOf(intoDims.slice(axis + 1)), sizeOf(fromDims.slice(axis + 1))];
    for (let index = 0; index < (dims[axis] as number); index += 1) {
      copy(axis + 1, intoAt + index * intoStep, fromAt + index * fromStep);
    }
  };
  copy(0, 0, 0);
}

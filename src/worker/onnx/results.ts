/** What comes of one item's outputs: plain data, tensors, or a label with its score. */

import type { OnnxOptions } from '../../core/model.ts';
import { fromElement } from './elements.ts';
import type { Port } from './ports.ts';
import type { ItemOutputs, Tensor } from './run-items.ts';

/** What results are to be like. */
export interface ResultOptions extends Pick<OnnxOptions, 'softmax' | 'tensors'> {
  readonly labels: readonly string[] | null;
}

/** The label with the highest score. */
export interface Labelled {
  readonly label: string;
  readonly index: number;
  readonly score: number;
  readonly scores: readonly number[];
}

/**
 * Of a model with one output its value, of several an object by name. Labels and softmax are for the first output.
 * @throws Error where the labels are not as many as the scores.
 */
export function toResult(tensors: ItemOutputs, outputs: readonly Port[], options: ResultOptions): unknown {
  const values = tensors.map((tensor, index) => {
    if (options.tensors) return { data: tensor.data, dims: tensor.dims, type: tensor.type };
    if (index > 0 || (!options.softmax && !options.labels)) return toPlain(tensor);
    return classify(tensor, options);
  });
  if (values.length === 1) return values[0];
  return Object.fromEntries(outputs.map(({ name }, index) => [name, values[index]]));
}

function classify(tensor: Tensor, { softmax, labels }: ResultOptions): unknown {
  const scores = Array.from(tensor.data as ArrayLike<number>, Number);
  const width = tensor.dims.at(-1) ?? 1;
  if (softmax) {
    for (let from = 0; from < scores.length; from += width) toProbabilities(scores, from, from + width);
  }
  if (!labels) return nest(scores, tensor.dims, 0, 0, (score) => score);
  if (labels.length !== scores.length) {
    throw new Error(`there are ${labels.length} labels for ${scores.length} scores`);
  }
  const index = scores.reduce((best, score, at) => (score > (scores[best] as number) ? at : best), 0);
  return { label: labels[index], index, score: scores[index], scores } as Labelled;
}

/** Subtracting the largest changes no quotient and keeps exp() from overflowing. */
function toProbabilities(scores: number[], from: number, to: number): void {
  let largest = Number.NEGATIVE_INFINITY;
  for (let at = from; at < to; at += 1) largest = Math.max(largest, scores[at] as number);
  let sum = 0;
  for (let at = from; at < to; at += 1) {
    const power = Math.exp((scores[at] as number) - largest);
    scores[at] = power;
    sum += power;
  }
  for (let at = from; at < to; at += 1) scores[at] = (scores[at] as number) / sum;
}

function toPlain({ type, dims, data }: Tensor): unknown {
  return nest(data as ArrayLike<unknown>, dims, 0, 0, (value) => fromElement(type, value));
}

/** Nested arrays of the elements from `offset` on, as deep as there are dimensions; of none the element itself. */
function nest(
  data: ArrayLike<unknown>,
  dims: readonly number[],
  depth: number,
  offset: number,
  read: (value: unknown) => unknown,
): unknown {
  const length = dims[depth];
  if (length === undefined) return read(data[offset]);
  const step = dims.slice(depth + 1).reduce((size, dim) => size * dim, 1);
  return Array.from({ length }, (_, index) => nest(data, dims, depth + 1, offset + index * step, read));
}

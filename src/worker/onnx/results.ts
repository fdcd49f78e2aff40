/** What comes of one item's outputs: plain data, tensors, or a label with its score. */

import type { OnnxOptions } from '../../core/model.ts';
import { nested, sizeOf } from '../../core/tensor.ts';
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
 * Which output has the scores that labels and softmax are for: one as long as there are labels, else one of fractions,
 * else the first. Models of scikit-learn have the label first.
 */
export function scoresAt(outputs: readonly Port[], { labels }: Pick<ResultOptions, 'labels'>): number {
  const fractions = ({ type }: Port): boolean => type.startsWith('float');
  const asLong = ({ shape }: Port): boolean => labels !== null && shape.at(-1) === labels.length;
  const by = [(port: Port) => fractions(port) && asLong(port), asLong, fractions];
  return Math.max(0, by.map((fits) => outputs.findIndex(fits)).find((index) => index >= 0) ?? 0);
}

/** @throws Error where the model says that it has another number of scores than there are labels. */
export function checkLabels(outputs: readonly Port[], stacked: boolean, options: ResultOptions): void {
  const { name = '', shape = [] } = outputs[scoresAt(outputs, options)] ?? {};
  const dims = stacked ? shape.slice(1) : shape;
  if (!options.labels || shape.length === 0 || dims.some((dim) => typeof dim === 'string')) return;
  const scores = sizeOf(dims as number[]);
  if (scores === options.labels.length) return;
  throw new Error(`labels: there are ${options.labels.length}, for ${scores} scores of the output "${name}"`);
}

/**
 * Of a model with one output its value, of several an object by name.
 * @throws Error where the labels are not as many as the scores.
 */
export function toResult(tensors: ItemOutputs, outputs: readonly Port[], options: ResultOptions): unknown {
  const scores = options.softmax || options.labels ? scoresAt(outputs, options) : -1;
  const values = tensors.map((tensor, index) => {
    if (options.tensors) return { data: tensor.data, dims: tensor.dims, type: tensor.type };
    return index === scores ? classify(tensor, options) : toPlain(tensor);
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
  if (!labels) return nested({ ...tensor, data: scores }, (score) => score);
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

function toPlain(tensor: Tensor): unknown {
  return nested(tensor, (value) => fromElement(tensor.type, value));
}

/** Turns one item's outputs into its result: plain data, tensors, or a label with its score. */
import type { OnnxOptions } from '../../../config/stage-source.ts';
import { counted } from '../../../core/figures.ts';
import { nested, sizeOf } from '../../../core/tensor.ts';
import { best, toProbabilities } from '../presets/scores.ts';
import { fromElement, type SessionTensor } from './elements.ts';
import type { SessionPort } from './ports.ts';
import type { ItemOutputs } from './run-items.ts';

/** Form of the results. */
export interface ResultOptions extends Pick<OnnxOptions, 'softmax' | 'tensors'> {
  readonly labels: readonly string[] | null;
}

/** Result with the label of the highest score. */
export interface Labelled {
  readonly label: string;
  readonly index: number;
  readonly score: number;
  readonly scores: readonly number[];
}

/**
 * Returns the index of the output with the scores, to which labels and softmax apply. Prefers a float output whose last
 * dimension equals the number of labels, then any output with that dimension, then a float output, then the first
 * output. Models of scikit-learn have the label as their first output.
 */
export function scoresAt(outputs: readonly SessionPort[], { labels }: Pick<ResultOptions, 'labels'>): number {
  const fractions = ({ type }: SessionPort): boolean => type.startsWith('float');
  const asLong = ({ shape }: SessionPort): boolean => labels !== null && shape.at(-1) === labels.length;
  const by = [(port: SessionPort) => fractions(port) && asLong(port), asLong, fractions];
  return Math.max(0, by.map((fits) => outputs.findIndex(fits)).find((index) => index >= 0) ?? 0);
}

/** @throws Error if the model states a number of scores that differs from the number of labels. */
export function checkLabels(outputs: readonly SessionPort[], stacked: boolean, options: ResultOptions): void {
  const { name = '', shape = [] } = outputs[scoresAt(outputs, options)] ?? {};
  const dims = stacked ? shape.slice(1) : shape;
  if (!options.labels || shape.length === 0 || dims.some((dim) => typeof dim === 'string')) return;
  const scores = sizeOf(dims as number[]);
  if (scores === options.labels.length) return;
  throw new Error(
    `labels: the list has ${counted(options.labels.length, 'label')}, and the output "${name}" has ${counted(scores, 'score')}`,
  );
}

/**
 * Returns the value of a single output, or an object by name for several outputs.
 * @throws Error if the number of labels differs from the number of scores.
 */
export function toResult(tensors: ItemOutputs, outputs: readonly SessionPort[], options: ResultOptions): unknown {
  const scores = options.softmax || options.labels ? scoresAt(outputs, options) : -1;
  const values = tensors.map((tensor, index) => {
    if (options.tensors) return { data: tensor.data, dims: tensor.dims, type: tensor.type };
    return index === scores ? classify(tensor, options) : toPlain(tensor);
  });
  if (values.length === 1) return values[0];
  return Object.fromEntries(outputs.map(({ name }, index) => [name, values[index]]));
}

function classify(tensor: SessionTensor, { softmax, labels }: ResultOptions): unknown {
  const scores = Array.from(tensor.data as ArrayLike<number>, Number);
  const width = tensor.dims.at(-1) ?? 1;
  if (softmax) {
    for (let from = 0; from < scores.length; from += width) toProbabilities(scores, from, from + width);
  }
  if (!labels) return nested({ ...tensor, data: scores }, (score) => score);
  const count = labels.length;
  if (scores.length !== count && width !== count) {
    throw new Error(`the list has ${counted(count, 'label')} for ${counted(scores.length, 'score')}`);
  }
  const rows = Array.from({ length: scores.length / count }, (_, row) =>
    labelled(scores.slice(row * count, (row + 1) * count), labels),
  );
  return rows.length === 1 ? rows[0] : rows;
}

function labelled(scores: readonly number[], labels: readonly string[]): Labelled {
  const { index, score } = best(scores);
  return { label: labels[index] as string, index, score, scores };
}

function toPlain(tensor: SessionTensor): unknown {
  return nested(tensor, (value) => fromElement(tensor.type, value));
}

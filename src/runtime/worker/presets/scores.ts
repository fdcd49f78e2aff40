/** Scores from 0 to 1, of what a model computes for each class. */
import type { OnnxPresets } from '../../../config/stage-source.ts';
import { type ModelFile, operatorOf } from './model-file.ts';

/** Operators whose results are scores from 0 to 1. */
const SCORING = /^(Softmax|Sigmoid|HardSigmoid|Normalizer|(Linear|SVM|TreeEnsemble)Classifier|TreeEnsemble)$/;

/**
 * Returns how the values of an output become scores: as the stage is set, else `none` if they are scores by the last
 * operator of the model; `auto`: they are not.
 */
export function scoringOf({ values }: OnnxPresets, output: string, file: ModelFile): string {
  const chosen = String(values['scores']);
  return chosen === 'auto' && SCORING.test(operatorOf(output, file) ?? '') ? 'none' : chosen;
}

/** Returns scores from 0 to 1 for rows of the given width. */
export function scored(values: ArrayLike<number>, width: number, scoring: string): Float32Array {
  const scores = Float32Array.from(values);
  if (scoring === 'sigmoid') return scores.map((value) => 1 / (1 + Math.exp(-value)));
  if (scoring === 'softmax')
    for (let from = 0; from < scores.length; from += width) toProbabilities(scores, from, from + width);
  return scores;
}

/** Applies softmax to a range of scores. Subtracting the largest score changes no quotient and keeps exp() finite. */
export function toProbabilities(scores: number[] | Float32Array, from: number, to: number): void {
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

/** Returns the highest score, the first of several. */
export function best(scores: readonly number[]): { readonly index: number; readonly score: number } {
  const index = scores.reduce((most, score, at) => (score > (scores[most] as number) ? at : most), 0);
  return { index, score: scores[index] ?? 0 };
}

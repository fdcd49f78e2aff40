/** How far the answers of a stage are from those of Python: for each form of a result, numbers that are 0 if they are the same. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { OpenSharp } from '../../../src/runtime/worker/tasks/library.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

/** By what differs: the largest difference. */
export type Differences = Readonly<Record<string, number>>;

export interface Scored {
  readonly label: string;
  readonly score: number;
}

interface Box extends Scored {
  readonly box: Readonly<Record<'xmin' | 'ymin' | 'xmax' | 'ymax', number>>;
}

interface Entity extends Scored {
  readonly word: string;
  readonly start: number;
  readonly end: number;
}

interface Depth {
  readonly width: number;
  readonly height: number;
}

interface Mask {
  readonly label: string;
  /** null: the model gives none. */
  readonly score: number | null;
}

interface Answer {
  readonly answer: string;
  readonly score: number;
  readonly start: number;
  readonly end: number;
}

const sharp = createRequire(join(repositoryRoot, 'package.json'))('sharp') as OpenSharp;

type Compare = (found: unknown, wanted: unknown) => Differences | Promise<Differences>;

const largest = (values: readonly number[]): number => Math.max(0, ...values);

function scores(found: readonly Scored[], wanted: readonly Scored[]): Differences {
  const by = new Map(found.map(({ label, score }) => [label, score]));
  const isOther = found.length !== wanted.length || found[0]?.label !== wanted[0]?.label;
  return {
    labels: Number(isOther),
    scores: largest(wanted.map(({ label, score }) => Math.abs(score - (by.get(label) ?? 1)))),
  };
}

/** In the order of the text. */
function entities(found: readonly Entity[], wanted: readonly Entity[]): Differences {
  const isOther = wanted.some((one, at) => {
    const other = found[at];
    return one.label !== other?.label || one.word !== other.word || one.start !== other.start || one.end !== other.end;
  });
  return {
    words: Number(isOther || found.length !== wanted.length),
    scores: largest(wanted.map(({ score }, at) => Math.abs(score - (found[at]?.score ?? 1)))),
  };
}

/** The highest score first; boxes with the same label and nearly the same score may have changed places. */
function boxes(found: readonly Box[], wanted: readonly Box[]): Differences {
  const left = new Set(found);
  const pairs = wanted.map((one) => {
    const distance = (other: Box): number =>
      largest(Object.entries(one.box).map(([side, at]) => Math.abs(at - other.box[side as keyof Box['box']])));
    // Two boxes may lie on each other: their scores part them.
    const apart = (other: Box): number => distance(other) + 100 * Math.abs(other.score - one.score);
    const [nearest] = [...left].filter(({ label }) => label === one.label).sort((a, b) => apart(a) - apart(b));
    if (!nearest) return null;
    left.delete(nearest);
    return { pixels: distance(nearest), score: Math.abs(nearest.score - one.score) };
  });
  const matched = pairs.filter((one) => one !== null);
  return {
    objects: pairs.length - matched.length + left.size,
    pixels: largest(matched.map(({ pixels }) => pixels)),
    scores: largest(matched.map(({ score }) => score)),
  };
}

/** @returns 1 less the cosine */
function angle(found: ArrayLike<number>, wanted: ArrayLike<number>): number {
  if (found.length !== wanted.length) return Number.POSITIVE_INFINITY;
  let [both, one, other] = [0, 0, 0];
  for (let at = 0; at < found.length; at += 1) {
    const [a, b] = [found[at] as number, wanted[at] as number];
    both += a * b;
    one += a * a;
    other += b * b;
  }
  return Math.max(0, 1 - both / Math.sqrt(one * other));
}

const bytesOf = async (file: Buffer): Promise<Buffer> =>
  (await sharp(file, {}).toColourspace('b-w').raw().toBuffer({ resolveWithObject: true })).data;

/** Of several masks with the same label, the most alike are a pair. */
async function masks(
  found: readonly (Mask & { readonly mask: string })[],
  wanted: readonly (Mask & { readonly file: string })[],
): Promise<Differences> {
  const left = new Set(
    await Promise.all(
      found.map(async ({ mask, ...one }) => {
        const file = Buffer.from(mask.replace(/^data:image\/png;base64,/, ''), 'base64');
        return { ...one, bytes: await bytesOf(file) };
      }),
    ),
  );
  let [unlike, all, score, missing] = [0, 0, 0, 0];
  for (const one of wanted) {
    const bytes = await bytesOf(readFileSync(one.file));
    const pairs = [...left].filter(({ label }) => label === one.label);
    const [nearest] = pairs
      .map((pair) => ({ pair, pixels: unlikeIn(pair.bytes, bytes) }))
      .sort((a, b) => a.pixels - b.pixels);
    if (!nearest) {
      missing += 1;
      continue;
    }
    left.delete(nearest.pair);
    unlike += nearest.pixels;
    all = bytes.length;
    score = Math.max(score, Math.abs((nearest.pair.score ?? 0) - (one.score ?? 0)));
  }
  // A pixel that is in another mask is missing in one and too much in the other.
  return { labels: missing + left.size, 'share of pixels': unlike / 2 / Math.max(1, all), scores: score };
}

function unlikeIn(found: Buffer, wanted: Buffer): number {
  if (found.length !== wanted.length) return wanted.length;
  return wanted.reduce((unlike, byte, at) => unlike + Number(byte > 127 !== (found[at] as number) > 127), 0);
}

/** The most likely first. */
function answers(found: readonly Answer[], wanted: readonly Answer[]): Differences {
  const isOther = wanted.some((one, at) => {
    const other = found[at];
    return one.answer !== other?.answer || one.start !== other.start || one.end !== other.end;
  });
  return {
    answers: Number(isOther || found.length !== wanted.length),
    scores: largest(wanted.map(({ score }, at) => Math.abs(score - (found[at]?.score ?? 1)))),
  };
}

function depth(
  found: Depth & { readonly depth: Float32Array },
  wanted: Depth & { readonly file: string },
): Differences {
  const bytes = readFileSync(wanted.file);
  const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  const isOther = found.width !== wanted.width || found.height !== wanted.height;
  return { '1 - cosine': isOther ? 1 : angle(found.depth, values) };
}

const compare = <Found, Wanted>(by: (found: Found, wanted: Wanted) => Differences | Promise<Differences>): Compare =>
  by as Compare;

const vectors = compare((found: Float32Array, wanted: readonly number[]) => ({ '1 - cosine': angle(found, wanted) }));
const texts = compare((found: { readonly text: string }, wanted: { readonly text: string }) => ({
  texts: Number(found.text !== wanted.text),
}));

/** By the task. */
export const COMPARE: Readonly<Record<string, Compare>> = {
  'feature-extraction': vectors,
  'image-feature-extraction': vectors,
  'text-classification': compare(scores),
  'zero-shot-classification': compare(scores),
  'image-classification': compare(scores),
  'zero-shot-image-classification': compare(scores),
  'audio-classification': compare(scores),
  'token-classification': compare(entities),
  'question-answering': compare(answers),
  'text-generation': texts,
  'object-detection': compare(boxes),
  'image-segmentation': compare(masks),
  'depth-estimation': compare(depth),
  'automatic-speech-recognition': texts,
};

/** Returns the largest differences of several answers. Of whole numbers, which count answers that differ, the sum. */
export function largestOf(each: readonly Differences[]): Differences {
  const names = Object.keys(each[0] ?? {});
  return Object.fromEntries(names.map((name) => [name, largest(each.map((one) => one[name] as number))]));
}

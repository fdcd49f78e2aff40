/** Makes the result of one request of what the library answers: plain JSON and typed arrays, in the forms of the table of tasks. */
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import type { TaskForm } from '../../../config/tasks/tasks.ts';
import { encodePng } from '../../../core/pictures/png.ts';
import type { LibraryTensor, PixelImage, RawImage } from './library.ts';
import { Spans } from './spans.ts';
import { vectorsIn } from './vectors.ts';

type Scored = { readonly label: string; readonly score: number };

interface Ranking {
  readonly labels: readonly string[];
  readonly scores: readonly number[];
}

interface Segment {
  readonly label: string | null;
  readonly score: number | null;
  readonly mask: PixelImage;
}

interface Entity {
  readonly entity?: string;
  readonly entity_group?: string;
  readonly score: number;
  readonly word: string;
}

interface Transcript {
  readonly text: string;
  readonly chunks?: readonly { readonly text: string; readonly timestamp: readonly (number | null)[] }[];
}

/** Splits an answer into those of its inputs, and makes each a result. For words see generate.ts, for boxes detect.ts, for answers questions.ts. */
type MakeResults = (answer: unknown, inputs: readonly unknown[], options: TaskValues) => unknown[] | Promise<unknown[]>;

const each =
  <One>(make: (one: One) => unknown): MakeResults =>
  (answer) =>
    (answer as readonly One[]).map(make);

/** With one entry each, the library gives no list for each. */
const asList = <One>(one: One | readonly One[]): readonly One[] => (Array.isArray(one) ? one : [one as One]);

export const RESULTS: Readonly<Record<Exclude<TaskForm, 'words' | 'boxes' | 'answers'>, MakeResults>> = {
  scores: each((one: Scored | readonly Scored[]) => asList(one).map(({ label, score }) => ({ label, score }))),
  ranking: each(({ labels, scores }: Ranking) => labels.map((label, at) => ({ label, score: scores[at] }))),
  // One picture is in a call.
  masks: async (answer) => [await Promise.all((answer as readonly Segment[]).map(maskOf))],
  depth: (answer, inputs) =>
    (answer as readonly { readonly predicted_depth: LibraryTensor }[]).map(({ predicted_depth: depth }, at) => {
      const { width, height } = inputs[at] as RawImage;
      return { width, height, depth: Float32Array.from(depth.data) };
    }),
  // Of pictures: one vector, one for each part, [parts, size], or one for each place, [size, height, width].
  embedding: (answer, inputs, { pooling, normalize }) =>
    vectorsIn(answer as LibraryTensor, inputs.length, pooling, normalize === true),
  entities: (answer, inputs) =>
    (answer as readonly (readonly Entity[])[]).map((found, at) => entitiesIn(String(inputs[at]), found)),
  transcript: each(({ text, chunks }: Transcript) => ({
    text,
    ...(chunks && {
      parts: chunks.map(({ text: part, timestamp: [start = null, end = null] }) => ({ text: part, start, end })),
    }),
  })),
};

async function maskOf({ label, score, mask }: Segment): Promise<object> {
  const png = await encodePng(mask);
  return { label, score, mask: `data:image/png;base64,${png.toString('base64')}` };
}

/**
 * Returns the words with a label. The library gives the others, too, labelled O: they part groups as in Python, and each
 * word is looked for behind the one before.
 */
function entitiesIn(text: string, found: readonly Entity[]): object[] {
  const spans = new Spans(text);
  return found.flatMap(({ entity, entity_group, score, word }) => {
    const label = entity_group ?? entity;
    const span = spans.next(word);
    return label === 'O' ? [] : [{ label, score, word, ...span }];
  });
}

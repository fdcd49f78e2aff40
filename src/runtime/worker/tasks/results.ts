/** Makes the result of one request of what the library answers: plain JSON and typed arrays, in the forms of the table of tasks. */
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import type { TaskForm } from '../../../config/tasks/tasks.ts';
import { encodePng } from '../../../core/pictures/png.ts';
import { normalized, pool } from '../presets/vectors.ts';
import type { AskedQuestion } from './inputs.ts';
import type { LibraryTensor, PixelImage, RawImage } from './library.ts';
import { Spans } from './spans.ts';

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

interface FoundAnswer {
  readonly answer: string;
  readonly score: number;
}

interface Transcript {
  readonly text: string;
  readonly chunks?: readonly { readonly text: string; readonly timestamp: readonly (number | null)[] }[];
}

/** Splits an answer into those of its inputs, and makes each a result. For words see generate.ts, for boxes detect.ts. */
type MakeResults = (answer: unknown, inputs: readonly unknown[], options: TaskValues) => unknown[] | Promise<unknown[]>;

const each =
  <One>(make: (one: One) => unknown): MakeResults =>
  (answer) =>
    (answer as readonly One[]).map(make);

/** With one entry each, the library gives no list for each. */
const asList = <One>(one: One | readonly One[]): readonly One[] => (Array.isArray(one) ? one : [one as One]);

export const RESULTS: Readonly<Record<Exclude<TaskForm, 'words' | 'boxes'>, MakeResults>> = {
  scores: each((one: Scored | readonly Scored[]) => asList(one).map(({ label, score }) => ({ label, score }))),
  ranking: each(({ labels, scores }: Ranking) => labels.map((label, at) => ({ label, score: scores[at] }))),
  // One picture is in a call.
  masks: async (answer) => [await Promise.all((answer as readonly Segment[]).map(maskOf))],
  depth: (answer, inputs) =>
    (answer as readonly { readonly predicted_depth: LibraryTensor }[]).map(({ predicted_depth: depth }, at) => {
      const { width, height } = inputs[at] as RawImage;
      return { width, height, depth: Float32Array.from(depth.data) };
    }),
  embedding: (answer, inputs, options) => embeddingsOf(answer as LibraryTensor, inputs.length, options),
  entities: (answer, inputs) =>
    (answer as readonly (readonly Entity[])[]).map((found, at) => entitiesIn(String(inputs[at]), found)),
  answers: (answer, inputs, options) =>
    (answer as readonly (FoundAnswer | readonly FoundAnswer[])[]).map((one, at) => {
      const spans = new Spans((inputs[at] as AskedQuestion).context ?? String(options['context']));
      return asList(one).map(({ answer: words, score }) => ({ answer: words, score, ...spans.only(words) }));
    }),
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

/**
 * Returns a vector for each input. The library has pooled those of texts; of pictures there may be one for each part,
 * [parts, size], or one for each place, [size, height, width].
 */
function embeddingsOf({ dims, data }: LibraryTensor, count: number, options: TaskValues): Float32Array[] {
  const all = Float32Array.from(data);
  const size = all.length / count;
  return Array.from({ length: count }, (_, at) => {
    const pooled = pool(all.subarray(at * size, (at + 1) * size), dims.slice(1), options['pooling']);
    return options['normalize'] ? normalized(pooled) : pooled;
  });
}

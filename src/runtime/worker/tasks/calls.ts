/** Calls the pipeline of a task: inputs with the same options together if it takes several, texts of similar length; else one by one. */
import type { TaskName } from '../../../config/stage-source.ts';
import type { RequestOptions, TaskValues } from '../../../config/tasks/task-options.ts';
import { TASKS, type TaskForm } from '../../../config/tasks/tasks.ts';
import { asError } from '../../../core/errors.ts';
import type { RequestMeta } from '../modelet/modelet.ts';
import { detect } from './detect.ts';
import type { AskedQuestion, PreparedInput } from './inputs.ts';
import { languageOf } from './language.ts';
import type { Detector, Library, RawImage, TaskPipeline } from './library.ts';
import { type Answering, answersTo } from './questions.ts';
import { RESULTS } from './results.ts';
import { type Embedding, vectorsOf } from './vectors.ts';

/** A run takes as much longer as another text of about 30 tokens: it reads the weights once more. */
const CHARACTERS_OF_A_RUN = 128;

/** Inputs with the same options. */
interface Group {
  readonly options: TaskValues;
  readonly at: number[];
}

export class TaskCalls {
  readonly #task: TaskName;
  readonly #library: Library;
  readonly #pipeline: TaskPipeline;
  readonly #options: RequestOptions;
  /** Number of calls of the pipeline. */
  count = 0;

  constructor(task: TaskName, library: Library, pipeline: TaskPipeline, options: RequestOptions) {
    this.#task = task;
    this.#library = library;
    this.#pipeline = pipeline;
    this.#options = options;
  }

  /** Returns a result or an Error for each input. Inputs of a call that fails share its error. */
  async run(inputs: readonly PreparedInput[], metas: readonly RequestMeta[]): Promise<unknown[]> {
    const results: unknown[] = new Array(inputs.length);
    const groups = new Map<string, Group>();
    for (const [at, { own }] of inputs.entries()) {
      try {
        const options = this.optionsOf(own, metas[at]);
        const key = TASKS[this.#task].together ? JSON.stringify(options) : String(at);
        const group = groups.get(key) ?? { options, at: [] };
        groups.set(key, group);
        group.at.push(at);
      } catch (thrown) {
        results[at] = thrown;
      }
    }
    for (const { options, at } of groups.values()) {
      const own = at.map((index) => inputs[index] as PreparedInput);
      for (const places of runsByLength(own)) {
        const answers = await this.#call(
          places.map((place) => own[place] as PreparedInput),
          options,
        );
        for (const [position, place] of places.entries()) results[at[place] as number] = answers[position];
      }
    }
    return results;
  }

  /** The options of a message, below those in the input. @throws ModeletError `invalid_input` */
  optionsOf(own: unknown, meta: RequestMeta | undefined): TaskValues {
    return this.#options.of(own, meta?.modelet?.options);
  }

  async #call(inputs: readonly PreparedInput[], options: TaskValues): Promise<readonly unknown[]> {
    const { form, argument } = TASKS[this.#task];
    const values = inputs.map(({ value }) => value);
    this.count += 1;
    try {
      if (form === 'boxes') {
        const detector = this.#pipeline as unknown as Detector;
        return await detect(this.#library, detector, values as RawImage[], Number(options['threshold']));
      }
      if (this.#task === 'feature-extraction')
        return await vectorsOf(this.#pipeline as unknown as Embedding, values as string[], options);
      if (form === 'answers') {
        const asked = values as AskedQuestion[];
        const given = asked.map((one) => ({ context: String(options['context']), ...one }));
        return await answersTo(this.#pipeline as unknown as Answering, given, Number(options['topK']));
      }
      const found = form === 'transcript' ? await this.#languageIn(values as Float32Array[], options) : undefined;
      const given = [
        values,
        ...(argument === undefined ? [] : [options[argument]]),
        namedOptions(this.#task, found === undefined ? options : { ...options, language: found }),
      ];
      const answer = await this.#pipeline(...given);
      const results = await RESULTS[form as Exclude<typeof form, 'words' | 'boxes' | 'answers'>](
        answer,
        values,
        options,
      );
      return found === undefined ? results : results.map((result) => ({ ...(result as object), language: found }));
    } catch (thrown) {
      const error = asError(thrown);
      return inputs.map(() => error);
    }
  }

  /** One sound is in a call. */
  #languageIn([samples]: readonly Float32Array[], options: TaskValues): Promise<string | undefined> {
    return languageOf(this.#library, this.#pipeline, samples as Float32Array, String(options['language']));
  }
}

/** Returns the options by the names of the library. */
export function namedOptions(task: TaskName, options: TaskValues): object {
  const { names, form } = TASKS[task];
  const named = Object.entries(names).map(([name, inLibrary]) => [inLibrary, options[name]] as const);
  return { ...Object.fromEntries(named), ...derived(form, options) };
}

/** Returns options of the library that are no option of a task as they stand. */
function derived(form: TaskForm, options: TaskValues): object {
  // Without this, the library warns of each picture.
  if (form === 'masks') return { label_ids_to_fuse: new Set() };
  if (form === 'entities') return { aggregation_strategy: options['group'] ? 'simple' : 'none', ignore_labels: [] };
  if (form === 'embedding') return options['pooling'] === 'pooler' ? { pool: true } : {};
  if (form !== 'transcript') return {};
  const { language, translate, timestamps, chunkSeconds } = options;
  return {
    ...(language ? { language } : {}),
    ...(translate ? { task: 'translate' } : {}),
    ...(timestamps === 'none' ? {} : { return_timestamps: timestamps === 'words' ? 'word' : true }),
    ...(chunkSeconds ? { chunk_length_s: chunkSeconds } : {}),
  };
}

/**
 * Splits the texts of a call into runs by their length: a run computes as if all were as long as its longest.
 * @returns their places, run by run
 */
function runsByLength(inputs: readonly PreparedInput[]): number[][] {
  const lengths = inputs.map(({ value }) => lengthOf(value));
  if (lengths.includes(null)) return [inputs.map((_, at) => at)];
  const length = (at: number): number => lengths[at] as number;
  const sorted = inputs.map((_, at) => at).sort((one, other) => length(one) - length(other));
  // The cheapest runs of the first texts, by the number of texts.
  const best: { readonly cost: number; readonly from: number }[] = [{ cost: 0, from: 0 }];
  for (const [last, at] of sorted.entries()) {
    let cheapest = { cost: Number.POSITIVE_INFINITY, from: 0 };
    for (let from = 0; from <= last; from += 1) {
      const cost = (best[from]?.cost ?? 0) + CHARACTERS_OF_A_RUN + (last + 1 - from) * length(at);
      if (cost < cheapest.cost) cheapest = { cost, from };
    }
    best.push(cheapest);
  }
  const runs: number[][] = [];
  for (let to = sorted.length; to > 0; ) {
    const from = best[to]?.from ?? 0;
    runs.push(sorted.slice(from, to));
    to = from;
  }
  return runs;
}

/** Returns the length of a text, or of a question with its context; null: something else. */
function lengthOf(value: PreparedInput['value']): number | null {
  if (typeof value === 'string') return value.length;
  return 'question' in value ? value.question.length + (value.context?.length ?? 0) : null;
}

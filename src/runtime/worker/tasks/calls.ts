/** Calls the pipeline of a task: inputs with the same options together if it takes several, else one by one. */

import type { TaskName } from '../../../config/stage-source.ts';
import type { RequestOptions, TaskValues } from '../../../config/tasks/task-options.ts';
import { TASKS, type TaskForm } from '../../../config/tasks/tasks.ts';
import { asError } from '../../../core/errors.ts';
import type { RequestMeta } from '../modelet/modelet.ts';
import { detect } from './detect.ts';
import type { AskedQuestion, PreparedInput } from './inputs.ts';
import { languageOf } from './language.ts';
import type { Detector, Library, RawImage, TaskPipeline } from './library.ts';
import { RESULTS } from './results.ts';

/** Inputs that run in one call. */
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
      const answers = await this.#call(
        at.map((index) => inputs[index] as PreparedInput),
        options,
      );
      for (const [position, index] of at.entries()) results[index] = answers[position];
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
      const found = form === 'transcript' ? await this.#languageIn(values as Float32Array[], options) : undefined;
      const given = [
        ...(form === 'answers' ? questions(values as AskedQuestion[], options) : [values]),
        ...(argument === undefined ? [] : [options[argument]]),
        namedOptions(this.#task, found === undefined ? options : { ...options, language: found }),
      ];
      const answer = await this.#pipeline(...given);
      const results = await RESULTS[form as Exclude<typeof form, 'words' | 'boxes'>](answer, values, options);
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

function questions(inputs: readonly AskedQuestion[], options: TaskValues): string[][] {
  return [inputs.map(({ question }) => question), inputs.map(({ context }) => context ?? String(options['context']))];
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

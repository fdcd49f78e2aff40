/** Reads the options of a known model: those in the `init` of its stage, and those of a request. */
import { ModeletError } from '../../core/errors.ts';
import type { PayloadSchema } from '../../core/model.ts';
import { compilePayloadSchema, ownCheck, type PayloadCheck } from '../payload-schema.ts';
import { TASK_NAMES, type TaskLimits, type TaskName } from '../stage-source.ts';
import { invalid } from '../validate.ts';
import { TASKS, type Task, type TaskInput, type TaskOption } from './tasks.ts';

/** Values of a task's options by name. */
export type TaskValues = Readonly<Record<string, unknown>>;

export const MAX_MEGAPIXELS: TaskOption = {
  ...{ type: 'number', minimum: 0.001, maximum: 1000, default: 50 },
  description: 'Largest picture, in millions of pixels',
};

/** Options that only the stage sets. */
const OF_STAGE: Readonly<Record<keyof TaskLimits, TaskOption | { readonly type: 'array'; readonly default: unknown }>> =
  {
    threads: { type: 'integer', minimum: 1, maximum: 1024, description: 'Threads of a run' },
    device: {
      ...{ type: 'string', enum: ['cpu', 'cuda', 'dml', 'coreml', 'webgpu'], default: 'cpu' },
      description: 'Where the model runs',
    },
    maxMegapixels: MAX_MEGAPIXELS,
    maxSeconds: {
      ...{ type: 'number', minimum: 0.1, maximum: 86_400, default: 600 },
      description: 'Longest sound, in seconds',
    },
    batch: { type: 'boolean', description: 'true: inputs run together whatever a trial shows; false: one by one' },
    examples: { type: 'array', default: [] },
  };

/** Returns the JSON Schema of the options that a request may set. */
export function optionsSchema(options: Task['options']): PayloadSchema & object {
  return { type: 'object', properties: options, additionalProperties: false };
}

/**
 * Reads the `init` of a stage: options of its task, and what only the stage sets.
 * @throws ModeletError `config_invalid`, also for an unknown option: a mistyped name must not be ignored.
 */
export function parseTaskInit(
  task: TaskName,
  init: unknown,
): { readonly options: TaskValues; readonly limits: TaskLimits } {
  const { options } = TASKS[task];
  const check = ownCheck(task, () => optionsSchema({ ...options, ...OF_STAGE } as Task['options']));
  const [problem] = check(init, false) ?? [];
  if (problem) throw invalid(`init${problem.path}: ${problem.message}${knownNames(problem.keyword, task)}`);
  const given = init as Record<string, unknown>;
  const isOfStage = ([name]: readonly [string, unknown]): boolean => Object.hasOwn(OF_STAGE, name);
  const entries = Object.entries(given);
  return {
    options: Object.fromEntries(entries.filter((entry) => !isOfStage(entry))),
    limits: {
      ...{ threads: null, batch: null },
      ...(defaultsOf(OF_STAGE) as object),
      ...Object.fromEntries(entries.filter(isOfStage)),
    } as TaskLimits,
  };
}

function knownNames(keyword: string, task: TaskName): string {
  if (keyword !== 'additionalProperties') return '';
  return `; there are ${[...Object.keys(TASKS[task].options), ...Object.keys(OF_STAGE)].join(', ')}`;
}

/** Returns the defaults of the options that have one. */
export function defaultsOf(options: Readonly<Record<string, { readonly default?: unknown }>>): TaskValues {
  const entries = Object.entries(options).filter(([, option]) => 'default' in option);
  return Object.fromEntries(entries.map(([name, option]) => [name, option.default]));
}

/** Reads the options of requests to one stage. */
export class RequestOptions {
  readonly #options: Task['options'];
  readonly #ofStage: TaskValues;
  #check: PayloadCheck | null = null;

  /** @param options those that a request may set */
  constructor(options: Task['options'], ofStage: TaskValues) {
    this.#options = options;
    this.#ofStage = { ...defaultsOf(options), ...ofStage };
  }

  /**
   * Returns the options of a request: those in its input, else those of its message, of the stage, or the defaults.
   * @throws ModeletError `invalid_input` if the request has others, or if one is missing
   */
  of(own: unknown, ofMessage: unknown): TaskValues {
    const isPlain = typeof own === 'object' && own !== null && typeof ofMessage === 'object';
    const given = (isPlain ? { ...ofMessage, ...own } : (own ?? ofMessage)) ?? undefined;
    const values = given === undefined ? this.#ofStage : { ...this.#ofStage, ...this.#checked(given) };
    for (const name of Object.keys(this.#options)) {
      if (values[name] !== undefined) continue;
      throw new ModeletError('invalid_input', `the option ${name} is missing: the stage or the request must set it`);
    }
    return values;
  }

  #checked(given: unknown): TaskValues {
    this.#check ??= compilePayloadSchema(optionsSchema(this.#options));
    const problems = this.#check(given, true);
    if (!problems) return given as TaskValues;
    const text = problems.map(({ path, message }) => `options${path} ${message}`).join('; ');
    throw new ModeletError('invalid_input', text, { details: problems });
  }
}

/** An option as the dialog of a stage shows it. */
export type ShownOption = Omit<TaskOption, 'description'>;

/** The part of the table of tasks that the dialog of a stage shows; the build writes it there. */
interface DialogTask {
  readonly input: TaskInput;
  /** Its own options, and the limit for its kind of input. */
  readonly options: Readonly<Record<string, ShownOption>>;
}

const LIMITS: Readonly<Partial<Record<TaskInput, keyof typeof OF_STAGE>>> = {
  picture: 'maxMegapixels',
  sound: 'maxSeconds',
};

export const DIALOG_TASKS: Readonly<Record<string, DialogTask>> = Object.fromEntries(
  TASK_NAMES.map((name) => {
    const { input, options } = TASKS[name];
    const limit = LIMITS[input];
    return [name, { input, options: shownOptions({ ...options, ...(limit ? { [limit]: OF_STAGE[limit] } : {}) }) }];
  }),
);

export function shownOptions(options: Readonly<Record<string, object>>): Readonly<Record<string, ShownOption>> {
  return Object.fromEntries(Object.entries(options).map(([name, option]) => [name, shown(option)]));
}

function shown(option: object): ShownOption {
  const { type, default: usual, enum: choices, items } = option as TaskOption;
  return {
    type,
    ...(usual === undefined ? {} : { default: usual }),
    ...(choices ? { enum: choices } : {}),
    ...(items?.type === 'number' ? { items } : {}),
  };
}

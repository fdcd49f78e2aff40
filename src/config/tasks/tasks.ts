/**
 * The tasks of known models, by the names that hubs and their library give them. One entry says all that is known of a
 * task: what goes in, which options it has, how the library is called, and what comes out. The dialog, the check at a
 * deploy, the worker and the documents read this table.
 */
import type { PayloadSchema } from '../../core/model.ts';
import type { TaskName } from '../stage-source.ts';

/** The inputs that a task takes, see worker/tasks/inputs.ts. */
export type TaskInput = 'picture' | 'text' | 'question' | 'prompt' | 'sound';

/** Media types of files that are an input as they stand. */
export const INPUT_TYPES: Readonly<Record<TaskInput, readonly string[]>> = {
  picture: ['image/*', 'application/octet-stream'],
  sound: ['audio/*', 'application/octet-stream'],
  text: ['text/plain'],
  prompt: ['text/plain'],
  question: [],
};

/** The form that results get from the library's answer, see worker/tasks/results.ts. */
export type TaskForm =
  | 'scores'
  | 'ranking'
  | 'boxes'
  | 'masks'
  | 'depth'
  | 'embedding'
  | 'entities'
  | 'answers'
  | 'words'
  | 'transcript';

/** JSON Schema of one option. */
export interface TaskOption {
  readonly type: 'integer' | 'number' | 'boolean' | 'string' | 'array';
  readonly description: string;
  readonly default?: unknown;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: { readonly type: 'string'; readonly minLength: 1 } | { readonly type: 'number' };
  readonly pattern?: string;
  readonly minItems?: number;
}

export interface Task {
  readonly input: TaskInput;
  /** Files that the task needs, besides the configuration of the model and its weights. */
  readonly files: readonly string[];
  /** Options that a request may set, too. An option without a default must be set. */
  readonly options: Readonly<Record<string, TaskOption>>;
  /** Whether one call of the library computes several inputs together. */
  readonly together: boolean;
  /** The option that the library takes as an argument behind the input. */
  readonly argument?: string;
  /** Names of the other options in the library. An option that is not here is read by the form of the result. */
  readonly names: Readonly<Record<string, string>>;
  readonly form: TaskForm;
  readonly result: Readonly<Record<string, unknown>>;
}

const PROCESSOR = 'preprocessor_config.json';
const TOKENIZER: readonly string[] = ['tokenizer.json', 'tokenizer_config.json'];

const score = { type: 'number', description: 'From 0 to 1' };
const text = { type: 'string' };
/** @param others properties that an entry may have */
const listOf = (properties: Readonly<Record<string, unknown>>, others: object = {}): PayloadSchema & object => ({
  type: 'array',
  items: { type: 'object', required: Object.keys(properties), properties: { ...properties, ...others } },
});
const place = { type: 'integer', minimum: 0, description: 'As in JavaScript: text.slice(start, end)' };
const SPAN = { start: place, end: place };
const SCORES = { ...listOf({ label: text, score }), description: 'The highest score first' };
const EMBEDDING = { type: 'array', items: { type: 'number' }, description: 'A vector; a Float32Array in a flow' };
const pixel = { type: 'integer', description: 'In pixels of the picture as a person sees it' };
const seconds = { type: ['number', 'null'], description: 'In seconds' } as const;

const topK = (by: number): TaskOption => ({
  ...{ type: 'integer', minimum: 1, maximum: 1000, default: by },
  description: 'Most entries of a result',
});
const LABELS: TaskOption = {
  ...{ type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1 },
  description: 'The names to choose from',
};
const template = (by: string): TaskOption => ({
  ...{ type: 'string', default: by },
  description: 'The sentence that the model compares; {} stands for a label',
});
export const share = (description: string, by: number): TaskOption => ({
  ...{ type: 'number', minimum: 0, maximum: 1, default: by },
  description,
});
const NORMALIZE: TaskOption = { type: 'boolean', default: true, description: 'Whether a vector gets the length 1' };
const pooling = (...of: readonly string[]): TaskOption => ({
  ...{ type: 'string', enum: of, default: of[0] as string },
  description: 'How the vectors of all parts become one',
});

export const TASKS: Readonly<Record<TaskName, Task>> = {
  'image-classification': {
    input: 'picture',
    files: [PROCESSOR],
    options: { topK: topK(5) },
    together: true,
    names: { topK: 'top_k' },
    form: 'scores',
    result: SCORES,
  },
  'object-detection': {
    input: 'picture',
    files: [PROCESSOR],
    options: { threshold: share('Least score of an object', 0.5) },
    together: true,
    names: {},
    form: 'boxes',
    result: listOf({
      label: text,
      score,
      box: {
        type: 'object',
        required: ['xmin', 'ymin', 'xmax', 'ymax'],
        properties: { xmin: pixel, ymin: pixel, xmax: pixel, ymax: pixel },
      },
    }),
  },
  'zero-shot-image-classification': {
    input: 'picture',
    files: [PROCESSOR, ...TOKENIZER],
    options: { labels: LABELS, template: template('This is a photo of {}') },
    together: true,
    argument: 'labels',
    names: { template: 'hypothesis_template' },
    form: 'scores',
    result: SCORES,
  },
  'image-segmentation': {
    input: 'picture',
    files: [PROCESSOR],
    options: {
      threshold: share('Least score of a thing; models that give no scores leave none out', 0.5),
      leastVisible: share('Least share of a thing that others leave visible; below, it is left out', 0.8),
    },
    // The library takes one picture at a time.
    together: false,
    names: { threshold: 'threshold', leastVisible: 'overlap_mask_area_threshold' },
    form: 'masks',
    result: listOf({
      label: { type: ['string', 'null'], description: 'null: the model has one mask and no name for it' },
      score: { ...score, type: ['number', 'null'], description: 'From 0 to 1. null: the model gives none' },
      mask: {
        ...{ type: 'string', contentEncoding: 'base64', contentMediaType: 'image/png' },
        description:
          'A grey PNG of the size of the picture as a person sees it, as a data URL: white where the thing is',
      },
    }),
  },
  'depth-estimation': {
    input: 'picture',
    files: [PROCESSOR],
    options: {},
    together: true,
    names: {},
    form: 'depth',
    result: {
      type: 'object',
      required: ['width', 'height', 'depth'],
      properties: {
        width: pixel,
        height: pixel,
        depth: {
          ...{ type: 'array', items: { type: 'number' } },
          description: 'One number for each pixel, row by row; a Float32Array in a flow',
        },
      },
    },
  },
  'image-feature-extraction': {
    input: 'picture',
    files: [PROCESSOR],
    options: { pooling: pooling('cls', 'mean', 'pooler'), normalize: NORMALIZE },
    together: true,
    names: {},
    form: 'embedding',
    result: EMBEDDING,
  },
  'text-classification': {
    input: 'text',
    files: TOKENIZER,
    options: { topK: topK(5) },
    together: true,
    names: { topK: 'top_k' },
    form: 'scores',
    result: SCORES,
  },
  'zero-shot-classification': {
    input: 'text',
    files: TOKENIZER,
    options: {
      labels: LABELS,
      template: template('This example is {}.'),
      multiLabel: { type: 'boolean', default: false, description: 'Whether several labels may be right' },
    },
    // The library runs one text and one label at a time.
    together: false,
    argument: 'labels',
    names: { template: 'hypothesis_template', multiLabel: 'multi_label' },
    form: 'ranking',
    result: SCORES,
  },
  'token-classification': {
    input: 'text',
    files: TOKENIZER,
    options: {
      group: { type: 'boolean', default: true, description: 'Whether the parts of one name are one entry' },
    },
    together: true,
    names: {},
    form: 'entities',
    result: listOf({ label: text, score, word: text }, SPAN),
  },
  'question-answering': {
    input: 'question',
    files: TOKENIZER,
    options: {
      context: {
        type: 'string',
        default: '',
        description: 'The text with the answers, if the input is a question alone',
      },
      topK: topK(1),
    },
    together: true,
    names: {},
    form: 'answers',
    result: listOf({ answer: text, score }, SPAN),
  },
  'feature-extraction': {
    input: 'text',
    files: TOKENIZER,
    options: { pooling: pooling('mean', 'cls', 'last_token'), normalize: NORMALIZE },
    together: true,
    names: { pooling: 'pooling' },
    form: 'embedding',
    result: EMBEDDING,
  },
  'text-generation': {
    input: 'prompt',
    files: TOKENIZER,
    options: {
      maxTokens: { type: 'integer', minimum: 1, maximum: 1_000_000, default: 256, description: 'Most new tokens' },
      temperature: {
        ...{ type: 'number', minimum: 0, maximum: 5, default: 0 },
        description: '0: always the most likely token',
      },
      topP: {
        ...{ type: 'number', minimum: 0, maximum: 1, default: 1 },
        description: 'Chooses among the most likely tokens whose probabilities add up to this',
      },
      topK: {
        ...{ type: 'integer', minimum: 0, maximum: 100_000, default: 50 },
        description: 'Chooses among so many tokens. 0: among all',
      },
      repetitionPenalty: {
        ...{ type: 'number', minimum: 0.1, maximum: 10, default: 1 },
        description: 'Above 1: tokens that were there before are less likely',
      },
    },
    together: false,
    names: {
      ...{ maxTokens: 'max_new_tokens', temperature: 'temperature', topP: 'top_p', topK: 'top_k' },
      repetitionPenalty: 'repetition_penalty',
    },
    form: 'words',
    result: {
      type: 'object',
      required: ['text', 'finish_reason', 'usage'],
      properties: {
        text,
        finish_reason: { enum: ['stop', 'length'] },
        usage: {
          type: 'object',
          properties: {
            prompt_tokens: { type: 'integer' },
            completion_tokens: { type: 'integer' },
            total_tokens: { type: 'integer' },
          },
        },
      },
    },
  },
  'automatic-speech-recognition': {
    input: 'sound',
    files: [PROCESSOR, ...TOKENIZER],
    options: {
      language: {
        type: 'string',
        default: '',
        description: 'Language of the speech, for Whisper, such as de or german. Blank: the model finds it',
      },
      translate: { type: 'boolean', default: false, description: 'Whether Whisper translates to English' },
      timestamps: {
        ...{ type: 'string', enum: ['none', 'segments', 'words'], default: 'none' },
        description:
          'Whether the result has the times of its parts, for Whisper; those of words need a model that ends in _timestamped',
      },
      chunkSeconds: {
        // Whisper takes no more than 30 s, and its library leaves out the rest.
        ...{ type: 'number', minimum: 0, maximum: 30, default: 30 },
        description: 'Whisper hears longer sounds in pieces of this length, which overlap. 0: only the first 30 s',
      },
    },
    together: false,
    names: {},
    form: 'transcript',
    result: {
      type: 'object',
      required: ['text'],
      properties: {
        text,
        parts: listOf({ text, start: seconds, end: seconds }),
        language: { ...text, description: 'Its code, if the model has found it' },
      },
    },
  },
  'audio-classification': {
    input: 'sound',
    files: [PROCESSOR],
    options: { topK: topK(5) },
    together: false,
    names: { topK: 'top_k' },
    form: 'scores',
    result: SCORES,
  },
};

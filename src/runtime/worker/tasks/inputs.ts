/** Makes of the value of a request what the pipeline of a task takes, and finds the options that came with it. */
import type { TaskName } from '../../../config/stage-source.ts';
import { optionsSchema } from '../../../config/tasks/task-options.ts';
import { TASKS, type Task, type TaskInput } from '../../../config/tasks/tasks.ts';
import type { PayloadSchema } from '../../../core/model.ts';
import { isFields } from '../../../core/objects.ts';
import { type InputFields, notTaken } from '../media/files.ts';
import { sizeAsInPython } from '../media/model-size.ts';
import { Pictures } from '../media/pictures.ts';
import { quickenProcessors, sizerAhead } from '../media/processor.ts';
import { sizedImages } from '../media/resize.ts';
import { Sounds } from '../media/sounds.ts';
import type { Libraries, RawImage, TaskPipeline, TaskSource } from './library.ts';

export interface AskedQuestion {
  readonly question: string;
  /** Absent: the option has it. */
  readonly context?: string;
}

/** A text, or the messages of a conversation. */
export type Prompt = string | readonly unknown[];

/** The input of one request, ready for the pipeline. */
export interface PreparedInput {
  readonly value: RawImage | Float32Array | AskedQuestion | Prompt;
  /** The request's own options; undefined: none. */
  readonly own: unknown;
}

export type ReadInput = (value: unknown) => PreparedInput | Promise<PreparedInput>;

/** Names of options in requests of OpenAI's clients. */
const OPENAI: Readonly<Record<string, string>> = {
  ...{ max_tokens: 'maxTokens', max_completion_tokens: 'maxTokens' },
  ...{ temperature: 'temperature', top_p: 'topP' },
};

export function inputReader({ task, limits }: TaskSource, libraries: Libraries, pipeline: TaskPipeline): ReadInput {
  const read = readerOf(TASKS[task].input, libraries, pipeline, limits);
  return (given) => {
    const { input, own } = unwrapped(given, TASKS[task].input);
    const value = read(input);
    return value instanceof Promise ? value.then((value) => ({ value, own })) : { value, own };
  };
}

type ReadOfKind = (input: unknown) => PreparedInput['value'] | Promise<PreparedInput['value']>;

function readerOf(
  kind: TaskInput,
  libraries: Libraries,
  pipeline: TaskPipeline,
  limits: TaskSource['limits'],
): ReadOfKind {
  if (kind === 'picture') {
    const pictures = new Pictures(libraries.sharp, limits.maxMegapixels);
    const SizedImage = sizedImages(libraries.library.RawImage, limits.maxMegapixels);
    quickenProcessors(libraries.library);
    sizeAsInPython(pipeline);
    const sizeAhead = sizerAhead(libraries.library, pipeline);
    return async (input) => {
      const { data, width, height } = await pictures.read(input);
      const image = new SizedImage(data, width, height, 3);
      await sizeAhead(image);
      return image;
    };
  }
  if (kind === 'sound') {
    const rate = pipeline.processor?.feature_extractor?.config.sampling_rate;
    if (rate === undefined) throw new Error('the processor of the model does not say its sampling_rate');
    const sounds = new Sounds(libraries, rate, limits.maxSeconds);
    return (input) => sounds.read(input);
  }
  if (kind === 'question') return questionOf;
  return kind === 'prompt' ? promptOf : textOf;
}

/** Splits `{input, options}`, and the requests of OpenAI's clients. */
export function unwrapped(given: unknown, kind?: TaskInput): { readonly input: unknown; readonly own: unknown } {
  if (!isFields(given)) return { input: given, own: undefined };
  if (Object.hasOwn(given, 'input') && Object.keys(given).every((name) => name === 'input' || name === 'options'))
    return { input: given['input'], own: given['options'] };
  if (kind !== 'prompt' || !Array.isArray(given['messages'])) return { input: given, own: undefined };
  const known = Object.entries(OPENAI).filter(([name]) => given[name] !== undefined && given[name] !== null);
  return { input: given['messages'], own: Object.fromEntries(known.map(([name, to]) => [to, given[name]])) };
}

function textOf(input: unknown): string {
  const text = isFields(input) ? input['text'] : input;
  if (typeof text === 'string') return text;
  if (Buffer.isBuffer(text)) return text.toString();
  throw notTaken('the input must be a text, or {text}');
}

function questionOf(input: unknown): AskedQuestion {
  if (typeof input === 'string') return { question: input };
  const { question, context } = isFields(input) ? input : ({} as InputFields);
  const isContext = context === undefined || typeof context === 'string';
  if (typeof question !== 'string' || !isContext) throw notTaken('the input must be {question, context}, two texts');
  return { question, ...(context === undefined ? {} : { context }) };
}

function promptOf(input: unknown): Prompt {
  if (!Array.isArray(input)) return textOf(input);
  const isMessage = (one: unknown): boolean => isFields(one) && typeof one['role'] === 'string' && 'content' in one;
  if (input.length > 0 && input.every(isMessage)) return input;
  throw notTaken('the input must be a text, or messages {role, content}');
}

const TEXT = { type: 'string' };
const FILE = {
  type: 'string',
  description: 'A file in base64, or a data URL; as the body of a request, the file itself',
};
const BARE: Readonly<Record<TaskInput, readonly (PayloadSchema & object)[]>> = {
  picture: [
    FILE,
    {
      type: 'object',
      required: ['data', 'width', 'height'],
      properties: { data: {}, width: { type: 'integer' }, height: { type: 'integer' }, channels: { type: 'integer' } },
    },
  ],
  sound: [
    FILE,
    {
      type: 'object',
      required: ['data', 'sampleRate'],
      properties: { data: { type: 'array', items: { type: 'number' } }, sampleRate: { type: 'number' } },
    },
  ],
  text: [TEXT],
  question: [
    { type: 'object', required: ['question'], properties: { question: TEXT, context: TEXT } },
    { type: 'string', description: 'The question; the option context has the text' },
  ],
  prompt: [
    TEXT,
    {
      type: 'array',
      items: { type: 'object', required: ['role', 'content'], properties: { role: TEXT, content: TEXT } },
    },
    { type: 'object', required: ['messages'], properties: { messages: { type: 'array' } } },
  ],
};

/** Returns the schema of the input of a task, for people. */
export function inputSchemaOf(task: TaskName): PayloadSchema {
  return schemaOfKind(TASKS[task].input, TASKS[task].options);
}

/** Returns the schema of an input of the kind: bare, or with options. */
export function schemaOfKind(kind: TaskInput, options: Task['options']): PayloadSchema {
  const bare = BARE[kind];
  const input = bare.length > 1 ? { anyOf: bare } : (bare[0] as PayloadSchema);
  const withOptions = { type: 'object', required: ['input'], properties: { input, options: optionsSchema(options) } };
  return { anyOf: [...bare, withOptions] };
}

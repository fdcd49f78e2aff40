/**
 * Defines the user's contract: the methods and statics of a modelet, and the context it receives; and the interface of
 * the loaders, which turn the description of a source into a callable modelet.
 */
import type { ModeletDefinition } from '../../../config/stage-definition.ts';
import { asError, ModeletError } from '../../../core/errors.ts';
import type { BatchWarning, PayloadSchema } from '../../../core/model.ts';
import type { ModelPort } from '../../../core/tensor.ts';

/** A set of label values: a value for each label that the metric was declared with. */
export type MetricLabels = Readonly<Record<string, string | number | boolean>>;

/** A number that only grows. */
export interface ModeletCounter {
  /** @param value how much it grows; default 1 */
  inc(value?: number, labels?: MetricLabels): void;
}

/** A number that may rise and fall; each worker has its own. */
export interface ModeletGauge {
  set(value: number, labels?: MetricLabels): void;
  /** @param value how much it rises; default 1 */
  inc(value?: number, labels?: MetricLabels): void;
  /** @param value how much it falls; default 1 */
  dec(value?: number, labels?: MetricLabels): void;
}

/** Values, counted in buckets. */
export interface ModeletHistogram {
  observe(value: number, labels?: MetricLabels): void;
}

export interface HistogramOptions {
  readonly help?: string;
  readonly labels?: readonly string[];
  /** Upper bounds of the buckets, in ascending order. Default: from 0.005 to 10, good for seconds. */
  readonly buckets?: readonly number[];
}

/**
 * Metrics of the modelet's own. The exposition has them with the prefix `modelet_model_` and the labels `runtime` and
 * `stage`. A name that was declared before gives the same metric again.
 */
export interface ModeletMetrics {
  counter(name: string, help?: string, labels?: readonly string[]): ModeletCounter;
  gauge(name: string, help?: string, labels?: readonly string[]): ModeletGauge;
  histogram(name: string, options?: HistogramOptions): ModeletHistogram;
}

/** The values that a modelet keeps of a key between its items. */
export type KeyState = Record<string, unknown>;

/** Tells a modelet where it runs. */
export interface ModeletContext {
  /** Name of the stage. */
  readonly stage: string;
  /** Index of this worker within the stage, from 0. */
  readonly worker: number;
  /** Cores this worker is pinned to; null if it is not pinned. */
  readonly cpus: readonly number[] | null;
  /** Writes to Node-RED's log. */
  readonly log: Readonly<Record<'debug' | 'info' | 'warn' | 'error', (message: unknown) => void>>;
  readonly metrics: ModeletMetrics;
  /**
   * Tells how far `setup` is: a text, or a number from 0 to 1. The stage shows it while it starts, and does not count the
   * start as hung. No effect once the worker is ready.
   */
  readonly progress: (done: string | number) => void;
  /**
   * Aborts when no request waits for this call any more. Pass it to `fetch` and the like, so that they end. Never aborts in
   * the constructor, `setup` and `teardown`.
   */
  readonly signal: AbortSignal;
  /** In a stage with keys: the key of the item. Absent in calls for several items, which have `keys`. */
  readonly key?: string | undefined;
  /** The state of the key, kept between its items and empty at first. Another object may be assigned. */
  state?: KeyState | undefined;
  /** The keys of the call's items, in their order. */
  readonly keys?: readonly string[];
  /** The states of the call's items, in their order. */
  readonly states?: readonly KeyState[];
}

/** Properties of a request besides its payload. */
export interface RequestMeta {
  readonly topic?: unknown;
  readonly _msgid?: string;
  /** Present if the message has options for known models. */
  readonly modelet?: { readonly options?: unknown };
  /** Its `MessageParts`, encoded, for inline code that uses them. */
  readonly message?: { readonly codec: number; readonly bytes: string };
  /** In a stage with keys: the key of the request. */
  readonly key?: string;
}

/**
 * Base class for modelets. It only adds types: a class with these methods works without extending it. All methods
 * except `predict` are optional; all may be async.
 *
 * An error thrown with `code: 'invalid_input'` is the caller's fault (HTTP 422); any other is `modelet_failed` (500).
 */
export abstract class Modelet<Input = unknown, Output = unknown> {
  /**
   * Whether `predict` gets an array of inputs and returns an array of the same length. Default false: one input.
   * `proven`: it does, and the array has one input unless the examples show that a batch answers as single calls do.
   */
  static readonly batch?: boolean | 'proven';
  /**
   * Inputs that work. A worker runs them, alone and as a batch, before it is ready. A health check runs them again on
   * request. Each runs as a request with that payload would. Default none.
   */
  static readonly examples?: readonly unknown[];
  /** JSON Schema of an input. An input that does not match fails alone with `invalid_input`. Default: anything. */
  static readonly inputSchema?: PayloadSchema;
  /**
   * JSON Schema of a result after `postprocess`. A result that does not match fails with `modelet_failed`. Default:
   * anything.
   */
  static readonly outputSchema?: PayloadSchema;
  /** Loads the model. The worker becomes `ready` only after this has finished. */
  setup?(): void | Promise<void>;
  /** Runs for each item before `predict`. If it throws, only that item fails. */
  preprocess?(input: Input): unknown;
  /**
   * Computes the result. In a batch result, an `Error` at an index fails that item only. For one input it may return an
   * iterator, as generators do: the result then comes in parts, and each part passes `postprocess`. The iterator's
   * return value is passed on unchanged.
   */
  abstract predict(input: never): unknown;
  /** Runs for each item after `predict`. `input` is the return value of `preprocess`. */
  postprocess?(output: never, input: never): Output | Promise<Output>;
  /** In a stage with keys: gets the state of a key that ends, because it was idle or because the worker is replaced. */
  onKeyEnd?(key: string, state: KeyState): void | Promise<void>;
  /** Runs before the worker ends. */
  teardown?(): void | Promise<void>;
}

/**
 * A request within a modelet that runs step by step. It ends with `end` or `fail`, whichever the modelet calls first; one
 * that is cancelled or late takes no further step, and what the modelet still says of it is ignored.
 */
export interface Sequence<Input = unknown, State = unknown> {
  /** The value that `preprocess` returned, or the input. */
  readonly input: Input;
  /** The modelet's own; undefined in the sequence's first step. */
  state: State | undefined;
  /**
   * Gives the next part of the result, which passes `postprocess`. Do not change the part afterwards: it may leave after
   * the next step. A sequence whose client has 16 parts to read takes no step until it has read some.
   * @throws Error after `end` and `fail`
   */
  emit(part: unknown): void;
  /**
   * Ends the sequence. `result` of a sequence without parts is the result of the request; after parts it follows them
   * unchanged, and may be absent.
   */
  end(result?: unknown): void;
  /** Ends the sequence with an error, of which the others hear nothing. */
  fail(error: unknown): void;
}

/**
 * Base class for modelets that run step by step (continuous batching), as the decoding loop of a language model does. It
 * only adds types, and has the statics and methods of `Modelet`, but `step` in place of `predict` and no `batch`.
 */
export abstract class StepModelet<Input = unknown, State = unknown> {
  static readonly examples?: readonly unknown[];
  static readonly inputSchema?: PayloadSchema;
  static readonly outputSchema?: PayloadSchema;
  setup?(): void | Promise<void>;
  preprocess?(input: never): unknown;
  /**
   * Advances each sequence by one step. Runs again and again while there are sequences, at most as many as the stage's
   * `concurrency`; new ones are among them from their first step on, those that have ended are not. If it throws, all
   * sequences of the step fail with that error. May be async; the next step begins after it.
   */
  abstract step(sequences: readonly Sequence<Input, State>[], ctx: ModeletContext): void | Promise<void>;
  postprocess?(output: never, input: never): unknown;
  teardown?(): void | Promise<void>;
}

/** Properties that a modelet declares besides its methods. */
export interface Statics {
  /** Inputs for the warm-up and the health check; see examples.ts. */
  readonly examples: readonly unknown[];
  /** null: anything. */
  readonly inputSchema: PayloadSchema | null;
  readonly outputSchema: PayloadSchema | null;
}

/** A callable modelet of any source, made by that source's loader. */
export interface LoadedModelet extends Statics {
  /** Schemas for people to read. Inputs and results are not checked against them. */
  readonly documented?: Pick<Statics, 'inputSchema' | 'outputSchema'>;
  /** The tensors of one item, by name; absent: not known. */
  readonly inputs?: readonly ModelPort[];
  /** The tensors that it gives, see `ModeletDescription`. */
  readonly outputs?: readonly ModelPort[];
  /** Whether `predict` takes all inputs in one call. */
  readonly batch: boolean;
  /** Whether its examples must show that a batch answers as single calls do, see batch/examples.ts. */
  readonly mustProve?: boolean;
  /** Absent or null: a batch answers as single calls do, as far as known. */
  readonly batching?: BatchWarning | null;
  /** See `ModeletDescription`. */
  readonly instead?: string | null;
  /** See `ModeletDescription`. */
  readonly rows?: true;
  /** Whether the inputs of a batch are prepared at the same time: pictures are decoded on other threads. */
  readonly preparesAtOnce?: boolean;
  /** Returns how often its model has run. Absent: once for each call of `predict`. */
  runs?(): number;
  setup(): unknown;
  preprocess?(input: unknown, ctx: ModeletContext): unknown;
  predict(input: unknown, meta: RequestMeta | readonly RequestMeta[], ctx: ModeletContext): unknown;
  postprocess?(output: unknown, input: unknown, ctx: ModeletContext): unknown;
  onKeyEnd?(key: string, state: KeyState, ctx: ModeletContext): unknown;
  teardown(): unknown;
}

export const NO_STATICS: Statics = { examples: [], inputSchema: null, outputSchema: null };

/**
 * Reads what a modelet declares besides its methods: properties of a function, or static properties of a class.
 * @throws TypeError if a property has the wrong type. Ignoring it would let values pass unchecked.
 */
export function staticsOf(exported: object, path: string): Statics {
  const { examples = [], inputSchema, outputSchema } = exported as Partial<Record<keyof Statics, unknown>>;
  if (!Array.isArray(examples)) throw new TypeError(`examples in ${path} must be an array, found ${typeof examples}`);
  return {
    examples,
    inputSchema: schema('inputSchema', inputSchema, path),
    outputSchema: schema('outputSchema', outputSchema, path),
  };
}

function schema(name: string, value: unknown, path: string): PayloadSchema | null {
  if (value === undefined || value === null) return null;
  const isSchema = typeof value === 'boolean' || (typeof value === 'object' && !Array.isArray(value));
  if (!isSchema) throw new TypeError(`${name} in ${path} must be a JSON Schema, which is an object`);
  return value as PayloadSchema;
}

export type Loadable = Omit<ModeletDefinition, 'workers'>;

/**
 * Loads the code, without running `setup`.
 * @throws any error that keeps it from loading: a missing file, a syntax error, an export that is no modelet. The
 * stage's node shows that error.
 */
export type LoadSource<S> = (source: S, definition: Loadable, context: ModeletContext) => Promise<LoadedModelet>;

/** For models, with which no code of users loads: an error comes from files or packages, and another try would fail, too. */
export function modelLoader<S>(open: LoadSource<S>, isOnCpu: (source: S) => boolean): LoadSource<S> {
  return async (source, definition, context) => {
    try {
      return await open(source, definition, context);
    } catch (thrown) {
      // A graphics card may have room for the model later.
      if (!isOnCpu(source)) throw thrown;
      throw new ModeletError('config_invalid', asError(thrown).message, { cause: thrown });
    }
  };
}

/** Defines the user's contract: the methods and statics of a modelet, and the context it receives. */
import type { PayloadSchema } from '../../core/model.ts';

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
}

/** Properties of a request besides its payload. */
export interface RequestMeta {
  readonly topic?: unknown;
  readonly _msgid?: string;
}

/**
 * Base class for modelets. It only adds types: a class with these methods works without extending it. All methods
 * except `predict` are optional; all may be async.
 *
 * An error thrown with `code: 'invalid_input'` is the caller's fault (HTTP 422); any other is `modelet_failed` (500).
 */
export abstract class Modelet<Input = unknown, Output = unknown> {
  /** Whether `predict` gets an array of inputs and returns an array of the same length. Default false: one input. */
  static readonly batch?: boolean;
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
  /** Runs before the worker ends. */
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
  /** Whether `predict` takes all inputs in one call. */
  readonly batch: boolean;
  setup(): unknown;
  preprocess?(input: unknown): unknown;
  predict(input: unknown, meta: RequestMeta | readonly RequestMeta[]): unknown;
  postprocess?(output: unknown, input: unknown): unknown;
  teardown(): unknown;
}

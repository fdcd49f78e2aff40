/** The user's contract: what a modelet is and what it is told. */
import type { PayloadSchema } from '../../core/model.ts';

/** What a modelet is told about where it runs. */
export interface ModeletContext {
  /** Name of the stage. */
  readonly stage: string;
  /** Index of this worker within the stage, from 0. */
  readonly worker: number;
  /** Cores this worker is pinned to; null if it is not. */
  readonly cpus: readonly number[] | null;
  /** Writes to Node-RED's log. */
  readonly log: Readonly<Record<'debug' | 'info' | 'warn' | 'error', (message: unknown) => void>>;
}

/** What a request brings along besides its payload. */
export interface RequestMeta {
  readonly topic?: unknown;
  readonly _msgid?: string;
}

/**
 * Base class for modelets, for its types: a class with these methods serves as well without extending it. All
 * methods but `predict` may be left out; all may be async.
 *
 * An error thrown with `code: 'invalid_input'` is the caller's fault (HTTP 422); any other is `modelet_failed` (500).
 */
export abstract class Modelet<Input = unknown, Output = unknown> {
  /** `predict` gets an array of inputs and returns an array of the same length; without it, one input. Default false. */
  static readonly batch?: boolean;
  /**
   * Inputs that work. A worker runs them, alone and as a batch, before it is ready, and the health check runs them
   * again when it is asked for that: each as a request with that payload would run. Default none.
   */
  static readonly examples?: readonly unknown[];
  /** JSON Schema of an input: one that is not like this gets `invalid_input`, alone. Default: anything. */
  static readonly inputSchema?: PayloadSchema;
  /** JSON Schema of a result, after `postprocess`: one that is not like this is `modelet_failed`. Default: anything. */
  static readonly outputSchema?: PayloadSchema;
  /** Loads the model. The worker is `ready` when this has finished. */
  setup?(): void | Promise<void>;
  /** Per item, before `predict`; throwing fails that item only. */
  preprocess?(input: Input): unknown;
  /**
   * In a batch result an `Error` at an index fails that item only. For one input it may return an iterator, as generators
   * do: its result then comes in parts, each of which passes `postprocess`; what it returns at its end is passed on as it
   * is.
   */
  abstract predict(input: never): unknown;
  /** Per item, after `predict`, with what `preprocess` made of its input. */
  postprocess?(output: never, input: never): Output | Promise<Output>;
  /** Before the worker ends. */
  teardown?(): void | Promise<void>;
}

/** What a modelet says of itself. */
export interface Statics {
  /** Inputs to try it with; see examples.ts. */
  readonly examples: readonly unknown[];
  /** null: anything. */
  readonly inputSchema: PayloadSchema | null;
  readonly outputSchema: PayloadSchema | null;
}

/** A modelet of any source, ready to be called: what the sources' loaders make. */
export interface LoadedModelet extends Statics {
  /** Schemas for people to read: what does not fit them fails, if at all, by other means. */
  readonly documented?: Pick<Statics, 'inputSchema' | 'outputSchema'>;
  /** True: `predict` is called once with all inputs. */
  readonly batch: boolean;
  setup(): unknown;
  preprocess?(input: unknown): unknown;
  predict(input: unknown, meta: RequestMeta | readonly RequestMeta[]): unknown;
  postprocess?(output: unknown, input: unknown): unknown;
  teardown(): unknown;
}

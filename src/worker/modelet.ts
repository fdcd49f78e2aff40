/**
 * The user's contract and the running of one batch through it: decode, preprocess, predict, postprocess,
 * encode, with each item's failure its own.
 */
import { types } from 'node:util';
import type { Clock } from '../core/clock.ts';
import { asError, ModeletError } from '../core/errors.ts';
import type { Payload, RequestNumber } from '../core/model.ts';
import { CODEC, decodePayload, encodePayload } from '../wire/codec.ts';
import { encodeError } from '../wire/error-codec.ts';
import { itemLength, type WireItem } from '../wire/frames.ts';

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
  /** Inputs that work: each is run as a request's payload would be when the health check asks for it. Default none. */
  static readonly examples?: readonly unknown[];
  /** Loads the model. The worker is `ready` when this has finished. */
  setup?(): void | Promise<void>;
  /** Per item, before `predict`; throwing fails that item only. */
  preprocess?(input: Input): unknown;
  /** In a batch result an `Error` at an index fails that item only. */
  abstract predict(input: never): unknown;
  /** Per item, after `predict`, with what `preprocess` made of its input. */
  postprocess?(output: never, input: never): Output | Promise<Output>;
  /** Before the worker ends. */
  teardown?(): void | Promise<void>;
}

/** A modelet of any source, ready to be called: what the sources' loaders make. */
export interface LoadedModelet {
  /** True: `predict` is called once with all inputs. */
  readonly batch: boolean;
  /** Inputs to try it with; see examples.ts. */
  readonly examples: readonly unknown[];
  setup(): unknown;
  preprocess?(input: unknown): unknown;
  predict(input: unknown, meta: RequestMeta | readonly RequestMeta[]): unknown;
  postprocess?(output: unknown, input: unknown): unknown;
  teardown(): unknown;
}

export interface BatchRun {
  readonly clock: Clock;
  readonly stage: string;
  readonly maxPayloadBytes: number;
  /** Of all results of a batch together: the reply has to fit one frame. */
  readonly maxReplyBytes: number;
  isCancelled(id: RequestNumber): boolean;
}

/** An item on its way through a modelet: still going with its value so far, or failed. */
type Progress =
  | { readonly tag: 'going'; value: unknown; readonly input: unknown }
  | { readonly tag: 'failed'; readonly error: unknown };

/** Runs a batch and returns one reply per item, in order. Never rejects. */
export async function runBatch(modelet: LoadedModelet, items: readonly WireItem[], run: BatchRun): Promise<WireItem[]> {
  const now = run.clock.now();
  const metas = items.map((item) => readMeta(item));
  const progress = await inTurn(items, (item, index) => {
    const meta = metas[index];
    return meta instanceof ModeletError ? failed(meta) : prepare(modelet, item, run, now);
  });
  const going = items.flatMap((item, index) => (progress[index]?.tag === 'going' ? [{ item, index }] : []));
  if (going.length > 0) {
    const inputs = going.map(({ index }) => (progress[index] as { value: unknown }).value);
    const known = going.map(({ index }) => metas[index] as RequestMeta);
    const results = modelet.batch
      ? await predictBatch(modelet, inputs, known)
      : await predictItems(modelet, going, inputs, known, run);
    const finished = await inTurn(results, (result, position) => finish(modelet, inputs[position], result));
    for (const [position, { index }] of going.entries()) progress[index] = finished[position] as Progress;
  }
  const replies = items.map((item, index) => reply(item, progress[index] as Progress, run));
  return withinOneFrame(replies, run);
}

/** Results that do not fit the reply fail, the largest first; all others go. */
function withinOneFrame(replies: WireItem[], run: BatchRun): WireItem[] {
  let length = replies.reduce((sum, item) => sum + itemLength(item), 0);
  if (length <= run.maxReplyBytes) return replies;
  const error = new ModeletError(
    'modelet_failed',
    `the results of the batch are ${length} bytes together, the limit is ${run.maxReplyBytes} bytes: make its batches smaller`,
  );
  const failure = errorPayload(error, run);
  const bySize = [...replies].sort((a, b) => itemLength(b) - itemLength(a));
  for (const item of bySize) {
    if (length <= run.maxReplyBytes) break;
    length -= itemLength(item);
    item.ok = false;
    item.payload = failure;
    length += itemLength(item);
  }
  return replies;
}

/** One call after the other. Only promises are waited for: where all is synchronous, so is the whole batch. */
async function inTurn<T, R>(values: readonly T[], call: (value: T, index: number) => R | Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const [index, value] of values.entries()) {
    const result = call(value, index);
    results.push(result instanceof Promise ? await result : result);
  }
  return results;
}

type Attempt = Progress | Promise<Progress>;

function prepare(modelet: LoadedModelet, item: WireItem, run: BatchRun, now: number): Attempt {
  return (
    unwanted(item, run, now) ??
    attempt(() => {
      const input = decodePayload(item.payload);
      return modelet.preprocess ? modelet.preprocess(input) : input;
    })
  );
}

/** Why the item is not to be computed any more. */
function unwanted(item: WireItem, run: BatchRun, now: number): Progress | null {
  if (run.isCancelled(item.id)) return failed(new ModeletError('cancelled', 'the caller went away'));
  if (item.deadline <= now) return failed(new ModeletError('deadline_exceeded', 'deadline passed before predict'));
  return null;
}

function predictItems(
  modelet: LoadedModelet,
  items: readonly { readonly item: WireItem }[],
  inputs: unknown[],
  metas: RequestMeta[],
  run: BatchRun,
): Promise<Progress[]> {
  // Asked again before each: those before it in the batch have taken their time.
  return inTurn(
    items,
    ({ item }, index) =>
      unwanted(item, run, run.clock.now()) ?? attempt(() => modelet.predict(inputs[index], metas[index] ?? {})),
  );
}

async function predictBatch(modelet: LoadedModelet, inputs: unknown[], metas: RequestMeta[]): Promise<Progress[]> {
  const outputs = await attempt(() => modelet.predict(inputs, metas));
  if (outputs.tag === 'failed') return inputs.map(() => outputs);
  const list = outputs.value;
  if (!Array.isArray(list) && !types.isTypedArray(list)) {
    const what = list === null ? 'null' : `a value of type ${typeof list}`;
    return allFailed(inputs, `predict returned ${what} instead of an array of ${inputs.length} results`);
  }
  if (list.length !== inputs.length) {
    return allFailed(inputs, `predict returned ${list.length} results for ${inputs.length} inputs`);
  }
  return Array.from(list as ArrayLike<unknown>, (value) => {
    try {
      return checked(value);
    } catch (thrown) {
      // A revoked proxy.
      return failed(thrown);
    }
  });
}

function allFailed(inputs: unknown[], message: string): Progress[] {
  const failure = failed(new ModeletError('bad_batch_length', message));
  return inputs.map(() => failure);
}

function finish(modelet: LoadedModelet, input: unknown, result: Progress): Attempt {
  if (result.tag === 'failed' || !modelet.postprocess) return result;
  return attempt(() => modelet.postprocess?.(result.value, input));
}

/** Calls user code; whatever it does ends in a progress, also a thrown string or a returned Error. */
function attempt(call: () => unknown): Attempt {
  try {
    const value = call();
    return isThenable(value) ? Promise.resolve(value).then(checked, failed) : checked(value);
  } catch (thrown) {
    return failed(thrown);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}

function checked(value: unknown): Progress {
  return value instanceof Error || types.isNativeError(value)
    ? failed(value)
    : { tag: 'going', value, input: undefined };
}

function failed(error: unknown): Progress {
  return { tag: 'failed', error };
}

function reply(item: WireItem, progress: Progress, run: BatchRun): WireItem {
  try {
    if (progress.tag === 'failed') return answer(item, false, errorPayload(progress.error, run));
    if (progress.value === undefined) throw new ModeletError('modelet_failed', 'the modelet returned undefined');
    const payload = encodePayload(progress.value, { blame: 'modelet_failed', maxBytes: run.maxPayloadBytes });
    return answer(item, true, payload);
  } catch (thrown) {
    return answer(item, false, errorPayload(thrown, run));
  }
}

const NO_TIMINGS: never[] = [];

function answer(item: WireItem, ok: boolean, payload: Payload): WireItem {
  return {
    id: item.id,
    deadline: 0,
    priority: 0,
    ref: 0,
    ok,
    patient: false,
    group: 0,
    payload,
    meta: null,
    timings: NO_TIMINGS,
  };
}

function errorPayload(thrown: unknown, run: BatchRun): Payload {
  let error: ModeletError;
  try {
    error = toModeletError(asError(thrown));
  } catch {
    // Getters of its own that throw.
    error = new ModeletError('modelet_failed', 'the modelet threw what cannot be read');
  }
  error.stage = run.stage;
  return { codec: CODEC.none, bytes: encodeError(error) };
}

/** What user code threw becomes `modelet_failed`, or `invalid_input` where it says so; the original is the cause. */
function toModeletError(cause: Error): ModeletError {
  if (cause instanceof ModeletError) return cause;
  const code = (cause as { code?: unknown }).code === 'invalid_input' ? 'invalid_input' : 'modelet_failed';
  const error = new ModeletError(code, cause.message, { cause });
  if (cause.stack) error.stack = cause.stack;
  return error;
}

/** An error is this item's, not its batch's. */
function readMeta({ meta }: WireItem): RequestMeta | ModeletError {
  if (!meta) return {};
  try {
    const read: unknown = JSON.parse(Buffer.from(meta).toString());
    if (typeof read === 'object' && read !== null) return read;
    return new ModeletError('protocol_error', 'what came with the request is no object');
  } catch (cause) {
    return new ModeletError('protocol_error', 'what came with the request cannot be read', { cause });
  }
}

/**
 * Calls user code and turns every outcome into a `Progress`; encodes the results and errors of a batch as replies that
 * fit one frame together.
 */
import { types } from 'node:util';
import { asError, ModeletError } from '../../../core/errors.ts';
import type { Payload } from '../../../core/model.ts';
import { CODEC, encodeList, encodePayload } from '../../../wire/codec/codec.ts';
import { encodeError } from '../../../wire/codec/error-codec.ts';
import { bareItem, itemLength, type WireItem } from '../../../wire/frames/items.ts';

export interface ReplyLimits {
  readonly stage: string;
  readonly maxPayloadBytes: number;
  /** Limit for all results of a batch together: the reply must fit one frame. */
  readonly maxReplyBytes: number;
  /** Whether each result is a list, whose items are encoded one by one. */
  readonly emitsLists: boolean;
}

/** State of an item in a modelet: `going` with its value so far, `done` (skips `postprocess`), or `failed`. */
export type Progress =
  | { readonly tag: 'going'; readonly value: unknown }
  | { readonly tag: 'done'; readonly value: unknown }
  | { readonly tag: 'failed'; readonly error: unknown };

const NOTHING = 'the modelet returned undefined: its code must return the result';

export function reply(item: WireItem, progress: Progress, limits: ReplyLimits): WireItem {
  try {
    if (progress.tag === 'failed') return answer(item, false, errorPayload(progress.error, limits));
    if (progress.value === undefined) throw new ModeletError('modelet_failed', NOTHING);
    // A result in parts goes to the caller, and not to other stages.
    const encode = limits.emitsLists && !item.streams ? encodeList : encodePayload;
    const payload = encode(progress.value, { blame: 'modelet_failed', maxBytes: limits.maxPayloadBytes });
    return answer(item, true, payload);
  } catch (thrown) {
    return answer(item, false, errorPayload(thrown, limits));
  }
}

/** Returns a payload that shares no memory with the value. Only the `bytes` codec shares memory and needs a copy. */
export function ownPayload(payload: Payload): Payload {
  return payload.codec === CODEC.bytes ? { codec: CODEC.bytes, bytes: Buffer.from(payload.bytes) } : payload;
}

export function answer({ id }: WireItem, ok: boolean, payload: Payload): WireItem {
  const reply = bareItem(id, payload);
  reply.ok = ok;
  return reply;
}

function errorPayload(thrown: unknown, limits: ReplyLimits): Payload {
  let error: ModeletError;
  try {
    error = toModeletError(asError(thrown));
  } catch {
    // The thrown object has getters that throw.
    error = new ModeletError('modelet_failed', 'the modelet threw a value that cannot be read');
  }
  error.stage = limits.stage;
  return { codec: CODEC.none, bytes: encodeError(error) };
}

/**
 * Converts an error from user code to `modelet_failed`, or to `invalid_input` if the error has that code. The original
 * error becomes the cause.
 */
function toModeletError(cause: Error): ModeletError {
  if (cause instanceof ModeletError) return cause;
  const code = (cause as { code?: unknown }).code === 'invalid_input' ? 'invalid_input' : 'modelet_failed';
  const error = new ModeletError(code, cause.message, { cause, details: (cause as { details?: unknown }).details });
  if (cause.stack) error.stack = cause.stack;
  return error;
}

/** Fails results, the largest first, until the replies fit one frame. */
export function withinOneFrame(replies: WireItem[], limits: ReplyLimits): WireItem[] {
  let length = replies.reduce((sum, item) => sum + itemLength(item), 0);
  if (length <= limits.maxReplyBytes) return replies;
  const error = new ModeletError(
    'modelet_failed',
    `the results of the batch are ${length} bytes together, the limit is ${limits.maxReplyBytes} bytes: make its batches smaller`,
  );
  const failure = errorPayload(error, limits);
  const bySize = [...replies].sort((a, b) => itemLength(b) - itemLength(a));
  for (const item of bySize) {
    if (length <= limits.maxReplyBytes) break;
    length -= itemLength(item);
    item.ok = false;
    item.payload = failure;
    length += itemLength(item);
  }
  return replies;
}

/** Synchronous code gives a plain `Progress`; only a promise makes the caller wait. */
export type Attempt = Progress | Promise<Progress>;

/** Calls user code. A thrown string and a returned Error are failures too. */
export function attempt(call: () => unknown): Attempt {
  try {
    const value = call();
    return isThenable(value) ? Promise.resolve(value).then(checked, failed) : checked(value);
  } catch (thrown) {
    return failed(thrown);
  }
}

/** Treats a returned Error like a thrown one. */
export function checked(value: unknown): Progress {
  return value instanceof Error || types.isNativeError(value) ? failed(value) : { tag: 'going', value };
}

export function failed(error: unknown): Progress {
  return { tag: 'failed', error };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}

/** The interface that generators and async generators share. */
export interface PartSource {
  next(): unknown;
  /** Runs the `finally` blocks. */
  return?(): unknown;
}

/** Returns the parts of an iterator or of an async iterable such as a stream, or null for a plain result. */
export function partsOf(value: unknown): PartSource | null {
  if (value === null || typeof value !== 'object') return null;
  const iterable = value as { next?: unknown } & Partial<AsyncIterable<unknown> & Iterable<unknown>>;
  const parts = iterable[Symbol.asyncIterator];
  if (typeof parts === 'function') return parts.call(value) as PartSource;
  // Arrays, maps and strings can be iterated too, but they are plain results.
  const isIterator = typeof iterable.next === 'function' && typeof iterable[Symbol.iterator] === 'function';
  return isIterator ? (value as PartSource) : null;
}

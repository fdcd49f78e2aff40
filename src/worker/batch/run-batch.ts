/**
 * Runs one batch through a modelet: decode, check, preprocess, predict, postprocess, check, encode. Each item fails
 * alone. A result is encoded before any code of the modelet runs again, because a modelet may reuse its buffers.
 */
import { types } from 'node:util';
import type { PayloadChecks } from '../../config/payload-checks.ts';
import type { Clock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { RequestNumber } from '../../core/model.ts';
import { decodePayload, encodePayload } from '../../wire/codec/codec.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import type { LoadedModelet, ModeletContext, RequestMeta } from '../modelet/modelet.ts';
import type { PartsOut } from './parts-out.ts';
import {
  type Attempt,
  attempt,
  checked,
  failed,
  ownPayload,
  type Progress,
  type ReplyLimits,
  reply,
  withinOneFrame,
} from './replies.ts';
import { type PartSource, partsOf, runStream } from './stream.ts';

export interface BatchRun extends ReplyLimits {
  readonly clock: Clock;
  readonly checks: PayloadChecks;
  isCancelled(id: RequestNumber): boolean;
  /** Returns the context of a call for these requests. */
  contextFor(ids: readonly RequestNumber[]): ModeletContext;
  /** Whether other calls may run before the replies have left. */
  readonly overlaps: boolean;
  /** null for examples, whose parts are not sent. */
  readonly parts: PartsOut | null;
}

/** An item that has not failed, its index in the batch, and the context of the calls for it alone. */
interface Going {
  readonly item: WireItem;
  readonly ctx: ModeletContext;
  readonly index: number;
}

/** Runs a batch and returns one reply per item, in order. Never rejects. */
export async function runBatch(modelet: LoadedModelet, items: readonly WireItem[], run: BatchRun): Promise<WireItem[]> {
  const now = run.clock.now();
  const metas = items.map((item) => readMeta(item));
  const contexts = items.map(({ id }) => run.contextFor([id]));
  const prepared = await inTurn(items, (item, index) => {
    const meta = metas[index];
    return meta instanceof ModeletError
      ? failed(meta)
      : prepare(modelet, item, contexts[index] as ModeletContext, run, now);
  });
  const going = items.flatMap((item, index) =>
    prepared[index]?.tag === 'going' ? [{ item, index, ctx: contexts[index] as ModeletContext }] : [],
  );
  const replies = items.map((item, index) =>
    prepared[index]?.tag === 'failed' ? reply(item, prepared[index], run) : item,
  );
  if (going.length > 0) {
    const inputs = going.map(({ index }) => (prepared[index] as { value: unknown }).value);
    const known = going.map(({ index }) => metas[index] as RequestMeta);
    const answered = runsTogether(modelet)
      ? await runTogether(modelet, going, inputs, known, run)
      : await runOneByOne(modelet, going, inputs, known, run);
    for (const [position, { index }] of going.entries()) replies[index] = answered[position] as WireItem;
  }
  return withinOneFrame(replies, run);
}

/** Whether one call takes several inputs. */
export function runsTogether({ batch, batching }: LoadedModelet): boolean {
  return batch && batching?.items !== 'singly';
}

/** Calls `call` for one value after another. Awaits only promises: a batch of synchronous code runs synchronously. */
async function inTurn<T, R>(values: readonly T[], call: (value: T, index: number) => R | Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const [index, value] of values.entries()) {
    const result = call(value, index);
    results.push(result instanceof Promise ? await result : result);
  }
  return results;
}

/** Calls `next` at once, or when the promise resolves. */
function andThen<T, R>(value: T | Promise<T>, next: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}

function prepare(modelet: LoadedModelet, item: WireItem, ctx: ModeletContext, run: BatchRun, now: number): Attempt {
  return (
    unwanted(item, run, now) ??
    attempt(() => {
      const input = decodePayload(item.payload, true);
      run.checks.input?.(input, item.payload.bytes.byteLength);
      return modelet.preprocess ? modelet.preprocess(input, ctx) : input;
    })
  );
}

/** Returns the failure if the item was cancelled or its deadline has passed, or null if the item should run. */
function unwanted(item: WireItem, run: BatchRun, now: number): Progress | null {
  if (run.isCancelled(item.id)) return failed(new ModeletError('cancelled', 'the caller went away'));
  if (item.deadline <= now) return failed(new ModeletError('deadline_exceeded', 'deadline passed before predict'));
  return null;
}

function runOneByOne(
  modelet: LoadedModelet,
  going: readonly Going[],
  inputs: readonly unknown[],
  metas: readonly RequestMeta[],
  run: BatchRun,
): Promise<WireItem[]> {
  return inTurn(going, (one, index) => {
    const { item, ctx } = one;
    const input = inputs[index];
    // Checked again before each item, because the items before it took time.
    const meta = metas[index] ?? {};
    const predict = (): Attempt => {
      if (modelet.batch) return predictBatch(modelet, [input], [meta], ctx).then(([only]) => only as Progress);
      const result = attempt(() => modelet.predict(input, meta, ctx));
      return andParts(result, (source) => runParts(modelet, source, one, input, run));
    };
    const result = unwanted(item, run, run.clock.now()) ?? predict();
    return andThen(result, (progress) => finishAndReply(modelet, one, input, progress, run, going.length));
  });
}

/** Passes copies of the arrays to `predict`, because it may sort or empty them. */
async function runTogether(
  modelet: LoadedModelet,
  going: readonly Going[],
  inputs: readonly unknown[],
  metas: readonly RequestMeta[],
  run: BatchRun,
): Promise<WireItem[]> {
  const ctx = run.contextFor(going.map(({ item }) => item.id));
  const results = await predictBatch(modelet, [...inputs], [...metas], ctx);
  const shared = sharedErrors(results);
  return inTurn(going, (one, index) => {
    const result = results[index] as Progress;
    if (result.tag !== 'failed' || !shared.has(result.error)) {
      return finishAndReply(modelet, one, inputs[index], result, run, going.length);
    }
    return { ...reply(one.item, result, run), together: true };
  });
}

/** Returns the errors that several items have: those of a call for all of them, or for a part of the batch. */
function sharedErrors(results: readonly Progress[]): Set<unknown> {
  const seen = new Set<unknown>();
  const shared = new Set<unknown>();
  for (const result of results) {
    if (result.tag !== 'failed') continue;
    if (seen.has(result.error)) shared.add(result.error);
    seen.add(result.error);
  }
  return shared;
}

function finishAndReply(
  modelet: LoadedModelet,
  { item, ctx }: Going,
  input: unknown,
  result: Progress,
  run: BatchRun,
  count: number,
): WireItem | Promise<WireItem> {
  return andThen(finish(modelet, input, result, ctx, run), (progress) => {
    const replied = reply(item, progress, run);
    return count > 1 || run.overlaps ? { ...replied, payload: ownPayload(replied.payload) } : replied;
  });
}

/** Runs a result in parts to its end with `runAll`. Returns any other result unchanged. */
function andParts(result: Attempt, runAll: (source: PartSource) => Attempt): Attempt {
  if (result instanceof Promise) return result.then((value) => andParts(value, runAll));
  if (result.tag !== 'going') return result;
  try {
    const source = partsOf(result.value);
    return source ? runAll(source) : result;
  } catch (thrown) {
    // The result has getters that throw.
    return failed(thrown);
  }
}

function runParts(
  modelet: LoadedModelet,
  source: PartSource,
  { item, ctx }: Going,
  input: unknown,
  run: BatchRun,
): Promise<Progress> {
  const { maxPayloadBytes: maxBytes } = run;
  return runStream(source, item, {
    finish: (part) => finish(modelet, input, checked(part), ctx, run),
    encode: (part) => ownPayload(encodePayload(part, { blame: 'modelet_failed', maxBytes })),
    unwanted: () => unwanted(item, run, run.clock.now()),
    parts: run.parts,
    maxBytes,
  });
}

async function predictBatch(
  modelet: LoadedModelet,
  inputs: unknown[],
  metas: RequestMeta[],
  ctx: ModeletContext,
): Promise<Progress[]> {
  const count = inputs.length;
  const all = (progress: Progress): Progress[] => Array.from({ length: count }, () => progress);
  const outputs = await attempt(() => modelet.predict(inputs, metas, ctx));
  if (outputs.tag === 'failed') return all(outputs);
  const list = outputs.value;
  if (isInParts(list)) return all(IN_PARTS);
  if (!Array.isArray(list) && !types.isTypedArray(list)) {
    const what = list === null ? 'null' : `a value of type ${typeof list}`;
    return all(wrongLength(`predict returned ${what} instead of an array of ${count} results`));
  }
  if (list.length !== count) {
    return all(wrongLength(`predict returned ${list.length} results for ${count} inputs`));
  }
  return Array.from(list as ArrayLike<unknown>, (value) => {
    try {
      return isInParts(value) ? IN_PARTS : checked(value);
    } catch (thrown) {
      // The value is, for example, a revoked proxy.
      return failed(thrown);
    }
  });
}

const IN_PARTS = failed(
  new ModeletError(
    'modelet_failed',
    'predict gave an iterator for a batch: only the result of a single item has parts',
  ),
);

function isInParts(value: unknown): boolean {
  try {
    return partsOf(value) !== null;
  } catch {
    return false;
  }
}

function wrongLength(message: string): Progress {
  return failed(new ModeletError('bad_batch_length', message));
}

function finish(
  modelet: LoadedModelet,
  input: unknown,
  result: Progress,
  ctx: ModeletContext,
  { checks }: BatchRun,
): Attempt {
  if (result.tag !== 'going') return result;
  const output = modelet.postprocess ? attempt(() => modelet.postprocess?.(result.value, input, ctx)) : result;
  if (!checks.output) return output;
  return output instanceof Promise ? output.then((value) => inspect(value, checks)) : inspect(output, checks);
}

function inspect(output: Progress, { output: check }: PayloadChecks): Progress {
  if (output.tag === 'failed' || output.value === undefined) return output;
  try {
    check?.(output.value);
    return output;
  } catch (thrown) {
    return failed(thrown);
  }
}

/** Returns an error instead of throwing it, so that only this item fails and not its batch. */
function readMeta({ meta }: WireItem): RequestMeta | ModeletError {
  if (!meta) return {};
  try {
    const read: unknown = JSON.parse(Buffer.from(meta).toString());
    if (typeof read === 'object' && read !== null) return read;
    return new ModeletError('protocol_error', 'the metadata of the request is not an object');
  } catch (cause) {
    return new ModeletError('protocol_error', 'the metadata of the request cannot be read', { cause });
  }
}

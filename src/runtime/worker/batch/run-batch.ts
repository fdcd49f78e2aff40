/**
 * Runs one batch through a modelet: decode, check, preprocess, predict, postprocess, check, encode. Each item fails
 * alone. A result is encoded before any code of the modelet runs again, because a modelet may reuse its buffers.
 */
import { types } from 'node:util';
import type { PayloadChecks } from '../../../config/payload-checks.ts';
import type { Clock } from '../../../core/clock.ts';
import { ModeletError } from '../../../core/errors.ts';
import { counted } from '../../../core/figures.ts';
import type { RequestNumber } from '../../../core/model.ts';
import { MessageSteps } from '../../../core/whole-messages.ts';
import { decodePayload, encodePayload } from '../../../wire/codec/codec.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import type { LoadedModelet, ModeletContext, RequestMeta } from '../modelet/modelet.ts';
import {
  type Attempt,
  attempt,
  checked,
  failed,
  ownPayload,
  type PartSource,
  type Progress,
  partsOf,
  type ReplyLimits,
  reply,
  withinOneFrame,
} from './replies.ts';
import { type PartsOut, runStream } from './stream.ts';

export interface BatchRun extends ReplyLimits {
  readonly clock: Clock;
  readonly checks: PayloadChecks;
  isCancelled(id: RequestNumber): boolean;
  contextFor(ids: readonly RequestNumber[]): ModeletContext;
  /** Whether other calls may run before the replies have left. */
  readonly overlaps: boolean;
  /** Called for each call of `predict`. */
  readonly called?: () => void;
  /** null for examples, whose parts are not sent. */
  readonly parts: PartsOut | null;
}

/** An item that has come, and the context of the calls for it alone. */
interface Come {
  readonly item: WireItem;
  readonly index: number;
  readonly ctx: ModeletContext;
  readonly meta: RequestMeta | ModeletError;
}

/** An item that has not failed, with the input for `predict`. */
interface Going extends Come {
  readonly meta: RequestMeta;
  readonly input: unknown;
}

/** Runs a batch and returns one reply per item, in order. Never rejects. */
export function runBatch(modelet: LoadedModelet, items: readonly WireItem[], run: BatchRun): Promise<WireItem[]> {
  return new RunningBatch(modelet, run).run(items);
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

class RunningBatch {
  readonly #modelet: LoadedModelet;
  readonly #run: BatchRun;
  /** Whether another result may be made before the reply with an earlier one has left. */
  #sharesMemory = false;

  constructor(modelet: LoadedModelet, run: BatchRun) {
    this.#modelet = modelet;
    this.#run = run;
  }

  async run(items: readonly WireItem[]): Promise<WireItem[]> {
    const now = this.#run.clock.now();
    const come = items.map((item, index): Come => {
      return { item, index, ctx: this.#run.contextFor([item.id]), meta: readMeta(item) };
    });
    const prepare = (one: Come): Attempt => this.#prepare(one, now);
    const prepared = await (this.#modelet.preparesAtOnce ? Promise.all(come.map(prepare)) : inTurn(come, prepare));
    const replies = [...items];
    const going: Going[] = [];
    for (const [index, progress] of prepared.entries()) {
      const one = come[index] as Come;
      if (progress.tag === 'failed') replies[index] = reply(one.item, progress, this.#run);
      else going.push({ ...one, meta: one.meta as RequestMeta, input: progress.value });
    }
    if (going.length > 0) {
      this.#sharesMemory = going.length > 1 || this.#run.overlaps;
      const answered = runsTogether(this.#modelet) ? await this.#runTogether(going) : await this.#runOneByOne(going);
      for (const [position, { index }] of going.entries()) replies[index] = answered[position] as WireItem;
    }
    return withinOneFrame(replies, this.#run);
  }

  #prepare({ item, meta, ctx }: Come, now: number): Attempt {
    if (meta instanceof ModeletError) return failed(meta);
    return (
      this.#unwanted(item, now) ??
      attempt(() => {
        const input = decodePayload(item.payload, true);
        this.#run.checks.input?.(input, item.payload.bytes.byteLength);
        return this.#modelet.preprocess ? this.#modelet.preprocess(input, ctx) : input;
      })
    );
  }

  /** Returns the failure if the item was cancelled or its deadline has passed, or null if the item should run. */
  #unwanted({ id, deadline }: WireItem, now: number = this.#run.clock.now()): Progress | null {
    if (this.#run.isCancelled(id)) return failed(new ModeletError('cancelled', 'the caller went away'));
    if (deadline <= now) return failed(new ModeletError('deadline_exceeded', 'deadline passed before predict'));
    return null;
  }

  #runOneByOne(going: readonly Going[]): Promise<WireItem[]> {
    return inTurn(going, (one) => {
      const { input, meta, ctx } = one;
      const predict = (): Attempt => {
        if (this.#modelet.batch) return this.#predictBatch([input], [meta], ctx).then(([only]) => only as Progress);
        this.#run.called?.();
        const result = attempt(() => this.#modelet.predict(input, meta, ctx));
        return andParts(result, (source) => this.#runParts(source, one));
      };
      // Checked again before each item, because the items before it took time.
      return andThen(this.#unwanted(one.item) ?? predict(), (progress) => this.#finishAndReply(one, progress));
    });
  }

  /** Passes `predict` arrays that nothing else uses, because it may sort or empty them. */
  async #runTogether(going: readonly Going[]): Promise<WireItem[]> {
    const ctx = this.#run.contextFor(going.map(({ item }) => item.id));
    const inputs = going.map(({ input }) => input);
    const results = await this.#predictBatch(
      inputs,
      going.map(({ meta }) => meta),
      ctx,
    );
    const shared = sharedErrors(results);
    return inTurn(going, (one, index) => {
      const result = results[index] as Progress;
      if (result.tag !== 'failed' || !shared.has(result.error)) return this.#finishAndReply(one, result);
      return { ...reply(one.item, result, this.#run), together: true };
    });
  }

  async #predictBatch(inputs: unknown[], metas: RequestMeta[], ctx: ModeletContext): Promise<Progress[]> {
    const count = inputs.length;
    const all = (progress: Progress): Progress[] => Array.from({ length: count }, () => progress);
    this.#run.called?.();
    const outputs = await attempt(() => this.#modelet.predict(inputs, metas, ctx));
    if (outputs.tag === 'failed') return all(outputs);
    const list = outputs.value;
    if (isInParts(list)) return all(IN_PARTS);
    if (!Array.isArray(list) && !types.isTypedArray(list)) {
      const what = list === null ? 'null' : `a value of type ${typeof list}`;
      return all(wrongLength(`predict returned ${what} instead of an array of ${counted(count, 'result')}`));
    }
    if (list.length !== count) {
      return all(wrongLength(`predict returned ${counted(list.length, 'result')} for ${counted(count, 'input')}`));
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

  #finishAndReply(one: Going, result: Progress): WireItem | Promise<WireItem> {
    return andThen(this.#finish(one, result), (progress) => {
      const replied = reply(one.item, progress, this.#run);
      if (this.#sharesMemory) replied.payload = ownPayload(replied.payload);
      return replied;
    });
  }

  #finish({ input, ctx }: Going, result: Progress): Attempt {
    if (result.tag !== 'going') return result;
    const { postprocess } = this.#modelet;
    const output = postprocess ? attempt(() => this.#modelet.postprocess?.(result.value, input, ctx)) : result;
    return this.#run.checks.output ? andThen(output, (value) => inspect(value, this.#run.checks)) : output;
  }

  #runParts(source: PartSource, one: Going): Promise<Progress> {
    const { maxPayloadBytes: maxBytes, parts } = this.#run;
    return runStream(source, one.item, {
      finish: (part) => this.#finish(one, checked(part)),
      encode: (part) => ownPayload(encodePayload(part, { blame: 'modelet_failed', maxBytes })),
      unwanted: () => this.#unwanted(one.item),
      parts,
      maxBytes,
    });
  }
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

function inspect(output: Progress, { output: check }: PayloadChecks): Progress {
  if (output.tag === 'failed' || output.value === undefined) return output;
  try {
    if (output.value instanceof MessageSteps) for (const payload of payloadsIn(output.value)) check?.(payload);
    else check?.(output.value);
    return output;
  } catch (thrown) {
    return failed(thrown);
  }
}

/** Returns the payloads of all messages that code sends. */
function payloadsIn({ steps }: MessageSteps): unknown[] {
  return steps.flatMap((step) =>
    step.does === 'send' ? step.outputs.flat().map(({ properties }) => properties['payload']) : [],
  );
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

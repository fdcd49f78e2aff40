/**
 * A result that comes in parts: what `predict` gives is an iterator. Its parts are sent as they come, or gathered where
 * nobody wants them one by one.
 *
 * Between two parts the worker's event loop turns: it would not hear otherwise that a result is not wanted any more.
 */
import { ModeletError } from '../../core/errors.ts';
import type { Payload } from '../../core/model.ts';
import { decodePayload } from '../../wire/codec/codec.ts';
import type { WireItem } from '../../wire/frames/items.ts';
import { type Attempt, attempt, checked, failed } from './attempt.ts';
import type { PartsOut } from './parts-out.ts';
import { answer, type Progress } from './replies.ts';

/** What generators of both kinds are. */
export interface PartSource {
  next(): unknown;
  /** Runs the `finally` blocks. */
  return?(): unknown;
}

export interface StreamSteps {
  /** What becomes of a part: `postprocess`, and the check of what comes out. */
  finish(part: unknown): Attempt;
  /** @throws ModeletError `modelet_failed` for what cannot be sent. */
  encode(part: unknown): Payload;
  /** Why the request is not to be gone on with. */
  unwanted(): Progress | null;
  /** null: nobody hears of parts, and nothing is heard of who waits. */
  readonly parts: PartsOut | null;
  /** Of all parts together, where they are gathered. */
  readonly maxBytes: number;
}

/** An iterator, or an async iterable such as a stream, is a result in parts; null for a plain result. */
export function partsOf(value: unknown): PartSource | null {
  if (value === null || typeof value !== 'object') return null;
  const iterable = value as { next?: unknown } & Partial<AsyncIterable<unknown> & Iterable<unknown>>;
  const parts = iterable[Symbol.asyncIterator];
  if (typeof parts === 'function') return parts.call(value) as PartSource;
  // Arrays, maps and texts can be iterated too, and are results as they are.
  const isIterator = typeof iterable.next === 'function' && typeof iterable[Symbol.iterator] === 'function';
  return isIterator ? (value as PartSource) : null;
}

/**
 * Takes the parts to the end. The result is what the generator returns; where that is undefined, null if its parts
 * have been sent, else all of them as an array. Never rejects.
 */
export function runStream(source: PartSource, item: WireItem, steps: StreamSteps): Promise<Progress> {
  return new Stream(source, item, steps).run();
}

class Stream {
  readonly #source: PartSource;
  readonly #item: WireItem;
  readonly #steps: StreamSteps;
  readonly #gathered: unknown[] = [];
  #gatheredBytes = 0;
  #index = 0;
  /** Its end has been asked for. */
  #stopped: Promise<unknown> | null = null;

  constructor(source: PartSource, item: WireItem, steps: StreamSteps) {
    this.#source = source;
    this.#item = item;
    this.#steps = steps;
  }

  async run(): Promise<Progress> {
    const ended = this.#steps.parts?.begin(this.#item.id, () => this.#stop());
    try {
      for (;;) {
        const { done, value } = await this.#next();
        if (done) return this.#ended(value);
        await this.#pass(value);
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (thrown) {
      await this.#stop();
      return failed(thrown);
    } finally {
      ended?.();
    }
  }

  async #next(): Promise<IteratorResult<unknown, unknown>> {
    const step = await this.#source.next();
    const unwanted = this.#steps.unwanted();
    if (unwanted?.tag === 'failed') throw unwanted.error;
    if (step === null || typeof step !== 'object') throw new TypeError(`next() gave ${String(step)} instead of a part`);
    const { done, value } = step as IteratorResult<unknown, unknown>;
    // A generator that is not async may give promises.
    return { done: done === true, value: await value };
  }

  async #pass(value: unknown): Promise<void> {
    const part = await this.#steps.finish(value);
    if (part.tag === 'failed') throw part.error;
    if (part.value === undefined) throw new ModeletError('modelet_failed', 'the modelet yielded undefined');
    const payload = this.#steps.encode(part.value);
    if (this.#sends) await this.#steps.parts?.send({ ...answer(this.#item, true, payload), ref: this.#index });
    else this.#gather(payload);
    this.#index += 1;
  }

  #ended(value: unknown): Progress {
    if (value === undefined) return { tag: 'done', value: this.#all() };
    const end = checked(value);
    return end.tag === 'failed' ? end : { tag: 'done', value };
  }

  get #sends(): boolean {
    return this.#item.streams && this.#steps.parts !== null;
  }

  /** Keeps the part as it is now: a generator may yield the same object again, changed. */
  #gather(payload: Payload): void {
    this.#gathered.push(decodePayload(payload));
    this.#gatheredBytes += payload.bytes.byteLength;
    const { maxBytes } = this.#steps;
    if (this.#gatheredBytes <= maxBytes) return;
    throw new ModeletError('modelet_failed', `the parts of the result are more than ${maxBytes} bytes together`);
  }

  #all(): unknown {
    return this.#sends ? null : this.#gathered;
  }

  /** What goes wrong then does not matter any more. */
  #stop(): Promise<unknown> {
    this.#stopped ??= Promise.resolve(attempt(() => this.#source.return?.()));
    return this.#stopped;
  }
}

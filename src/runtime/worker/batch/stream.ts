/**
 * Runs a result in parts: an iterator that `predict` returned. Sends the parts as they come, or gathers them if the
 * request does not stream. An endless result waits for its reader.
 *
 * Between two parts the worker's event loop turns; otherwise the worker would not receive a cancellation.
 */
import { ModeletError } from '../../../core/errors.ts';
import type { Payload, RequestNumber } from '../../../core/model.ts';
import { decodePayload } from '../../../wire/codec/codec.ts';
import type { WireItem } from '../../../wire/frames/items.ts';
import { type Attempt, answer, attempt, checked, failed, type PartSource, type Progress } from './replies.ts';

export interface StreamSteps {
  /** Runs `postprocess` on a part and checks its output. */
  finish(part: unknown): Attempt;
  /** @throws ModeletError `modelet_failed` if the part cannot be sent. */
  encode(part: unknown): Payload;
  /** Returns the failure if the request was cancelled or its deadline has passed, else null. */
  unwanted(): Progress | null;
  /** null for examples: their parts are gathered, and no cancellation arrives. */
  readonly parts: PartsOut | null;
  /** Limit for all gathered parts together. */
  readonly maxBytes: number;
}

/**
 * Runs the source to its end. The result is the generator's return value. If that is undefined, the result is null if
 * the parts were sent, else an array of all parts. Never rejects.
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
  /** The pending call of `return()` on the source; null before `#stop`. */
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
    // A synchronous generator may yield promises.
    return { done: done === true, value: await value };
  }

  async #pass(value: unknown): Promise<void> {
    const part = await this.#steps.finish(value);
    if (part.tag === 'failed') throw part.error;
    if (part.value === undefined) throw new ModeletError('modelet_failed', 'the modelet yielded undefined');
    const payload = this.#steps.encode(part.value);
    if (this.#sends) await this.#steps.parts?.send({ ...answer(this.#item, true, payload), part: this.#index });
    else this.#gather(payload);
    this.#index += 1;
  }

  #ended(value: unknown): Progress {
    if (value === undefined) return { tag: 'done', value: this.#sends ? null : this.#gathered };
    const end = checked(value);
    return end.tag === 'failed' ? end : { tag: 'done', value };
  }

  get #sends(): boolean {
    return this.#item.streams && this.#steps.parts !== null;
  }

  /** Keeps a copy of the part, because a generator may change the object and yield it again. */
  #gather(payload: Payload): void {
    this.#gathered.push(decodePayload(payload));
    this.#gatheredBytes += payload.bytes.byteLength;
    const { maxBytes } = this.#steps;
    if (this.#gatheredBytes <= maxBytes) return;
    throw new ModeletError('modelet_failed', `the parts of the result are more than ${maxBytes} bytes together`);
  }

  /** Ends the source once. Ignores its errors, because the result has failed or was cancelled already. */
  #stop(): Promise<unknown> {
    this.#stopped ??= Promise.resolve(attempt(() => this.#source.return?.()));
    return this.#stopped;
  }
}

/** The next part waits while this many parts are sent but not taken. */
export const MOST_UNDER_WAY = 16;
/** The next part waits while the parts not taken have this many bytes together. A single part may be larger. */
export const MOST_BYTES_UNDER_WAY: number = 1024 * 1024;

interface RunningStream {
  readonly stop: () => void;
  /** Sizes in bytes of the parts sent but not taken. */
  readonly sizes: number[];
  taken: number;
  /** Resumes the sender that waits for room. */
  wake: () => void;
}

/**
 * Sends the parts of results. The flow acknowledges the parts it has taken. For each result the number of
 * unacknowledged parts is limited.
 */
export class PartsOut {
  readonly #send: (part: WireItem) => void;
  readonly #running: Map<RequestNumber, RunningStream> = new Map();

  constructor(send: (part: WireItem) => void) {
    this.#send = send;
  }

  /** Begins a result in parts. Calls `stop` when the request is cancelled. Returns a function to call at the end. */
  begin(id: RequestNumber, stop: () => void): () => void {
    this.#running.set(id, { stop, sizes: [], taken: 0, wake: () => {} });
    return () => this.#running.delete(id);
  }

  /**
   * Sends a part of a result that has begun, and resolves when its next part may be sent. Resolves at once without
   * sending if the part belongs to no such result.
   */
  async send(part: WireItem): Promise<void> {
    const running = this.#running.get(part.id);
    if (!running) return;
    running.sizes.push(part.payload.bytes.byteLength);
    this.#send(part);
    while (isFull(running) && this.#running.get(part.id) === running) {
      await new Promise<void>((resolve) => {
        running.wake = resolve;
      });
    }
  }

  /** Notes how many parts of the request the flow has taken in total, and resumes the sender. */
  taken(id: RequestNumber, parts: number): void {
    const running = this.#running.get(id);
    if (!running || parts <= running.taken) return;
    running.sizes.splice(0, parts - running.taken);
    running.taken = parts;
    running.wake();
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const id of ids) {
      const running = this.#running.get(id);
      if (!running) continue;
      running.sizes.length = 0;
      running.stop();
      running.wake();
    }
  }
}

function isFull({ sizes }: RunningStream): boolean {
  return sizes.length >= MOST_UNDER_WAY || sizes.reduce((sum, size) => sum + size, 0) >= MOST_BYTES_UNDER_WAY;
}

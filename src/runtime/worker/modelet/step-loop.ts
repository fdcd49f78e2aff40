/**
 * Continuous batching: runs a modelet with the method `step`. All its sequences take each step together, a new one
 * joins before the next step, and a request that has ended gives its place to the next request at once. To the rest of the
 * worker each sequence is a call of `predict`, so that deadlines, cancellation, parts and retries are those of calls.
 * step_loop.py does the same for Python.
 *
 * The scheme is iteration-level scheduling: Yu et al., "Orca: A Distributed Serving System for Transformer-Based
 * Generative Models", OSDI 2022.
 */
import { AsyncResource } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import type { ModeletContext, Sequence } from './modelet.ts';

/** A sequence takes no step while so many of its parts wait for their reader. */
const MOST_AHEAD = 16;

type StepFunction = (sequences: readonly Sequence[]) => unknown;
type SequenceEnd =
  | { readonly tag: 'result'; readonly value: unknown }
  | { readonly tag: 'failed'; readonly error: unknown }
  /** No request waits for it any more. */
  | { readonly tag: 'left' };

export class StepLoop {
  readonly #step: StepFunction;
  readonly #active: Set<RunningSequence> = new Set();
  /** Runs the steps outside the call that begins them: they belong to other calls too. */
  readonly #run: () => Promise<void>;
  #isRunning = false;
  /** Ends a pause in which no sequence may take a step. */
  #wake: () => void = () => {};

  constructor(step: StepFunction) {
    this.#step = step;
    this.#run = AsyncResource.bind(() => this.#takeSteps());
  }

  /** Resolves with the result, or with an iterator as soon as the sequence has emitted a part. */
  predict(input: unknown, { signal }: ModeletContext): Promise<unknown> {
    const sequence = new RunningSequence(input, signal, () => this.#wake());
    this.#active.add(sequence);
    this.#wake();
    if (!this.#isRunning) void this.#run();
    return sequence.outcome();
  }

  async #takeSteps(): Promise<void> {
    this.#isRunning = true;
    for (;;) {
      // Requests that have come join, parts leave, and cancellations arrive.
      await turn();
      for (const sequence of this.#active) if (sequence.hasEnded) this.#active.delete(sequence);
      if (this.#active.size === 0) break;
      const ready = [...this.#active].filter((sequence) => !sequence.isAhead);
      if (ready.length > 0) await this.#stepAll(ready);
      else await this.#pause();
    }
    this.#isRunning = false;
  }

  async #stepAll(sequences: readonly RunningSequence[]): Promise<void> {
    try {
      await this.#step([...sequences]);
    } catch (thrown) {
      for (const sequence of sequences) sequence.fail(thrown);
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = () => {};
        resolve();
      };
    });
  }
}

/** A sequence as its modelet sees it, and its parts as an iterator for the call. */
class RunningSequence implements Sequence {
  readonly input: unknown;
  state: unknown;
  readonly #parts: unknown[] = [];
  readonly #signal: AbortSignal;
  readonly #onRoom: () => void;
  #end: SequenceEnd | null = null;
  /** Ends the wait of the call for a part or the end. */
  #changed: () => void = () => {};

  constructor(input: unknown, signal: AbortSignal, onRoom: () => void) {
    this.input = input;
    this.#signal = signal;
    this.#onRoom = onRoom;
    signal.addEventListener('abort', this.#leave);
    if (signal.aborted) this.#leave();
  }

  get hasEnded(): boolean {
    return this.#end !== null;
  }

  get isAhead(): boolean {
    return this.#parts.length >= MOST_AHEAD;
  }

  emit(part: unknown): void {
    if (this.#end?.tag === 'left') return;
    if (this.#end) throw new Error('emit: the sequence has ended');
    this.#parts.push(part);
    this.#changed();
  }

  end(value?: unknown): void {
    this.#settle({ tag: 'result', value });
  }

  fail(error: unknown): void {
    this.#settle({ tag: 'failed', error });
  }

  /** Resolves with the result, or with an iterator as soon as there is a part. */
  async outcome(): Promise<unknown> {
    await this.#something();
    return this.#parts.length > 0 ? this.#iterator() : this.#result();
  }

  readonly #leave = (): void => this.#settle({ tag: 'left' });

  #settle(end: SequenceEnd): void {
    if (this.#end) return;
    this.#end = end;
    this.#signal.removeEventListener('abort', this.#leave);
    this.#changed();
    this.#onRoom();
  }

  /** Not an async generator: its `return` would wait for the part that `next` waits for. */
  #iterator(): AsyncIterable<unknown> {
    const next = async (): Promise<IteratorResult<unknown, unknown>> => {
      await this.#something();
      if (this.#parts.length === 0) return { done: true, value: this.#result() };
      const value = this.#parts.shift();
      this.#onRoom();
      return { done: false, value };
    };
    const leave = async (): Promise<IteratorResult<unknown, unknown>> => {
      this.#leave();
      return { done: true, value: undefined };
    };
    return { [Symbol.asyncIterator]: () => ({ next, return: leave }) };
  }

  #something(): Promise<void> | undefined {
    if (this.#parts.length > 0 || this.#end) return undefined;
    return new Promise((resolve) => {
      this.#changed = resolve;
    });
  }

  #result(): unknown {
    if (this.#end?.tag === 'failed') throw this.#end.error;
    if (this.#end?.tag === 'left') throw this.#signal.reason ?? new Error('no request waits for the result');
    return this.#end?.value;
  }
}

/** The batches and the example that one worker has, and the limits for how long they may run. */
import type { Deadline } from '../../../core/clock.ts';
import type { RequestNumber } from '../../../core/model.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import { type Batch, type Loss, RunTimeout } from '../pool.ts';
import { type Run, RunLimit, type RunLimitHost } from './run-limit.ts';

export interface WorkloadHost extends Omit<RunLimitHost, 'runs'> {
  /** Number of batches that the worker runs at a time. */
  readonly concurrency: number;
}

interface Example {
  readonly example: number;
  readonly abandonedAt: Deadline;
  hasBegun: boolean;
  startedAt: number;
}

export class Workload<T extends WireItem> {
  readonly #host: WorkloadHost;
  readonly #limit: RunLimit;
  /** Batches that the worker has begun, in that order. */
  readonly #running: Batch<T>[] = [];
  /** Batches that the worker has not begun, in the order sent. */
  readonly #waiting: Batch<T>[] = [];
  #example: Example | null = null;

  constructor(host: WorkloadHost) {
    this.#host = host;
    this.#limit = new RunLimit({ ...host, runs: () => this.#runs });
  }

  /** Whether the worker begins the next batch as soon as it has answered one, and does not say so. */
  get #beginsByItself(): boolean {
    return this.#host.concurrency === 1;
  }

  get batches(): number {
    return this.#running.length + this.#waiting.length;
  }

  get hasExample(): boolean {
    return this.#example !== null;
  }

  /** Whether the worker has a batch beside which it must run nothing. Never if it runs one batch at a time anyway. */
  get isAlone(): boolean {
    return !this.#beginsByItself && this.#all.some(({ alone }) => alone);
  }

  /** Number of batches that the worker runs although no caller has waited for them for a while. */
  get overdue(): number {
    return this.#limit.overdue;
  }

  add(batch: Batch<T>): void {
    if (this.#beginsByItself && this.#running.length === 0) this.#running.push(batch);
    else this.#waiting.push(batch);
    this.#limit.begin();
  }

  addExample(example: number, deadline: Deadline): void {
    const startedAt = this.#host.clock.now();
    this.#example = { example, hasBegun: this.#beginsByItself, startedAt, abandonedAt: deadline };
    this.#limit.begin();
  }

  /** Notes that the worker has begun a batch, or with null its example; returns false if the worker did not have it. */
  began(number: number | null): boolean {
    const index = this.#waiting.findIndex((batch) => batch.number === number);
    const [batch] = index < 0 ? [] : this.#waiting.splice(index, 1);
    const begun = number === null ? this.#example : batch;
    if (!begun) return false;
    begun.startedAt = this.#host.clock.now();
    if (batch) this.#running.push(batch);
    else if (this.#example) this.#example.hasBegun = true;
    this.#limit.begin();
    return true;
  }

  /** Returns the item of a running batch with this number. */
  runningItem(id: RequestNumber): T | undefined {
    for (const { items } of this.#running) for (const item of items) if (item.id === id) return item;
    return undefined;
  }

  /** Takes out a batch that the worker has answered; returns null if the worker does not run such a batch. */
  answered(number: number, replies: number): Batch<T> | null {
    const batch = this.#running.find((running) => running.number === number);
    if (batch?.items.length !== replies) return null;
    this.#running.splice(this.#running.indexOf(batch), 1);
    this.#limit.replied(this.#all);
    const [following] = this.#waiting;
    if (following) following.startedAt = this.#host.clock.now();
    if (following && this.#beginsByItself) this.#running.push(...this.#waiting.splice(0, 1));
    return batch;
  }

  /** Takes out the example that the worker has run; returns false if the worker does not run it. */
  tried(example: number): boolean {
    if (this.#example?.example !== example) return false;
    this.#example = null;
    return true;
  }

  cancelled(ids: readonly RequestNumber[]): void {
    this.#limit.cancelled(ids, this.#all);
  }

  /** Applies the current run limit to the batches that run. */
  limitRun(): void {
    this.#limit.set();
  }

  /** Takes out all that the worker has, because its process has died. */
  lost(error: Error): Omit<Loss<T>, 'error' | 'phase'> {
    const wasOver = (batch: Batch<T>): boolean => error instanceof RunTimeout && this.#limit.wasOver(batch);
    const running = this.#running.splice(0);
    const loss = {
      overrun: itemsOf(running.filter(wasOver)),
      running: itemsOf(running.filter((batch) => !wasOver(batch))),
      notStarted: itemsOf(this.#waiting.splice(0)),
      trying: this.hasExample,
    };
    this.#example = null;
    this.#limit.ended();
    return loss;
  }

  get #all(): readonly Batch<T>[] {
    return [...this.#running, ...this.#waiting];
  }

  /**
   * The batches and the example that keep the worker busy. If it has begun none, something else may keep it busy: then
   * those that it was sent first count.
   */
  get #runs(): readonly Run[] {
    const example = this.#example;
    const hasBegun = this.#running.length > 0 || example?.hasBegun === true;
    const batches = hasBegun ? this.#running : this.#waiting.slice(0, 1);
    return example && (!hasBegun || example.hasBegun) ? [...batches, example] : batches;
  }
}

function itemsOf<T extends WireItem>(batches: readonly Batch<T>[]): T[] {
  return batches.flatMap(({ items }) => items);
}

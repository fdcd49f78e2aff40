/**
 * One place among a stage's workers: the worker that serves and, during a replacement, its successor. The successor is
 * warm before it takes over; the old worker finishes its batches and ends. stage-pools.ts says why a whole pool is
 * succeeded by rules of its own.
 */
import type { Deadline } from '../../../core/clock.ts';
import type { ModeletError } from '../../../core/errors.ts';
import type { ModeletDescription, Payload, RequestNumber, StartStatus, WorkerUsage } from '../../../core/model.ts';
import type { OwnValues } from '../../../core/readings.ts';
import type { ProcessStateTag } from '../../../process/process-state.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import type { Batch, Loss, WorkerHost } from '../pool.ts';
import { SupervisedWorker } from './supervised-worker.ts';

/** A worker's role in its slot: it serves, it will replace the one that serves, or it has been replaced. */
export type Role = 'present' | 'successor' | 'retired';

export interface SlotHost<T extends WireItem> extends Omit<WorkerHost<T>, 'onLost'> {
  onLost(loss: Loss<T>, role: Role): void;
  /** Reports that a successor has taken over. */
  onReplaced(): void;
}

export class Slot<T extends WireItem> {
  /** Index of the slot's worker within the stage. */
  readonly index: number;
  readonly #host: SlotHost<T>;
  #present: SupervisedWorker<T>;
  #successor: SupervisedWorker<T> | null = null;
  readonly #retired: Set<SupervisedWorker<T>> = new Set();
  #starts = 0;

  constructor(index: number, host: SlotHost<T>) {
    this.index = index;
    this.#host = host;
    this.#present = this.#worker();
  }

  get isReady(): boolean {
    return this.#present.isReady;
  }

  get processState(): ProcessStateTag {
    return this.#present.processState;
  }

  get pid(): number | null {
    return this.#present.pid;
  }

  /** Number of workers started here after the first. */
  get restarts(): number {
    return Math.max(0, this.#starts - 1);
  }

  /** Time at which the present worker was sent its modelet. */
  get loadedAt(): number {
    return this.#present.loadedAt;
  }

  /** Number of batches and examples that the present worker has. */
  get load(): number {
    return this.#present.load;
  }

  /** Whether the present worker has a batch beside which it must run nothing. */
  get isAlone(): boolean {
    return this.#present.isAlone;
  }

  /** Whether the present worker has an example. */
  get isTrying(): boolean {
    return this.#present.isTrying;
  }

  /** Whether the present worker could begin another batch or example now. */
  get hasPlace(): boolean {
    return this.isReady && this.load < this.#host.concurrency && !this.isAlone;
  }

  /** Number of examples in the present worker's modelet. */
  get examples(): number {
    return this.#present.examples;
  }

  /** The description of the present worker's modelet; null until it is loaded. */
  get description(): ModeletDescription | null {
    return this.#present.description;
  }

  /** The latest usage report of the present worker. */
  get usage(): WorkerUsage | null {
    return this.#present.usage;
  }

  /** The usage of the present worker when it became ready. */
  get usageAtFirst(): WorkerUsage | null {
    return this.#present.usageAtFirst;
  }

  /** The start of the present worker that is under way; null if there is none. */
  get starting(): StartStatus | null {
    return this.#present.starting;
  }

  /** Number of batches that the present worker runs although no caller has waited for them for a while. */
  get overdue(): number {
    return this.#present.overdue;
  }

  /** Gauges of the present worker's modelet. */
  get gauges(): OwnValues<number> {
    return this.#present.gauges;
  }

  /** Number of batches that the present worker has answered. */
  get batchesRun(): number {
    return this.#present.batchesRun;
  }

  /** The error of the last start; null after a successful one. */
  get startError(): Error | null {
    return this.#present.startError;
  }

  /** Whether the present worker or its successor does not start until something changes. */
  get isStuck(): boolean {
    return this.#present.isStuck || this.#successor?.isStuck === true;
  }

  /** The problem of the present worker, or otherwise of its successor, as text; null if there is none. */
  get trouble(): string | null {
    if (this.#present.lastError) return this.#present.lastError.message;
    const cause = this.#successor?.lastError;
    return cause ? `its replacement does not start: ${cause.message}` : null;
  }

  /** Starts a worker if none runs, without waiting for a pause to end. */
  start(): void {
    this.#present.start();
  }

  /** Starts the workers that are stuck. */
  retry(): void {
    for (const worker of [this.#present, this.#successor]) if (worker?.isStuck) worker.start();
  }

  /** Stops restarting the present worker until `start` is called, and retires a successor. */
  hold(): void {
    this.#present.hold();
    if (this.#successor) this.#retire(this.#successor);
    this.#successor = null;
  }

  /** Starts a successor; the present worker serves until the successor is ready. */
  replace(): void {
    this.#successor ??= this.#worker();
    this.#successor.start();
  }

  /** Returns why the present worker must not get an input; null if it may. */
  refusalOf(input: Payload): ModeletError | null {
    return this.#present.refusalOf(input);
  }

  /** Sends a batch to the present worker, which must be ready. */
  dispatch(batch: Batch<T>): void {
    this.#present.dispatch(batch);
  }

  /** Runs an example in the present worker, which must have a place. */
  tryExample(example: number, deadline: Deadline): void {
    this.#present.tryExample(example, deadline);
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const worker of [this.#present, ...this.#retired]) worker.cancel(ids);
  }

  /** Applies the current run limit to the batches that run. */
  limitRun(): void {
    for (const worker of [this.#present, ...this.#retired]) worker.limitRun();
  }

  async close(deadline: Deadline): Promise<void> {
    this.hold();
    await Promise.all([this.#present, ...this.#retired].map((worker) => worker.close(deadline)));
  }

  #worker(): SupervisedWorker<T> {
    const host = this.#host;
    const worker: SupervisedWorker<T> = new SupervisedWorker<T>({
      ...host,
      launch: (events) => {
        this.#starts += 1;
        return host.launch(events);
      },
      onReady: () => {
        if (worker === this.#successor) this.#takeOver(worker);
        host.onReady();
      },
      onStuck: () => {
        if (worker === this.#present) host.onStuck();
      },
      onUsage: () => {
        if (worker === this.#present) host.onUsage();
      },
      onLost: (loss) => host.onLost(loss, this.#roleOf(worker)),
    });
    return worker;
  }

  #roleOf(worker: SupervisedWorker<T>): Role {
    if (worker === this.#present) return 'present';
    return worker === this.#successor ? 'successor' : 'retired';
  }

  #takeOver(successor: SupervisedWorker<T>): void {
    const old = this.#present;
    this.#present = successor;
    this.#successor = null;
    this.#retire(old);
    this.#host.onReplaced();
  }

  #retire(worker: SupervisedWorker<T>): void {
    this.#retired.add(worker);
    void worker.close(Number.POSITIVE_INFINITY).then(() => this.#retired.delete(worker));
  }
}

/**
 * One place among a stage's workers: the worker that serves in it and, while that one is being replaced, its successor.
 * The successor is warm before it takes over; the one before it finishes what it holds and ends.
 */
import type { Deadline } from '../../core/clock.ts';
import type { ModeletDescription, RequestNumber, WorkerUsage } from '../../core/model.ts';
import type { ProcessStateTag } from '../../process/process-state.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import type { Batch } from './pool.ts';
import { type Loss, SupervisedWorker, type WorkerHost } from './supervised-worker.ts';

/** Whose end it is: of the worker that serves, of one that was to replace it, of one that has been replaced. */
export type Role = 'present' | 'successor' | 'retired';

export interface SlotHost<T extends WireItem> extends Omit<WorkerHost<T>, 'onLost'> {
  onLost(loss: Loss<T>, role: Role): void;
  /** A successor has taken over. */
  onReplaced(): void;
}

export class Slot<T extends WireItem> {
  /** Index of its worker within the stage. */
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

  /** Processes started here after the first. */
  get restarts(): number {
    return Math.max(0, this.#starts - 1);
  }

  /** When the present worker was told what to load. */
  get loadedAt(): number {
    return this.#present.loadedAt;
  }

  /** How many batches the present worker holds. */
  get load(): number {
    return this.#present.load;
  }

  /** The present worker runs an example. */
  get isTrying(): boolean {
    return this.#present.isTrying;
  }

  get isIdle(): boolean {
    return this.isReady && this.load === 0 && !this.isTrying;
  }

  /** How many examples the present worker's modelet has. */
  get examples(): number {
    return this.#present.examples;
  }

  /** What the present worker's modelet says of itself; null until it is loaded. */
  get description(): ModeletDescription | null {
    return this.#present.description;
  }

  /** What the present worker said last of itself. */
  get usage(): WorkerUsage | null {
    return this.#present.usage;
  }

  /** What the present worker used when it became ready. */
  get usageAtFirst(): WorkerUsage | null {
    return this.#present.usageAtFirst;
  }

  /** Batches that the present worker has answered. */
  get batchesRun(): number {
    return this.#present.batchesRun;
  }

  /** Why the last start failed; null once one succeeded. */
  get startError(): Error | null {
    return this.#present.startError;
  }

  /** A worker here, the present one or its successor, does not start until something changes. */
  get isStuck(): boolean {
    return this.#present.isStuck || this.#successor?.isStuck === true;
  }

  /** What is wrong here, in words: with the present worker, else with its successor. */
  get trouble(): string | null {
    if (this.#present.lastError) return this.#present.lastError.message;
    const cause = this.#successor?.lastError;
    return cause ? `its replacement does not start: ${cause.message}` : null;
  }

  /** Starts a worker now if none runs, without further pause. */
  start(): void {
    this.#present.start();
  }

  /** Starts what is stuck. */
  retry(): void {
    for (const worker of [this.#present, this.#successor]) if (worker?.isStuck) worker.start();
  }

  /** Does not start the present worker again when it has died, until `start` is called, and gives a successor up. */
  hold(): void {
    this.#present.hold();
    if (this.#successor) this.#retire(this.#successor);
    this.#successor = null;
  }

  /** Starts a successor; until that is ready nothing else changes. */
  replace(): void {
    this.#successor ??= this.#worker();
    this.#successor.start();
  }

  /** The worker must be ready. */
  dispatch(batch: Batch<T>): void {
    this.#present.dispatch(batch);
  }

  /** The worker must be idle. */
  tryExample(example: number, deadline: Deadline): void {
    this.#present.tryExample(example, deadline);
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const worker of [this.#present, ...this.#retired]) worker.cancel(ids);
  }

  /** Holds the batches that run to the limit as it is now. */
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

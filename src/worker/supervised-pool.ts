/** A stage's workers, each supervised on its own: which of them takes a batch, and how the stage is for all of them. */
import { type Clock, type Deadline, systemClock } from '../core/clock.ts';
import type { LogLevel, RequestNumber, StageDefinition, WorkerStatus } from '../core/model.ts';
import type { EngineBoot, WireItem } from '../wire/frames.ts';
import type { Batch, PoolEvents, PoolHealth, WorkerPool } from './pool.ts';
import { type Loss, SupervisedWorker } from './supervised-worker.ts';
import { WorkerFactory } from './worker-factory.ts';

/** One batch that runs and one that waits in the worker: enough to hide the wake-up between two batches. */
const MOST_BATCHES_PER_WORKER = 2;

export class SupervisedPool<T extends WireItem> implements WorkerPool<T> {
  /** The newest; its modelet is always the one that the workers run. */
  #stage: StageDefinition;
  readonly #factory: WorkerFactory;
  readonly #events: PoolEvents<T>;
  readonly #clock: Clock;
  readonly #workers: SupervisedWorker<T>[];

  constructor(stage: StageDefinition, boot: EngineBoot, events: PoolEvents<T>, clock: Clock = systemClock) {
    this.#stage = stage;
    this.#factory = new WorkerFactory(stage.modelet, boot, clock);
    this.#events = events;
    this.#clock = clock;
    this.#workers = stage.modelet.workers.map((_, index) => this.#worker(index));
  }

  get pinWarnings(): readonly string[] {
    return this.#factory.pinWarnings;
  }

  get health(): PoolHealth {
    const { refusal } = this.#factory;
    if (refusal) return { tag: 'failed', error: refusal };
    if (this.#workers.some((worker) => worker.isReady)) return { tag: 'ready' };
    const errors = this.#workers.map((worker) => worker.startError);
    const first = errors[0];
    return first && errors.every((error) => error !== null) ? { tag: 'failed', error: first } : { tag: 'starting' };
  }

  start(): void {
    const { refusal } = this.#factory;
    if (refusal) {
      this.#events.onLog({ level: 'error', message: refusal.message, stage: this.#stage.name });
      this.#events.onChange();
      return;
    }
    for (const worker of this.#workers) worker.start();
  }

  redefine(stage: StageDefinition): void {
    this.#stage = { ...stage, modelet: this.#stage.modelet };
    for (const worker of this.#workers) worker.limitRun();
  }

  freeWorker(prefetch: boolean): number | null {
    let second: number | null = null;
    for (const [index, worker] of this.#workers.entries()) {
      if (!worker.isReady) continue;
      if (worker.load === 0) return index;
      if (prefetch && second === null && worker.load < MOST_BATCHES_PER_WORKER) second = index;
    }
    return second;
  }

  dispatch(worker: number, batch: Batch<T>): void {
    this.#workers[worker]?.dispatch(batch);
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const worker of this.#workers) worker.cancel(ids);
  }

  async close(deadline: Deadline): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.close(deadline)));
  }

  status(): WorkerStatus[] {
    const { refusal } = this.#factory;
    return this.#workers.map((worker, index) => ({
      index,
      pid: worker.pid,
      state: refusal ? 'error' : worker.processState,
      cpus: this.#factory.appliedPin(index),
      busy: worker.load > 0,
      restarts: worker.restarts,
      error: (refusal ?? worker.lastError)?.message ?? null,
    }));
  }

  #worker(index: number): SupervisedWorker<T> {
    return new SupervisedWorker({
      clock: this.#clock,
      startTimeoutMs: this.#factory.startTimeoutMs,
      launch: (events) => this.#factory.launch(index, events),
      loadFrame: () => this.#factory.loadFrame(this.#stage.name, index),
      runTimeoutMs: () => this.#stage.runTimeoutMs,
      onReady: () => {},
      onReply: (batch, replies, runMs) => this.#events.onReply(batch, replies, runMs, index),
      onLost: (loss) => this.#lost(index, loss),
      onChange: () => this.#events.onChange(),
      onLog: (level, message) => this.#log(index, level, message),
    });
  }

  #lost(worker: number, { running, notStarted, error }: Loss<T>): void {
    this.#events.onLost(running, notStarted, error, worker);
    this.#events.onChange();
  }

  #log(worker: number, level: LogLevel, message: string): void {
    this.#events.onLog({ level, message, stage: this.#stage.name, worker });
  }
}

/** A stage's workers, each supervised on its own: which of them takes a batch, and how the stage is for all of them. */
import { type Clock, type Deadline, systemClock } from '../core/clock.ts';
import type { LogLevel, RequestNumber, StageDefinition, WorkerStatus } from '../core/model.ts';
import type { EngineBoot, WireItem } from '../wire/frames.ts';
import type { Batch, PoolEvents, PoolHealth, WorkerPool } from './pool.ts';
import { Slot } from './slot.ts';
import type { Loss } from './supervised-worker.ts';
import { WorkerFactory } from './worker-factory.ts';

/** One batch that runs and one that waits in the worker: enough to hide the wake-up between two batches. */
const MOST_BATCHES_PER_WORKER = 2;

export class SupervisedPool<T extends WireItem> implements WorkerPool<T> {
  /** The newest; its modelet is always the one that the workers run. */
  #stage: StageDefinition;
  readonly #factory: WorkerFactory;
  readonly #events: PoolEvents<T>;
  readonly #clock: Clock;
  readonly #slots: Slot<T>[];
  /** Slots whose workers are to be replaced by warm ones. */
  readonly #toReplace: Set<Slot<T>> = new Set();
  /** The one whose successor is starting: one at a time, so that a stage never needs twice its memory. */
  #replacing: Slot<T> | null = null;

  constructor(stage: StageDefinition, boot: EngineBoot, events: PoolEvents<T>, clock: Clock = systemClock) {
    this.#stage = stage;
    this.#factory = new WorkerFactory(stage.modelet, boot, clock);
    this.#events = events;
    this.#clock = clock;
    this.#slots = stage.modelet.workers.map((_, index) => this.#slot(index));
  }

  get pinWarnings(): readonly string[] {
    return this.#factory.pinWarnings;
  }

  get health(): PoolHealth {
    const { refusal } = this.#factory;
    if (refusal) return { tag: 'failed', error: refusal };
    if (this.#slots.some((slot) => slot.isReady)) return { tag: 'ready' };
    const errors = this.#slots.map((slot) => slot.startError);
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
    for (const slot of this.#slots) slot.start();
  }

  redefine(stage: StageDefinition): void {
    this.#stage = { ...stage, modelet: this.#stage.modelet };
    for (const slot of this.#slots) slot.limitRun();
  }

  restart(): void {
    if (this.#factory.refusal) return;
    for (const slot of this.#slots) {
      if (slot.processState === 'error') slot.start();
      else this.#toReplace.add(slot);
    }
    this.#replaceNext();
  }

  freeWorker(prefetch: boolean): number | null {
    let second: number | null = null;
    for (const [index, slot] of this.#slots.entries()) {
      if (!slot.isReady) continue;
      if (slot.load === 0) return index;
      if (prefetch && second === null && slot.load < MOST_BATCHES_PER_WORKER) second = index;
    }
    return second;
  }

  dispatch(worker: number, batch: Batch<T>): void {
    this.#slots[worker]?.dispatch(batch);
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const slot of this.#slots) slot.cancel(ids);
  }

  async close(deadline: Deadline): Promise<void> {
    this.#toReplace.clear();
    await Promise.all(this.#slots.map((slot) => slot.close(deadline)));
  }

  status(): WorkerStatus[] {
    const { refusal } = this.#factory;
    return this.#slots.map((slot, index) => ({
      index,
      pid: slot.pid,
      state: refusal ? 'error' : slot.processState,
      cpus: this.#factory.appliedPin(index),
      busy: slot.load > 0,
      restarts: slot.restarts,
      error: refusal?.message ?? slot.trouble,
    }));
  }

  #slot(index: number): Slot<T> {
    const slot: Slot<T> = new Slot<T>({
      clock: this.#clock,
      startTimeoutMs: this.#factory.startTimeoutMs,
      launch: (events) => this.#factory.launch(index, events),
      loadFrame: () => this.#factory.loadFrame(this.#stage.name, index),
      runTimeoutMs: () => this.#stage.runTimeoutMs,
      onReady: () => {},
      onReply: (batch, replies, runMs) => this.#events.onReply(batch, replies, runMs, index),
      onLost: (loss) => this.#lost(index, loss),
      onReplaced: () => this.#replaced(slot),
      onChange: () => this.#events.onChange(),
      onLog: (level, message) => this.#log(index, level, message),
    });
    return slot;
  }

  #replaceNext(): void {
    if (this.#replacing) return;
    const [next] = this.#toReplace;
    if (!next) return;
    this.#toReplace.delete(next);
    this.#replacing = next;
    next.replace();
  }

  #replaced(slot: Slot<T>): void {
    if (this.#replacing === slot) this.#replacing = null;
    this.#replaceNext();
  }

  #lost(worker: number, { running, notStarted, error }: Loss<T>): void {
    this.#events.onLost(running, notStarted, error, worker);
    this.#events.onChange();
  }

  #log(worker: number, level: LogLevel, message: string): void {
    this.#events.onLog({ level, message, stage: this.#stage.name, worker });
  }
}

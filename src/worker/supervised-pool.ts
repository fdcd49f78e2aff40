/** A stage's workers, one per slot, each supervised on its own. */
import { type Clock, type Deadline, systemClock } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';
import type { LogRecord, Pin, RequestNumber, StageDefinition, WorkerPlacement, WorkerStatus } from '../core/model.ts';
import { pinProblem, pinWarning, resolvePin } from '../lifecycle/affinity.ts';
import { type LifePhase, Supervisor } from '../lifecycle/supervisor.ts';
import type { EngineBoot, Frame, WireItem } from '../wire/frames.ts';
import type { Batch, PoolEvents, PoolHealth, WorkerPool } from './pool.ts';
import { startProcessWorker } from './process-worker.ts';

/** One batch that runs and one that waits in the worker: enough to hide the wake-up between two batches. */
const MOST_BATCHES_PER_WORKER = 2;

interface Slot<T extends WireItem> {
  readonly index: number;
  readonly placement: WorkerPlacement;
  readonly supervisor: Supervisor;
  /** In the order sent; the worker takes them one after the other. */
  readonly batches: Batch<T>[];
  /** Why the last start failed; null once one succeeded. */
  startError: Error | null;
}

export class SupervisedPool<T extends WireItem> implements WorkerPool<T> {
  readonly #stage: StageDefinition;
  readonly #boot: EngineBoot;
  readonly #events: PoolEvents<T>;
  readonly #clock: Clock;
  readonly #slots: Slot<T>[];
  /** Pins that could not be honoured, in words. */
  readonly pinWarnings: readonly string[];
  /** With `strictPins`, why no worker of the stage may start. */
  readonly #refusal: ModeletError | null;

  constructor(stage: StageDefinition, boot: EngineBoot, events: PoolEvents<T>, clock: Clock = systemClock) {
    this.#stage = stage;
    this.#boot = boot;
    this.#events = events;
    this.#clock = clock;
    this.#slots = stage.modelet.workers.map((placement, index) => this.#slot(placement, index));
    const unpinned = this.#slots.flatMap(({ placement, index }) => {
      const { missing } = this.#pin(placement);
      return missing.length > 0 ? [{ who: `worker ${index}`, missing }] : [];
    });
    const inWords = (say: typeof pinProblem): string[] =>
      unpinned.map(({ who, missing }) => say(who, missing, boot.allowedCpus));
    const refused = boot.strictPins && unpinned.length > 0;
    this.#refusal = refused ? new ModeletError('config_invalid', inWords(pinProblem).join('; ')) : null;
    this.pinWarnings = refused ? [] : inWords(pinWarning);
  }

  get health(): PoolHealth {
    if (this.#refusal) return { tag: 'failed', error: this.#refusal };
    if (this.#slots.some((slot) => slot.supervisor.isReady)) return { tag: 'ready' };
    const errors = this.#slots.map((slot) => slot.startError);
    const first = errors[0];
    return first && errors.every((error) => error !== null) ? { tag: 'failed', error: first } : { tag: 'starting' };
  }

  start(): void {
    if (this.#refusal) {
      this.#events.onLog({ level: 'error', message: this.#refusal.message, stage: this.#stage.name });
      this.#events.onChange();
      return;
    }
    for (const slot of this.#slots) slot.supervisor.start();
  }

  freeWorker(prefetch: boolean): number | null {
    let second: number | null = null;
    for (const slot of this.#slots) {
      if (!slot.supervisor.isReady) continue;
      if (slot.batches.length === 0) return slot.index;
      if (prefetch && second === null && slot.batches.length < MOST_BATCHES_PER_WORKER) second = slot.index;
    }
    return second;
  }

  dispatch(worker: number, batch: Batch<T>): void {
    const slot = this.#slots[worker] as Slot<T>;
    slot.batches.push(batch);
    slot.supervisor.send({ type: 'batch', batch: batch.number, items: batch.items });
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const slot of this.#slots) {
      if (slot.batches.length > 0) slot.supervisor.send({ type: 'cancel', body: ids });
    }
  }

  async close(deadline: Deadline): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot.supervisor.close(deadline)));
  }

  status(): WorkerStatus[] {
    return this.#slots.map(({ index, supervisor, placement, batches }) => ({
      index,
      pid: supervisor.pid,
      state: this.#refusal ? 'error' : supervisor.processState,
      cpus: this.#appliedPin(placement),
      busy: batches.length > 0,
      restarts: supervisor.restarts,
      error: (this.#refusal ?? supervisor.lastError)?.message ?? null,
    }));
  }

  #slot(placement: WorkerPlacement, index: number): Slot<T> {
    const { workers: _, ...modelet } = this.#stage.modelet;
    const supervisor = new Supervisor(
      {
        startTimeoutMs: modelet.startTimeoutMs,
        launch: (events) =>
          startProcessWorker(
            {
              launcher: this.#boot.launcher,
              cpus: this.#pin(placement).cpus,
              pin: this.#appliedPin(placement),
              env: placement.env,
              heapMb: modelet.heapMb,
            },
            events,
            this.#clock,
          ),
        bootFrame: () => ({
          type: 'load',
          body: {
            stage: this.#stage.name,
            worker: index,
            cpus: this.#appliedPin(placement),
            maxPayloadBytes: this.#boot.maxPayloadBytes,
            modelet,
          },
        }),
        onReady: () => {
          slot.startError = null;
          this.#log(index, 'info', `ready, pid ${supervisor.pid}`);
        },
        onFrame: (frame) => this.#receive(slot, frame),
        onLost: (error, phase) => this.#lost(slot, error, phase),
        onChange: () => this.#events.onChange(),
        onOutput: (stream, line) => this.#log(index, stream === 'stdout' ? 'info' : 'warn', line),
      },
      this.#clock,
    );
    const slot: Slot<T> = { index, placement, supervisor, batches: [], startError: null };
    return slot;
  }

  #pin(placement: WorkerPlacement): ReturnType<typeof resolvePin> {
    return resolvePin(placement.cpus, this.#boot.allowedCpus, this.#boot.launcher.taskset);
  }

  /** The cores a worker is really pinned to. */
  #appliedPin(placement: WorkerPlacement): Pin {
    return this.#pin(placement).missing.length > 0 ? null : placement.cpus;
  }

  #receive(slot: Slot<T>, frame: Frame): void {
    if (frame.type === 'log') {
      this.#log(slot.index, frame.body.level, frame.body.message);
    } else if (frame.type === 'reply') {
      const batch = slot.batches[0];
      if (batch?.number !== frame.batch || batch.items.length !== frame.items.length) {
        slot.supervisor.kill(
          new ModeletError('protocol_error', `worker answered batch ${frame.batch}, which it had not`),
        );
        return;
      }
      slot.batches.shift();
      const following = slot.batches[0];
      if (following) following.startedAt = this.#clock.now();
      this.#events.onReply(batch, frame.items, frame.runMs, slot.index);
    }
  }

  #lost(slot: Slot<T>, error: Error, phase: LifePhase): void {
    if (phase === 'starting') slot.startError = error;
    if (phase === 'closing') this.#log(slot.index, 'debug', 'ended');
    else this.#log(slot.index, 'error', `${phase === 'serving' ? 'died' : 'did not start'}: ${error.message}`);
    const [running, ...notStarted] = slot.batches.splice(0);
    this.#events.onLost(
      running?.items ?? [],
      notStarted.flatMap((batch) => batch.items),
      error,
      slot.index,
    );
    this.#events.onChange();
  }

  #log(worker: number, level: LogRecord['level'], message: string): void {
    this.#events.onLog({ level, message, stage: this.#stage.name, worker });
  }
}

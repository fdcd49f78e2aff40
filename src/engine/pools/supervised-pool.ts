/**
 * A stage's workers, each with its own supervisor. Picks the worker for a batch, and decides what a worker's death
 * means for the stage.
 *
 * When the circuit opens, live workers finish their batches, and their answers count; then they wait idle and warm.
 * Dead workers are not started. The probe is a live worker if there is one; otherwise each opening tries the next slot.
 * Deaths in service count towards the circuit, including runs over the limit. Failed starts count only if no worker
 * serves or may serve soon: one worker that cannot start beside others that serve does not endanger the stage.
 */

import type { StageDefinition } from '../../config/stage-definition.ts';
import { type Clock, type Deadline, systemClock } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type {
  CircuitStatus,
  CircuitTag,
  LogLevel,
  ModeletDescription,
  Payload,
  RequestNumber,
  WorkerStatus,
} from '../../core/model.ts';
import type { RestartCause } from '../../core/readings.ts';
import { shortened } from '../../process/lines.ts';
import { LastingFailure } from '../../process/parent/start-failure.ts';
import type { LifePhase } from '../../process/parent/supervisor.ts';
import type { EngineBoot, TouchedFile } from '../../wire/frames/bodies.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { Circuit } from './circuit.ts';
import { ExampleCheck } from './example-check.ts';
import {
  type Batch,
  type CheckResult,
  type Loss,
  type PoolEvents,
  type PoolHealth,
  type Room,
  RunTimeout,
  type WorkerPool,
} from './pool.ts';
import { Replacements, tooLargeAtFirst, wear } from './slots/replacements.ts';
import { type Role, Slot } from './slots/slot.ts';

import { WorkerFactory } from './worker-factory.ts';

/** Batches that wait in a worker behind those that run: enough to hide the wake-up time between two batches. */
const MOST_AHEAD = 1;

export class SupervisedPool<T extends WireItem> implements WorkerPool<T> {
  /** The newest definition, but always with the modelet that the workers run. */
  #stage: StageDefinition;
  readonly #factory: WorkerFactory;
  readonly #events: PoolEvents<T>;
  readonly #clock: Clock;
  readonly #slots: Slot<T>[];
  readonly #replacements: Replacements<T> = new Replacements();
  readonly #circuit: Circuit;
  readonly #check: ExampleCheck;
  /** The slot of the only worker that serves while the circuit is half-open; otherwise null. */
  #probe: Slot<T> | null = null;
  #probes = 0;
  #description: ModeletDescription | null = null;
  #files: readonly TouchedFile[] = [];
  #restartedAt: number = Number.NEGATIVE_INFINITY;
  /** The last logged reason why workers are stuck; null after a worker became ready or a user asked for new ones. */
  #toldFailure: string | null = null;
  /** Whether `close` was called: workers that end get no successors. */
  #isClosed = false;

  constructor(stage: StageDefinition, boot: EngineBoot, events: PoolEvents<T>, clock: Clock = systemClock) {
    this.#stage = stage;
    this.#factory = new WorkerFactory(stage.modelet, boot, clock);
    this.#events = events;
    this.#clock = clock;
    this.#circuit = new Circuit(clock, (tag) => this.#circuitEntered(tag));
    this.#check = new ExampleCheck({
      clock,
      // The probe gets requests only, no examples.
      ready: () => (this.#circuit.tag === 'closed' ? this.#slots.filter((slot) => slot.isReady) : []),
      whyNone: () => (this.health.tag === 'failed' ? this.health.error.message : 'no worker is ready'),
      onChange: () => events.onChange(),
    });
    this.#slots = stage.modelet.workers.map((_, index) => this.#slot(index));
  }

  get pinWarnings(): readonly string[] {
    return this.#factory.pinWarnings;
  }

  get health(): PoolHealth {
    const { refusal } = this.#factory;
    if (refusal) return { tag: 'failed', error: refusal, doesNotStart: false };
    if (this.#serving.some((slot) => slot.isReady)) return { tag: 'ready' };
    const open = this.#circuit.refusal;
    if (open) return { tag: 'failed', error: open, doesNotStart: this.#circuit.isOfStarts };
    const errors = this.#slots.map((slot) => slot.startError);
    const first = errors[0];
    const none = errors.every((error) => error !== null);
    return first && none ? { tag: 'failed', error: first, doesNotStart: true } : { tag: 'starting' };
  }

  get isStuck(): boolean {
    return this.#slots.some((slot) => slot.isStuck);
  }

  get files(): readonly TouchedFile[] {
    return this.#files;
  }

  get circuit(): CircuitStatus {
    return this.#circuit.status;
  }

  get description(): ModeletDescription | null {
    return this.#description;
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
    this.#restartedAt = this.#clock.now();
    this.#toldFailure = null;
    const running = this.#slots.filter(({ pid }) => pid !== null);
    this.#circuit.reset();
    for (const slot of this.#slots) slot.start();
    this.retry();
    for (const slot of running) this.#replacements.request(slot, 'asked');
  }

  retry(): void {
    this.#toldFailure = null;
    for (const slot of this.#slots) slot.retry();
  }

  freeWorker(room: Room): number | null {
    let best: Slot<T> | null = null;
    for (const slot of this.#serving) {
      const { isReady, isAlone, load } = slot;
      if (isReady && !isAlone && load < this.#mostFor(slot, room) && (!best || load < best.load)) best = slot;
    }
    return best?.index ?? null;
  }

  /** Returns the number of batches with which a worker has no more room of this kind. */
  #mostFor(slot: Slot<T>, room: Room): number {
    // The probe gets one batch at a time: its death must not cost more.
    if (room === 'empty' || this.#probe) return 1;
    const { concurrency } = this.#stage.modelet;
    return room === 'place' || slot.isTrying || this.#check.isWaiting ? concurrency : concurrency + MOST_AHEAD;
  }

  isCurrent(worker: number): boolean {
    return (this.#slots[worker]?.loadedAt ?? 0) >= this.#restartedAt;
  }

  refusalOf(worker: number, input: Payload): ModeletError | null {
    return this.#slots[worker]?.refusalOf(input) ?? null;
  }

  dispatch(worker: number, batch: Batch<T>): void {
    this.#slots[worker]?.dispatch(batch);
  }

  check(deadline: Deadline): Promise<CheckResult> {
    return this.#check.begin(deadline);
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const slot of this.#slots) slot.cancel(ids);
  }

  async close(deadline: Deadline): Promise<void> {
    this.#isClosed = true;
    this.#circuit.stop();
    this.#replacements.clear();
    const ended = Promise.all(this.#slots.map((slot) => slot.close(deadline)));
    this.#check.advance();
    await ended;
  }

  status(): WorkerStatus[] {
    const { refusal } = this.#factory;
    return this.#slots.map((slot) => ({
      index: slot.index,
      pid: slot.pid,
      state: refusal ? 'error' : slot.processState,
      cpus: this.#factory.appliedPin(slot.index),
      busy: slot.load > 0,
      running: Math.min(slot.load, this.#stage.modelet.concurrency),
      overdue: slot.overdue,
      starting: slot.starting,
      restarts: slot.restarts,
      error: refusal?.message ?? slot.trouble,
      rssBytes: slot.usage?.rssBytes ?? null,
      cpuMs: slot.usage?.cpuMs ?? null,
      gauges: slot.gauges,
    }));
  }

  /** The slots that may get batches. */
  get #serving(): readonly Slot<T>[] {
    if (this.#circuit.tag === 'closed') return this.#slots;
    return this.#probe ? [this.#probe] : [];
  }

  #slot(index: number): Slot<T> {
    const slot: Slot<T> = new Slot<T>(index, {
      clock: this.#clock,
      startTimeoutMs: this.#factory.startTimeoutMs,
      concurrency: this.#stage.modelet.concurrency,
      launch: (events) => this.#factory.launch(index, events),
      loadFrame: () => this.#factory.loadFrame(this.#stage, index),
      runTimeoutMs: () => this.#stage.runTimeoutMs,
      abandonedMs: this.#factory.abandonedMs,
      onStuck: () => this.#replace(slot, 'it runs a batch whose callers have gone, and does not end it'),
      onReady: () => {
        this.#description = slot.description;
        this.#toldFailure = null;
        if (slot === this.#probe) this.#circuit.proved('ready');
        this.#check.advance();
      },
      onTouched: (files) => {
        this.#files = files;
      },
      onPart: (item, part, taken) => this.#events.onPart(item, part, taken),
      onReply: (batch, replies, runMs) => {
        if (slot === this.#probe) this.#circuit.proved('answer');
        this.#events.onReply(batch, replies, runMs, index);
        this.#replaceWorn(slot);
        this.#check.advance();
      },
      onTried: (error) => this.#check.tried(error),
      onUsage: () => {
        const tooLarge = tooLargeAtFirst(slot, this.#stage);
        if (tooLarge) this.#log(index, 'warn', tooLarge);
        this.#replaceWorn(slot);
      },
      onOwnMetrics: (changes) => this.#events.onOwnMetrics(changes),
      onLost: (loss, role) => this.#lost(slot, loss, role),
      onReplaced: () => this.#events.onEnded(this.#replacements.done(slot)),
      onChange: () => this.#events.onChange(),
      onLog: (level, message) => this.#log(index, level, message),
    });
    return slot;
  }

  /** Replaces a worn worker. Workers are replaced only while the circuit is closed: otherwise each live one is needed. */
  #replaceWorn(slot: Slot<T>): void {
    const worn = wear(slot, this.#stage);
    if (worn) this.#replace(slot, worn);
  }

  #replace(slot: Slot<T>, reason: string): void {
    if (this.#isClosed || this.#circuit.tag !== 'closed') return;
    if (this.#replacements.request(slot, 'recycled')) this.#log(slot.index, 'info', `is replaced: ${reason}`);
  }

  #lost(slot: Slot<T>, { overrun, running, notStarted, trying, error, phase }: Loss<T>, role: Role): void {
    if (overrun.length > 0) this.#events.onLost(overrun, [], error, slot.index);
    this.#events.onLost(running, notStarted, error instanceof RunTimeout ? besides(error) : error, slot.index);
    if (phase !== 'closing') this.#events.onEnded(causeOf(error, phase));
    if (phase === 'starting' && error instanceof LastingFailure) {
      this.#files = error.files;
      this.#tellFailure(error);
    }
    if (role === 'present' && phase !== 'closing') this.#died(slot, error, phase === 'starting', trying);
    if (trying) this.#check.lost(error);
    else this.#check.advance();
    this.#events.onChange();
  }

  #died(slot: Slot<T>, error: Error, starting: boolean, trying: boolean): void {
    this.#replacements.died(slot);
    const isProbe = slot === this.#probe;
    if (error instanceof LastingFailure && starting) {
      // Another try would fail too, so the circuit need not retry this worker. Each of the others decides for itself.
      if (isProbe) this.#circuit.reset();
      return;
    }
    const serving = starting ? this.#slots.every(({ startError }) => startError !== null) : !trying;
    const counts = isProbe || serving;
    if (this.#circuit.tag === 'closed' ? counts : isProbe) this.#circuit.died(error, starting ? 'ready' : 'answer');
    else if (this.#circuit.tag !== 'closed') slot.hold();
  }

  /** Logs a failure once, however many workers fail for the same reason. */
  #tellFailure({ failure: { message, stack } }: LastingFailure): void {
    if (this.#toldFailure === message) return;
    this.#toldFailure = message;
    const text = shortened(
      `does not start: ${message}; its workers start again when its code, or a file that it reads, changes`,
    );
    const fields = stack === undefined ? {} : { stack };
    this.#events.onLog({ level: 'error', message: text, stage: this.#stage.name, fields });
  }

  #circuitEntered(tag: CircuitTag): void {
    this.#probe = null;
    const log = (level: LogLevel, message: string): void =>
      this.#events.onLog({ level, message, stage: this.#stage.name });
    if (tag === 'open') {
      this.#replacements.clear();
      for (const slot of this.#slots) slot.hold();
      // The message does not mention refused requests: a pool of older code may still serve.
      const why = this.#circuit.refusal?.message ?? '';
      log('error', this.#circuit.isOfStarts ? `does not start: ${why}` : why);
    } else if (tag === 'half-open') {
      log('info', 'tries one worker');
      this.#tryProbe();
    } else {
      if (this.#slots.some((slot) => slot.isReady)) log('info', 'serves again');
      for (const slot of this.#slots) slot.start();
    }
    this.#events.onChange();
  }

  /** Picks a live worker as the probe, or starts one. */
  #tryProbe(): void {
    this.#probes += 1;
    const inTurn = this.#slots[this.#probes % this.#slots.length] as Slot<T>;
    const ready = this.#slots.filter((slot) => slot.isReady);
    const probe = ready.find(({ load }) => load === 0) ?? ready[0] ?? inTurn;
    this.#probe = probe;
    if (probe.isReady) this.#circuit.proved('ready');
    else probe.start();
  }

  #log(worker: number, level: LogLevel, message: string): void {
    this.#events.onLog({ level, message, stage: this.#stage.name, worker });
  }
}

/** Returns the cause of death for the items that ran beside those that took too long. */
function besides(timeout: RunTimeout): Error {
  return new Error(`it was killed because of another batch: ${timeout.message}`, { cause: timeout });
}

function causeOf(error: Error, phase: Exclude<LifePhase, 'closing'>): RestartCause {
  if (error instanceof RunTimeout) return 'run_timeout';
  return phase === 'serving' ? 'died' : 'not_started';
}

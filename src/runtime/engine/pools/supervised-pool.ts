/**
 * A stage's workers, each with its own supervisor. Picks the worker for a batch, and decides what a worker's death
 * means for the stage.
 *
 * When the circuit opens, live workers finish their batches, and their answers count; then they wait idle and warm.
 * Dead workers are not started. The probe is a live worker if there is one; otherwise the openings try one worker after
 * the other. Deaths in service count towards the circuit, including runs over the limit. Failed starts count only if no
 * worker serves or may serve soon: one worker that cannot start beside others that serve does not endanger the stage.
 */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import { type Clock, type Deadline, systemClock } from '../../../core/clock.ts';
import type {
  CheckResult,
  CircuitStatus,
  LogLevel,
  LogRecord,
  ModeletDescription,
  RequestNumber,
  ScalingStatus,
  WorkerDeath,
  WorkerStatus,
} from '../../../core/model.ts';
import { LastingFailure } from '../../../process/parent/start-failure.ts';
import { TemplateLost } from '../../../process/parent/template/forked-process.ts';
import type { TouchedFile } from '../../../wire/frames/bodies.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import { Circuit } from './circuit.ts';
import { ExampleCheck } from './example-check.ts';
import {
  type Loss,
  type PoolEvents,
  type PoolHealth,
  type PoolRuns,
  type Room,
  RunTimeout,
  type WorkerPool,
} from './pool.ts';
import { StartReports } from './start-reports.ts';
import { type PoolBoot, WorkerFactory } from './worker-factory.ts';
import { Roster } from './workers/roster.ts';
import { Scaler } from './workers/scaler.ts';
import { SupervisedWorker, type WorkerHost } from './workers/supervised-worker.ts';

export class SupervisedPool<T extends WireItem> implements WorkerPool<T> {
  /** The newest definition, but always with the modelet that the workers run. */
  #stage: StageDefinition;
  readonly #factory: WorkerFactory;
  readonly #events: PoolEvents<T>;
  readonly #clock: Clock;
  readonly #roster: Roster<T>;
  /** Null: the number of workers is fixed. */
  #scaler: Scaler | null;
  readonly #circuit: Circuit;
  /** Made for the first check. */
  #check: ExampleCheck | null = null;
  /** The workers that may get batches: those that serve, or none but the probe while the circuit is not closed. */
  #eligible: readonly SupervisedWorker<T>[];
  /** The only worker that gets batches while the circuit is half-open; otherwise null. */
  #probe: SupervisedWorker<T> | null = null;
  #probes = 0;
  #description: ModeletDescription | null = null;
  #files: readonly TouchedFile[] = [];
  #lastDeath: WorkerDeath | null = null;
  readonly #reports: StartReports;
  /** Whether `close` was called: workers that end get no successors. */
  #isClosed = false;

  constructor(stage: StageDefinition, boot: PoolBoot, events: PoolEvents<T>, clock: Clock = systemClock) {
    this.#stage = stage;
    this.#factory = new WorkerFactory(stage.modelet, boot, clock);
    this.#events = events;
    this.#clock = clock;
    this.#reports = new StartReports((record) => events.onLog({ ...record, stage: this.#stage.name }));
    this.#circuit = new Circuit(clock, (tag) => this.#circuitEntered(tag));
    this.#scaler = this.#scalerFor(stage);
    const size = this.#scaler?.count ?? stage.modelet.workers.length;
    const host = this.#workerHost();
    this.#roster = new Roster(size, (index) => new SupervisedWorker(index, host));
    this.#eligible = this.#roster.serving;
  }

  get pinWarnings(): readonly string[] {
    return this.#factory.pinWarnings;
  }

  get health(): PoolHealth {
    const { refusal } = this.#factory;
    if (refusal) return { tag: 'failed', error: refusal, doesNotStart: false };
    if (this.#scaler?.isAsleep || this.#eligible.some(({ process }) => process.isReady)) return { tag: 'ready' };
    const open = this.#circuit.refusal;
    if (open) return { tag: 'failed', error: open, doesNotStart: this.#circuit.isOfStarts };
    const errors = this.#roster.serving.map(({ startError }) => startError);
    const first = errors.every((error) => error !== null) ? errors[0] : null;
    return first ? { tag: 'failed', error: first, doesNotStart: true } : { tag: 'starting' };
  }

  get isStuck(): boolean {
    return this.#roster.isStuck;
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

  get runs(): PoolRuns {
    return {
      serving: this.#roster.serving.flatMap(({ run }) => run ?? []),
      retired: this.#roster.retired.flatMap(({ run }) => run ?? []),
    };
  }

  get lastDeath(): WorkerDeath | null {
    return this.#lastDeath;
  }

  start(): void {
    const { refusal } = this.#factory;
    if (refusal) {
      this.#events.onLog({ level: 'error', message: refusal.message, stage: this.#stage.name });
      this.#events.onChange();
      return;
    }
    for (const worker of this.#roster.serving) worker.process.start();
  }

  redefine(stage: StageDefinition): void {
    // A stage with another revision gets another pool.
    const { revision, modelet } = this.#stage;
    const isSame = stage.revision === revision;
    this.#stage = { ...stage, revision, modelet: isSame ? stage.modelet : modelet };
    for (const worker of this.#roster.all) worker.work.limitRun();
    if (isSame && !this.#isClosed) this.#renumber();
  }

  get scaling(): ScalingStatus | null {
    return this.#scaler?.status ?? null;
  }

  wake(): void {
    if (!this.#isClosed) this.#scaler?.wake();
  }

  restart(): void {
    if (this.#factory.refusal) return;
    for (const worker of this.#roster.all) worker.outdate();
    this.#factory.renew();
    const running = this.#roster.serving.filter(({ process }) => process.pid !== null);
    this.#circuit.reset();
    for (const worker of this.#roster.serving) worker.process.start();
    this.retry();
    for (const { index } of running) this.#roster.replace(index, 'asked');
  }

  retry(): void {
    this.#reports.triedAnew();
    for (const worker of this.#roster.all) if (worker.process.isStuck) worker.process.start();
  }

  get lives(): readonly (object | null)[] {
    const [eligible, { serving }] = [this.#eligible, this.#roster];
    // A worker that was added gets no keys before it is ready, when others could have served them.
    const known = this.#scaler ? serving.findLastIndex(({ process }) => process.isReady) + 1 : serving.length;
    return serving
      .slice(0, known)
      .map((worker) => (worker.process.isReady && eligible.includes(worker) ? worker.facts : null));
  }

  freeWorker(room: Room, index?: number): SupervisedWorker<T> | null {
    let best: SupervisedWorker<T> | null = null;
    for (const worker of this.#eligible) {
      if (index !== undefined && index !== worker.index) continue;
      const { process, work, load } = worker;
      if (process.isReady && !work.isAlone && load < this.#mostFor(worker, room) && (!best || load < best.load))
        best = worker;
    }
    return best;
  }

  /** Returns the number of batches with which a worker has no more room of this kind. */
  #mostFor({ work }: SupervisedWorker<T>, room: Room): number {
    // The probe gets one batch at a time: its death must not cost more.
    if (room === 'empty' || this.#probe) return 1;
    const { concurrency } = this.#stage.modelet;
    return room === 'place' || work.hasExample || this.#check?.isWaiting ? concurrency : concurrency + room;
  }

  check(deadline: Deadline): Promise<CheckResult> {
    if (this.#scaler?.isAsleep) return Promise.resolve({ examples: 0, error: null });
    this.#check ??= new ExampleCheck({
      clock: this.#clock,
      // The probe gets requests only, no examples.
      ready: () => (this.#circuit.tag === 'closed' ? this.#ready : []),
      whyNone: () => (this.health.tag === 'failed' ? this.health.error.message : 'no worker is ready'),
      onChange: () => this.#events.onChange(),
    });
    return this.#check.begin(deadline);
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const worker of this.#roster.all) worker.cancel(ids);
  }

  async close(deadline: Deadline): Promise<void> {
    this.#isClosed = true;
    this.#scaler?.stop();
    this.#circuit.stop();
    this.#factory.renew();
    const ended = this.#roster.close(deadline);
    this.#check?.advance();
    await ended;
  }

  status(): WorkerStatus[] {
    return this.#roster.serving.map((worker) => ({
      ...worker.status,
      ...(this.#factory.refusal ? { state: 'error' } : {}),
      cpus: this.#factory.appliedPin(worker.index),
      restarts: this.#factory.restarts(worker.index),
      error: this.#factory.refusal?.message ?? this.#roster.troubleOf(worker),
    }));
  }

  get #ready(): readonly SupervisedWorker<T>[] {
    return this.#roster.serving.filter(({ process }) => process.isReady);
  }

  #workerHost(): WorkerHost<T> {
    return {
      clock: this.#clock,
      startTimeoutMs: this.#factory.startTimeoutMs,
      concurrency: this.#stage.modelet.concurrency,
      stage: this.#events,
      launch: (index, events) => this.#factory.launch(this.#stage, index, events),
      loadFrame: (index) => this.#factory.loadFrame(this.#stage, index),
      runTimeoutMs: () => this.#stage.runTimeoutMs,
      requestTimeoutMs: () => this.#stage.requestTimeoutMs,
      onStuck: (worker) => this.#replace(worker, 'it runs a batch whose callers have gone, and does not end it'),
      onReady: (worker) => this.#becameReady(worker),
      onTouched: (files) => {
        this.#files = files;
      },
      onAnswered: (worker) => {
        if (worker === this.#probe) this.#circuit.proved('answer');
        this.#replaceWorn(worker);
        this.#check?.advance();
      },
      onTried: (error) => this.#check?.tried(error),
      onUsage: (worker) => {
        const tooLarge = this.#roster.serves(worker) ? worker.facts.tooLargeAtFirst(this.#stage) : null;
        if (tooLarge) this.#log(worker, 'warn', tooLarge);
        this.#replaceWorn(worker);
      },
      onLost: (worker, loss) => this.#lost(worker, loss),
      onLog: (worker, level, message) => this.#log(worker, level, message),
    };
  }

  /** Follows a deploy that changes how many workers there are. Those that stay are not touched. */
  #renumber(): void {
    const { scaling, modelet } = this.#stage;
    this.#factory.redefine(modelet);
    if (scaling && this.#scaler) {
      this.#scaler.redefine({ ...scaling, max: modelet.workers.length });
      return;
    }
    this.#scaler?.stop();
    this.#scaler = this.#scalerFor(this.#stage, this.#roster.serving.length);
    this.#resize(this.#scaler?.count ?? modelet.workers.length);
  }

  #resize(count: number): void {
    const added = this.#roster.resize(count);
    this.#factory.keep(count);
    if (this.#circuit.tag === 'closed' && !this.#factory.refusal) for (const worker of added) worker.process.start();
    if (this.#probe && !this.#roster.serves(this.#probe)) this.#tryProbe();
    this.#events.onChange();
  }

  /** @param count the workers that there are, if there are any */
  #scalerFor({ scaling, modelet }: StageDefinition, count?: number): Scaler | null {
    if (!scaling) return null;
    return new Scaler({ ...scaling, max: modelet.workers.length }, count, {
      clock: this.#clock,
      demand: this.#events,
      workers: () => this.#roster.serving,
      concurrency: () => this.#stage.modelet.concurrency,
      maySwitch: () => this.#circuit.tag === 'closed' && !this.#factory.refusal,
      onResized: (size, message) => {
        this.#events.onLog({ level: 'info', message, stage: this.#stage.name });
        this.#resize(size);
      },
    });
  }

  #becameReady(worker: SupervisedWorker<T>): void {
    const replaced = this.#roster.becameReady(worker);
    if (replaced) this.#events.onEnded(replaced);
    this.#description = worker.facts.description;
    this.#scaler?.woke();
    this.#reports.becameReady();
    if (worker === this.#probe) this.#circuit.proved('ready');
    this.#check?.advance();
  }

  #replaceWorn(worker: SupervisedWorker<T>): void {
    const { recycleAfter, maxRssMb } = this.#stage;
    const worn = recycleAfter > 0 || maxRssMb > 0 ? worker.facts.wear(this.#stage) : null;
    if (worn) this.#replace(worker, worn);
  }

  /** Replaces a worker that serves, if the circuit is closed: otherwise each live one is needed. */
  #replace(worker: SupervisedWorker<T>, reason: string): void {
    if (this.#isClosed || this.#circuit.tag !== 'closed' || !this.#roster.serves(worker)) return;
    if (this.#roster.replace(worker.index, 'recycled')) this.#log(worker, 'info', `is replaced: ${reason}`);
  }

  #lost(worker: SupervisedWorker<T>, { overrun, running, notStarted, trying, error, phase, cause }: Loss<T>): void {
    const { index } = worker;
    if (overrun.length > 0) this.#events.onLost(overrun, [], error, index);
    this.#events.onLost(running, notStarted, error instanceof RunTimeout ? error.forOthers : error, index);
    if (cause) this.#events.onEnded(cause);
    if (phase === 'serving') this.#lastDeath = { worker: index, at: this.#clock.now(), error: error.message };
    if (phase === 'starting' && error instanceof LastingFailure) {
      this.#files = error.files;
      this.#reports.lasts(error);
    } else if (phase === 'starting') this.#reports.failed(index, error);
    if (this.#roster.serves(worker) && phase !== 'closing') this.#died(worker, error, phase === 'starting', trying);
    if (trying) this.#check?.lost(error);
    else this.#check?.advance();
    this.#events.onChange();
  }

  #died(worker: SupervisedWorker<T>, error: Error, starting: boolean, trying: boolean): void {
    this.#roster.died(worker);
    this.#scaler?.woke();
    const isProbe = worker === this.#probe;
    if (error instanceof LastingFailure && starting) {
      // Another try would fail too, so the circuit need not retry this worker. Each of the others decides for itself.
      if (isProbe) this.#circuit.reset();
      return;
    }
    // How a template died says nothing about the code that its workers run.
    const ofCode = !trying && !(error instanceof TemplateLost);
    const counts = starting ? this.#roster.serving.every(({ startError }) => startError !== null) : ofCode;
    if (isProbe || (counts && this.#circuit.tag === 'closed')) this.#circuit.died(error, starting ? 'ready' : 'answer');
    else if (this.#circuit.tag !== 'closed') worker.process.hold();
  }

  #circuitEntered(tag: CircuitStatus['circuit']): void {
    this.#probe = null;
    this.#eligible = tag === 'closed' ? this.#roster.serving : [];
    const { name: stage } = this.#stage;
    const log = (level: LogLevel, message: string): void => this.#events.onLog({ level, message, stage });
    if (tag === 'open') {
      this.#roster.keepPresent();
      for (const worker of this.#roster.serving) worker.process.hold();
      this.#reports.opened(this.#circuit);
    } else if (tag === 'half-open') {
      log('info', 'tries one worker');
      this.#tryProbe();
    } else {
      if (this.#ready.length > 0) log('info', 'serves again');
      for (const worker of this.#roster.serving) worker.process.start();
    }
    this.#events.onChange();
  }

  /** Picks a live worker as the probe, or starts one. */
  #tryProbe(): void {
    this.#probes += 1;
    const [serving, ready] = [this.#roster.serving, this.#ready];
    const inTurn = serving[this.#probes % serving.length] as SupervisedWorker<T>;
    const probe = ready.find(({ load }) => load === 0) ?? ready[0] ?? inTurn;
    this.#probe = probe;
    this.#eligible = [probe];
    if (probe.process.isReady) this.#circuit.proved('ready');
    else probe.process.start();
  }

  #log(
    { index: worker }: SupervisedWorker<T>,
    level: LogLevel,
    message: string,
    fields: LogRecord['fields'] = {},
  ): void {
    this.#events.onLog({ level, message, stage: this.#stage.name, worker, fields });
  }
}

/** One worker, which its supervisor keeps running: what it has to do, and what its present process reports. */
import type { Clock, Deadline } from '../../../../core/clock.ts';
import { ModeletError } from '../../../../core/errors.ts';
import type { LogLevel, RequestNumber, RetiredWorker, StartStatus, WorkerStatus } from '../../../../core/model.ts';
import type { RestartCause } from '../../../../core/readings.ts';
import { shortened } from '../../../../process/lines.ts';
import type { Child, ChildEvents } from '../../../../process/parent/child.ts';
import { asThrown } from '../../../../process/parent/start-failure.ts';
import { type LifePhase, Supervisor } from '../../../../process/parent/supervisor.ts';
import { decodeModeletError } from '../../../../wire/codec/error-codec.ts';
import type { LoadedReport, TouchedFile, UsageReport } from '../../../../wire/frames/bodies.ts';
import type { ControlFrame, Frame, WireItem } from '../../../../wire/frames/frames.ts';
import { type Batch, type FreeWorker, type InputRefusal, type Loss, type PoolEvents, RunTimeout } from '../pool.ts';
import { WorkerFacts } from './worker-facts.ts';
import { Workload } from './workload.ts';

/** Time limit for the teardown of a worker that has no batch. */
const TEARDOWN_MS = 5000;
/**
 * How long a retired worker may go on with a batch that no caller waits for, in ms: its code has been replaced, and its
 * result reaches no caller, so that only the time to end in order is left, which is that of a teardown.
 */
const RETIRED_MS = TEARDOWN_MS;
/** Limits without a caller, in ms: the least, for short time limits, and that of requests without a time limit. */
const LEAST_ABANDONED_MS = 10_000;
const DEFAULT_ABANDONED_MS = 30_000;

/** The pool, as its workers see it. */
export interface WorkerHost<T extends WireItem> {
  readonly clock: Clock;
  readonly startTimeoutMs: number;
  /** Number of batches that a worker runs at a time. */
  readonly concurrency: number;
  /** The stage, which workers give replies and parts without a detour. */
  readonly stage: Pick<PoolEvents<T>, 'onPart' | 'onReply' | 'onOwnMetrics' | 'onChange'>;
  launch(index: number, events: ChildEvents): Child;
  /** Returns the first frame for each new process. */
  loadFrame(index: number): ControlFrame;
  /** Returns the longest allowed run of a batch; 0 means no limit. */
  runTimeoutMs(): number;
  /** Returns the time limit of requests, in ms; 0 means no limit. */
  requestTimeoutMs(): number;
  /** Reports that the worker will hardly end one of its batches. Callers wait for others, and no caller for this one. */
  onStuck(worker: SupervisedWorker<T>): void;
  onReady(worker: SupervisedWorker<T>): void;
  /** See `LoadedReport`. */
  onTouched(files: readonly TouchedFile[]): void;
  /** Reports that the worker has answered a batch, after the stage has got the replies. */
  onAnswered(worker: SupervisedWorker<T>): void;
  /** Reports that the worker has finished an example, with its error or null. */
  onTried(error: ModeletError | null): void;
  onLost(worker: SupervisedWorker<T>, loss: Loss<T>): void;
  /** Reports that the worker has sent a new usage report. */
  onUsage(worker: SupervisedWorker<T>): void;
  onLog(worker: SupervisedWorker<T>, level: LogLevel, message: string): void;
}

export class SupervisedWorker<T extends WireItem> implements FreeWorker<T> {
  readonly index: number;
  readonly #host: WorkerHost<T>;
  /** Its process, or its next one. */
  readonly process: Supervisor;
  /** The task of the process. */
  readonly work: Workload<T>;
  /** Reports of the present process. */
  #facts: WorkerFacts;
  #startError: Error | null = null;

  /** @param index of the worker among those of its stage */
  constructor(index: number, host: WorkerHost<T>) {
    this.index = index;
    this.#host = host;
    this.#facts = new WorkerFacts(0);
    this.work = new Workload({
      clock: host.clock,
      concurrency: host.concurrency,
      runTimeoutMs: () => host.runTimeoutMs(),
      abandonedMs: () => this.#abandonedMs,
      kill: (reason) => this.process.kill(reason),
      onStuck: () => host.onStuck(this),
      onChange: () => host.stage.onChange(),
    });
    this.process = new Supervisor(
      {
        startTimeoutMs: host.startTimeoutMs,
        startSetting: 'Start timeout',
        launch: (events) => host.launch(index, events),
        bootFrame: () => {
          this.#facts = new WorkerFacts(host.clock.now());
          return host.loadFrame(index);
        },
        onReady: () => {
          this.#startError = null;
          this.#facts.startMs = host.clock.now() - this.#facts.loadedAt;
          host.onLog(this, 'info', `ready, pid ${this.process.pid}`);
          host.onReady(this);
        },
        onFrame: (frame) => this.#receive(frame),
        onLost: (error, phase) => this.#lost(error, phase),
        onChange: () => host.stage.onChange(),
        onLog: (level, text) => host.onLog(this, level, text),
      },
      host.clock,
    );
  }

  /** Reports of the present process; empty if none runs. */
  get facts(): Readonly<WorkerFacts> {
    return this.#facts;
  }

  get isCurrent(): boolean {
    return !this.#facts.isOutdated;
  }

  /** The error of the last start; null after a successful one. */
  get startError(): Error | null {
    return this.#startError;
  }

  /** The start that is in progress; null if the process is ready, or no process runs. */
  get starting(): StartStatus | null {
    if (this.process.processState !== 'startup' || this.process.pid === null) return null;
    const { loadedAt, progress } = this.#facts;
    return { ms: Math.round(this.#host.clock.now() - loadedAt), progress };
  }

  /** Its present run; null if it is idle. */
  get run(): RetiredWorker | null {
    const { runsSince, overdue } = this.work;
    return runsSince === null ? null : { pid: this.process.pid, runsSince, overdue };
  }

  /** The worker's own part of its status. */
  get status(): Omit<WorkerStatus, 'cpus' | 'restarts' | 'error'> {
    const { process, load, starting, index } = this;
    const { usage, gauges } = this.#facts;
    return {
      index,
      pid: process.pid,
      state: process.processState,
      busy: load > 0,
      running: Math.min(load, this.#host.concurrency),
      overdue: this.work.overdue,
      starting,
      rssBytes: usage?.rssBytes ?? null,
      cpuMs: usage?.cpuMs ?? null,
      gauges,
    };
  }

  get load(): number {
    return this.work.batches + (this.work.hasExample ? 1 : 0);
  }

  /** Whether the worker could begin another batch or example now. */
  get hasPlace(): boolean {
    return this.process.isReady && this.load < this.#host.concurrency && !this.work.isAlone;
  }

  get examples(): number {
    return this.#facts.examples;
  }

  /** Notes that a user has asked for new workers: the present process may run older code. */
  outdate(): void {
    this.#facts.isOutdated = true;
  }

  get refusalOf(): InputRefusal | null {
    return this.#facts.refusalOf;
  }

  dispatch(batch: Batch<T>): void {
    this.work.add(batch);
    const { number, items, states } = batch;
    const sent = states ? items.map((item) => ({ ...item, meta: states.get(item) ?? item.meta })) : items;
    this.process.recipient?.send({ type: 'batch', batch: number, items: sent });
  }

  /** Runs an example. The worker must have a place; the run limit of batches applies. */
  tryExample(example: number, deadline: Deadline): void {
    this.work.addExample(example, deadline);
    this.process.send({ type: 'try', body: { example, deadline } });
  }

  cancel(ids: readonly RequestNumber[]): void {
    if (this.work.batches === 0) return;
    this.process.send({ type: 'cancel', body: ids });
    this.work.cancelled(ids);
  }

  /** Lets the worker finish its batches, and kills it at the deadline. Resolves when the worker has ended. */
  close(deadline: Deadline): Promise<void> {
    const teardownBy = this.#host.clock.now() + TEARDOWN_MS;
    const ended = this.process.close(this.work.batches === 0 ? Math.min(deadline, teardownBy) : deadline);
    this.work.limitRun();
    return ended;
  }

  /**
   * How long a batch without callers may run, in ms: as long as a caller waits at most, and at least a start. Null: the
   * user's limit decides.
   */
  get #abandonedMs(): number | null {
    if (this.#host.runTimeoutMs() > 0) return null;
    if (this.process.isClosed) return RETIRED_MS;
    return Math.max(LEAST_ABANDONED_MS, this.#host.requestTimeoutMs() || DEFAULT_ABANDONED_MS, this.#facts.startMs);
  }

  #receive(frame: Frame): void {
    if (frame.type === 'log') this.process.log(frame.body.level, shortened(frame.body.message));
    else if (frame.type === 'usage') this.#used(frame.body);
    else if (frame.type === 'parts') for (const part of frame.items) this.#sentPart(part);
    else if (frame.type === 'reply') this.#replied(frame);
    else if (frame.type === 'progress') this.#progressed(frame.body);
    else if (frame.type === 'began') {
      const { batch } = frame.body;
      if (!this.work.began(batch)) this.#violated(`worker began batch ${batch}, which it did not have`);
    } else if (frame.type === 'loaded') this.#wasLoaded(frame.body);
    else if (frame.type === 'tried') this.#tried(frame.body.example, frame.body.error);
  }

  /** @throws Error if the schema cannot be used or an example breaks it, which kills the process. */
  #wasLoaded(loaded: LoadedReport): void {
    this.#host.onTouched(loaded.files ?? []);
    this.#facts.noteLoaded(loaded);
  }

  #progressed(text: string): void {
    this.#facts.progress = text;
    this.#host.stage.onChange();
  }

  #used(report: UsageReport): void {
    this.#facts.noteUsage(report);
    if (report.own) this.#host.stage.onOwnMetrics(report.own);
    this.#host.onUsage(this);
    this.#host.stage.onChange();
  }

  #sentPart(part: WireItem): void {
    const { id } = part;
    const item = this.work.runningItem(id);
    if (!item) this.#violated(`worker sent a part of request ${id}, which it did not have`);
    else this.#host.stage.onPart(item, part, (parts) => this.process.send({ type: 'taken', body: [[id, parts]] }));
  }

  #replied(reply: Extract<Frame, { type: 'reply' }>): void {
    const batch = this.work.answered(reply.batch, reply.items.length);
    if (!batch) {
      this.#violated(`worker answered batch ${reply.batch}, which it did not have`);
      return;
    }
    this.#facts.batchesRun += 1;
    this.#host.stage.onReply(batch, reply.items, reply, this.index);
    this.#host.onAnswered(this);
    if (this.work.batches === 0 && this.process.isClosed) void this.close(Number.POSITIVE_INFINITY);
  }

  #tried(example: number, error: string | null): void {
    if (!this.work.tried(example)) this.#violated(`worker answered example ${example}, which it did not run`);
    else this.#host.onTried(error === null ? null : decodeModeletError(Buffer.from(error, 'base64'), 'protocol_error'));
  }

  #violated(message: string): void {
    this.process.kill(new ModeletError('protocol_error', message));
  }

  #lost(error: Error, phase: LifePhase): void {
    if (phase === 'starting') this.#startError = asThrown(error);
    if (phase === 'closing' && error instanceof RunTimeout)
      this.#host.onLog(this, 'warn', `old worker was killed: ${error.message}`);
    else if (phase === 'closing') this.#host.onLog(this, 'debug', 'ended');
    // The pool logs failed starts, since all workers of a stage may fail again and again for the same reason.
    else if (phase === 'serving') this.#host.onLog(this, 'error', `died: ${error.message}`);
    this.#facts = new WorkerFacts(0);
    this.#host.onLost(this, { ...this.work.lost(error), error, phase, cause: causeOf(error, phase) });
  }
}

function causeOf(error: Error, phase: LifePhase): RestartCause | null {
  if (phase === 'closing') return null;
  if (error instanceof RunTimeout) return 'run_timeout';
  return phase === 'serving' ? 'died' : 'not_started';
}

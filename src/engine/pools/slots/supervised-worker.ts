/** One worker, which its supervisor keeps running, and the batches that the worker has. */
import { type InputCheck, inputCheck } from '../../../config/payload-checks.ts';
import type { Deadline } from '../../../core/clock.ts';
import { asModeletError, ModeletError } from '../../../core/errors.ts';
import type { ModeletDescription, Payload, RequestNumber, StartStatus, WorkerUsage } from '../../../core/model.ts';
import type { OwnValues } from '../../../core/readings.ts';
import { shortened } from '../../../process/lines.ts';
import { asThrown } from '../../../process/parent/start-failure.ts';
import { type LifePhase, Supervisor } from '../../../process/parent/supervisor.ts';
import type { ProcessStateTag } from '../../../process/process-state.ts';
import { decodePayload } from '../../../wire/codec/codec.ts';
import { decodeModeletError } from '../../../wire/codec/error-codec.ts';
import type { LoadedReport, UsageReport } from '../../../wire/frames/bodies.ts';
import type { Frame, WireItem } from '../../../wire/frames/frames.ts';
import { type Batch, RunTimeout, type WorkerHost } from '../pool.ts';
import { type Run, RunLimit } from './run-limit.ts';

/** Time limit for the teardown of a worker that has no batch. */
const TEARDOWN_MS = 5000;

export class SupervisedWorker<T extends WireItem> {
  readonly #host: WorkerHost<T>;
  readonly #supervisor: Supervisor;
  /** Batches that the worker has begun, in that order. */
  readonly #running: Batch<T>[] = [];
  /** Batches that the worker has not begun, in the order sent. */
  readonly #waiting: Batch<T>[] = [];
  /** The example that the worker has. */
  #trying: { readonly example: number; hasBegun: boolean; startedAt: number; readonly abandonedAt: Deadline } | null =
    null;
  #loaded: LoadedReport | null = null;
  /** The check of inputs that the present process leaves to the engine; null if there is none. */
  #inputCheck: InputCheck | null = null;
  #startError: Error | null = null;
  #loadedAt = 0;
  /** How far the present start is, as the modelet says it. */
  #progress: string | null = null;
  /** How long the last start took, in ms. */
  #startMs = 0;
  #usage: WorkerUsage | null = null;
  #usageAtFirst: WorkerUsage | null = null;
  #gauges: OwnValues<number> = {};
  #batchesRun = 0;
  readonly #limit: RunLimit;

  constructor(host: WorkerHost<T>) {
    this.#host = host;
    this.#limit = new RunLimit({
      clock: host.clock,
      runs: () => this.#runs,
      runTimeoutMs: () => host.runTimeoutMs(),
      abandonedMs: () => Math.max(host.abandonedMs, this.#startMs),
      kill: (reason) => this.#supervisor.kill(reason),
      onStuck: () => host.onStuck(),
      onChange: () => host.onChange(),
    });
    this.#supervisor = new Supervisor(
      {
        startTimeoutMs: host.startTimeoutMs,
        startSetting: 'startTimeoutMs',
        launch: (events) => host.launch(events),
        bootFrame: () => {
          this.#loadedAt = host.clock.now();
          this.#progress = null;
          return host.loadFrame();
        },
        onReady: () => {
          this.#startError = null;
          this.#startMs = host.clock.now() - this.#loadedAt;
          host.onLog('info', `ready, pid ${this.pid}`);
          host.onReady();
        },
        onFrame: (frame) => this.#receive(frame),
        onLost: (error, phase) => this.#lost(error, phase),
        onChange: () => host.onChange(),
        onLog: (level, text) => host.onLog(level, text),
      },
      host.clock,
    );
  }

  get isReady(): boolean {
    return this.#supervisor.isReady;
  }

  get processState(): ProcessStateTag {
    return this.#supervisor.processState;
  }

  get pid(): number | null {
    return this.#supervisor.pid;
  }

  /** Time at which the present process was sent its modelet. */
  get loadedAt(): number {
    return this.#loadedAt;
  }

  /** The error that ended the last process; null once a new one is ready. */
  get lastError(): Error | null {
    return this.#supervisor.lastError;
  }

  /** The error of the last start; null after a successful one. */
  get startError(): Error | null {
    return this.#startError;
  }

  /** Whether the worker does not start until `start` is called, because another try would fail like the last one. */
  get isStuck(): boolean {
    return this.#supervisor.isStuck;
  }

  /** The start that is under way; null if the process is ready, or none runs. */
  get starting(): StartStatus | null {
    if (this.processState !== 'startup' || this.pid === null) return null;
    return { ms: Math.round(this.#host.clock.now() - this.#loadedAt), progress: this.#progress };
  }

  /** The latest usage report of the process; null before the process is ready. */
  get usage(): WorkerUsage | null {
    return this.#usage;
  }

  /** The usage of the process when it became ready. */
  get usageAtFirst(): WorkerUsage | null {
    return this.#usageAtFirst;
  }

  /** Gauges of the present process's modelet. */
  get gauges(): OwnValues<number> {
    return this.#gauges;
  }

  /** Number of batches that the present process has answered. */
  get batchesRun(): number {
    return this.#batchesRun;
  }

  /** Number of batches and examples that the worker has. */
  get load(): number {
    return this.#batches.length + (this.#trying ? 1 : 0);
  }

  /** Whether the worker has a batch beside which it must run nothing. Never if it runs one batch at a time anyway. */
  get isAlone(): boolean {
    return !this.#beginsByItself && this.#batches.some(({ alone }) => alone);
  }

  /** Number of examples in the present process's modelet. */
  get examples(): number {
    return this.#loaded?.examples ?? 0;
  }

  /** The description of the present process's modelet; null until it is loaded. */
  get description(): ModeletDescription | null {
    return this.#loaded?.description ?? null;
  }

  /** Number of batches that the worker runs although no caller has waited for them for a while. */
  get overdue(): number {
    return this.#limit.overdue;
  }

  get isTrying(): boolean {
    return this.#trying !== null;
  }

  /** Starts a process if none runs, without waiting for a pause to end. */
  start(): void {
    this.#supervisor.start();
  }

  /** Stops restarting the process after its death until `start` is called. */
  hold(): void {
    this.#supervisor.hold();
  }

  /** Returns why the worker must not get an input, by the schema that it leaves to the engine; null if it may. */
  refusalOf({ codec, bytes }: Payload): ModeletError | null {
    if (!this.#inputCheck) return null;
    try {
      this.#inputCheck(decodePayload({ codec, bytes }), bytes.byteLength);
      return null;
    } catch (thrown) {
      return asModeletError(thrown, 'invalid_input');
    }
  }

  /** Sends a batch. The worker must be ready and must have room. */
  dispatch(batch: Batch<T>): void {
    if (this.#beginsByItself && this.#running.length === 0) this.#running.push(batch);
    else this.#waiting.push(batch);
    this.#supervisor.send({ type: 'batch', batch: batch.number, items: batch.items });
    this.#limit.begin();
  }

  /** Runs an example. The worker must be ready and have a place; the run limit of batches applies. */
  tryExample(example: number, deadline: Deadline): void {
    const startedAt = this.#host.clock.now();
    this.#trying = { example, hasBegun: this.#beginsByItself, startedAt, abandonedAt: deadline };
    this.#supervisor.send({ type: 'try', body: { example, deadline } });
    this.#limit.begin();
  }

  cancel(ids: readonly RequestNumber[]): void {
    if (this.#batches.length === 0) return;
    this.#supervisor.send({ type: 'cancel', body: ids });
    this.#limit.cancelled(ids, this.#batches);
  }

  /** Applies the current run limit to the batches that run. */
  limitRun(): void {
    this.#limit.set();
  }

  /** Lets the worker finish its batches, and kills it at the deadline. Resolves when the worker has ended. */
  close(deadline: Deadline): Promise<void> {
    const teardownBy = this.#host.clock.now() + TEARDOWN_MS;
    return this.#supervisor.close(this.#batches.length === 0 ? Math.min(deadline, teardownBy) : deadline);
  }

  get #batches(): readonly Batch<T>[] {
    return [...this.#running, ...this.#waiting];
  }

  #receive(frame: Frame): void {
    if (frame.type === 'log') this.#supervisor.log(frame.body.level, shortened(frame.body.message));
    else if (frame.type === 'usage') this.#used(frame.body);
    else if (frame.type === 'parts') for (const part of frame.items) this.#sentPart(part);
    else if (frame.type === 'reply') this.#replied(frame.batch, frame.items, frame.runMs);
    else if (frame.type === 'progress') this.#progressed(frame.body);
    else if (frame.type === 'began') this.#began(frame.body.batch);
    else if (frame.type === 'loaded') this.#wasLoaded(frame.body);
    else if (frame.type === 'tried') this.#tried(frame.body.example, frame.body.error);
  }

  /** @throws Error if the schema cannot be used or an example breaks it, which kills the process. */
  #wasLoaded(loaded: LoadedReport): void {
    this.#loaded = loaded;
    this.#host.onTouched(loaded.files ?? []);
    const { inputSchema, description } = loaded;
    this.#inputCheck = inputSchema === undefined ? null : inputCheck(inputSchema);
    for (const [index, example] of description.examples.entries()) {
      try {
        this.#inputCheck?.(JSON.parse(example), example.length);
      } catch (cause) {
        throw new Error(`the warm-up failed at example ${index}: ${(cause as Error).message}`, { cause });
      }
    }
  }

  #progressed(text: string): void {
    this.#progress = text;
    this.#host.onChange();
  }

  #used({ own, ...usage }: UsageReport): void {
    this.#usage = usage;
    this.#usageAtFirst ??= usage;
    if (own) {
      const changed = Object.entries(own.gauges).map(([metric, series]) => [
        metric,
        { ...this.#gauges[metric], ...series },
      ]);
      this.#gauges = { ...this.#gauges, ...Object.fromEntries(changed) };
      this.#host.onOwnMetrics(own);
    }
    this.#host.onUsage();
    this.#host.onChange();
  }

  #sentPart(part: WireItem): void {
    const { id } = part;
    const item = this.#running.flatMap(({ items }) => items).find((running) => running.id === id);
    if (item) {
      this.#host.onPart(item, part, (parts) => this.#supervisor.send({ type: 'taken', body: [[id, parts]] }));
      return;
    }
    this.#supervisor.kill(
      new ModeletError('protocol_error', `worker sent a part of request ${id}, which it did not have`),
    );
  }

  /** Whether the worker begins the next batch as soon as it has answered one, and does not say so. */
  get #beginsByItself(): boolean {
    return this.#host.concurrency === 1;
  }

  #began(number: number | null): void {
    const index = this.#waiting.findIndex((batch) => batch.number === number);
    const [batch] = index < 0 ? [] : this.#waiting.splice(index, 1);
    const begun = number === null ? this.#trying : batch;
    if (!begun) {
      this.#supervisor.kill(new ModeletError('protocol_error', `worker began batch ${number}, which it did not have`));
      return;
    }
    begun.startedAt = this.#host.clock.now();
    if (batch) this.#running.push(batch);
    else if (this.#trying) this.#trying.hasBegun = true;
    this.#limit.begin();
  }

  #replied(number: number, replies: readonly WireItem[], runMs: number): void {
    const batch = this.#running.find((running) => running.number === number);
    if (batch?.items.length !== replies.length) {
      this.#supervisor.kill(
        new ModeletError('protocol_error', `worker answered batch ${number}, which it did not have`),
      );
      return;
    }
    this.#running.splice(this.#running.indexOf(batch), 1);
    this.#batchesRun += 1;
    this.#limit.replied(this.#batches);
    const [following] = this.#waiting;
    if (following) following.startedAt = this.#host.clock.now();
    if (following && this.#beginsByItself) this.#running.push(...this.#waiting.splice(0, 1));
    this.#host.onReply(batch, replies, runMs);
    if (this.#batches.length === 0 && this.#supervisor.isClosed) void this.close(Number.POSITIVE_INFINITY);
  }

  #tried(example: number, error: string | null): void {
    if (this.#trying?.example !== example) {
      const message = `worker answered example ${example}, which it did not run`;
      this.#supervisor.kill(new ModeletError('protocol_error', message));
      return;
    }
    this.#trying = null;
    this.#host.onTried(error === null ? null : decodeModeletError(Buffer.from(error, 'base64'), 'protocol_error'));
  }

  /**
   * The batches and the example that keep the worker busy. If it has begun none, something else may keep it busy: then
   * those that it was sent first count.
   */
  get #runs(): readonly Run[] {
    const example = this.#trying;
    const hasBegun = this.#running.length > 0 || example?.hasBegun === true;
    const batches = hasBegun ? this.#running : this.#waiting.slice(0, 1);
    const counted = example && (!hasBegun || example.hasBegun) ? [...batches, example] : batches;
    return counted;
  }

  #lost(error: Error, phase: LifePhase): void {
    if (phase === 'starting') this.#startError = asThrown(error);
    if (phase === 'closing') this.#host.onLog('debug', 'ended');
    // The pool logs a cause that keeps all workers of a stage from starting, and only once.
    else if (!this.isStuck)
      this.#host.onLog('error', `${phase === 'serving' ? 'died' : 'did not start'}: ${error.message}`);
    [this.#usage, this.#usageAtFirst, this.#gauges] = [null, null, {}];
    this.#batchesRun = 0;
    const wasOver = (batch: Batch<T>): boolean => error instanceof RunTimeout && this.#limit.wasOver(batch);
    const [running, waiting, trying] = [this.#running.splice(0), this.#waiting.splice(0), this.isTrying];
    this.#trying = null;
    this.#loaded = null;
    this.#inputCheck = null;
    this.#limit.ended();
    this.#host.onLost({
      overrun: itemsOf(running.filter(wasOver)),
      running: itemsOf(running.filter((batch) => !wasOver(batch))),
      notStarted: itemsOf(waiting),
      trying,
      error,
      phase,
    });
  }
}

function itemsOf<T extends WireItem>(batches: readonly Batch<T>[]): T[] {
  return batches.flatMap(({ items }) => items);
}

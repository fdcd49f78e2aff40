/**
 * The client of a durable queue, in Node-RED's process. Starts the process that owns the queue, supervises it, and
 * calls it over a channel.
 *
 * If that process dies, the client repeats all unanswered calls to the next one, so every call may be made twice. If
 * the next process cannot open the file, all calls fail with its error until a process can.
 */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { type Clock, systemClock, type Timer } from '../../../core/clock.ts';
import { asError, isModeletError, ModeletError } from '../../../core/errors.ts';
import type { BrokerPlace, LogRecord } from '../../../core/model.ts';
import { inheritedEnvironment } from '../../../process/node-options.ts';
import type { ProcessStateTag } from '../../../process/parent/child.ts';
import { ChildProcess, type ChildSpec } from '../../../process/parent/child-process.ts';
import type { Launcher } from '../../../process/parent/launch.ts';
import { type LifePhase, Supervisor } from '../../../process/parent/supervisor.ts';
import { Outbox } from '../../../wire/channel/outbox.ts';
import type { QueueBoot } from '../../../wire/frames/bodies.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import { decodeAnswer, encodeCall } from '../calls.ts';
import type { Enqueued, HeldClaim, QueueCall, QueueItem, QueueLimits, StoreFault, WorkQueue } from '../work-queue.ts';

const QUEUE_ENTRY = fileURLToPath(new URL('../process/main.js', import.meta.url));
/** Long, because the process checks the whole file at start. */
const START_TIMEOUT_MS = 60_000;
/** Longest time for a call, including restarts of the process. */
const CALL_TIMEOUT_MS = 30_000;
const CLOSE_MS = 5000;
/** Faults that last until the file is put back, or until the server is back. */
const LASTING: readonly unknown[] = ['lost', 'away'] satisfies readonly StoreFault[];
/** Bytes of unanswered calls above which `enqueue` is refused. */
const MOST_PENDING_BYTES = 256 * 1024 * 1024;

/** Identifies this Node-RED process, so that the next one need not wait for the leases of this one to end. */
const SESSION: string = randomUUID();

export interface QueueClientSpec {
  /** Path of the file; with a broker, its address and the name of the queue, for people. */
  readonly file: string;
  /** The server that has the queue instead of a file. */
  readonly broker?: BrokerPlace;
  readonly limits: QueueLimits;
  readonly launcher: Launcher;
  readonly allowedCpus: readonly number[];
  /** Resolves when the previous owner has released the file. */
  readonly startAfter: Promise<void>;
  /** Called when the state or the error of the store has changed. */
  onChange(): void;
  onLog(record: LogRecord): void;
}

interface Pending {
  readonly item: WireItem;
  readonly timer: Timer;
  resolve(value: unknown): void;
  reject(error: ModeletError): void;
}

export class QueueClient implements WorkQueue {
  readonly #spec: QueueClientSpec;
  readonly #clock: Clock;
  readonly #supervisor: Supervisor;
  readonly #outbox: Outbox;
  readonly #pending: Map<number, Pending> = new Map();
  #pendingBytes = 0;
  #calls = 0;
  #limits: QueueLimits;
  /** Error of the last start; null if it succeeded. */
  #error: ModeletError | null = null;
  /** Reported by the serving process while its files or its server are missing; it resumes when they are back. */
  #lostFile: ModeletError | null = null;
  #warning: string | null = null;

  readonly claim: WorkQueue['claim'] = (options) => this.#call('claim', options);
  readonly extend: WorkQueue['extend'] = (held, leaseMs) => this.#call('extend', held.map(onlyHeld), leaseMs);
  readonly ack: WorkQueue['ack'] = (acks) =>
    this.#call(
      'ack',
      acks.map(({ ok, result, ...held }) => ({ ...onlyHeld(held), ok, result })),
    );
  readonly nack: WorkQueue['nack'] = (held, options) => this.#call('nack', held.map(onlyHeld), options);
  readonly deadLetter: WorkQueue['deadLetter'] = (held, reason) => this.#call('deadLetter', held.map(onlyHeld), reason);
  readonly redrive: WorkQueue['redrive'] = (ids) => this.#call('redrive', ids);
  readonly cancel: WorkQueue['cancel'] = (id) => this.#call('cancel', id);
  readonly result: WorkQueue['result'] = (id) => this.#call('result', id);
  readonly stats: WorkQueue['stats'] = () => this.#call('stats');

  constructor(spec: QueueClientSpec, clock: Clock = systemClock) {
    this.#spec = spec;
    this.#clock = clock;
    this.#limits = spec.limits;
    this.#supervisor = new Supervisor(
      {
        startTimeoutMs: START_TIMEOUT_MS,
        launch: (events) => new ChildProcess(launchSpec(spec), events, clock),
        bootFrame: () => ({ type: 'open', body: this.#boot() }),
        ping: () => {
          this.#supervisor.send({ type: 'ping', body: null });
          // Each call checks the file or the server, so an idle store also notices when that is lost.
          this.extend([], 1).catch(() => {});
        },
        onReady: () => this.#ready(),
        onFrame: (frame) => {
          if (frame.type === 'answers') for (const item of frame.items) this.#answered(item);
          else if (frame.type === 'log') this.#warned(frame.body);
        },
        onLost: (error, phase) => this.#lost(error, phase),
        onChange: () => spec.onChange(),
        onLog: (level, message) => spec.onLog({ level, message }),
      },
      clock,
    );
    this.#outbox = new Outbox('calls', (frame) => this.#supervisor.send(frame));
    void spec.startAfter.then(() => this.#supervisor.start());
  }

  get state(): ProcessStateTag {
    return this.#supervisor.processState;
  }

  get file(): string {
    return this.#spec.file;
  }

  get pid(): number | null {
    return this.#supervisor.pid;
  }

  get restarts(): number {
    return this.#supervisor.restarts;
  }

  /** Why the store cannot be used at present; null if it can, or if it is starting. */
  get error(): ModeletError | null {
    return this.#error ?? this.#lostFile;
  }

  /** The risk of losing items although the store works, such as a server that keeps nothing on disk; null: none. */
  get warning(): string | null {
    return this.#warning;
  }

  enqueue(items: readonly QueueItem[]): Promise<Enqueued[]> {
    if (this.#pendingBytes > MOST_PENDING_BYTES) {
      return Promise.reject(
        new ModeletError('capacity_exceeded', `the store ${this.#spec.file} has too many calls to carry out`),
      );
    }
    return this.#call('enqueue', items);
  }

  configure(limits: QueueLimits): Promise<void> {
    this.#limits = limits;
    return this.#call('configure', limits);
  }

  /** Waits up to 5 s for the answers to all calls, then closes the process. */
  async close(): Promise<void> {
    this.#outbox.flush();
    await this.#supervisor.close(this.#clock.now() + CLOSE_MS);
    this.#rejectAll(new ModeletError('shutting_down', `the store ${this.#spec.file} was closed`));
  }

  #call<T>(name: QueueCall, ...args: readonly unknown[]): Promise<T> {
    return new Promise<unknown>((resolve, reject) => {
      if (this.#error) throw this.#error;
      if (this.#supervisor.isClosed) throw new ModeletError('shutting_down', 'the store is closed');
      this.#calls += 1;
      const number = this.#calls;
      const item = encodeCall(number, { name, args });
      const timer = this.#clock.at(this.#clock.now() + CALL_TIMEOUT_MS, () =>
        this.#take(number)?.reject(this.#unavailable(new Error(`no answer within ${CALL_TIMEOUT_MS} ms`))),
      );
      this.#pending.set(number, { item, timer, resolve, reject });
      this.#pendingBytes += item.payload.bytes.byteLength;
      if (this.#supervisor.isReady) this.#outbox.add(item);
    }) as Promise<T>;
  }

  #answered(item: WireItem): void {
    const pending = this.#take(item.id);
    if (!pending) return;
    try {
      const value = decodeAnswer(item);
      this.#saidOfFile(null);
      pending.resolve(value);
    } catch (thrown) {
      const error = isModeletError(thrown) ? thrown : this.#unavailable(asError(thrown));
      if (LASTING.includes((error as { fault?: unknown }).fault)) this.#saidOfFile(error);
      pending.reject(error);
    }
  }

  #boot(): QueueBoot {
    const { file, broker = null } = this.#spec;
    return { file, broker, session: SESSION, limits: this.#limits };
  }

  #warned(record: LogRecord): void {
    this.#warning = record.level === 'warn' ? record.message : null;
    this.#spec.onLog(record);
    this.#spec.onChange();
  }

  #saidOfFile(error: ModeletError | null): void {
    if (error?.message === this.#lostFile?.message) return;
    this.#lostFile = error;
    const record = { level: 'info', message: `store ${this.#spec.file}: it is back` } as const;
    this.#spec.onLog(error ? { level: 'error', message: error.message } : record);
    this.#spec.onChange();
  }

  #take(number: number): Pending | null {
    const pending = this.#pending.get(number);
    if (!pending) return null;
    this.#pending.delete(number);
    this.#pendingBytes -= pending.item.payload.bytes.byteLength;
    pending.timer.cancel();
    return pending;
  }

  #ready(): void {
    this.#error = null;
    this.#lostFile = null;
    this.#warning = null;
    for (const { item } of this.#pending.values()) this.#outbox.add(item);
    const { pid, restarts } = this.#supervisor;
    this.#spec.onLog({
      level: 'debug',
      message: `store ${this.#spec.file} ready, pid ${pid}`,
      fields: { pid, restarts },
    });
  }

  #lost(error: Error, phase: LifePhase): void {
    if (phase === 'closing') return;
    const { message: cause } = error;
    const what = phase === 'serving' ? 'its process died' : 'it cannot be opened';
    this.#spec.onLog({ level: 'error', message: `store ${this.#spec.file}: ${what}: ${cause}`, fields: { cause } });
    // The supervisor restarts a process that served; `#ready` then repeats the calls.
    if (phase === 'serving') return;
    this.#error = this.#unavailable(error);
    this.#rejectAll(this.#error);
  }

  #rejectAll(error: ModeletError): void {
    for (const number of [...this.#pending.keys()]) this.#take(number)?.reject(error);
  }

  #unavailable(error: Error): ModeletError {
    if (isModeletError(error)) return error;
    return new ModeletError('store_unavailable', `the store ${this.#spec.file}: ${error.message}`, { cause: error });
  }
}

function launchSpec({ launcher, allowedCpus }: QueueClientSpec): ChildSpec {
  return {
    // Node 22 warns at each start that its SQLite is experimental.
    command: [process.execPath, '--disable-warning=ExperimentalWarning', QUEUE_ENTRY],
    entry: QUEUE_ENTRY,
    cpus: launcher.taskset ? allowedCpus : null,
    launcher,
    env: inheritedEnvironment(),
  };
}

/** Removes the payload of a claim, so that it is not sent back. */
function onlyHeld({ id, token }: HeldClaim): HeldClaim {
  return { id, token };
}

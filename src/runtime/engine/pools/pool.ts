/** The interface between a stage and its workers, be they processes or threads. Contains only types and their data. */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { Deadline } from '../../../core/clock.ts';
import type { ModeletError } from '../../../core/errors.ts';
import type {
  CheckResult,
  CircuitStatus,
  LogRecord,
  ModeletDescription,
  Payload,
  RequestNumber,
  RetiredWorker,
  ScalingStatus,
  WorkerDeath,
  WorkerStatus,
} from '../../../core/model.ts';
import type { RestartCause } from '../../../core/readings.ts';
import type { LifePhase } from '../../../process/parent/supervisor.ts';
import type { OwnChanges, TouchedFile } from '../../../wire/frames/bodies.ts';
import type { BatchRunReport, WireItem } from '../../../wire/frames/frames.ts';
import type { Hop } from '../stage/item.ts';

/** The items handed to one `predict` call, on their way to and in one worker. */
export interface Batch<T extends WireItem = WireItem> {
  readonly number: number;
  readonly items: readonly T[];
  readonly dispatchedAt: number;
  /** Time since which the batch's worker had been free: separates batch filling from waiting for a worker. */
  readonly freeSince: number;
  /** Whether no other batch or example may run in the worker meanwhile. */
  readonly alone: boolean;
  /** Metas that take the place of the items' own, because they bring the worker the states of keys. Absent or null: none. */
  readonly states?: ReadonlyMap<WireItem, Uint8Array> | null;
  /** Time at which the worker began the batch; until then, the time since which it could have. */
  startedAt: number;
  /** Time since which no caller waits for any of its items; absent while one does. Written by its worker. */
  abandonedAt?: number;
}

/**
 * The room that a batch needs in a worker: no other batch there, a place to run, or a place to run or to wait. A number says
 * how many batches may wait there, behind those that run.
 */
export type Room = 'empty' | 'place' | number;

/** The reason for killing a worker whose batch ran longer than the stage allows. */
export class RunTimeout extends Error {
  constructor(runTimeoutMs: number, message: string = `a batch ran longer than ${runTimeoutMs} ms`) {
    super(message);
    this.name = 'RunTimeout';
  }

  /** The cause of death for the items that ran beside those that took too long. */
  get forOthers(): Error {
    return new Error(`it was killed because of another batch: ${this.message}`, { cause: this });
  }
}

/** The items and the example that a worker had when it died. */
export interface Loss<T extends WireItem> {
  /** Items because of which the worker was killed: their batches were over the run limit. */
  readonly overrun: readonly T[];
  /** Other items that the worker may have begun. */
  readonly running: readonly T[];
  /** Items of batches that waited in the worker behind other batches. */
  readonly notStarted: readonly T[];
  /** Whether the worker ran an example. */
  readonly trying: boolean;
  readonly error: Error;
  readonly phase: LifePhase;
  /** Why another worker takes its place; null for a worker that was to end. */
  readonly cause: RestartCause | null;
}

/** Checks an input for a worker that leaves that to the engine. */
export type InputRefusal = (input: Payload) => ModeletError | null;

/** A worker that has room for a batch, as its stage sees it. */
export interface FreeWorker<T extends WireItem = WireItem> {
  /** Index of the worker within the stage. */
  readonly index: number;
  /** Whether it was started after the last `restart`: an older one may run older code. */
  readonly isCurrent: boolean;
  /**
   * Returns why the worker must not get an input, or null: it may break a schema. Null: the worker checks its inputs
   * itself.
   */
  readonly refusalOf: InputRefusal | null;
  dispatch(batch: Batch<T>): void;
}

/**
 * A pool's health. `ready`: a worker serves, or will as soon as a request comes (see scaler.ts). `starting`: a worker will
 * serve soon. `failed`: no worker serves, because the workers do not start (`doesNotStart`) or died again and again; `error`
 * is the cause.
 */
export type PoolHealth =
  | { readonly tag: 'ready' }
  | { readonly tag: 'starting' }
  | { readonly tag: 'failed'; readonly error: Error; readonly doesNotStart: boolean };

export interface PoolEvents<T extends WireItem> {
  /** Passes on a part of a running item's result. Call `taken` with the number of parts taken. */
  onPart(item: T, part: WireItem, taken: (parts: number) => void): void;
  /** Passes on a worker's answer to a batch: one reply per item, in the batch's order. */
  onReply(batch: Batch<T>, replies: readonly WireItem[], run: BatchRunReport, worker: number): void;
  /**
   * Reports that a worker died. It may have begun the items in `running`. It has certainly not begun the items in
   * `notStarted`, which belong back at the head of the queue. The error is a `RunTimeout` if the items in `running` ran
   * too long. A pool that killed a worker for some of its items reports these first, and the others in another call.
   */
  onLost(running: readonly T[], notStarted: readonly T[], error: Error, worker: number): void;
  /** Reports that a worker ended and that another takes its place. */
  onEnded(cause: RestartCause): void;
  /** Passes on what the modelet's own metrics have gained in a worker, even while it ends. */
  onOwnMetrics(changes: OwnChanges): void;
  /** Reports that so many keys have lost their states within worker hosts. */
  onKeysLost(keys: number): void;
  /** Reports that the pool's status has changed: for example, a worker became ready, died or failed to start. */
  onChange(): void;
  onLog(record: LogRecord): void;
  /** Arrival of the oldest item in the queue; null: none waits. */
  oldestAt(): number | null;
  /** Returns how many keys a worker has. */
  keysAt(worker: number): number;
}

export interface WorkerPool<T extends WireItem = WireItem> {
  readonly health: PoolHealth;
  readonly circuit: CircuitStatus;
  /** Whether a worker does not start and is not tried again until something changes. */
  readonly isStuck: boolean;
  /** The files that the worker touched which was the last to load its modelet, or to fail at it. */
  readonly files: readonly TouchedFile[];
  /** The modelet's description from the worker that became ready last; null before the first is ready. */
  readonly description: ModeletDescription | null;
  start(): void;
  /** Takes over a new definition except its modelet: the workers keep the one they run. */
  redefine(definition: StageDefinition): void;
  /** Closes the circuit, starts missing workers at once, and replaces running ones one by one with warm workers. */
  restart(): void;
  /** Starts the workers that are stuck. Call when something has changed. */
  retry(): void;
  /**
   * Returns the worker with the fewest batches for the next batch, or null if none has the room.
   * @param index the only worker that may get it; default: any
   */
  freeWorker(room: Room, index?: number): FreeWorker<T> | null;
  /**
   * Tells the present process of each worker from its next one, by index; null: the worker gets no batches now. Absent: the
   * pool serves no stage with keys.
   */
  readonly lives?: readonly (object | null)[];
  /** How worker hosts serve the stage, for the items of an earlier one; absent or null: no host does. */
  readonly hop?: Omit<Hop, 'retryLost'> | null;
  /** Returns the further stages that an item can pass together with this one. Absent: none. */
  hopsOf?(item: T): readonly Hop[];
  /** Starts a worker if none runs because no request came. Call when an item waits. Absent: workers run all the time. */
  wake?(): void;
  /** Runs the examples of the modelet; settles by the deadline, and never rejects. */
  check(deadline: Deadline): Promise<CheckResult>;
  /** Tells the workers that these requests are cancelled. */
  cancel(ids: readonly RequestNumber[]): void;
  /** Lets the workers finish their batches, and kills them at `deadline`. Resolves when all have ended. */
  close(deadline: Deadline): Promise<void>;
  status(): WorkerStatus[];
  /** The workers that still run batches: those that serve (`serving`), and others. Absent: not known. */
  readonly runs?: PoolRuns;
  /** Null or absent: the number of workers is fixed. */
  readonly scaling?: ScalingStatus | null;
  /** See `StageStatus.lastDeath`. */
  readonly lastDeath?: WorkerDeath | null;
}

/** The oldest runs of a pool, see `StageStatus`. */
export interface PoolRuns {
  readonly serving: readonly RetiredWorker[];
  readonly retired: readonly RetiredWorker[];
}

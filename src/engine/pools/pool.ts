/** What a stage needs of its workers, whatever they are: processes or threads. Interface and its data only. */
import type { Deadline } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type {
  CircuitStatus,
  LogRecord,
  ModeletDescription,
  RequestNumber,
  StageDefinition,
  WorkerStatus,
} from '../../core/model.ts';
import type { RestartCause } from '../../core/readings.ts';
import type { WireItem } from '../../wire/frames/frames.ts';

/** The items handed to one `predict` call, on their way to and in one worker. */
export interface Batch<T extends WireItem = WireItem> {
  readonly number: number;
  readonly items: readonly T[];
  readonly dispatchedAt: number;
  /** Since when the worker that took it had been free: tells batch filling from waiting for a worker. */
  readonly freeSince: number;
  /** When the worker was through with what it had before; `dispatchedAt` for a worker that was idle. */
  startedAt: number;
}

/** Why a worker was killed whose batch ran longer than the stage allows. */
export class RunTimeout extends Error {
  constructor(runTimeoutMs: number) {
    super(`a batch ran longer than ${runTimeoutMs} ms`);
    this.name = 'RunTimeout';
  }
}

/**
 * How a pool is: `ready` has a worker that serves; `starting` will have one soon; `failed` has none: its workers do
 * not start, so that the error is why, or they died again and again.
 */
export type PoolHealth =
  | { readonly tag: 'ready' }
  | { readonly tag: 'starting' }
  | { readonly tag: 'failed'; readonly error: Error; readonly doesNotStart: boolean };

/** What came of running a stage's examples. */
export interface CheckResult {
  /** How many ran, a failing one included. */
  readonly examples: number;
  /** Why the stage does not work; null where it does, and where it has no examples. */
  readonly error: ModeletError | null;
}

export interface PoolEvents<T extends WireItem> {
  /** A part of the result of an item that runs; `ref` is its index. `taken` is to be told how many have been taken. */
  onPart(item: T, part: WireItem, taken: (parts: number) => void): void;
  /** A worker answered a batch: one reply per item, in the batch's order. */
  onReply(batch: Batch<T>, replies: readonly WireItem[], runMs: number, worker: number): void;
  /**
   * A worker died. `running` are the items it may have begun; `notStarted` provably were not, and belong back
   * at the head of the queue. The error is a `RunTimeout` where it was killed for its batch.
   */
  onLost(running: readonly T[], notStarted: readonly T[], error: Error, worker: number): void;
  /** A worker ended that another takes the place of. */
  onEnded(cause: RestartCause): void;
  /** A worker became ready, died or failed to start. */
  onChange(): void;
  onLog(record: LogRecord): void;
}

export interface WorkerPool<T extends WireItem = WireItem> {
  readonly health: PoolHealth;
  readonly circuit: CircuitStatus;
  /** A worker does not start, and is not tried again until something changes. */
  readonly isStuck: boolean;
  /** What the modelet says of itself, of the worker that became ready last; null before the first. */
  readonly description: ModeletDescription | null;
  start(): void;
  /** Takes over what a new definition says outside its modelet; what the workers run does not change. */
  redefine(definition: StageDefinition): void;
  /** Closes the circuit, starts what does not run, at once, and replaces what runs by new workers, one after the other, each warm. */
  restart(): void;
  /** Something has changed: starts the workers that are stuck. */
  retry(): void;
  /** A worker to take the next batch: an idle one first; a busy one with room for one more only if `prefetch`. */
  freeWorker(prefetch: boolean): number | null;
  /** Whether the worker that would take it was started after the last `restart`: an older one may run older code. */
  isCurrent(worker: number): boolean;
  dispatch(worker: number, batch: Batch<T>): void;
  /** Runs the examples of the modelet; settles by the deadline, and never rejects. */
  check(deadline: Deadline): Promise<CheckResult>;
  /** Tells the workers that hold them that these requests are not wanted any more. */
  cancel(ids: readonly RequestNumber[]): void;
  /** Lets the workers finish what they hold, kills them at `deadline`. Resolves when all are gone. */
  close(deadline: Deadline): Promise<void>;
  status(): WorkerStatus[];
}

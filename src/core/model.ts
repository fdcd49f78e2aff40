/** The runtime's vocabulary as plain data types, which cross modules and processes. No behaviour. */
import type { ListenerState } from './endpoints.ts';
import type { ErrorCode, ModeletError } from './errors.ts';
import type { ClientReadings, FailureCount, OwnValues, RequestReading, StageReading } from './readings.ts';
import type { GatherReport } from './routes/gather.ts';
import type { ModelPort } from './tensor.ts';
import type { VersionAction, VersionStatus } from './versions.ts';

/** Number of an open request, unique within one engine process client; carried in every frame. */
export type RequestNumber = number;

/**
 * First numbers of the requests of an engine, by who gives them, so that no two have the same number: the server, the
 * engine's listener, and the engine itself for branches and copies. A number says nothing of whose a request is.
 */
export const FIRST_NUMBER = { server: 1, listener: 2 ** 50, engine: 2 ** 52 } as const;

/** Bytes of what settings call a MB. */
export const BYTES_PER_MB: number = 1024 * 1024;

/** A payload's bytes and the codec that reads them; see wire/codec/codec.ts. The engine never decodes them. */
export interface Payload {
  readonly codec: number;
  /** Joins the chunks, if there are some. */
  readonly bytes: Uint8Array;
  /** The bytes in the chunks in which they arrived, if those were several. */
  readonly chunks?: ChunkedBytes;
}

/** See `Chunks` in wire/codec/chunks.ts, and `HeldBytes` in wire/slots/held-bytes.ts. */
export interface ChunkedBytes {
  readonly length: number;
  readonly bytes: Uint8Array;
  readonly list: readonly Uint8Array[];
  readonly lent: readonly Uint8Array[];
  share(): void;
  free(): void;
}

export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  /** `input`: the value that the failing stage got, if it differs from the request's first value. */
  | { readonly ok: false; readonly error: ModeletError; readonly input?: T };

/** The time that one request spent at one stage. All durations in milliseconds. */
export interface StageTiming {
  /** Reference number of the stage, see stage-definition.ts. */
  readonly stage: number;
  /** Wait for a free worker. */
  readonly waitMs: number;
  /** Wait for the batch to fill while a worker was free. */
  readonly batchMs: number;
  /** Run time of the request's batch, measured in the worker. */
  readonly runMs: number;
  /** 0 if the request was answered without a run. */
  readonly batchSize: number;
  /** Index of the worker within the stage's pool; -1 if the request was answered without a run. */
  readonly worker: number;
  /** Reason why the request needed no run; then `waitMs` is its whole cost. Absent if it had a run. */
  readonly cache?: SavedRun;
}

/** The result of running a stage's examples. */
export interface CheckResult {
  /** Number of examples that ran, including a failing one; 0 if the modelet has none. */
  readonly examples: number;
  /** Why the stage does not work; null if it works or has no examples. */
  readonly error: ModeletError | null;
}

/** Why a request needs no run: its answer is in the cache, or another request's run will bring it. */
export type SavedRun = 'hit' | 'joined';

export type BatchPolicy = 'greedy' | 'oldest' | 'gap' | 'adaptive';

export interface Batching {
  readonly policy: BatchPolicy;
  /** 1..10000 items. */
  readonly maxBatchSize: number;
  /** 0..60000; unused by `greedy`. Of `adaptive`: its goal for the p99 of the time in the stage. */
  readonly maxWaitMs: number;
  /** Absent: only the number of its items limits a batch. */
  readonly costs?: BatchCosts;
}

/** What the policy `adaptive` has chosen for a stage. */
export interface AdaptiveStatus extends Pick<Batching, 'maxBatchSize' | 'maxWaitMs'> {
  /** Goal for the p99 of the time in the stage. */
  readonly targetMs: number;
  /** The p99 that the choice is expected to have; null: not known. */
  readonly p99Ms: number | null;
  /** What it does and why, for people. */
  readonly reason: string;
}

/** How the costs of its items limit and form a batch. */
export interface BatchCosts {
  /** `bytes` of the encoded payload, or the message property that has the cost of an item. */
  readonly by: string;
  /** Most that a batch may cost; 0: no limit. An item that costs more runs alone. */
  readonly most: number;
  /**
   * Whether the model fills up all items of a batch to the longest: a batch then costs its number of items times the cost
   * of the longest, and prefers items of similar cost.
   */
  readonly padded: boolean;
}

/** The cost that an item has without a message property: the size of its payload. */
export const COST_IN_BYTES = 'bytes';

/** The cost of an item whose message names none. */
export const NO_COST = -1;

/** Returns the cost that a value stands for: a number of at least 0, or a text of one. */
export function itemCostOf(value: unknown): number {
  const isNumber = typeof value === 'number' || (typeof value === 'string' && value.trim() !== '');
  const cost = isNumber ? Number(value) : NO_COST;
  return cost >= 0 && cost < Number.POSITIVE_INFINITY ? cost : NO_COST;
}

/** A stage without a batcher in front runs single items. */
export const SINGLE_ITEMS: Batching = { policy: 'greedy', maxBatchSize: 1, maxWaitMs: 0 };

/** Cores that one worker is pinned to; null: not pinned. */
export type Pin = readonly number[] | null;

export interface WorkerPlacement {
  readonly cpus: Pin;
  readonly env: Readonly<Record<string, string>>;
}

/** A parsed JSON Schema. */
export type PayloadSchema = Readonly<Record<string, unknown>> | boolean;

/** A warning about a stage with a batcher, whose modelet was tried alone and in a batch. */
export interface BatchWarning {
  /** `singly`: items run one by one. `mixed`: they run together, as the user wants, with other results than alone. */
  readonly items: 'singly' | 'mixed';
  /** For people. */
  readonly text: string;
}

/** Description of a modelet for callers. The JSON texts are passed on without parsing. */
export interface ModeletDescription {
  /** JSON Schemas; null without one, or if it is too large to send. */
  readonly inputSchema: string | null;
  readonly outputSchema: string | null;
  /** The tensors that it takes by name, all of them; absent: not known. */
  readonly inputs?: readonly ModelPort[];
  /** The tensors that it gives by name, all of them, perhaps as plain arrays; absent: not known but by the schema. */
  readonly outputs?: readonly ModelPort[];
  /** Absent: batches are as they should be. */
  readonly batching?: BatchWarning;
  /** Why its model runs as WebAssembly, for people; absent: it does not. */
  readonly instead?: string;
  /** Whether each row of its inputs may be an item, as a trial has shown: the results are the same. Absent: no. */
  readonly rows?: true;
  /** The modelet's first examples, without those that are large or not JSON. */
  readonly examples: readonly string[];
}

/** Limits of a stage's cache, which answers a repeated input without a worker. */
export interface CacheSettings {
  /** Most results; 0: the stage keeps no results and shares no runs. */
  readonly entries: number;
  /** Most bytes of all results together. */
  readonly maxBytes: number;
  /** Lifetime of a result, in ms; 0: no limit. */
  readonly ttlMs: number;
}

/** A queue on a server that several processes share. */
export interface BrokerPlace {
  /** `redis:` or `rediss:`, without user and password. */
  readonly url: string;
  /** First part of all keys on the server. */
  readonly prefix: string;
  /** Name of the queue; queues of the same name are one. */
  readonly queue: string;
  readonly username: string;
  readonly password: string;
  /** Certificates, as `tls.connect` takes them; null: no TLS, unless the URL asks for it. */
  readonly tls: Readonly<Record<string, unknown>> | null;
}

/** The place at which worker hosts find a remote stage. */
export interface RemotePlace extends Omit<BrokerPlace, 'queue'> {
  /** Name of the runtime, by which hosts choose. */
  readonly runtime: string;
  /** Signs what hosts run; blank: nothing is signed. */
  readonly secret: string;
}

/** The data kept of a settled request. Times in milliseconds. */
export interface SettledRequest {
  readonly requestId: string;
  readonly code: 'ok' | ErrorCode;
  /** Name of the stage at which the request failed; null for a result, or if no stage caused the failure. */
  readonly stage: string | null;
  /** Time at the gate plus the time from the request's opening to its settling. */
  readonly totalMs: number;
  readonly gateMs: number;
  /** Wait for room in the first stage's queue. */
  readonly entranceMs: number;
  /** Timings of the stages that answered the request. */
  readonly timings: readonly StageTiming[];
  /** The report of the nodes that gather branches; null: no such node. */
  readonly gathered: GatherReport | null;
}

/** A listener, and its requests since the engine started. */
export interface ListenerStatus {
  readonly state: ListenerState;
  /** Open requests now. */
  readonly backlog: number;
  readonly reading: RequestReading;
  readonly clients: ClientReadings;
  readonly failures: readonly FailureCount[];
  /** The slowest requests of the last minutes, with the time at which each settled, on the monotonic clock. */
  readonly slowest: readonly { readonly at: number; readonly request: SettledRequest }[];
}

/** Action on a stage: send the waiting items at once (flush), drop them (reset), start new workers (restart), or others. */
export type StageAction = 'flush' | 'reset' | 'restart' | VersionAction;

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error';

export type LogValue = string | number | boolean | null | { readonly [name: string]: LogValue };

export interface LogRecord {
  readonly level: LogLevel;
  /** Text for people. May contain text from a user's code, including line breaks. */
  readonly message: string;
  readonly stage?: string;
  readonly worker?: number;
  /** The same facts for programs: `pid`, `cause`, `code`, `requestId` and the like. */
  readonly fields?: Readonly<Record<string, LogValue>>;
}

export interface WorkerUsage {
  /** Resident memory; for a thread, its heap and buffers. */
  readonly rssBytes: number;
  /** CPU time since the start; for a thread, the time that its event loop was busy. */
  readonly cpuMs: number;
}

/** A start of a worker that is in progress. */
export interface StartStatus {
  /** How long it has taken so far, in ms. */
  readonly ms: number;
  /** How far it is, as the modelet says it; null if it says nothing. */
  readonly progress: string | null;
}

export interface WorkerStatus {
  readonly index: number;
  readonly pid: number | null;
  readonly state: 'startup' | 'ready' | 'error' | 'shutdown' | 'dead';
  readonly cpus: readonly number[] | null;
  readonly busy: boolean;
  /** Number of batches that it runs; see the stage's `concurrency`. */
  readonly running: number;
  /** Number of those that it runs although no caller has waited for a second or longer. Absent: none. */
  readonly overdue?: number;
  /** Absent or null: the worker does not start now. */
  readonly starting?: StartStatus | null;
  readonly restarts: number;
  readonly error: string | null;
  /** Last usage that the worker reported, at most once a second, see `WorkerUsage`; null before it is ready. */
  readonly rssBytes: number | null;
  readonly cpuMs: number | null;
  readonly gauges: OwnValues<number>;
}

/** An old worker, whose stage has a new one in its place, and which still runs a batch. Times are on the monotonic clock. */
export interface RetiredWorker {
  readonly pid: number | null;
  /** Time since which it runs its oldest batch. */
  readonly runsSince: number;
  /** Number of its batches that no caller has waited for for a second or longer. */
  readonly overdue: number;
}

/** The last death of a worker in service. */
export interface WorkerDeath {
  readonly worker: number;
  /** When, on the monotonic clock. */
  readonly at: number;
  /** The cause, for people. */
  readonly error: string;
}

/** How a stage follows its load with the number of its workers. */
export interface ScalingStatus {
  readonly min: number;
  readonly max: number;
  /** Number of workers that the stage should have now. */
  readonly wanted: number;
  /** Whether the stage has no worker because no request came, or its first one starts again. */
  readonly asleep: boolean;
  /** The last change of the number, for people, and when it was on the monotonic clock. Null: none yet. */
  readonly change: { readonly reason: string; readonly at: number } | null;
}

/** State of a stage's circuit. An open circuit refuses requests because workers keep dying; see engine/pools/circuit.ts. */
export type CircuitTag = 'closed' | 'open' | 'half-open';

export interface CircuitStatus {
  readonly circuit: CircuitTag;
  /** While the circuit is open: monotonic time at which the stage tries a worker again. Otherwise null. */
  readonly retryAt: number | null;
}

export interface CacheStatus {
  readonly entries: number;
  /** Size of the results and their keys. */
  readonly bytes: number;
}

/** The keys of a keyed stage. */
export interface KeysStatus {
  /** Number of keys that have items, or had some not long ago. */
  readonly open: number;
  /** How many keys have lost their state since the engine started, because their worker ended. */
  readonly lost: number;
}

export interface StageStatus extends CircuitStatus {
  readonly ref: number;
  /** The revision of the definition whose code serves; null while older code does. */
  readonly revision: string | null;
  readonly queue: number;
  readonly queueBytes: number;
  /** Monotonic time at which the oldest item of the queue arrived; null if the queue is empty. */
  readonly oldestAt: number | null;
  /** Monotonic time at which the batch that is filling leaves; null if no batch is filling. */
  readonly leavesAt: number | null;
  /** Number of batches that run; each worker runs up to `concurrency`. */
  readonly busy: number;
  readonly concurrency: number;
  readonly ready: number;
  readonly workers: readonly WorkerStatus[];
  /** Mean batch size in the last interval that had batches; 0 before the first batch. */
  readonly meanBatchSize: number;
  /** Monotonic time since which a worker runs the oldest batch that runs. Absent or null: none runs, or it is not known. */
  readonly runsSince?: number | null;
  /** Absent: the number of workers is fixed. */
  readonly scaling?: ScalingStatus;
  /** Absent: none. */
  readonly retired?: readonly RetiredWorker[];
  /** Absent or null: no worker of the present code has died in service. */
  readonly lastDeath?: WorkerDeath | null;
  /** Messages about pins that could not be applied; empty if all were applied. */
  readonly pinWarnings: readonly string[];
  /** Whether the stage has no serving worker because none starts. */
  readonly doesNotStart: boolean;
  /** Why changed code does not start while the old code keeps serving; null if there is no such problem. */
  readonly successorError: string | null;
  /** Results in the cache, including expired ones that no request has asked for since. */
  readonly cache: CacheStatus;
  /** Readings of the stage's meters since the engine started. */
  readonly reading: StageReading;
  /** Absent: batches are as they should be. */
  readonly batchWarning?: BatchWarning;
  /** See `ModeletDescription`. */
  readonly instead?: string;
  /** Absent: the policy of its batches is not `adaptive`. */
  readonly adaptive?: AdaptiveStatus;
  /** Absent if the stage has no keys. */
  readonly keys?: KeysStatus;
  /** Absent if the stage has no versions. */
  readonly versions?: readonly VersionStatus[];
}

/** How much a stage has to do: its queue, and what its workers hold. */
export interface StageLoad extends Pick<StageStatus, 'queue' | 'busy' | 'ready'> {
  /** Monotonic time of this observation. */
  readonly at: number;
}

/** Time limit for the examples of all stages of a runtime together, in ms. */
export const LONGEST_CHECK_MS = 5000;

/** The engine reports a change to its stages within this time, in ms. It reports nothing while nothing changes. */
export const STATUS_INTERVAL_MS = 250;

export interface EngineStatus {
  readonly stages: readonly StageStatus[];
  /** Number of requests whose branches are in progress, by the number of the node that gathers them; absent: none. */
  readonly gathering?: readonly (readonly [node: number, requests: number])[];
  readonly rssBytes: number;
  /** Bytes of all payloads, results that stages are expected to give and unread answers included; absent: not told. */
  readonly heldBytes?: number;
  /** Present if there was no room for more bytes in the last seconds. `refuses`: for requests; else only stages wait. */
  readonly heldBack?: { readonly limitBytes: number; readonly refuses: boolean } | undefined;
  /** Absent if the engine never had a listener. */
  readonly listener?: ListenerStatus;
}

/** The words of the runtime as plain data types: what crosses floors and processes. No behaviour. */
import type { ModeletError } from './errors.ts';
import type { StageReading } from './readings.ts';

/** Number of an open request, unique within one engine process client; carried in every frame. */
export type RequestNumber = number;

/** How a payload's bytes are to be read; see wire/codec.ts. The engine never looks. */
export interface Payload {
  readonly codec: number;
  readonly bytes: Uint8Array;
}

export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  /** `input`: the value that the failing stage was given, where it is not the one that the request began with. */
  | { readonly ok: false; readonly error: ModeletError; readonly input?: T };

/** What one stage cost one request. All durations in milliseconds. */
export interface StageTiming {
  /** Reference number of the stage, see `StageDefinition.ref`. */
  readonly stage: number;
  /** Waiting because no worker was free. */
  readonly waitMs: number;
  /** Waiting for the batch to fill while a worker was free. */
  readonly batchMs: number;
  /** Running the batch that held the request, measured in the worker. */
  readonly runMs: number;
  /** 0 where no run was made for the request. */
  readonly batchSize: number;
  /** Index of the worker within the stage's pool; -1 where no run was made for the request. */
  readonly worker: number;
  /** How the request had its answer without a run of its own: `waitMs` is all that it cost. Absent where it had one. */
  readonly cache?: SavedRun;
}

/** Why a request needs no run of its own: its answer is kept, or another's run is to bring it. */
export type SavedRun = 'hit' | 'joined';

export type BatchPolicy = 'greedy' | 'oldest' | 'gap';

export interface Batching {
  readonly policy: BatchPolicy;
  /** 1..10000 items. */
  readonly maxBatchSize: number;
  /** 0..60000; unused by `greedy`. */
  readonly maxWaitMs: number;
}

/** A stage without a batcher in front runs single items. */
export const SINGLE_ITEMS: Batching = { policy: 'greedy', maxBatchSize: 1, maxWaitMs: 0 };

/** A variable of inline code, and what an `import` would name for it: a module, without a version. */
export interface ModuleBinding {
  readonly var: string;
  readonly module: string;
}

export type StageSource =
  | {
      readonly kind: 'inline';
      readonly setup: string;
      readonly code: string;
      readonly teardown: string;
      readonly libs: readonly ModuleBinding[];
    }
  | { readonly kind: 'file'; readonly path: string }
  /** `module`: what an `import` would name, without a version. */
  | { readonly kind: 'module'; readonly module: string }
  /** `python`: the interpreter, a path or a name to be found in PATH; blank: see worker/sources/python.ts. */
  | { readonly kind: 'python'; readonly path: string; readonly python: string }
  | {
      readonly kind: 'onnx';
      readonly path: string;
      readonly options: OnnxOptions;
      /** The stage has no other worker: unpinned, it may use all cores. */
      readonly soleWorker: boolean;
    };

/** One input or output of an ONNX model. */
export interface ModelPort {
  readonly name: string;
  readonly type: string;
  /** A number is fixed; text is the name of a dimension that is not, '' if it has none. [] is a scalar, or unknown. */
  readonly shape: readonly (number | string)[];
}

/** How an ONNX model is run. */
export interface OnnxOptions {
  /** By name, or with settings of their own; the first that can run an operator does. */
  readonly executionProviders: readonly (string | { readonly name: string })[];
  /** Threads of one run; null: the cores that the worker is pinned to, else one if the stage has several workers. */
  readonly threads: number | null;
  /** Names of the classes, or the path of a JSON file that has them, relative to the model. */
  readonly labels: readonly string[] | string | null;
  /** Scores become probabilities. */
  readonly softmax: boolean;
  /** Outputs as `{data, dims, type}` instead of arrays. */
  readonly tensors: boolean;
  /** Whether the first dimension is the batch; null: as the model says it. */
  readonly batch: boolean | null;
  /** Inputs that work, see `Modelet.examples`. */
  readonly examples: readonly unknown[];
}

/** Cores one worker is pinned to; null: not pinned. */
export type Pin = readonly number[] | null;

export interface WorkerPlacement {
  readonly cpus: Pin;
  readonly env: Readonly<Record<string, string>>;
}

/** A JSON Schema as it was parsed. */
export type PayloadSchema = Readonly<Record<string, unknown>> | boolean;

/** All that a worker must know to run a stage's modelet. Changing any of it needs new workers. */
export interface ModeletDefinition {
  readonly source: StageSource;
  /** The JSON from the editor, given to the modelet's constructor or inline code as `init`. */
  readonly init: unknown;
  readonly predict: 'item' | 'batch';
  /** What inputs and results must look like; null: what the modelet itself says, else anything. */
  readonly inputSchema: PayloadSchema | null;
  readonly outputSchema: PayloadSchema | null;
  /** Folder from which modules are looked up, upwards; for Python the user directory. */
  readonly requireFrom: string;
  readonly startTimeoutMs: number;
  /** What each worker is. */
  readonly isolation: 'process' | 'thread';
  /** Largest JavaScript heap of a worker in MB; 0: as Node.js sets it. */
  readonly heapMb: number;
  readonly workers: readonly WorkerPlacement[];
}

/** What a modelet says of itself to whoever wants to call it, and its stage for it: texts of JSON, handed on unread. */
export interface ModeletDescription {
  /** JSON Schemas; null where it has none, or one that is larger than is told. */
  readonly inputSchema: string | null;
  readonly outputSchema: string | null;
  /** The first of its examples, as far as they are small and JSON. */
  readonly examples: readonly string[];
}

/** What a stage keeps of its results, to answer the same input again without a worker. */
export interface CacheSettings {
  /** Most results; 0: nothing is kept, and nothing is shared. */
  readonly entries: number;
  /** Most bytes of them all together. */
  readonly maxBytes: number;
  /** How long a result is good for; 0: no limit. */
  readonly ttlMs: number;
}

/** One stage as plain data: Node-RED's side writes it, the engine runs it. */
export interface StageDefinition {
  /** Id of the Node-RED node. */
  readonly id: string;
  /** Small number that stands for the stage in frames. */
  readonly ref: number;
  readonly name: string;
  /** Hash of `modelet`: a stage whose revision did not change keeps its workers. */
  readonly revision: string;
  readonly modelet: ModeletDefinition;
  readonly batching: Batching;
  /** Most items that wait in the stage's queue. */
  readonly capacity: number;
  /** What a full queue does with an item that is not patient. */
  readonly overflow: 'refuse' | 'drop-oldest';
  /** Items that have waited longer are dropped at dispatch; 0: no limit. */
  readonly maxAgeMs: number;
  /** Longest run of a batch; past it the worker is killed and its items fail with `deadline_exceeded`; 0: no limit. */
  readonly runTimeoutMs: number;
  /** Items of a worker that died run once more, one by one, so that only the one that killed it fails. */
  readonly retryLost: boolean;
  /** Memory of a worker in MB above which it is replaced by a warm one; 0: no limit. */
  readonly maxRssMb: number;
  /** Batches after which a worker is replaced by a warm one; 0: no limit. */
  readonly recycleAfter: number;
  /** When the modelet's file has been saved, new workers take over. */
  readonly watch: boolean;
  readonly cache: CacheSettings;
}

/** The compiled chain of stages that a request passes without leaving the engine. */
export interface Route {
  readonly ref: number;
  /** Stage refs in order; at least one. */
  readonly stages: readonly number[];
  /** Refs of those stages whose value is also wanted outside the route. */
  readonly taps: readonly number[];
}

/** Everything an engine needs to know; sent whole at each deploy. */
export interface EnginePlan {
  readonly stages: readonly StageDefinition[];
  readonly routes: readonly Route[];
  /** No longer planned, but requests that began on them may still come. Default: none. */
  readonly earlier?: readonly Route[];
}

/** What people can ask of a stage: let what waits leave at once, drop it, or give the stage new workers. */
export type StageAction = 'flush' | 'reset' | 'restart';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error';

export type LogValue = string | number | boolean | null | { readonly [name: string]: LogValue };

/** One line of the log. */
export interface LogRecord {
  readonly level: LogLevel;
  /** For people. May have text of a user's code in it, line breaks included. */
  readonly message: string;
  readonly stage?: string;
  readonly worker?: number;
  /** The same for programs: `pid`, `cause`, `code`, `requestId` and the like. */
  readonly fields?: Readonly<Record<string, LogValue>>;
}

/** What one worker takes of the machine. */
export interface WorkerUsage {
  /** Resident memory; of a thread, its heap and buffers. */
  readonly rssBytes: number;
  /** CPU time since it started; of a thread, the time that its event loop was busy. */
  readonly cpuMs: number;
}

export interface WorkerStatus {
  readonly index: number;
  readonly pid: number | null;
  readonly state: 'startup' | 'ready' | 'error' | 'shutdown' | 'dead';
  readonly cpus: readonly number[] | null;
  readonly busy: boolean;
  readonly restarts: number;
  readonly error: string | null;
  /** What it said last of itself, at most once a second, see `WorkerUsage`; null before it was ready. */
  readonly rssBytes: number | null;
  readonly cpuMs: number | null;
}

/** Whether workers that die again and again have made a stage refuse requests; see worker/circuit.ts. */
export type CircuitTag = 'closed' | 'open' | 'half-open';

export interface CircuitStatus {
  readonly circuit: CircuitTag;
  /** While it is open: when a worker is tried again, as a time of the monotonic clock. Null else. */
  readonly retryAt: number | null;
}

export interface CacheStatus {
  readonly entries: number;
  /** Of the results and their keys. */
  readonly bytes: number;
}

export interface StageStatus extends CircuitStatus {
  readonly ref: number;
  readonly queue: number;
  /** When the oldest of the queue came, as a time of the monotonic clock; null if none waits. */
  readonly oldestAt: number | null;
  /** When the batch that is filling leaves, the same; null if none fills. */
  readonly leavesAt: number | null;
  readonly busy: number;
  readonly ready: number;
  readonly workers: readonly WorkerStatus[];
  /** Mean size of the batches of the last interval with any; 0 before the first. */
  readonly meanBatchSize: number;
  /** Pins that could not be honoured, in words; empty if all were. */
  readonly pinWarnings: readonly string[];
  /** None of its workers serves, as none starts. */
  readonly doesNotStart: boolean;
  /** Why changed code does not start, while the old code goes on serving; null if there is no such trouble. */
  readonly successorError: string | null;
  /** Results that it keeps, those included whose time is up and that nobody has asked for since. */
  readonly cache: CacheStatus;
  /** What its meters have counted since the engine started. */
  readonly reading: StageReading;
}

export interface EngineStatus {
  readonly stages: readonly StageStatus[];
  readonly rssBytes: number;
}

/** Bodies of the control frames that carry more than a number or two. Interfaces only. */
import type { ModeletDefinition } from '../../config/stage-definition.ts';
import type {
  BrokerPlace,
  CheckResult,
  EngineStatus,
  ModeletDescription,
  PayloadSchema,
  WorkerUsage,
} from '../../core/model.ts';
import type { OwnValues } from '../../core/readings.ts';

export interface EngineBoot {
  readonly maxPayloadBytes: number;
  /** Most bytes of payloads in the engine. */
  readonly maxQueueBytes: number;
  /** Where the states of keys are kept from a stop to the next start; blank: nowhere. */
  readonly statesFolder: string;
  /** Cores that this process tree may use, read before Node-RED pinned itself. */
  readonly allowedCpus: readonly number[];
  readonly launcher: { readonly setpriv: boolean; readonly taskset: boolean };
  readonly strictPins: boolean;
  /** Limits of the requests that the engine takes at its own address, beside those of the plan. */
  readonly requests: {
    /** Most patient requests that wait; 0: no limit. */
    readonly mostWaiting: number;
    /** Why every request is refused; null: it is not. */
    readonly barred: string | null;
  };
}

/** The first frame of an engine. */
export interface EngineStart extends EngineBoot {
  /** Whether the engine has inherited two slot files, see wire/slots/slot-file.ts. */
  readonly sharesSlots: boolean;
}

/** The status of an engine, as the engine sends it. */
export interface StatusReport extends EngineStatus {
  /** Number of plans and actions that the engine has received. */
  readonly orders: number;
}

/** Settings for the process of a durable queue. */
export interface QueueBoot {
  readonly file: string;
  /** The server that has the queue instead of the file; null: none. */
  readonly broker: BrokerPlace | null;
  /** Session of the process that claims messages. Leases of any other session have no owner any more. */
  readonly session: string;
  readonly limits: { readonly capacity: number; readonly maxAttempts: number; readonly resultTtlMs: number };
}

export interface WorkerBoot {
  readonly stage: string;
  readonly worker: number;
  readonly cpus: readonly number[] | null;
  readonly maxPayloadBytes: number;
  /** Current maximum batch size, for the warm-up of the modelet. */
  readonly batchSize: number;
  readonly modelet: Omit<ModeletDefinition, 'workers'>;
}

/** What a worker needs that a template forks, and that a launched one inherits. */
export interface ForkOrder {
  /** Names the worker to the engine, and marks the processes that it starts. */
  readonly mark: string;
  /** Where it calls the engine. */
  readonly address: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Null: the platform has no pinning. */
  readonly cpus: readonly number[] | null;
}

/** A file that a worker has read, or looked for, to load its modelet: its stamp, see `stampOf`, is from before. */
export type TouchedFile = readonly [path: string, stamp: string];

/** Report of a worker about its modelet, sent before the worker is ready. */
export interface LoadedReport {
  /** The files that the worker has touched; absent: it does not tell. */
  readonly files?: readonly TouchedFile[];
  readonly examples: number;
  readonly description: ModeletDescription;
  /** Schema of the inputs if the worker leaves their check to the engine, as one in Python does. */
  readonly inputSchema?: PayloadSchema;
}

/** Changes of a modelet's own metrics since the worker's last report. */
export interface OwnChanges {
  /** Counters and histograms: what they have gained. */
  readonly counts: OwnValues;
  /** Gauges: their new values. */
  readonly gauges: OwnValues<number>;
  /** Number of updates that the worker dropped because its modelet has too many metrics or sets of label values. */
  readonly dropped: number;
  /** Name of the metric of the first dropped update; absent if none was dropped. */
  readonly droppedAt?: string;
}

export interface UsageReport extends WorkerUsage {
  /** Absent if nothing has changed. */
  readonly own?: OwnChanges;
}

/** The engine's report of how a stage's current modelet describes itself. Sent once, and again after each change. */
export interface DescribedStage {
  readonly stage: number;
  readonly description: ModeletDescription;
}

/** Report of a child about its own state. Only the parent sees `dead`. */
export interface StateReport {
  readonly state: 'startup' | 'ready' | 'error' | 'shutdown';
  /** With `startup`: the build of the child's code, which must be the same as the parent's. */
  readonly build?: string;
  /** With `startup`: whether large payloads may be in slots, see src/wire/slots. */
  readonly slots?: boolean;
  /** With `error`: the error, encoded by error-codec.ts, in Base64. */
  readonly error?: string;
  /** With `error`: whether the error occurred while the worker loaded its code, before `setup`. */
  readonly loading?: boolean;
  /** With `error`: the files that a worker had touched. */
  readonly files?: readonly TouchedFile[];
}

export interface CheckedStage extends Pick<CheckResult, 'examples'> {
  readonly stage: number;
  /** False: the stage is a version that gets no requests, so its failure does no harm. Default: true. */
  readonly answers?: boolean;
  /** The error, encoded by error-codec.ts, in Base64; null if all examples work. */
  readonly error: string | null;
}

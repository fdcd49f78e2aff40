/** What control frames carry, where that is more than a number or two. Interfaces only. */
import type { ModeletDefinition, ModeletDescription } from '../../core/model.ts';

export interface EngineBoot {
  readonly runtime: string;
  readonly maxPayloadBytes: number;
  /** Cores this process tree may use, as the machine granted them before Node-RED pinned itself. */
  readonly allowedCpus: readonly number[];
  readonly launcher: { readonly setpriv: boolean; readonly taskset: boolean };
  readonly strictPins: boolean;
}

/** What the process of a durable queue is to open. */
export interface QueueBoot {
  readonly file: string;
  /** Of the process that claims: leases of another session are nobody's any more. */
  readonly session: string;
  readonly limits: { readonly capacity: number; readonly maxAttempts: number; readonly resultTtlMs: number };
}

export interface WorkerBoot {
  readonly stage: string;
  readonly worker: number;
  readonly cpus: readonly number[] | null;
  readonly maxPayloadBytes: number;
  /** Most items of a batch, as of now: what the modelet is warmed up with. */
  readonly batchSize: number;
  readonly modelet: Omit<ModeletDefinition, 'workers'>;
}

/** What a worker says of its modelet, before it is ready. */
export interface LoadedReport {
  /** How many examples it has. */
  readonly examples: number;
  readonly description: ModeletDescription;
}

/** Of the engine: what the modelet says that serves a stage now. Sent once, and again when that changes. */
export interface DescribedStage {
  readonly stage: number;
  readonly description: ModeletDescription;
}

/** What a child says of its own state; only the parent sees `dead`. */
export interface StateReport {
  readonly state: 'startup' | 'ready' | 'error' | 'shutdown';
  /** With `startup`: the build of its code, which must be its parent's. */
  readonly build?: string;
  /** With `error`: encoded as by error-codec.ts, base64. */
  readonly error?: string;
  /** With `error`: it came while the worker loaded its code, before `setup`. */
  readonly loading?: boolean;
}

/** What came of running the examples of one stage. */
export interface CheckedStage {
  readonly stage: number;
  /** How many ran, a failing one included. */
  readonly examples: number;
  /** Encoded as by error-codec.ts, base64; null where they work. */
  readonly error: string | null;
}

/** The view for people: everything a runtime knows of itself, as JSON. */
import type { CircuitTag, EnginePlan, EngineStatus, StageStatus, WorkerStatus } from '../core/model.ts';
import type { StageReading } from '../core/readings.ts';
import type { SlowRequest } from './breakdown.ts';
import type { StageTotals } from './totals.ts';

/** By type of frame. */
export type FrameCounts = Record<string, { readonly frames: number; readonly items: number }>;

/** Over the channel between this process and the engine. */
export interface ByteCounts {
  readonly sent: number;
  readonly received: number;
}

export interface EngineDeaths {
  readonly serving: number;
  readonly starting: number;
}

export interface StageSnapshot {
  readonly id: string;
  readonly name: string;
  readonly queue: number;
  readonly capacity: number;
  readonly busy: number;
  readonly ready: number;
  readonly workers: readonly WorkerStatus[];
  /** Batches and items that have gone to workers. */
  readonly batches: number;
  readonly items: number;
  readonly meanBatchSize: number;
  readonly batching: { readonly policy: string; readonly maxBatchSize: number; readonly maxWaitMs: number };
  readonly pinWarnings: readonly string[];
  readonly successorError: string | null;
  /** Open: its workers died again and again, requests are refused. Half-open: one worker is being tried. */
  readonly circuit: CircuitTag;
  /** While the circuit is open: milliseconds until a worker is tried again. Null else. */
  readonly retryInMs: number | null;
  /** What its meters have counted, under all engines that this runtime has had. */
  readonly reading: StageReading;
}

export interface RuntimeSnapshot {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly engine: {
    readonly pid: number | null;
    readonly state: string;
    readonly restarts: number;
    readonly error: string | null;
    readonly rssBytes: number;
    /** Engines that ended: in service, or before they were ready. */
    readonly deaths: EngineDeaths;
  };
  readonly backlog: number;
  readonly capacity: number;
  /** By outcome: `ok` or the error code. Every code is there from the start. */
  readonly requests: Readonly<Record<string, number>>;
  readonly lateOutcomes: number;
  /** What went between this process and the engine. */
  readonly frames: { readonly sent: Readonly<FrameCounts>; readonly received: Readonly<FrameCounts> };
  readonly bytes: ByteCounts;
  /** Deploys, and the requests that were open while one replaced the nodes. */
  readonly deploys: { readonly count: number; readonly handedOver: number };
  readonly stages: readonly StageSnapshot[];
  readonly routes: readonly { readonly stages: readonly string[] }[];
  /** The slowest requests of the last five minutes, at most twenty, the slowest first. */
  readonly slowest: readonly SlowRequest[];
  readonly allowedCpus: readonly number[];
  readonly pinWarnings: readonly string[];
}

interface Parts {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly engine: {
    readonly pid: number | null;
    readonly state: string;
    readonly restarts: number;
    readonly lastError: Error | null;
    readonly deaths: EngineDeaths;
    readonly frames: { readonly sent: FrameCounts; readonly received: FrameCounts };
    readonly bytes: ByteCounts;
  };
  readonly ledger: {
    readonly backlog: number;
    readonly capacity: number;
    readonly counts: { readonly ok: number; readonly errors: Readonly<Record<string, number>>; readonly late: number };
  };
  readonly plan: EnginePlan;
  readonly status: EngineStatus;
  /** Of the monotonic clock. */
  readonly now: number;
  readonly totals: StageTotals;
  readonly deploys: { readonly count: number; readonly handedOver: number };
  readonly slowest: readonly SlowRequest[];
  readonly allowedCpus: readonly number[];
  readonly pinWarnings: readonly string[];
}

/** A stage of which the engine has not told yet. */
const NOT_RUNNING: Omit<StageStatus, 'ref' | 'reading'> = {
  queue: 0,
  busy: 0,
  ready: 0,
  workers: [],
  meanBatchSize: 0,
  pinWarnings: [],
  successorError: null,
  circuit: 'closed',
  retryAt: null,
};

export function buildSnapshot(parts: Parts): RuntimeSnapshot {
  const { engine, ledger, plan, status, totals, deploys, now } = parts;
  const byRef = new Map(status.stages.map((stage) => [stage.ref, stage]));
  const names = new Map(plan.stages.map((stage) => [stage.ref, stage.name]));
  return {
    id: parts.id,
    name: parts.name,
    state: parts.state,
    engine: {
      pid: engine.pid,
      state: engine.state,
      restarts: engine.restarts,
      error: engine.lastError?.message ?? null,
      rssBytes: status.rssBytes,
      deaths: engine.deaths,
    },
    backlog: ledger.backlog,
    capacity: ledger.capacity,
    requests: { ok: ledger.counts.ok, ...ledger.counts.errors },
    lateOutcomes: ledger.counts.late,
    frames: engine.frames,
    bytes: engine.bytes,
    deploys,
    stages: plan.stages.map(({ id, ref, name, capacity, batching }) => {
      const reading = totals.of(ref);
      const { retryAt, ...shown } = byRef.get(ref) ?? NOT_RUNNING;
      return {
        ...shown,
        retryInMs: retryAt === null ? null : Math.max(0, retryAt - now),
        id,
        name,
        capacity,
        batching,
        batches: reading.batches,
        items: reading.items,
        reading,
      };
    }),
    routes: plan.routes.map((route) => ({ stages: route.stages.map((ref) => names.get(ref) ?? String(ref)) })),
    slowest: parts.slowest,
    allowedCpus: parts.allowedCpus,
    pinWarnings: parts.pinWarnings,
  };
}

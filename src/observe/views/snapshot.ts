/** The snapshot of a runtime: its whole state as JSON, for people. */
import type { ListenerState } from '../../core/endpoints.ts';
import type {
  AdaptiveStatus,
  Batching,
  EngineStatus,
  KeysStatus,
  RetiredWorker,
  ScalingStatus,
  StageStatus,
  WorkerDeath,
} from '../../core/model.ts';
import type { ClientReadings, FailureCount, StageReading } from '../../core/readings.ts';
import { legOf, type Route, stepsOf } from '../../core/routes/route.ts';
import type { VersionStatus } from '../../core/versions.ts';
import type { SlowRequest } from '../meters/request-meters.ts';
import type { StageReadings } from '../meters/stage-meter.ts';
import { type StageFacts, whyWaiting } from './why.ts';

/** Frames and items, by type of frame. */
export type FrameCounts = Record<string, { readonly frames: number; readonly items: number }>;

/** Bytes over the channel between this process and the engine. */
export interface ByteCounts {
  readonly sent: number;
  readonly received: number;
}

export interface EngineDeaths {
  readonly serving: number;
  readonly starting: number;
}

/** The settings of a stage that the snapshot shows. */
interface ShownStage {
  readonly ref: number;
  readonly revision: string;
  readonly id: string;
  readonly name: string;
  readonly capacity: number;
  readonly queueMb: number;
  readonly batching: Batching;
}

/** The plan of an engine, as far as the snapshot shows it. */
interface ShownPlan {
  readonly stages: readonly ShownStage[];
  readonly routes: readonly Pick<Route, 'stages' | 'leg'>[];
}

/** A stage's settings and its status, with times that are good for people instead of those on the monotonic clock. */
export interface StageSnapshot
  extends Omit<ShownStage, 'ref' | 'revision'>,
    Omit<
      StageStatus,
      | 'ref'
      | 'revision'
      | 'oldestAt'
      | 'leavesAt'
      | 'retryAt'
      | 'versions'
      | 'keys'
      | 'runsSince'
      | 'retired'
      | 'lastDeath'
      | 'scaling'
      | 'adaptive'
    >,
    Pick<StageFacts, 'oldestMs' | 'leavesInMs' | 'retryInMs'> {
  /** Whether the code that was deployed last does not serve yet: older code may. */
  readonly renewing: boolean;
  /** One sentence that tells why requests wait here now; null if nothing holds them. */
  readonly why: string | null;
  /** Number of batches sent to workers; `items` is the number of their items. */
  readonly batches: number;
  readonly items: number;
  /** How the number of workers follows the load; null if it is fixed. */
  readonly scaling: ScalingSnapshot | null;
  /** What the policy `adaptive` has chosen; null under another one. */
  readonly adaptive: AdaptiveStatus | null;
  /** Null if the stage has no keys. */
  readonly keys: KeysStatus | null;
  /** Its versions, with their names; empty if it has none. */
  readonly versions: readonly VersionSnapshot[];
  /** How long a worker has run the oldest batch that runs; null if none runs. */
  readonly runsMs: number | null;
  /** Old workers that still run a batch. */
  readonly retired: readonly RetiredSnapshot[];
  /** The last death of a worker of the present code in service; null if none died. */
  readonly lastDeath: DeathSnapshot | null;
  /** Totals of the stage's meters, over all engines that this runtime has had. */
  readonly reading: StageReading;
}

export type RetiredSnapshot = Omit<RetiredWorker, 'runsSince'> & { readonly runsMs: number };

/** The time of the last change is how long ago it was. */
export type ScalingSnapshot = Omit<ScalingStatus, 'change'> & {
  readonly change: { readonly reason: string; readonly agoMs: number } | null;
};

/** `read`: a user has read of it. */
export type DeathSnapshot = Omit<WorkerDeath, 'at'> & { readonly agoMs: number; readonly read: boolean };

export type FailureSnapshot = Omit<FailureCount, 'at' | 'isLast'> & { readonly agoMs: number };

export interface VersionSnapshot extends VersionStatus {
  readonly name: string;
}

export interface RouteSnapshot {
  /** Names of the stages, in order. */
  readonly stages: readonly string[];
  /** Whether each stage has a worker that serves. Requests to a stage without one wait. */
  readonly ready: boolean;
  /** Names of the stages that have no worker to serve. */
  readonly missing: readonly string[];
}

export interface RuntimeSnapshot {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  /** Why every request is refused, with strict pins; otherwise null. */
  readonly refuses: string | null;
  readonly engine: {
    readonly pid: number | null;
    readonly state: string;
    readonly restarts: number;
    readonly error: string | null;
    readonly rssBytes: number;
    /** Bytes of payloads in the engine, see `maxQueueMb`. */
    readonly heldBytes: number;
    /** Present if there was no room for more in the last seconds. */
    readonly heldBack: NonNullable<EngineStatus['heldBack']> | null;
    /** Number of engines that died: in service, and before they were ready. */
    readonly deaths: EngineDeaths;
  };
  /** The address at which the engine itself takes requests; null if it takes none. */
  readonly listener: ListenerSnapshot | null;
  readonly backlog: number;
  readonly capacity: number;
  /** Number of requests by outcome: `ok` or the error code. Every code is present from the start. */
  readonly requests: Readonly<Record<string, number>>;
  readonly lateOutcomes: number;
  /** Requests of clients with keys. */
  readonly clients: ClientReadings;
  /** Frames between this process and the engine. */
  readonly frames: { readonly sent: Readonly<FrameCounts>; readonly received: Readonly<FrameCounts> };
  readonly bytes: ByteCounts;
  /** Number of deploys, and of requests that were open while a deploy replaced the nodes. */
  readonly deploys: { readonly count: number; readonly handedOver: number };
  readonly stages: readonly StageSnapshot[];
  readonly routes: readonly RouteSnapshot[];
  /** The failures that no user has read, by stage and code, the latest first. */
  readonly failures: readonly FailureSnapshot[];
  /** The failures that a user has read, and that still are the last answer of an endpoint. */
  readonly lasting: readonly FailureSnapshot[];
  /** The slowest requests of the last five minutes, at most twenty, the slowest first. */
  readonly slowest: readonly SlowRequest[];
  readonly allowedCpus: readonly number[];
  readonly pinWarnings: readonly string[];
}

/** `address`: as the runtime node has it. */
export type ListenerSnapshot = ListenerState & { readonly address: string };

/** The parts that the snapshot shows as they are. */
type ShownRuntime = Omit<RuntimeSnapshot, 'engine' | 'frames' | 'bytes' | 'stages' | 'routes' | 'failures' | 'lasting'>;

/** The sources of the snapshot. Times are on the monotonic clock. */
interface RuntimeParts {
  readonly engine: Pick<RuntimeSnapshot['engine'], 'pid' | 'state' | 'restarts' | 'deaths'> &
    Pick<RuntimeSnapshot, 'frames' | 'bytes'> & { readonly lastError: Error | null };
  readonly plan: ShownPlan;
  readonly status: EngineStatus;
  readonly now: number;
  readonly totals: StageReadings;
  readonly failures: readonly FailureCount[];
  readonly lasting: readonly FailureCount[];
  /** When a user read of failures last. */
  readonly readAt: number;
}

/** The status of a stage that the engine has not reported yet. */
export const NOT_RUNNING: Omit<StageStatus, 'ref' | 'reading'> = {
  revision: null,
  queue: 0,
  queueBytes: 0,
  oldestAt: null,
  leavesAt: null,
  busy: 0,
  concurrency: 1,
  ready: 0,
  workers: [],
  meanBatchSize: 0,
  pinWarnings: [],
  doesNotStart: false,
  successorError: null,
  cache: { entries: 0, bytes: 0 },
  circuit: 'closed',
  retryAt: null,
};

export function buildSnapshot(shown: ShownRuntime, parts: RuntimeParts): RuntimeSnapshot {
  const { engine, plan, status, failures, lasting, now } = parts;
  const { pid, state, restarts, lastError, deaths, frames, bytes } = engine;
  const { rssBytes, heldBytes = 0, heldBack = null } = status;
  return {
    ...shown,
    engine: { pid, state, restarts, error: lastError?.message ?? null, rssBytes, heldBytes, heldBack, deaths },
    ...{ frames, bytes },
    stages: explained(
      plan.stages.map((stage) => stageSnapshot(stage, parts)),
      parts,
    ),
    routes: routeSnapshots(parts),
    failures: failures.map((failure) => failureSnapshot(failure, now)),
    lasting: lasting.map((failure) => failureSnapshot(failure, now)),
  };
}

type Unexplained = Omit<StageSnapshot, 'why'>;

function stageSnapshot(settings: ShownStage, parts: RuntimeParts): Unexplained {
  const { plan, status, totals, now } = parts;
  const { ref, revision, id, name, capacity, queueMb, batching } = settings;
  const reported = status.stages.find((stage) => stage.ref === ref) ?? NOT_RUNNING;
  const { revision: serves, oldestAt, leavesAt, retryAt, versions = [], keys = null, ...unread } = reported;
  const { runsSince = null, retired = [], lastDeath = null, scaling = null, adaptive = null, ...shown } = unread;
  const since = (at: number): number => Math.max(0, now - at);
  const names = new Map(plan.stages.map((stage) => [stage.id, stage.name]));
  const reading = totals.of(ref);
  return {
    ...shown,
    ...{ id, name, capacity, queueMb, batching },
    renewing: serves !== revision,
    oldestMs: oldestAt === null ? null : since(oldestAt),
    leavesInMs: leavesAt === null ? null : Math.max(0, leavesAt - now),
    retryInMs: retryAt === null ? null : Math.max(0, retryAt - now),
    scaling: scaling && scalingSnapshot(scaling, now),
    adaptive,
    keys,
    versions: versions.map((version) => ({ ...version, name: names.get(version.stage) ?? version.stage })),
    runsMs: runsSince === null ? null : since(runsSince),
    retired: retired.map(({ runsSince: at, ...worker }) => ({ ...worker, runsMs: since(at) })),
    lastDeath: lastDeath && deathSnapshot(lastDeath, parts),
    batches: reading.batches,
    items: reading.items,
    reading,
  };
}

function scalingSnapshot({ change, ...scaling }: ScalingStatus, now: number): ScalingSnapshot {
  return { ...scaling, change: change && { reason: change.reason, agoMs: Math.max(0, now - change.at) } };
}

function deathSnapshot({ at, ...death }: WorkerDeath, { now, readAt }: RuntimeParts): DeathSnapshot {
  return { ...death, agoMs: Math.max(0, now - at), read: at <= readAt };
}

function failureSnapshot({ at, isLast: _isLast, ...failure }: FailureCount, now: number): FailureSnapshot {
  return { ...failure, agoMs: Math.max(0, now - at) };
}

function routeSnapshots({ engine, plan, status }: RuntimeParts): RouteSnapshot[] {
  const names = new Map(plan.stages.map((stage) => [stage.ref, stage.name]));
  const serving = new Set(
    status.stages.flatMap(({ ref, ready, circuit, scaling }) =>
      (ready > 0 || scaling?.asleep) && circuit === 'closed' ? [ref] : [],
    ),
  );
  const nameOf = (ref: number): string => names.get(ref) ?? String(ref);
  return plan.routes.map(({ stages }) => {
    const missing = stages.filter((ref) => engine.state !== 'ready' || !serving.has(ref));
    return { stages: stages.map(nameOf), ready: missing.length === 0, missing: missing.map(nameOf) };
  });
}

/** Adds the reasons why requests wait. Needs all stages, since a stage may wait for the next one. */
function explained(stages: readonly Unexplained[], { engine, plan }: RuntimeParts): StageSnapshot[] {
  const byRef = new Map(plan.stages.map(({ ref }, index) => [ref, stages[index] as Unexplained]));
  const engineView = { state: engine.state, error: engine.lastError?.message ?? null };
  const steps = plan.routes.flatMap((route) => stepsOf(legOf(route)));
  return plan.stages.map(({ ref }, index) => {
    const next = steps.flatMap(([from, to]) => (from === ref ? (byRef.get(to) ?? []) : []));
    const stage = stages[index] as Unexplained;
    return { ...stage, why: whyWaiting(stage, engineView, next) };
  });
}

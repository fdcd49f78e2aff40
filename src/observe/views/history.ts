/**
 * The last minutes of a runtime for its dashboard: a point every few seconds, and the marks of deploys and deaths. The
 * number of points and marks is fixed, and each point has only the stages and gates that still exist.
 */
import type { FailureCount } from '../../core/readings.ts';
import { failureKey } from '../meters/failed-requests.ts';
import { NOTHING_READ } from '../meters/stage-meter.ts';
import type { GateSnapshot } from './gate-snapshot.ts';
import { type Measurement, type RequestInterval, readingSince, requestsBetween, rounded } from './interval.ts';
import type { DeathSnapshot, StageSnapshot } from './snapshot.ts';

/** Time from one point to the next. */
export const STEP_MS = 2000;
/** Time that rates, quantiles and shares of a point cover. With less, they would flicker. */
export const COVERED_MS = 10_000;
/** Ten minutes. */
export const MOST_POINTS = 300;
export const MOST_MARKS = 100;

/** Requests that failed since the point before; without a stage if none caused it. */
export type FailedRequestsOfPoint = Pick<FailureCount, 'stage' | 'code' | 'count'> & {
  /** The message of the last failed request; null if none was kept. */
  readonly message: string | null;
};

export interface HistoryPoint
  extends Pick<RequestInterval, 'requestsPerSecond' | 'errorsPerSecond' | 'p50' | 'p95' | 'p99'> {
  /** In ms since 1970. */
  readonly time: number;
  readonly backlog: number;
  /** By id: the items that wait, and the share of time in which workers ran, null without a worker. */
  readonly stages: Readonly<Record<string, { readonly queue: number; readonly used: number | null }>>;
  /** By id. */
  readonly gates: Readonly<Record<string, Pick<GateSnapshot, 'budget' | 'inFlight' | 'waiting'>>>;
  readonly failed: readonly FailedRequestsOfPoint[];
}

/** `death`: of workers of a stage; `engine`: of the engine. */
export interface HistoryMark {
  readonly time: number;
  readonly kind: 'deploy' | 'death' | 'engine';
  readonly stage: string | null;
  readonly count: number;
  /** Why the last of them died, for people. */
  readonly error: string | null;
}

/** A stage keeps its colour, the lowest that no other had, for as long as it exists. */
export interface ColouredStage {
  readonly id: string;
  readonly name: string;
  readonly colour: number;
}

/** Points and marks that a look has added. */
export interface Added {
  readonly points: readonly HistoryPoint[];
  readonly marks: readonly HistoryMark[];
}

export class RuntimeHistory implements Added {
  #looks: Measurement[] = [];
  #points: HistoryPoint[] = [];
  #marks: HistoryMark[] = [];
  #stages: ColouredStage[] = [];

  get points(): readonly HistoryPoint[] {
    return this.#points;
  }

  get marks(): readonly HistoryMark[] {
    return this.#marks;
  }

  get stages(): readonly ColouredStage[] {
    return this.#stages;
  }

  /** The earliest look that the present point covers; null before the first. */
  get earliest(): Measurement | null {
    return this.#looks[0] ?? null;
  }

  /** A deploy has replaced the runtime, which counts from 0: its next look has nothing before it. */
  replaced(time: number): HistoryMark {
    this.#looks = [];
    return this.#mark(deployAt(time));
  }

  /** @param time of the look, in ms since 1970 */
  note(look: Measurement, gates: readonly GateSnapshot[], time: number): Added {
    this.#keepOnly(look.snapshot.stages, gates);
    const before = this.#looks.at(-1);
    this.#looks = [...this.#looks.filter(({ at }) => look.at - at <= COVERED_MS), look];
    if (!before) return { points: [], marks: [] };
    const point = pointOf(this.earliest ?? before, before, look, gates, time);
    this.#points = [...this.#points, point].slice(-MOST_POINTS);
    const marks = marksBetween(before, look, time).map((mark) => this.#mark(mark));
    return { points: [point], marks };
  }

  #mark(mark: HistoryMark): HistoryMark {
    const oldest = mark.time - MOST_POINTS * STEP_MS;
    this.#marks = [...this.#marks.filter(({ time }) => time >= oldest), mark].slice(-MOST_MARKS);
    return mark;
  }

  /** Forgets the series of stages and gates that a deploy has removed. */
  #keepOnly(stages: readonly StageSnapshot[], gates: readonly GateSnapshot[]): void {
    const colours = new Map(this.#stages.map(({ id, colour }) => [id, colour]));
    const kept = new Set(stages.flatMap(({ id }) => colours.get(id) ?? []));
    const lowest = (): number => {
      let free = 0;
      while (kept.has(free)) free += 1;
      kept.add(free);
      return free;
    };
    this.#stages = stages.map(({ id, name }) => ({ id, name, colour: colours.get(id) ?? lowest() }));
    const stageIds = new Set(stages.map(({ id }) => id));
    const gateIds = new Set(gates.map(({ id }) => id));
    this.#points = this.#points.map((point) => ({
      ...point,
      stages: only(point.stages, stageIds),
      gates: only(point.gates, gateIds),
    }));
  }
}

function only<Value>(values: Readonly<Record<string, Value>>, ids: ReadonlySet<string>): Record<string, Value> {
  return Object.fromEntries(Object.entries(values).filter(([id]) => ids.has(id)));
}

/** @param earliest the first look of the time that the point covers; `before`: the look of the point before */
function pointOf(
  earliest: Measurement,
  before: Measurement,
  look: Measurement,
  gates: readonly GateSnapshot[],
  time: number,
): HistoryPoint {
  const { requestsPerSecond, errorsPerSecond, p50, p95, p99 } = requestsBetween(earliest, look);
  const known = new Map(earliest.snapshot.stages.map((stage) => [stage.id, stage]));
  const ms = look.at - earliest.at;
  return {
    ...{ time, requestsPerSecond, errorsPerSecond, p50, p95, p99, backlog: look.snapshot.backlog },
    stages: Object.fromEntries(
      look.snapshot.stages.map((stage) => [
        stage.id,
        { queue: stage.queue, used: usedPart(known.get(stage.id), stage, ms) },
      ]),
    ),
    gates: Object.fromEntries(
      gates.map(({ id, budget, inFlight, waiting }) => [id, { budget: rounded(budget) ?? 0, inFlight, waiting }]),
    ),
    failed: failedBetween(before, look),
  };
}

/** Returns the share of time in which the stage's workers ran batches; null if none serves. */
function usedPart(earlier: StageSnapshot | undefined, later: StageSnapshot, ms: number): number | null {
  const places = later.ready * later.concurrency;
  if (places === 0) return null;
  const { busyMs } = readingSince(earlier?.reading ?? NOTHING_READ, later.reading);
  // A run counts when it ends. A longer run shows by the worker that is busy with it.
  const running = (later.runsMs ?? 0) >= ms ? later.busy / places : 0;
  return rounded(Math.min(1, Math.max(busyMs / (ms * places), running)));
}

function failedBetween(earlier: Measurement, later: Measurement): FailedRequestsOfPoint[] {
  const before = new Map(earlier.failed.map((failure) => [failureKey(failure), failure.count]));
  const told = later.failed
    .map((failure) => ({ ...failure, count: failure.count - (before.get(failureKey(failure)) ?? 0) }))
    .filter(({ count }) => count > 0)
    .map(({ stage, code, message, count }) => ({ stage, code, message, count }));
  // An outcome that is no fault, such as `cancelled`, has no message.
  const untold = Object.entries(later.snapshot.requests).flatMap(([code, total]) => {
    const ofCode = told.reduce((sum, failure) => sum + (failure.code === code ? failure.count : 0), 0);
    const count = total - (earlier.snapshot.requests[code] ?? 0) - ofCode;
    return code === 'ok' || count <= 0
      ? []
      : [{ stage: null, code: code as FailureCount['code'], message: null, count }];
  });
  return [...told, ...untold];
}

/** Causes of restarts that no user asked for. A worker that did not start did not die: the table of workers says why. */
const DEATHS = ['died', 'run_timeout'] as const;

/** A look reads the clock once for itself and once for what it sees. */
const SAME_DEATH_MS = 100;

/** Returns the time of a death that a look has seen, by the clock of the look. */
function diedAt({ at }: Measurement, death: DeathSnapshot | null): number {
  return death ? at - death.agoMs : Number.NEGATIVE_INFINITY;
}

function deployAt(time: number): HistoryMark {
  return { time, kind: 'deploy', stage: null, count: 1, error: null };
}

function marksBetween(earlier: Measurement, later: Measurement, time: number): HistoryMark[] {
  const [before, now] = [earlier.snapshot, later.snapshot];
  const known = new Map(before.stages.map((stage) => [stage.id, stage]));
  const isDeploy = now.deploys.count !== before.deploys.count;
  const engines = now.engine.deaths.serving + now.engine.deaths.starting;
  const lost = engines - before.engine.deaths.serving - before.engine.deaths.starting;
  const engine: HistoryMark = { time, kind: 'engine', stage: null, count: lost, error: now.engine.error };
  const workers = now.stages.flatMap(({ id, name, reading, lastDeath }): HistoryMark[] => {
    const stage = known.get(id);
    const { restarts } = readingSince(stage?.reading ?? NOTHING_READ, reading);
    const count = DEATHS.reduce((sum, cause) => sum + restarts[cause], 0);
    // Workers of older code are counted as well, and their causes are not kept.
    const isKnown = diedAt(later, lastDeath) - diedAt(earlier, stage?.lastDeath ?? null) < SAME_DEATH_MS;
    const error = lastDeath && !isKnown ? lastDeath.error : null;
    return count > 0 ? [{ time, kind: 'death', stage: name, count, error }] : [];
  });
  return [...(isDeploy ? [deployAt(time)] : []), ...(lost > 0 ? [engine] : []), ...workers];
}

/** Explains in a plain sentence why requests wait at a stage now, and why a route ends where it does. Pure. */
import { duration } from '../../core/figures.ts';
import {
  type Batching,
  BYTES_PER_MB,
  type ScalingStatus,
  type StageStatus,
  type WorkerStatus,
} from '../../core/model.ts';
import type { Leg } from '../../core/routes/route.ts';

/** The part of a stage's snapshot that the sentence needs. */
export interface StageFacts
  extends Pick<StageStatus, 'queue' | 'queueBytes' | 'busy' | 'concurrency' | 'ready' | 'circuit' | 'doesNotStart'> {
  readonly name: string;
  readonly capacity: number;
  /** Most MB in the queue; 0: no limit. */
  readonly queueMb: number;
  readonly workers: readonly (Pick<WorkerStatus, 'index' | 'error' | 'overdue' | 'starting'> & {
    readonly state: string;
  })[];
  readonly batching: Pick<Batching, 'maxBatchSize'>;
  /** Null or absent: the number of workers is fixed. */
  readonly scaling?: Pick<ScalingStatus, 'wanted'> | null;
  /** Wait of the oldest item in the queue, in ms; null if none waits. */
  readonly oldestMs: number | null;
  /** Time until the filling batch leaves, in ms; null if none fills. */
  readonly leavesInMs: number | null;
  /** Time until a worker is tried again, in ms; null unless the circuit is open. */
  readonly retryInMs: number | null;
}

export interface EngineView {
  readonly state: string;
  readonly error: string | null;
}

/**
 * Returns the reason why requests wait, or null if nothing keeps them from going on.
 *
 * @param next the stages that follow this one on its routes
 */
export function whyWaiting(stage: StageFacts, engine: EngineView, next: readonly StageFacts[]): string | null {
  if (stage.circuit !== 'closed') return whyRefused(stage);
  if (stage.scaling?.wanted === 0 && engine.state === 'ready') return 'the next request starts a worker';
  if (stage.ready === 0) return whyNotReady(stage, engine);
  if (stage.queue === 0) return null;
  if (stage.busy >= stage.ready * stage.concurrency) return `${busyWorkers(stage)}${alone(stage)}: ${waiting(stage)}`;
  if (stage.leavesInMs !== null) {
    return `waiting for a batch: ${stage.queue} of ${stage.batching.maxBatchSize}, ${duration(Math.round(stage.leavesInMs))} left`;
  }
  const full = next.find((other) => limitReached(other) !== null);
  return full ? `held back: the queue of stage ${full.name} is full (${limitReached(full)})` : null;
}

function limitReached({ queue, capacity, queueBytes, queueMb }: StageFacts): string | null {
  if (queue >= capacity) return String(capacity);
  return queueMb > 0 && queueBytes >= queueMb * BYTES_PER_MB ? `${queueMb} MB` : null;
}

/** @returns the number of batches that workers run although no caller waits for them any more */
export function overdueOf(workers: readonly { readonly overdue?: number }[]): number {
  return workers.reduce((sum, { overdue = 0 }) => sum + overdue, 0);
}

/** Writes the way of a route in a line: `a → (b | c → d) → gather → e`; behind a switch node `a → one of (b | c)`. */
export function writeLeg<Id>({ stages, next }: Leg<Id>, nameOf: (id: Id) => string, arrow = ' \u2192 '): string {
  return [...stages.map(nameOf), ...(next ? writeNext(next, nameOf, arrow) : [])].join(arrow);
}

function writeNext<Id>(next: NonNullable<Leg<Id>['next']>, nameOf: (id: Id) => string, arrow: string): string[] {
  const beside = (legs: readonly Leg<Id>[]): string =>
    `(${legs.map((leg) => writeLeg(leg, nameOf, arrow) || '-').join(' | ')})`;
  if (next.kind === 'choice') return [`one of ${beside(next.ways)}`];
  const after = writeLeg(next.after, nameOf, arrow);
  const branches = next.terms.list ? `each ${beside(next.branches)}` : beside(next.branches);
  return [branches, nameOf(next.gather), ...(after === '' ? [] : [after])];
}

/** @param unfused whether another stage follows that the route could have included */
export function whyRouteEnds({ end, unfused }: { readonly end: string; readonly unfused: boolean }): string {
  return unfused ? `not fused: ${end}` : `ends there: ${end}`;
}

function whyRefused({ circuit, retryInMs, workers, doesNotStart }: StageFacts): string {
  const last = workers.find(({ error }) => error !== null);
  const what = doesNotStart ? 'does not start' : 'workers die again and again';
  const next = circuit === 'half-open' ? 'one worker is being tried' : `next try in ${duration(retryInMs ?? 0)}`;
  return `${what}${because(last?.error ?? null)}; ${next}`;
}

function whyNotReady({ workers }: StageFacts, engine: EngineView): string {
  if (engine.state === 'startup') return 'starting: the engine loads';
  if (engine.state !== 'ready') return `the engine does not run${because(engine.error)}`;
  const loading = workers.filter(({ state }) => state === 'startup');
  const [first] = loading;
  if (first && loading.length === 1) return `starting: worker ${first.index} loads${soFar(first)}`;
  if (loading.length > 1) return `starting: workers ${listed(loading.map(({ index }) => index))} load`;
  const failed = workers.find(({ error }) => error !== null);
  return failed ? `does not start${because(failed.error)}` : 'no worker is ready';
}

function soFar({ starting }: Pick<WorkerStatus, 'starting'>): string {
  if (!starting) return '';
  const progress = starting.progress === null ? '' : `: ${starting.progress}`;
  return starting.ms < 1000 ? progress : `${progress}, for ${duration(starting.ms)}`;
}

function alone({ workers }: StageFacts): string {
  const overdue = overdueOf(workers);
  return overdue === 0 ? '' : `, ${overdue} with a batch that no caller waits for any more`;
}

function busyWorkers({ ready, workers, concurrency }: StageFacts): string {
  if (concurrency > 1) return `all ${ready * concurrency} places busy`;
  if (ready === workers.length) return ready === 1 ? 'the worker is busy' : `${ready} of ${ready} workers busy`;
  return `${ready} of ${workers.length} workers ready, and busy`;
}

function waiting({ queue, oldestMs }: StageFacts): string {
  if (oldestMs === null) return `${queue} wait`;
  return queue === 1 ? `1 waits, for ${duration(oldestMs)}` : `${queue} wait, the first for ${duration(oldestMs)}`;
}

function because(error: string | null): string {
  return error === null ? '' : `: ${error.split('\n', 1)[0]}`;
}

/** Formats numbers as `0, 1 and 2`; names only the first three if there are more than four. */
function listed(numbers: readonly number[]): string {
  if (numbers.length > 4) return `${numbers.slice(0, 3).join(', ')} and ${numbers.length - 3} more`;
  return `${numbers.slice(0, -1).join(', ')} and ${numbers.at(-1)}`;
}

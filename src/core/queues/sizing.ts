/**
 * Which batches and how many workers a stage should have, by what its runs cost and how many requests come. Pure: replays
 * requests that come at random (queue-model.ts), for each number of workers with some rules of batches.
 */
import type { Batching } from '../model.ts';
import { type Prediction, predict } from './queue-model.ts';
import { type RunCost, RunCosts, runMsOf } from './run-costs.ts';

/** The time of one run, in ms. */
export interface MeasuredRun {
  readonly items: number;
  readonly ms: number;
}

/** The runs of a stage, measured on this machine. */
export interface StageRuns {
  /** Of a single worker, at several sizes. */
  readonly runs: readonly MeasuredRun[];
  /** Number of runs that each worker has at the same time. */
  readonly concurrency: number;
  /** How much longer a run takes than alone while 1, 2, 3 ... workers have so many runs. */
  readonly slowdowns: readonly number[];
}

/** A way to set up a stage, and how it would do. */
export interface Sizing {
  readonly workers: number;
  readonly batching: Batching;
  readonly prediction: Prediction;
}

/** Requests of a replay. */
const REQUESTS = 4000;
/** Above it a stage has no reserve. */
const BUSIEST = 0.8;
/** Fewer workers are worth this much more p99. */
const PATIENCE = 2;
/** Part of the capacity of one worker that requests use if no rate is given. */
const USUAL_LOAD = 0.6;

/** Returns a + b n for these runs. @throws Error for no runs at all */
export function fittedCost(runs: readonly MeasuredRun[]): RunCost {
  const costs = new RunCosts();
  for (const { items, ms } of runs) costs.note(items, ms);
  const [first] = runs;
  if (!first) throw new Error('no run was measured');
  return costs.fit ?? { fixedMs: first.ms, itemMs: 0 };
}

/** Returns the mean time of a run for each size of batches, in the order in which they were measured. */
export function meanRuns(runs: readonly MeasuredRun[]): MeasuredRun[] {
  const sizes = [...new Set(runs.map(({ items }) => items))];
  return sizes.map((items) => {
    const times = runs.filter((run) => run.items === items).map(({ ms }) => ms);
    return { items, ms: times.reduce((sum, ms) => sum + ms, 0) / times.length };
  });
}

/** Returns a rate that leaves one worker with full batches some rest, in items per second. */
export function usualRate({ runs, concurrency, slowdowns: [slowdown = 1] }: StageRuns, maxBatchSize: number): number {
  const runMs = runMsOf(fittedCost(runs), maxBatchSize) * slowdown;
  return (USUAL_LOAD * 1000 * maxBatchSize * concurrency) / runMs;
}

/** Returns a function that replays requests, so many per second, in a stage with these workers and batches. */
export function replaysOf(stage: StageRuns, rate: number): (workers: number, batching: Batching) => Sizing {
  const cost = fittedCost(stage.runs);
  const arrivals = arrivalsAt(rate);
  // How much runs vary around the fitted time.
  const parts = stage.runs.map(({ items, ms }) => ms / Math.max(runMsOf(cost, items), Number.EPSILON));
  return (workers, batching) => {
    const slowdown = stage.slowdowns[workers - 1] ?? 1;
    const runMs = (items: number, number: number): number =>
      runMsOf(cost, items) * slowdown * (parts[(number * STRIDE) % parts.length] ?? 1);
    return {
      workers,
      batching,
      prediction: predict(arrivals, { batching, places: workers * stage.concurrency, runMs }),
    };
  };
}

/** Returns ways to set up the stage, from few workers to many. @param rate items per second */
export function sizingsFor(stage: StageRuns, rate: number, maxBatchSize: number): Sizing[] {
  const replay = replaysOf(stage, rate);
  const runMs = runMsOf(fittedCost(stage.runs), maxBatchSize);
  return stage.slowdowns.flatMap((_, index) =>
    rulesFor(runMs / ((index + 1) * stage.concurrency), maxBatchSize).map((batching) => replay(index + 1, batching)),
  );
}

/**
 * Returns the fewest workers that keep up with a reserve and are fast enough, with their best rule.
 * @param goalMs p99 that is fast enough; null: about as fast as more workers would be
 */
export function proposed(sizings: readonly Sizing[], goalMs: number | null = null): Sizing {
  const fastest = (some: readonly Sizing[]): Sizing =>
    some.reduce((one, other) => (other.prediction.p99Ms < one.prediction.p99Ms ? other : one));
  const calm = sizings.filter(({ batching, prediction: { busy } }) => busy <= BUSIEST || batching.maxBatchSize > 1);
  const best = fastest(calm.length > 0 ? calm : sizings);
  const enough = calm.filter(({ prediction }) => prediction.p99Ms <= (goalMs ?? PATIENCE * best.prediction.p99Ms));
  const workers = Math.min(...enough.map((one) => one.workers), best.workers);
  const equals = enough.filter((one) => one.workers === workers);
  return equals.length > 0 ? fastest(equals) : best;
}

/** Node-RED and an engine under load, in MB. */
const RESERVED_MB = 400;

/**
 * Returns the memory that each worker may use below the limit of a container, in MB; 0 if that is too small for workers.
 * There is room for one worker more, which replaces another.
 */
export function memoryPerWorker(limitMb: number, workers: number): number {
  return Math.max(0, Math.floor((limitMb - RESERVED_MB) / (workers + 1)));
}

/** Takes the variations of a replay in no order of size: no divisor of their number. */
const STRIDE = 7;

function rulesFor(turnMs: number, most: number): Batching[] {
  const single: Batching = { policy: 'greedy', maxBatchSize: 1, maxWaitMs: 0 };
  if (most === 1) return [single];
  const waits = [...new Set([turnMs / 2, turnMs].map((wait) => Number(wait.toPrecision(2))))];
  return [
    single,
    ...[4, 16].filter((size) => size < most).map((size) => ({ ...single, maxBatchSize: size })),
    { ...single, maxBatchSize: most },
    ...waits.map((maxWaitMs): Batching => ({ policy: 'oldest', maxBatchSize: most, maxWaitMs })),
  ];
}

/** Times of requests that come at random: the same ones each time, so that ways to set up a stage differ by nothing else. */
function arrivalsAt(rate: number): number[] {
  let [state, now] = [1, 0];
  return Array.from({ length: REQUESTS }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    now -= (Math.log(1 - state / 2 ** 32) * 1000) / rate;
    return now;
  });
}

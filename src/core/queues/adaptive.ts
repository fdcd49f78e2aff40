/**
 * The policy `adaptive`: chooses how long the batches of a stage wait, and how large they become, for a p99 goal. It replays
 * the last arrivals with some settings (queue-model.ts), by the fitted cost of a run, and takes the settings
 * with the best score:
 *
 *   the goal is met   the workers are as little busy as possible; a longer wait must save more than it costs
 *   it is not         the least p99
 *
 * Until enough is known, and where nothing is better, it is `greedy`: no wait, and the largest batches. It needs no clock:
 * the times come with the items and their runs.
 */
import { figure, percent } from '../figures.ts';
import type { AdaptiveStatus, Batching } from '../model.ts';
import { type Prediction, predict } from './queue-model.ts';
import { type RunCost, RunCosts, runMsOf } from './run-costs.ts';

/** Arrivals that a replay has, most and least, and the time after which an arrival says nothing any more. */
const ARRIVALS = { most: 1024, least: 32, keptMs: 30_000 } as const;
/** Pause between two searches. */
const PAUSE_MS = 1000;
/** Pause between two lines of the log. */
const LOG_PAUSE_MS = 60_000;
/** Part of the goal that a prediction may take: real runs vary. */
const PLANNED = 0.8;
/** How much of the workers' time a wait of the whole goal must save. */
const WAIT_PRICE = 0.25;
/** Most that smaller batches than the largest may keep the workers busy, as a part of their time. */
const BUSIEST = 0.7;
/** Scores from here on are those of settings that miss the goal. */
const ABOVE_GOAL = 10;
/** Other settings must be better than the present ones by this part, or by this much of the workers' time. */
const MARGIN = 0.05;

type BatchSettings = Pick<Batching, 'maxBatchSize' | 'maxWaitMs'>;

/** What is known of a stage when it chooses. */
interface Known {
  /** The last arrivals, in order. */
  readonly arrivals: readonly number[];
  /** Arrivals per second. */
  readonly rate: number;
  readonly batching: Batching;
  /** Number of batches that run at a time. */
  readonly places: number;
  readonly cost: RunCost;
  /** Largest batch that has run, in items. */
  readonly largest: number;
}

interface Considered {
  readonly settings: BatchSettings;
  readonly prediction: Prediction;
  /** Less is better. */
  readonly score: number;
}

export interface AdaptiveStage {
  /** Returns the number of batches that run at a time. */
  places(): number;
  /** Says for the log what batches do now, and why. */
  onChosen(message: string): void;
}

export class Adaptive {
  readonly #stage: AdaptiveStage;
  #costs: RunCosts = new RunCosts();
  /** Times of the last items, in the order in which they left the queue. */
  #arrivals: number[] = [];
  /** The present choice for a batcher; null: none yet. `rule` is the policy by which its batches leave. */
  #chosen: { readonly batching: Batching; readonly rule: Batching; readonly status: AdaptiveStatus } | null = null;
  /** A search for the next choice; null: none is in progress. */
  #search: Generator<void, AdaptiveStatus> | null = null;
  #choosesAt = Number.NEGATIVE_INFINITY;
  #logsAt = Number.NEGATIVE_INFINITY;

  constructor(stage: AdaptiveStage) {
    this.#stage = stage;
  }

  get status(): AdaptiveStatus | null {
    return this.#chosen?.status ?? null;
  }

  /** Notes the arrivals of the items of a batch that leaves. */
  left(arrivals: readonly number[]): void {
    this.#arrivals.push(...arrivals);
    if (this.#arrivals.length > 2 * ARRIVALS.most) this.#arrivals = this.#arrivals.slice(-ARRIVALS.most);
  }

  /** Notes the run of a batch, with its way to the worker and back. */
  ran(items: number, ms: number): void {
    this.#costs.note(items, ms);
  }

  /** Forgets what runs cost. Call when other code runs. */
  forget(): void {
    this.#costs = new RunCosts();
  }

  /** Returns the rule by which batches leave now. A search goes on by one replay for each call, so that no call takes long. */
  ruleFor(batching: Batching, now: number): Batching {
    const isNew = this.#chosen?.batching !== batching;
    if (isNew || (this.#search === null && now >= this.#choosesAt)) this.#search = this.#choose(batching, isNew, now);
    const step = this.#search?.next();
    if (step?.done) {
      this.#search = null;
      this.#choosesAt = now + PAUSE_MS;
      this.#adopt(batching, step.value, now);
    }
    return this.#chosen?.rule ?? { ...batching, policy: 'greedy' };
  }

  #adopt(batching: Batching, status: AdaptiveStatus, now: number): void {
    this.#log(status, now);
    const { maxBatchSize, maxWaitMs } = status;
    const policy = maxWaitMs > 0 ? 'oldest' : 'greedy';
    this.#chosen = { batching, rule: { ...batching, policy, maxBatchSize, maxWaitMs }, status };
  }

  /** A stage whose load changes all the time must not fill the log. */
  #log({ maxBatchSize, maxWaitMs, p99Ms, reason }: AdaptiveStatus, now: number): void {
    const { maxBatchSize: size, maxWaitMs: wait } = this.#chosen?.rule ?? { maxBatchSize, maxWaitMs };
    if (p99Ms === null || now < this.#logsAt || (size === maxBatchSize && wait === maxWaitMs)) return;
    this.#logsAt = now + LOG_PAUSE_MS;
    this.#stage.onChosen(`batches: ${reason}`);
  }

  *#choose(batching: Batching, isNew: boolean, now: number): Generator<void, AdaptiveStatus> {
    const { maxBatchSize, maxWaitMs: targetMs } = batching;
    const greedy: BatchSettings = { maxBatchSize, maxWaitMs: 0 };
    const arrivals = this.#arrivals.slice(-ARRIVALS.most).filter((at) => at > now - ARRIVALS.keptMs);
    const cost = this.#costs.fit;
    if (cost === null || arrivals.length < ARRIVALS.least) {
      return { ...greedy, targetMs, p99Ms: null, reason: `${doingOf(greedy)}; too few requests to choose by` };
    }
    arrivals.sort((one, other) => one - other);
    const places = Math.max(this.#stage.places(), 1);
    const known = { arrivals, rate: rateOf(arrivals), batching, places, cost, largest: this.#costs.largest };
    const present = isNew ? greedy : (this.#chosen?.status ?? greedy);
    const { settings, prediction } = yield* bestOf(known, present);
    return { ...settings, targetMs, p99Ms: prediction.p99Ms, reason: reasonOf(settings, prediction, known) };
  }
}

/** Finds the best of the settings that differ from the present ones in one of the two, or keeps the present ones. */
function* bestOf(known: Known, { maxBatchSize: size, maxWaitMs }: BatchSettings): Generator<void, Considered> {
  const { maxBatchSize: most } = known.batching;
  const open = considered({ maxBatchSize: most, maxWaitMs }, known);
  yield;
  const sizes = [...sizesFor(known), open.prediction.largestBatch];
  const maxBatchSize = sizes.includes(size) ? size : most;
  const present = maxBatchSize === most ? open : considered({ maxBatchSize, maxWaitMs }, known);
  let best: Considered | null = null;
  for (const settings of [
    ...sizes.map((other) => ({ maxBatchSize: other, maxWaitMs })),
    ...waitsFor(known, present.prediction).map((other) => ({ maxBatchSize, maxWaitMs: other })),
    { maxBatchSize: most, maxWaitMs: 0 },
  ]) {
    yield;
    const other = considered(settings, known);
    if (other.score < (best?.score ?? present.score - MARGIN)) best = other;
  }
  return best ?? present;
}

function considered(settings: BatchSettings, { arrivals, batching, places, cost }: Known): Considered {
  const prediction = predict(arrivals, {
    batching: { ...batching, ...settings, policy: 'oldest' },
    places,
    runMs: (items) => runMsOf(cost, items),
  });
  return { settings, prediction, score: scoreOf(prediction, batching.maxWaitMs) };
}

/** A difference of `MARGIN` is a twentieth: of the workers' time, or of the p99 while it is above the goal. */
function scoreOf({ p99Ms, busy }: Prediction, goalMs: number): number {
  const part = p99Ms / goalMs;
  return part <= PLANNED ? busy + WAIT_PRICE * part : ABOVE_GOAL + Math.log(part);
}

/**
 * The largest size, and those of its halves that leave the workers some rest: with smaller batches they would do less. No
 * run shows what batches far larger than the largest cost. Beside them, the size that batches reach at most is tried: where
 * some clients wait for their answers, a batch with an item of each need not wait for more.
 */
function sizesFor({ batching, largest, rate, cost, places }: Known): number[] {
  const sizes = [batching.maxBatchSize];
  for (let size = Math.floor(batching.maxBatchSize / 2); size >= 1; size = Math.floor(size / 2)) {
    const busy = ((rate / 1000) * runMsOf(cost, size)) / (size * places);
    if (size <= largest && busy <= BUSIEST) sizes.push(size);
  }
  return sizes;
}

/** Parts of the goal; and waits by which the batches of several workers begin one after the other, not together. */
function waitsFor({ batching, places, cost }: Known, { meanBatch }: Prediction): number[] {
  const goalMs = batching.maxWaitMs;
  const runMs = runMsOf(cost, meanBatch);
  const turns = [0.5, 1, 2].map((part) => (part * runMs) / places);
  const parts = [0, 1 / 16, 1 / 8, 1 / 4, 1 / 2].map((part) => part * goalMs);
  const waits = [...parts, ...turns, runMs].filter((wait) => wait <= Math.max(goalMs, runMs));
  return [...new Set(waits.map((wait) => Number(wait.toPrecision(2))))];
}

function rateOf(arrivals: readonly number[]): number {
  const spanMs = (arrivals.at(-1) ?? 0) - (arrivals[0] ?? 0);
  return (1000 * (arrivals.length - 1)) / Math.max(spanMs, 1);
}

function doingOf({ maxBatchSize, maxWaitMs }: BatchSettings): string {
  const wait = maxWaitMs > 0 ? `waits up to ${milliseconds(maxWaitMs)}` : 'does not wait';
  return `${wait}, batches of up to ${maxBatchSize}`;
}

function reasonOf(settings: BatchSettings, { p99Ms, busy }: Prediction, { rate, batching, cost }: Known): string {
  const costs = `a run takes ${milliseconds(cost.fixedMs)} and ${milliseconds(cost.itemMs)} per item`;
  const goal = p99Ms > batching.maxWaitMs ? ` above the goal of ${milliseconds(batching.maxWaitMs)}` : '';
  const expected = `expected p99 ${milliseconds(p99Ms)}${goal}, ${percent(busy)} busy`;
  return `${doingOf(settings)}; ${figure(rate)} items/s; ${costs}; ${expected}`;
}

function milliseconds(ms: number): string {
  return `${figure(ms)} ms`;
}

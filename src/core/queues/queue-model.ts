/**
 * What a stage would do with these arrivals: a replay of its queue by the rules of its batches, in which a run takes its
 * fitted time. Pure, so that a stage can compare settings while it works, and a user can before a deploy.
 */
import type { Batching } from '../model.ts';
import { type BatchDecision, decideBatch } from './batch-policy.ts';

export interface ModelledStage {
  readonly batching: Batching;
  /** Number of batches that run at a time. */
  readonly places: number;
  /** Returns how long a batch runs, in ms. @param number of the batch, from 0 */
  runMs(items: number, number: number): number;
}

export interface Prediction {
  /** From the arrival at the queue to the end of the run, in ms. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly meanBatch: number;
  readonly largestBatch: number;
  /** Part of the time of its places in which the stage runs batches. */
  readonly busy: number;
  readonly itemsPerSecond: number;
}

/** The queue of a stage while arrivals are replayed. */
class Replay {
  readonly #stage: ModelledStage;
  readonly #arrivals: readonly number[];
  readonly #latencies: Float64Array;
  /** When each place is free. */
  readonly #freeAt: number[];
  #left = 0;
  #batches = 0;
  #largest = 0;
  #busyMs = 0;
  #endsAt = 0;

  constructor(arrivals: readonly number[], stage: ModelledStage) {
    this.#arrivals = arrivals;
    this.#stage = stage;
    this.#latencies = new Float64Array(arrivals.length);
    this.#freeAt = Array.from({ length: stage.places }, () => this.#at(0));
  }

  run(): Prediction {
    while (this.#left < this.#arrivals.length) this.#leave();
    this.#latencies.sort();
    const spanMs = Math.max(this.#endsAt - this.#at(0), Number.EPSILON);
    const count = this.#arrivals.length;
    return {
      p50Ms: this.#quantile(0.5),
      p99Ms: this.#quantile(0.99),
      meanBatch: count / Math.max(this.#batches, 1),
      largestBatch: this.#largest,
      busy: this.#busyMs / (spanMs * this.#freeAt.length),
      itemsPerSecond: (count * 1000) / spanMs,
    };
  }

  /** Lets the next batch leave. */
  #leave(): void {
    const freeSince = Math.min(...this.#freeAt);
    let now = Math.max(freeSince, this.#at(this.#left));
    let waiting = this.#left;
    let decision: BatchDecision;
    do {
      while (this.#at(waiting) <= now) waiting += 1;
      const [oldestAt, newestAt] = [this.#at(this.#left), this.#at(waiting - 1)];
      const queue = { length: waiting - this.#left, oldestAt, newestAt, freeSince };
      decision = decideBatch(this.#stage.batching, queue, now);
      if (!decision.go) now = Math.min(decision.until, this.#at(waiting));
    } while (!decision.go);
    this.#send(decision.size, now);
  }

  #send(items: number, now: number): void {
    const runMs = this.#stage.runMs(items, this.#batches);
    this.#freeAt[this.#freeAt.indexOf(Math.min(...this.#freeAt))] = now + runMs;
    for (const last = this.#left + items; this.#left < last; this.#left += 1) {
      this.#latencies[this.#left] = now + runMs - this.#at(this.#left);
    }
    this.#batches += 1;
    this.#largest = Math.max(this.#largest, items);
    this.#busyMs += runMs;
    this.#endsAt = Math.max(this.#endsAt, now + runMs);
  }

  #at(index: number): number {
    return this.#arrivals[index] ?? Number.POSITIVE_INFINITY;
  }

  #quantile(part: number): number {
    return this.#latencies[Math.min(Math.ceil(part * this.#latencies.length), this.#latencies.length) - 1] ?? 0;
  }
}

/** @param arrivals times in order, in ms; at least one */
export function predict(arrivals: readonly number[], stage: ModelledStage): Prediction {
  return new Replay(arrivals, stage).run();
}

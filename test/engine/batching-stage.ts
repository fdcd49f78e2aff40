/** A stage's real queue and batches beside workers and arrivals that a test makes up, on a clock that it moves. */
import type { Batching } from '../../src/core/model.ts';
import { type RunCost, runMsOf } from '../../src/core/queues/run-costs.ts';
import { BatchFormer } from '../../src/runtime/engine/stage/batching.ts';
import type { Item } from '../../src/runtime/engine/stage/item.ts';
import { StageQueue } from '../../src/runtime/engine/stage/stage-queue.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { queued } from './queued.ts';

/** A generator of the same numbers in each run, from 0 to 1. */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Pauses between arrivals that come at random, at this rate per second. */
export function poisson(rate: number, seed: number): () => number {
  const random = randomFrom(seed);
  return () => (-Math.log(1 - random()) * 1000) / rate;
}

export interface SimulatedStage {
  readonly batching: Batching;
  readonly cost: RunCost;
  readonly places: number;
  /** Pause until the next arrival, in ms. */
  readonly pause: () => number;
  /** Clients that each send the next item when the last one is answered; absent: items come by themselves. */
  readonly clients?: number;
}

export interface Figures {
  readonly p99: number;
  readonly perSecond: number;
  readonly busy: number;
}

export class Simulation {
  readonly #stage: SimulatedStage;
  readonly #clock: FakeClock = new FakeClock();
  readonly #queue: StageQueue = new StageQueue();
  readonly former: BatchFormer;
  readonly #latencies: number[] = [];
  #running = 0;
  #busyMs = 0;
  #came = 0;
  readonly said: string[] = [];

  constructor(stage: SimulatedStage) {
    this.#stage = stage;
    this.former = new BatchFormer(this.#queue, this.#clock, () => this.#pump(), {
      places: () => stage.places,
      onChosen: (message) => this.said.push(message),
    });
    if (stage.clients === undefined) this.#arriveAfter(stage.pause());
    else for (let client = 0; client < stage.clients; client += 1) this.#arriveAfter(stage.pause(), false);
  }

  /** Lets time pass, and measures. */
  run(ms: number): Figures {
    this.#latencies.length = 0;
    this.#busyMs = 0;
    this.#clock.advance(ms);
    const sorted = this.#latencies.toSorted((one, other) => one - other);
    return {
      p99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0,
      perSecond: (sorted.length * 1000) / ms,
      busy: this.#busyMs / (ms * this.#stage.places),
    };
  }

  #arriveAfter(ms: number, repeats = true): void {
    this.#clock.at(this.#clock.now() + ms, () => {
      this.#came += 1;
      this.#queue.push(queued(this.#came, this.#clock.now()));
      this.#pump();
      if (repeats) this.#arriveAfter(this.#stage.pause());
    });
  }

  #pump(): void {
    this.former.renew();
    const isFree = (): boolean => this.#running < this.#stage.places;
    while (this.#queue.length > 0) {
      this.former.noteFree(isFree());
      if (!isFree()) return;
      const { items } = this.former.take(this.#queue, this.#stage.batching, () => true);
      if (items.length === 0) return;
      this.#begin(items);
    }
    this.former.noteFree(isFree());
  }

  #begin(items: readonly Item[]): void {
    const runMs = runMsOf(this.#stage.cost, items.length);
    this.#running += 1;
    this.#clock.at(this.#clock.now() + runMs, () => {
      const now = this.#clock.now();
      this.#running -= 1;
      this.#busyMs += runMs;
      this.former.ran(this.#stage.batching, items.length, runMs);
      for (const { arrivedAt } of items) this.#latencies.push(now - arrivedAt);
      if (this.#stage.clients !== undefined) for (const _ of items) this.#arriveAfter(this.#stage.pause(), false);
      this.#pump();
    });
  }
}

/**
 * The items that the workers of a stage have: splits replies into outcomes, and decides which items run again. The engine
 * decides where an outcome goes.
 */
import { rerunsBatches, type StageDefinition } from '../../../config/stage-definition.ts';
import type { ModeletError } from '../../../core/errors.ts';
import type { StageTiming } from '../../../core/model.ts';
import type { StageMeter } from '../../../observe/meters/stage-meter.ts';
import { byteLengthOf } from '../../../wire/codec/chunks.ts';
import type { BatchRunReport, WireItem } from '../../../wire/frames/frames.ts';
import { type Batch, RunTimeout } from '../pools/pool.ts';
import type { BatchFormer } from './batching.ts';
import { passedAlong } from './hops.ts';
import { type Item, isAlone, leavesWorker } from './item.ts';
import type { RecentBatches } from './recent-batches.ts';
import type { SingleFlight } from './response-cache.ts';
import { workerLost } from './stage-errors.ts';
import type { StageHost } from './stage-host.ts';
import type { StageQueue } from './stage-queue.ts';

/** The parts of a stage that replies concern. */
interface OutcomeParts {
  readonly host: StageHost;
  readonly queue: StageQueue;
  readonly former: BatchFormer;
  readonly recent: RecentBatches;
  readonly meter: StageMeter;
}

export class Outcomes {
  readonly #host: StageHost;
  readonly #queue: StageQueue;
  readonly #former: BatchFormer;
  readonly #recent: RecentBatches;
  readonly #meter: StageMeter;
  #definition: StageDefinition;
  #singleFlight: SingleFlight | null = null;

  constructor(definition: StageDefinition, { host, queue, former, recent, meter }: OutcomeParts) {
    this.#definition = definition;
    this.#host = host;
    this.#queue = queue;
    this.#former = former;
    this.#recent = recent;
    this.#meter = meter;
  }

  /** @param singleFlight null: the stage has never kept results */
  adopt(definition: StageDefinition, singleFlight: SingleFlight | null): void {
    this.#definition = definition;
    this.#singleFlight = singleFlight;
  }

  onReply(batch: Batch<Item>, replies: readonly WireItem[], { runMs, runs }: BatchRunReport, worker: number): void {
    const now = this.#host.clock.now();
    this.#recent.ran(runMs, now - batch.dispatchedAt);
    this.#former.ran(this.#definition.batching, batch.items.length, now - batch.startedAt);
    this.#meter.batchRan(runMs, batch.items.length, runs);
    // Only the call for all of them failed: alone, each gets its own outcome.
    const runsAgain = batch.items.length > 1 && rerunsBatches(this.#definition);
    const again: Item[] = [];
    batch.items.forEach((item, index) => {
      const reply = replies[index] as WireItem;
      this.#queue.keys?.ended(item, reply);
      if (runsAgain && reply.together) {
        again.push(item);
        return;
      }
      if (reply.ok) this.#recent.answered(byteLengthOf(item.payload), byteLengthOf(reply.payload));
      const batchMs = batch.dispatchedAt - Math.max(item.arrivedAt, batch.freeSince);
      const waitMs = batch.startedAt - item.arrivedAt - batchMs;
      this.#meter.itemWaited(waitMs, batchMs);
      const timing = { stage: this.#definition.ref, waitMs, batchMs, runMs, batchSize: batch.items.length, worker };
      this.#completed(item, reply, item.hops.length === 0 ? [timing] : [timing, ...passedAlong(item, reply)]);
    });
    this.#queue.putBack(this.#end(again), true);
    this.#host.onChange();
  }

  /** Passes on a worker's answer to an item. @param timings here, and at further stages that it has passed on a host */
  #completed(item: Item, reply: WireItem, timings: readonly StageTiming[]): void {
    if (item.run) {
      this.#singleFlight?.complete(item.run, reply, timings);
      return;
    }
    if (!leavesWorker(item)) return;
    item.timings.push(...timings);
    this.#host.router.advance(item, reply.ok, reply.payload);
  }

  onPart(item: Item, part: WireItem, taken: (parts: number) => void): void {
    item.parts += 1;
    item.onTaken = taken;
    this.#host.router.part(item, part);
  }

  onLost(running: readonly Item[], notStarted: readonly Item[], error: Error, worker: number): void {
    const { name, retryLost } = this.#definition;
    const wasAlone = running.some(isAlone);
    // Parts already sent cannot be taken back, so such an item does not run again.
    const again = (item: Item): boolean => retryLost && !(error instanceof RunTimeout) && !wasAlone && item.parts === 0;
    this.#queue.putBack(this.#end(notStarted));
    this.#queue.putBack(this.#end(running.filter(again)), true);
    for (const item of this.#end(running.filter((item) => !again(item)))) {
      this.#host.router.fail(item, workerLost(name, worker, error, wasAlone));
    }
  }

  /** Fails an item whose input must not go to the worker. */
  refused(item: Item, refusal: ModeletError): void {
    refusal.stage = this.#definition.name;
    for (const request of this.#end([item])) this.#host.router.fail(request, refusal);
  }

  /** Takes items from a worker. Returns the requests that still wait for them. */
  #end(items: readonly Item[]): Item[] {
    return items.flatMap((item) => {
      this.#host.router.memory.stopped(item);
      this.#queue.keys?.ended(item, null);
      if (item.run) return this.#singleFlight?.end(item.run) ?? [];
      return leavesWorker(item) ? [item] : [];
    });
  }
}

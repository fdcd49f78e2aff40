/**
 * Saves runs at a stage that keeps results. Answers a request from the cache, joins it to the run of an identical
 * request that a worker has, or leaves it to the stage. The stage asks twice: when a request comes, and when its turn in
 * the queue comes. Requests that wait in the queue share nothing.
 *
 * A run outlives the request that began it: it ends when the worker replies or dies, or when no request waits for it.
 */
import type { CacheSettings, CacheStatus, SavedRun, StageTiming } from '../../core/model.ts';
import type { CacheResult } from '../../core/readings.ts';
import type { StageMeter } from '../../observe/meters/stage-meter.ts';
import { decodeModeletError } from '../../wire/codec/error-codec.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { CoalescedRun, type Item, isAlone, MOVING, sendsParts } from './item.ts';
import { cacheKey, ResponseCache } from './response-cache.ts';
import type { StageHost } from './stage-host.ts';
import type { StageQueue } from './stage-queue.ts';

/** A worker's answer to an item. */
type Reply = Pick<WireItem, 'ok' | 'payload'>;

const NOTHING_KEPT: CacheStatus = { entries: 0, bytes: 0 };

export class SingleFlight {
  readonly #stage: number;
  readonly #host: StageHost;
  readonly #queue: StageQueue;
  readonly #meter: StageMeter;
  #settings: CacheSettings;
  #cache: ResponseCache | null;
  /** Runs that requests may join and whose results are kept, by key. */
  readonly #open: Map<string, CoalescedRun> = new Map();

  constructor(stage: number, settings: CacheSettings, host: StageHost, queue: StageQueue, meter: StageMeter) {
    this.#stage = stage;
    this.#host = host;
    this.#queue = queue;
    this.#meter = meter;
    this.#settings = settings;
    this.#cache = this.#makeCache();
  }

  get status(): CacheStatus {
    return this.#cache?.status ?? NOTHING_KEPT;
  }

  /** Takes over new settings. Empties the cache if they differ. */
  redefine(settings: CacheSettings): void {
    const { entries, maxBytes, ttlMs } = this.#settings;
    this.#settings = settings;
    if (entries === settings.entries && maxBytes === settings.maxBytes && ttlMs === settings.ttlMs) return;
    this.#cache = this.#makeCache();
  }

  /** Ensures that no later request gets a result of the present modelet, neither from the cache nor from a run. */
  renew(): void {
    this.#cache?.clear();
    this.#open.clear();
  }

  /** Prepares a request that has come to the stage. Parts of results are not kept. */
  admit(request: Item): void {
    request.lookup = this.#cache && !sendsParts(request) ? { key: cacheKey(request), counted: false } : null;
  }

  /** Answers a request from the cache or joins it to a run; returns false if it must wait for a worker. */
  serves(request: Item): boolean {
    const { lookup } = request;
    if (!lookup || !this.#cache) return false;
    const kept = this.#cache.get(lookup.key);
    if (kept) {
      if (!this.#host.mayLeave(request)) return false;
      this.#count(request, 'hit');
      this.#queue.remove(request);
      this.#answer(request, { ok: true, payload: kept }, [this.#saved(request, 'hit')]);
      return true;
    }
    const run = this.#open.get(lookup.key);
    // A request that runs again alone must not take part in another first run.
    if (!run || (isAlone(request) && !isAlone(run.item))) return false;
    this.#count(request, 'joined');
    this.#queue.remove(request);
    run.join(request);
    return true;
  }

  /**
   * Claims a queued item for a worker. Returns false if no worker is to run the item now: it stays or has left the queue.
   * Call for each item of a batch in turn: later items may join the run of an earlier one.
   *
   * @param current whether the worker runs the stage's current modelet; if not, no other request gets its results
   */
  claim(item: Item, current: boolean): boolean {
    if (!this.#host.mayLeave(item)) return false;
    const { lookup } = item;
    if (!lookup || !this.#cache) return true;
    if (this.serves(item) || this.#open.has(lookup.key)) return false;
    this.#count(item, 'miss');
    if (current) {
      item.run = new CoalescedRun(lookup.key, item);
      this.#open.set(lookup.key, item.run);
    }
    return true;
  }

  /** Drops a cancelled request that a worker runs. Returns the item that no request waits for now, or null. */
  leave(request: Item): Item | null {
    const run = request.state.tag === 'sharing' ? request.state.run : request.run;
    if (!run) {
      request.state = MOVING;
      return request;
    }
    run.leave(request);
    if (run.isWanted) return null;
    this.#close(run);
    run.item.state = MOVING;
    return run.item;
  }

  /**
   * Passes on a worker's answer to an item, which leaves the stage. Some requests of a run may have to wait again.
   * @param timings at this stage, and at further ones that the item has passed together with it
   */
  complete(item: Item, reply: Reply, timings: readonly StageTiming[]): void {
    const { run } = item;
    const keeps = run !== null && this.#open.get(run.key) === run;
    const requests = this.end(item);
    if (run && reply.ok && keeps) this.#cache?.keep(run.key, reply.payload);
    const isLate = requests.length > 1 && this.#isLate(item, reply);
    const again: Item[] = [];
    for (const request of requests) {
      if (request === item) this.#answer(request, reply, timings);
      else if (isLate ? request.deadline > item.deadline : reply.ok && !this.#host.mayLeave(request))
        again.push(request);
      else this.#answer(request, reply, [this.#saved(request, 'joined')]);
    }
    this.#queue.putBack(again);
  }

  /** Takes an item from its worker. Returns the requests that still wait for it, in order of arrival. */
  end(item: Item): Item[] {
    const { run } = item;
    if (!run) {
      if (item.state.tag !== 'running') return [];
      item.state = MOVING;
      return [item];
    }
    this.#close(run);
    item.run = null;
    return run.end();
  }

  #makeCache(): ResponseCache | null {
    // With the cache off, workers of an older modelet may run items. Turned on again, it must not keep their results.
    this.#open.clear();
    return this.#settings.entries > 0 ? new ResponseCache(this.#settings, this.#host.clock) : null;
  }

  /** Whether the worker missed the deadline it was sent. Requests that joined may have a later deadline. */
  #isLate(item: Item, { ok, payload }: Reply): boolean {
    if (ok || this.#host.clock.now() < item.deadline) return false;
    return decodeModeletError(payload.bytes, 'protocol_error').code === 'deadline_exceeded';
  }

  #answer(request: Item, { ok, payload }: Reply, timings: readonly StageTiming[]): void {
    request.timings.push(...timings);
    this.#host.onOutcome(request, ok, payload);
  }

  /** Counts a request once, by what it met first. */
  #count({ lookup }: Item, result: CacheResult): void {
    if (!lookup || lookup.counted) return;
    lookup.counted = true;
    this.#meter.cacheAsked(result);
  }

  #saved({ arrivedAt }: Item, cache: SavedRun): StageTiming {
    const waitMs = this.#host.clock.now() - arrivedAt;
    return { stage: this.#stage, waitMs, batchMs: 0, runMs: 0, batchSize: 0, worker: -1, cache };
  }

  /** Closes a run: no request may join it, and its result is not kept. */
  #close(run: CoalescedRun): void {
    if (this.#open.get(run.key) === run) this.#open.delete(run.key);
  }
}

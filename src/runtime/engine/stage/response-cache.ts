/**
 * Saves runs at a stage that keeps results: answers a request from the cache, joins it to the run of an identical
 * request that a worker has, or leaves it to the stage. The stage asks twice: when a request comes, and when its turn in
 * the queue comes. Requests that wait in the queue share nothing. The only file that imports lru-cache.
 *
 * A run outlives the request that began it: it ends when the worker replies or dies, or when no request waits for it.
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../../core/clock.ts';
import type { CacheSettings, CacheStatus, Payload, SavedRun, StageTiming } from '../../../core/model.ts';
import type { CacheResult } from '../../../core/readings.ts';
import type { StageMeter } from '../../../observe/meters/stage-meter.ts';
import { byteLengthOf, copiedBytes } from '../../../wire/codec/chunks.ts';
import { decodeModeletError } from '../../../wire/codec/error-codec.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import { CoalescedRun, type Item, isAlone, MOVING, sendsParts } from './item.ts';
import type { StageHost } from './stage-host.ts';
import type { StageQueue } from './stage-queue.ts';

type WorkerReply = Pick<WireItem, 'ok' | 'payload'>;

/** The cache of a stage that keeps no results. */
export const NO_CACHE: CacheStatus = { entries: 0, bytes: 0 };

export class SingleFlight {
  readonly #stage: number;
  readonly #host: StageHost;
  readonly #queue: StageQueue;
  readonly #meter: StageMeter;
  #settings: CacheSettings;
  #cache: ResponseCache | null;
  /** Runs that requests may join and whose results are kept, by key. */
  readonly #open: Map<string, CoalescedRun> = new Map();
  /** Whether a queued request may wait only for room in front of the next stage: its result is kept. */
  #holdsBack = false;

  constructor(stage: number, settings: CacheSettings, host: StageHost, queue: StageQueue, meter: StageMeter) {
    this.#stage = stage;
    this.#host = host;
    this.#queue = queue;
    this.#meter = meter;
    this.#settings = settings;
    this.#cache = this.#makeCache();
  }

  get status(): CacheStatus {
    return this.#cache?.status ?? NO_CACHE;
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

  /** Serves a request that has come to the stage, if possible. Parts of results are not kept. */
  admit(request: Item): boolean {
    if (this.#cache && !sendsParts(request)) request.lookup = { key: cacheKey(request), counted: false };
    return this.serves(request);
  }

  /** Answers a request from the cache or joins it to a run; returns false if it must wait for a worker. */
  serves(request: Item): boolean {
    const { lookup } = request;
    if (!lookup || !this.#cache) return false;
    const kept = this.#cache.get(lookup.key);
    if (kept) {
      if (!this.#host.router.mayLeave(request)) {
        this.#holdsBack = true;
        return false;
      }
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

  /** Answers queued requests that need no worker, until the next stage has no room for one. */
  serveHeldBack(): void {
    if (!this.#holdsBack) return;
    this.#holdsBack = false;
    for (const request of this.#queue) if (!this.serves(request) && this.#holdsBack) break;
  }

  /**
   * Claims a queued item that may leave for a worker. Returns false if no worker is to run it now: it stays, or has left.
   * Call for each item of a batch in turn: later items may join the run of an earlier one.
   *
   * @param current whether the worker runs the stage's current modelet; if not, no other request gets its results
   */
  claim(item: Item, current: boolean): boolean {
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
  leave(request: Item, run: CoalescedRun): Item | null {
    run.leave(request);
    if (run.isWanted) return null;
    this.#close(run);
    run.item.state = MOVING;
    return run.item;
  }

  /**
   * Passes on a worker's answer to an item that began a run. Some of its requests may have to wait again.
   * @param timings at this stage, and at further ones that the item has passed together with it
   */
  complete(run: CoalescedRun, reply: WorkerReply, timings: readonly StageTiming[]): void {
    const { item } = run;
    const keeps = this.#open.get(run.key) === run;
    const requests = this.end(run);
    reply.payload.chunks?.share();
    if (reply.ok && keeps) this.#cache?.keep(run.key, reply.payload);
    const isLate = this.#isLate(item, reply);
    const again: Item[] = [];
    for (const request of requests) {
      if (request === item) this.#answer(request, reply, timings);
      else if (isLate ? request.deadline > item.deadline : reply.ok && !this.#host.router.mayLeave(request))
        again.push(request);
      else this.#answer(request, reply, [this.#saved(request, 'joined')]);
    }
    this.#queue.putBack(again);
  }

  /** Takes the item of a run from its worker. Returns the requests that still wait for it, in order of arrival. */
  end(run: CoalescedRun): Item[] {
    this.#close(run);
    run.item.run = null;
    return run.end();
  }

  #makeCache(): ResponseCache | null {
    // With the cache off, workers of an older modelet may run items. Turned on again, it must not keep their results.
    this.#open.clear();
    return this.#settings.entries > 0 ? new ResponseCache(this.#settings, this.#host.clock) : null;
  }

  /** Whether the worker missed the deadline it was sent. Requests that joined may have a later deadline. */
  #isLate(item: Item, { ok, payload }: WorkerReply): boolean {
    if (ok || this.#host.clock.now() < item.deadline) return false;
    return decodeModeletError(payload.bytes, 'protocol_error').code === 'deadline_exceeded';
  }

  #answer(request: Item, { ok, payload }: WorkerReply, timings: readonly StageTiming[]): void {
    request.timings.push(...timings);
    this.#host.router.advance(request, ok, payload);
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

/** Must resist deliberate collisions: a collision would give one caller another caller's result. */
const HASH = 'sha256';

/** Results by a hash of their input, bounded by number, bytes and age. */
class ResponseCache {
  readonly #kept: LRUCache<string, Payload>;
  readonly #maxBytes: number;

  constructor({ entries, maxBytes, ttlMs }: CacheSettings, clock: Clock) {
    this.#maxBytes = maxBytes;
    // With a non-zero resolution, lru-cache would cache the time and start timers.
    const time = { ttl: ttlMs, ttlResolution: 0, perf: { now: () => clock.now() } };
    this.#kept = new LRUCache({ max: entries, maxSize: maxBytes, ...time });
  }

  get status(): CacheStatus {
    return { entries: this.#kept.size, bytes: this.#kept.calculatedSize };
  }

  get(key: string): Payload | undefined {
    return this.#kept.get(key);
  }

  /** Keeps a copy and evicts the least recently used results. Ignores a result larger than the whole cache. */
  keep(key: string, payload: Payload): void {
    const size = key.length + byteLengthOf(payload);
    if (size > this.#maxBytes) return;
    // Copied, because bytes from a frame are a view that would keep the whole frame alive.
    this.#kept.set(key, { codec: payload.codec, bytes: copiedBytes(payload) }, { size });
  }

  clear(): void {
    this.#kept.clear();
  }
}

/**
 * Returns the key of an input: its encoded bytes, their codec, and the topic and the options if present. The topic is sent
 * only on routes with code that reads it. The key includes it even if this stage's code does not: the next revision's may.
 */
function cacheKey({ payload: { codec, bytes }, meta }: Pick<WireItem, 'payload' | 'meta'>): string {
  const key = `${codec} ${hash(HASH, bytes, 'base64')}`;
  return meta ? `${key} ${hash(HASH, topicOf(meta), 'base64')}` : key;
}

function topicOf(meta: Uint8Array): string {
  try {
    const { topic, modelet } = JSON.parse(Buffer.from(meta).toString()) as { topic?: unknown; modelet?: unknown };
    return JSON.stringify(modelet === undefined ? topic : [topic, modelet]) ?? '';
  } catch {
    // The worker refuses metadata that is not JSON, so the key only has to be unique.
    return Buffer.from(meta).toString('base64');
  }
}

/**
 * Stands before the queue of a stage that caches results. Answers a request from the cache, joins it to the run of an
 * identical request that waits or runs, or lets the stage queue it.
 *
 * The queue and the workers hold a run's item, never a request itself. So a run outlives the request that began it:
 * it ends when it has an answer, when the stage gives it up, or when no request waits for it.
 * The caller watches its request's deadline and cancels the request; the item has the latest deadline of all requests.
 */
import type { ModeletError } from '../../core/errors.ts';
import type { CacheStatus, Payload, SavedRun, StageDefinition, StageTiming } from '../../core/model.ts';
import type { StageMeter } from '../../observe/meters/stage-meter.ts';
import { decodeModeletError } from '../../wire/codec/error-codec.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { CoalescedRun, type Item } from './item.ts';
import { KnownAnswers } from './known-answers.ts';
import { cacheKey, ResponseCache } from './response-cache.ts';
import type { StageHost } from './stage-host.ts';
import type { StageQueue } from './stage-queue.ts';

/** A worker's answer to an item. */
type Reply = Pick<WireItem, 'ok' | 'payload'>;

const NOTHING_KEPT: CacheStatus = { entries: 0, bytes: 0 };

export class SingleFlight {
  readonly #host: StageHost;
  readonly #queue: StageQueue;
  readonly #meter: StageMeter;
  #definition: StageDefinition;
  #cache: ResponseCache | null = null;
  /** Runs that requests may join and whose results are cached, by place. */
  readonly #open: Map<string, CoalescedRun> = new Map();
  /** Runs in the queue whose answer is known. */
  readonly #known: KnownAnswers = new KnownAnswers();

  constructor(definition: StageDefinition, host: StageHost, queue: StageQueue, meter: StageMeter) {
    this.#host = host;
    this.#queue = queue;
    this.#meter = meter;
    this.#definition = definition;
    this.#makeCache();
  }

  /** Whether new requests must pass `admit`. Runs in progress when the cache was turned off still complete. */
  get isOn(): boolean {
    return this.#cache !== null;
  }

  get status(): CacheStatus {
    return this.#cache?.status ?? NOTHING_KEPT;
  }

  /** Takes over a new definition. Empties the cache if its bounds change. */
  redefine(definition: StageDefinition): void {
    const { cache } = this.#definition;
    const { entries, maxBytes, ttlMs } = definition.cache;
    this.#definition = definition;
    if (entries !== cache.entries || maxBytes !== cache.maxBytes || ttlMs !== cache.ttlMs) this.#makeCache();
  }

  /** Ensures that no later request gets a result of the present modelet, neither from the cache nor from a run. */
  renew(): void {
    this.#cache?.clear();
    for (const run of this.#open.values()) {
      if (run.item.state.tag === 'running') this.#close(run);
    }
    for (const run of this.#known.drain()) {
      run.known = null;
      this.#queue.unknown(run.item);
    }
  }

  /** Returns the item to queue for a new request, or null if the request has its answer or shares another's run. */
  admit(request: Item): Item | null {
    const key = cacheKey(request);
    const kept = this.#cache?.get(key);
    if (kept) {
      this.#meter.cacheAsked('hit');
      if (!this.#host.mayLeave(request)) return this.#holdBack(key, request, kept, 'hit');
      this.#pass(request, kept, 'hit');
      return null;
    }
    const place = placeOf(key, request);
    const open = this.#open.get(place);
    this.#meter.cacheAsked(open ? 'joined' : 'miss');
    if (open) {
      this.#join(open, request);
      return null;
    }
    const run = new CoalescedRun(key, request);
    this.#open.set(place, run);
    return run.item;
  }

  /** Drops a cancelled request. Returns the item that no request waits for now, or null if others still do. */
  leave(request: Item): Item | null {
    if (request.state.tag !== 'sharing') return request;
    const { run } = request.state;
    run.remove(request);
    const [first] = run.requests;
    if (first) {
      const { state, arrivedAt } = run.item;
      if (state.tag === 'queued' && arrivedAt < first.arrivedAt) this.#queue.rejuvenate(run.item, first.arrivedAt);
      return null;
    }
    this.#end(run);
    return run.item;
  }

  /** Whether any request that the item represents may go on to the next stage. */
  mayLeave(item: Item): boolean {
    if (!item.run) return this.#host.mayLeave(item);
    for (const request of item.run.requests) if (this.#host.mayLeave(request)) return true;
    return false;
  }

  /**
   * Notes that a batch goes to a worker.
   *
   * @param current whether the worker runs the stage's current modelet; if not, no later request gets its results
   */
  dispatch(items: readonly Item[], current: boolean): void {
    if (current) return;
    for (const { run } of items) if (run) this.#close(run);
  }

  /** Passes on a worker's answer to an item, which leaves the stage. Requests of a run may have to wait again. */
  complete(item: Item, reply: Reply, timing: StageTiming): void {
    const { run } = item;
    if (!run) {
      this.#answer(item, reply, timing);
      return;
    }
    if (this.#runsAgain(run, reply, timing)) return;
    const keeps = this.#open.get(placeOf(run.key, item)) === run;
    this.#end(run);
    if (reply.ok && keeps) this.#cache?.keep(run.key, reply.payload);
    for (const request of run.take()) {
      if (request.id === item.id) this.#answer(request, reply, timing);
      else this.#answerJoined(run.key, request, reply);
    }
  }

  /** Prepares an item to run again: requests that joined while a worker had it now count for deadline and priority. */
  comeBack(item: Item): void {
    if (!item.run) return;
    for (const request of item.run.requests) {
      item.run.prolong(request);
      item.priority = Math.max(item.priority, request.priority);
    }
  }

  /** Fails an item that the stage cannot serve; the item leaves the stage. */
  fail(item: Item, error: ModeletError): void {
    const { run } = item;
    if (!run) {
      this.#host.onFailed(item, error);
      return;
    }
    this.#end(run);
    for (const request of run.take()) this.#host.onFailed(request, error);
  }

  /** Drops queued requests that came before `time`. Younger requests that share their run keep its place. */
  dropOlder(time: number, makeError: () => ModeletError): void {
    if (!this.#queue.mayHaveOlder(time)) return;
    for (const { run, arrivedAt } of this.#queue) {
      if (!run || arrivedAt >= time) continue;
      const rest = [...run.requests].find((request) => request.arrivedAt >= time);
      // Without a younger request, `sweepOlder` drops the whole run like any item.
      if (!rest) continue;
      this.#queue.rejuvenate(run.item, rest.arrivedAt);
      for (const request of run.take((one) => one.arrivedAt < time)) this.#host.onFailed(request, makeError());
    }
    for (const item of this.#queue.sweepOlder(time)) this.fail(item, makeError());
  }

  /** Answers queued runs whose answer is known and that the next stage now has room for. */
  answerKnown(): void {
    for (const run of this.#known.leaving((item) => this.mayLeave(item))) {
      this.#queue.remove(run.item);
      this.#end(run);
      if (!run.known) continue;
      const { payload, how } = run.known;
      for (const request of run.take()) this.#pass(request, payload, how);
    }
  }

  #makeCache(): void {
    const { cache } = this.#definition;
    this.#cache = cache.entries > 0 ? new ResponseCache(cache, this.#host.clock) : null;
    // With the cache off, `dispatch` is not called and does not close runs of an older modelet. If the cache is turned
    // on again, such runs must not bring their results into it.
    if (!this.#cache) this.#open.clear();
  }

  #join(run: CoalescedRun, request: Item): void {
    run.add(request);
    const { item } = run;
    if (item.state.tag !== 'queued') return;
    run.prolong(request);
    this.#queue.retimed(item);
    if (request.priority > item.priority) this.#queue.raise(item, request.priority);
  }

  /** Returns an item for a request that has its answer and waits for room at the next stage. */
  #holdBack(key: string, request: Item, payload: Payload, how: SavedRun): Item {
    const run = new CoalescedRun(key, request);
    run.item.arrivedAt = this.#host.clock.now();
    this.#known.add(run, payload, how);
    return run.item;
  }

  #answer(request: Item, { ok, payload }: Reply, timing: StageTiming): void {
    request.timings.push(timing);
    this.#host.onOutcome(request, ok, payload);
  }

  #answerJoined(key: string, request: Item, reply: Reply): void {
    if (!reply.ok || this.#host.mayLeave(request)) this.#answer(request, reply, this.#saved(request, 'joined'));
    else this.#queue.push(this.#holdBack(key, request, reply.payload, 'joined'));
  }

  #pass(request: Item, payload: Payload, how: SavedRun): void {
    this.#answer(request, { ok: true, payload }, this.#saved(request, how));
  }

  #saved({ arrivedAt }: Item, cache: SavedRun): StageTiming {
    const waitMs = this.#host.clock.now() - arrivedAt;
    return { stage: this.#definition.ref, waitMs, batchMs: 0, runMs: 0, batchSize: 0, worker: -1, cache };
  }

  /**
   * Runs the item again if the worker missed the deadline it was sent while requests that joined later have more time.
   * Returns false if the reply stands.
   */
  #runsAgain(run: CoalescedRun, reply: Reply, timing: StageTiming): boolean {
    const { item } = run;
    if (reply.ok || this.#host.clock.now() < item.deadline) return false;
    const first = [...run.requests].find(({ deadline }) => deadline > item.deadline);
    if (!first || decodeModeletError(reply.payload.bytes, 'protocol_error').code !== 'deadline_exceeded') return false;
    const sent = item.deadline;
    for (const request of run.take(({ deadline }) => deadline <= sent)) this.#answer(request, reply, timing);
    this.comeBack(item);
    item.arrivedAt = first.arrivedAt;
    this.#queue.putBack([item]);
    return true;
  }

  /** Closes a run: no request may join it, and its result is not cached. */
  #close(run: CoalescedRun): void {
    const place = placeOf(run.key, run.item);
    if (this.#open.get(place) === run) this.#open.delete(place);
  }

  #end(run: CoalescedRun): void {
    this.#close(run);
    this.#known.remove(run);
  }
}

/** A full queue that drops the oldest evicts within a group. So all requests of a run must be of one group. */
function placeOf(key: string, { group }: Item): string {
  return `${group} ${key}`;
}

/**
 * What stands before the queue of a stage that keeps results. A request whose answer is kept has it at once; one that
 * is the same as another that waits or runs shares its run; only the others are queued.
 *
 * What the queue and the workers hold is a run's item, and never a request itself. So a run outlives the request
 * that began it: it ends when it has an answer, when the stage gives it up, or when nobody waits for it any more.
 * A request's deadline is its caller's to watch, who cancels it; the item has the latest of all.
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

/** How a worker has answered. */
type Reply = Pick<WireItem, 'ok' | 'payload'>;

const NOTHING_KEPT: CacheStatus = { entries: 0, bytes: 0 };

export class SingleFlight {
  readonly #host: StageHost;
  readonly #queue: StageQueue;
  readonly #meter: StageMeter;
  #definition: StageDefinition;
  #cache: ResponseCache | null = null;
  /** By place: those that may be joined, and whose result is kept. */
  readonly #open: Map<string, CoalescedRun> = new Map();
  /** Those in the queue whose answer is known. */
  readonly #known: KnownAnswers = new KnownAnswers();

  constructor(definition: StageDefinition, host: StageHost, queue: StageQueue, meter: StageMeter) {
    this.#host = host;
    this.#queue = queue;
    this.#meter = meter;
    this.#definition = definition;
    this.#makeCache();
  }

  /** Whether requests are to be asked for here. Flights that were under way when it was turned off still land. */
  get isOn(): boolean {
    return this.#cache !== null;
  }

  get status(): CacheStatus {
    return this.#cache?.status ?? NOTHING_KEPT;
  }

  /** Other bounds begin with nothing kept. */
  redefine(definition: StageDefinition): void {
    const { cache } = this.#definition;
    const { entries, maxBytes, ttlMs } = definition.cache;
    this.#definition = definition;
    if (entries !== cache.entries || maxBytes !== cache.maxBytes || ttlMs !== cache.ttlMs) this.#makeCache();
  }

  /** What is kept, and what runs now, is of an older modelet: nothing of it goes to a request that comes from now on. */
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

  /** What is to be queued for a request that has come; null where it has its answer, or shares another's run. */
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

  /** A request is not wanted any more. The item that nobody waits for now; null while others do. */
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

  mayLeave(item: Item): boolean {
    if (!item.run) return this.#host.mayLeave(item);
    for (const request of item.run.requests) if (this.#host.mayLeave(request)) return true;
    return false;
  }

  /** A batch goes to a worker. `current`: one that runs what the stage is to run now; what others make is not for later requests. */
  dispatch(items: readonly Item[], current: boolean): void {
    if (current) return;
    for (const { run } of items) if (run) this.#close(run);
  }

  /** A worker has answered an item, which has left the stage so. Requests of a run may have to wait again. */
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

  /** An item comes back to be run again: those that joined while a worker had it count from now on. */
  comeBack(item: Item): void {
    if (!item.run) return;
    for (const request of item.run.requests) {
      item.run.prolong(request);
      item.priority = Math.max(item.priority, request.priority);
    }
  }

  /** The stage cannot serve an item, which has left it so. */
  fail(item: Item, error: ModeletError): void {
    const { run } = item;
    if (!run) {
      this.#host.onFailed(item, error);
      return;
    }
    this.#end(run);
    for (const request of run.take()) this.#host.onFailed(request, error);
  }

  /** Those of the queue that came before `time` are too old. Where others share their place, those keep it. */
  dropOlder(time: number, makeError: () => ModeletError): void {
    if (!this.#queue.mayHaveOlder(time)) return;
    for (const { run, arrivedAt } of this.#queue) {
      if (!run || arrivedAt >= time) continue;
      const rest = [...run.requests].find((request) => request.arrivedAt >= time);
      // Else it is dropped whole, as any item.
      if (!rest) continue;
      this.#queue.rejuvenate(run.item, rest.arrivedAt);
      for (const request of run.take((one) => one.arrivedAt < time)) this.#host.onFailed(request, makeError());
    }
    for (const item of this.#queue.sweepOlder(time)) this.fail(item, makeError());
  }

  /** Answers those of the queue whose answer is known and whom the next stage keeps no more. */
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
    // What departs from now on is not looked at: were it turned on again, it could be of an older modelet.
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

  /** The item with which a request that has its answer waits for room at the next stage. */
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

  /** A worker goes by the deadline that it was sent. Those that joined later with more time have their run. */
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

  /** Nobody may join it any more, and what it brings is not kept. */
  #close(run: CoalescedRun): void {
    const place = placeOf(run.key, run.item);
    if (this.#open.get(place) === run) this.#open.delete(place);
  }

  #end(run: CoalescedRun): void {
    this.#close(run);
    this.#known.remove(run);
  }
}

/** Items of one group evict each other where a full queue drops the oldest: what is evicted must be of one group. */
function placeOf(key: string, { group }: Item): string {
  return `${group} ${key}`;
}

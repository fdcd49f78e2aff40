/**
 * What stands before the queue of a stage that keeps results. A request whose answer is kept has it at once; one that
 * is the same as another that waits or runs shares its run; only the others are queued.
 *
 * What the queue and the workers hold is a flight's item, and never a request itself. So a flight outlives the request
 * that began it: it ends when it has an answer, when the stage gives it up, or when nobody waits for it any more.
 * A request's deadline is its caller's to watch, who cancels it; the item has the latest of all.
 */
import type { ModeletError } from '../../core/errors.ts';
import type { CacheStatus, Payload, SavedRun, StageDefinition, StageTiming } from '../../core/model.ts';
import type { StageMeter } from '../../observe/meters/stage-meter.ts';
import { decodeModeletError } from '../../wire/codec/error-codec.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { Flight } from './flight.ts';
import type { Item } from './item.ts';
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
  readonly #open: Map<string, Flight> = new Map();
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
    for (const flight of this.#open.values()) {
      if (flight.item.at.tag === 'running') this.#close(flight);
    }
    for (const flight of this.#known.drain()) {
      flight.known = null;
      this.#queue.unknown(flight.item);
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
    const flight = new Flight(key, request);
    this.#open.set(place, flight);
    return flight.item;
  }

  /** A request is not wanted any more. The item that nobody waits for now; null while others do. */
  leave(request: Item): Item | null {
    if (request.at.tag !== 'sharing') return request;
    const { flight } = request.at;
    flight.remove(request);
    const [first] = flight.requests;
    if (first) {
      const { at, arrivedAt } = flight.item;
      if (at.tag === 'queued' && arrivedAt < first.arrivedAt) this.#queue.rejuvenate(flight.item, first.arrivedAt);
      return null;
    }
    this.#end(flight);
    return flight.item;
  }

  mayLeave(item: Item): boolean {
    if (!item.flight) return this.#host.mayLeave(item);
    for (const request of item.flight.requests) if (this.#host.mayLeave(request)) return true;
    return false;
  }

  /** A batch goes to a worker. `current`: one that runs what the stage is to run now; what others make is not for later requests. */
  depart(items: readonly Item[], current: boolean): void {
    if (current) return;
    for (const { flight } of items) if (flight) this.#close(flight);
  }

  /** A worker has answered an item, which has left the stage so. Requests of a flight may have to wait again. */
  land(item: Item, reply: Reply, timing: StageTiming): void {
    const { flight } = item;
    if (!flight) {
      this.#answer(item, reply, timing);
      return;
    }
    if (this.#fliesAgain(flight, reply, timing)) return;
    const keeps = this.#open.get(placeOf(flight.key, item)) === flight;
    this.#end(flight);
    if (reply.ok && keeps) this.#cache?.keep(flight.key, reply.payload);
    for (const request of flight.take()) {
      if (request.id === item.id) this.#answer(request, reply, timing);
      else this.#answerJoined(flight.key, request, reply);
    }
  }

  /** An item comes back to be run again: those that joined while a worker had it count from now on. */
  comeBack(item: Item): void {
    if (!item.flight) return;
    for (const request of item.flight.requests) {
      item.flight.prolong(request);
      item.priority = Math.max(item.priority, request.priority);
    }
  }

  /** The stage cannot serve an item, which has left it so. */
  fail(item: Item, error: ModeletError): void {
    const { flight } = item;
    if (!flight) {
      this.#host.onFailed(item, error);
      return;
    }
    this.#end(flight);
    for (const request of flight.take()) this.#host.onFailed(request, error);
  }

  /** Those of the queue that came before `time` are too old. Where others share their place, those keep it. */
  dropOlder(time: number, makeError: () => ModeletError): void {
    if (!this.#queue.mayHaveOlder(time)) return;
    for (const { flight, arrivedAt } of this.#queue) {
      if (!flight || arrivedAt >= time) continue;
      const rest = [...flight.requests].find((request) => request.arrivedAt >= time);
      // Else it is dropped whole, as any item.
      if (!rest) continue;
      this.#queue.rejuvenate(flight.item, rest.arrivedAt);
      for (const request of flight.take((one) => one.arrivedAt < time)) this.#host.onFailed(request, makeError());
    }
    for (const item of this.#queue.sweepOlder(time)) this.fail(item, makeError());
  }

  /** Answers those of the queue whose answer is known and whom the next stage keeps no more. */
  answerKnown(): void {
    for (const flight of this.#known.leaving((item) => this.mayLeave(item))) {
      this.#queue.remove(flight.item);
      this.#end(flight);
      if (!flight.known) continue;
      const { payload, how } = flight.known;
      for (const request of flight.take()) this.#pass(request, payload, how);
    }
  }

  #makeCache(): void {
    const { cache } = this.#definition;
    this.#cache = cache.entries > 0 ? new ResponseCache(cache, this.#host.clock) : null;
    // What departs from now on is not looked at: were it turned on again, it could be of an older modelet.
    if (!this.#cache) this.#open.clear();
  }

  #join(flight: Flight, request: Item): void {
    flight.add(request);
    const { item } = flight;
    if (item.at.tag !== 'queued') return;
    flight.prolong(request);
    this.#queue.retimed(item);
    if (request.priority > item.priority) this.#queue.raise(item, request.priority);
  }

  /** The item with which a request that has its answer waits for room at the next stage. */
  #holdBack(key: string, request: Item, payload: Payload, how: SavedRun): Item {
    const flight = new Flight(key, request);
    flight.item.arrivedAt = this.#host.clock.now();
    this.#known.add(flight, payload, how);
    return flight.item;
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
  #fliesAgain(flight: Flight, reply: Reply, timing: StageTiming): boolean {
    const { item } = flight;
    if (reply.ok || this.#host.clock.now() < item.deadline) return false;
    const first = [...flight.requests].find(({ deadline }) => deadline > item.deadline);
    if (!first || decodeModeletError(reply.payload.bytes, 'protocol_error').code !== 'deadline_exceeded') return false;
    const sent = item.deadline;
    for (const request of flight.take(({ deadline }) => deadline <= sent)) this.#answer(request, reply, timing);
    this.comeBack(item);
    item.arrivedAt = first.arrivedAt;
    this.#queue.putBack([item]);
    return true;
  }

  /** Nobody may join it any more, and what it brings is not kept. */
  #close(flight: Flight): void {
    const place = placeOf(flight.key, flight.item);
    if (this.#open.get(place) === flight) this.#open.delete(place);
  }

  #end(flight: Flight): void {
    this.#close(flight);
    this.#known.remove(flight);
  }
}

/** Items of one group evict each other where a full queue drops the oldest: what is evicted must be of one group. */
function placeOf(key: string, { group }: Item): string {
  return `${group} ${key}`;
}

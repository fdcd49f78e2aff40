/** Measures requests: their durations by outcome, and which of the last minutes were the slowest. */
import type { ListenerStatus, SettledRequest, StageTiming } from '../../core/model.ts';
import type { DurationReadings, FineReading, OutcomeCode } from '../../core/readings.ts';
import { layOut } from '../../core/routes/concurrent-timings.ts';
import type { Settlement } from '../../core/routes/route.ts';
import { DURATION_BOUNDS, Histogram, Quantiles } from './histogram.ts';

/** Number of requests that are shown. */
export const KEPT = 20;
/** Requests that settled longer ago are not shown. */
export const WINDOW_MS = 300_000;
/** Length of a slot. A whole slot is dropped when its start is too old, so the window is short by at most this time. */
export const SLOT_MS = 15_000;

/** A request, and when it settled. */
interface SlowEntry<Request> {
  readonly at: number;
  readonly request: Request;
}

interface Slot<Request> {
  readonly startedAt: number;
  /** At most `KEPT` requests, fastest first. */
  readonly entries: SlowEntry<Request>[];
}

/**
 * Keeps the slowest requests. Time is divided into slots, each with its own slowest requests. So memory is bounded,
 * nearly every request costs only two comparisons, and old requests are dropped slot by slot.
 */
export class Slowest<Request extends { readonly totalMs: number }> {
  /** Slots, oldest first. */
  #slots: Slot<Request>[] = [];
  /** Time from which a request belongs to a new slot. */
  #slotEndsAt = Number.NEGATIVE_INFINITY;
  /** Duration that a request must exceed to be among the slowest of its slot. */
  #floorMs = Number.POSITIVE_INFINITY;

  /** Whether to add a request that settled `at`. Call before collecting the data that `add` needs. */
  accepts(at: number, totalMs: number): boolean {
    return totalMs > this.#floorMs || at >= this.#slotEndsAt;
  }

  /** Adds a request. `at` must not decrease from one call to the next. */
  add(at: number, request: Request): void {
    const { entries } = this.#slotAt(at);
    const place = entries.findIndex((other) => other.request.totalMs >= request.totalMs);
    entries.splice(place < 0 ? entries.length : place, 0, { at, request });
    if (entries.length > KEPT) entries.shift();
    this.#floorMs = entries.length < KEPT ? Number.NEGATIVE_INFINITY : (entries[0]?.request.totalMs ?? 0);
  }

  /** Returns the slowest requests, slowest first. */
  list(now: number): readonly SlowEntry<Request>[] {
    this.#forget(now);
    const entries = this.#slots.flatMap((slot) => slot.entries);
    return entries.sort((a, b) => b.request.totalMs - a.request.totalMs || b.at - a.at).slice(0, KEPT);
  }

  #slotAt(at: number): Slot<Request> {
    const last = this.#slots.at(-1);
    if (last && at < this.#slotEndsAt) return last;
    this.#forget(at);
    const slot: Slot<Request> = { startedAt: at, entries: [] };
    this.#slots.push(slot);
    this.#slotEndsAt = at + SLOT_MS;
    return slot;
  }

  #forget(now: number): void {
    this.#slots = this.#slots.filter((slot) => slot.startedAt >= now - WINDOW_MS);
  }
}

/** Measures durations, separately for each outcome. */
export class DurationMeter {
  readonly #byCode: Map<OutcomeCode, Histogram> = new Map([['ok', new Histogram(DURATION_BOUNDS)]]);
  readonly #results: Quantiles = new Quantiles();

  observe(code: OutcomeCode, ms: number): void {
    if (!this.#byCode.has(code)) this.#byCode.set(code, new Histogram(DURATION_BOUNDS));
    this.#byCode.get(code)?.observe(ms);
    if (code === 'ok') this.#results.observe(ms);
  }

  /** Returns the durations of the requests that ended with a result. */
  readResults(): FineReading {
    return this.#results.read();
  }

  read(): DurationReadings {
    const readings = [...this.#byCode].map(([code, histogram]) => [code, histogram.read()]);
    return Object.fromEntries(readings) as DurationReadings;
  }
}

interface TimedRequest {
  readonly caller: { readonly requestId: string; readonly gateMs: number };
  readonly openedAt: number;
  readonly sentAt: number;
}

/** Keeps the slowest requests of the last minutes and breaks down where their time went. */
export class SlowRequests {
  readonly #slowest: Slowest<SettledRequest> = new Slowest();

  /** Notes a settled request. Runs for every request, so it returns early for a request that is too fast to keep. */
  note(
    { caller: { requestId, gateMs }, openedAt, sentAt }: TimedRequest,
    { outcome, timings, gathered }: Settlement,
    at: number,
  ): void {
    const totalMs = gateMs + at - openedAt;
    if (!this.#slowest.accepts(at, totalMs)) return;
    const entranceMs = Math.min(at, sentAt) - openedAt;
    const code = outcome.ok ? 'ok' : outcome.error.code;
    const stage = (outcome.ok ? undefined : outcome.error.stage) ?? null;
    this.#slowest.add(at, { requestId, code, stage, totalMs, gateMs, entranceMs, timings, gathered });
  }

  /** Returns the kept requests, slowest first. */
  entries(now: number): ListenerStatus['slowest'] {
    return this.#slowest.list(now);
  }

  /** Breaks down the kept requests and those of another table, slowest first. */
  list(now: number, others: ListenerStatus['slowest'], nameOf: (ref: number) => string): SlowRequest[] {
    return [...this.entries(now), ...others.filter(({ at }) => now - at <= WINDOW_MS)]
      .sort((a, b) => b.request.totalMs - a.request.totalMs)
      .slice(0, KEPT)
      .map(({ at, request }) => breakDown(request, now - at, nameOf));
  }
}

/** The total time is the sum of `gateMs`, `entranceMs` and the five parts below. */
export interface SlowRequest extends Omit<SettledRequest, 'timings' | 'gathered'> {
  /** Time since the request settled. */
  readonly agoMs: number;
  /** Wait while no worker was free, over all stages; of branches at the same time, those of the longest. */
  readonly waitMs: number;
  /** Wait while a batch filled, over all stages. */
  readonly batchMs: number;
  readonly runMs: number;
  /** Rest of the time: transport between the processes, including delays there. 0 if not known. */
  readonly transportMs: number;
  /** Rest of the time of a request without an answer: in a queue, in a failed run, and in transport. */
  readonly unansweredMs: number;
  readonly stages: readonly (Omit<StageTiming, 'stage'> & { readonly name: string })[];
}

/** Splits the time of a request into parts that add up to the total. */
export function breakDown(request: SettledRequest, agoMs: number, nameOf: (ref: number) => string): SlowRequest {
  const { timings, gathered, ...known } = request;
  const { code, stage, totalMs, gateMs, entranceMs } = known;
  const { critical } = layOut(timings, gathered?.gathered ?? null);
  const stages = timings.map(({ stage: ref, ...timing }) => ({ name: nameOf(ref), ...timing }));
  const sum = (part: 'waitMs' | 'batchMs' | 'runMs'): number =>
    stages.reduce((total, timing, place) => total + (critical.has(place) ? timing[part] : 0), 0);
  const [waitMs, batchMs, runMs] = [sum('waitMs'), sum('batchMs'), sum('runMs')];
  const restMs = Math.max(0, totalMs - gateMs - entranceMs - waitMs - batchMs - runMs);
  // A stage that answers with an error has measured its times like any other.
  const answered = code === 'ok' || (stage !== null && stages.at(-1)?.name === stage);
  return {
    ...known,
    ...{ agoMs, waitMs, batchMs, runMs },
    transportMs: answered ? restMs : 0,
    unansweredMs: answered ? 0 : restMs,
    stages,
  };
}

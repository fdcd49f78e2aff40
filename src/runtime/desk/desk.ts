/**
 * Takes requests and answers each exactly once. The ledger is the table of open requests, and the only place where one
 * settles: by its outcome, its deadline, a cancel by its caller, or the loss of the engine. The desk in front of it admits
 * or refuses requests, and passes outcomes and parts of results to their callers. A runtime has a desk in Node-RED's
 * process for requests that come through Node-RED, and one in its engine for those of the engine's own listener.
 */
import { type Clock, type Deadline, deadlineAfter, type Timer } from '../../core/clock.ts';
import { asError, ERROR_CODES, type ErrorCode, ModeletError } from '../../core/errors.ts';
import {
  FIRST_NUMBER,
  type LogRecord,
  type Outcome,
  type Payload,
  type RequestNumber,
  type StageTiming,
} from '../../core/model.ts';
import type { RequestReading } from '../../core/readings.ts';
import type { GatherReport } from '../../core/routes/gather.ts';
import type { Settlement } from '../../core/routes/route.ts';
import { Table } from '../../core/table.ts';
import { Refusals } from '../../observe/log/refusals.ts';
import { FailedRequests } from '../../observe/meters/failed-requests.ts';
import { DurationMeter, SlowRequests } from '../../observe/meters/request-meters.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { bareItem, gatheredOf, outcomeOf } from '../../wire/frames/items.ts';

/** Callbacks of the code that waits for a request. */
export interface Caller {
  /** Called exactly once, never before the request is open. */
  onSettled(settlement: Settlement): void;
  /**
   * Receives one part of a result that is not complete yet: in order, and only before `onSettled`. The engine sends
   * parts only to callers that have this method. It must call `taken` after it has handled the part, because only a few
   * parts are in transit at a time.
   */
  readonly onPart?: ((payload: Payload, index: number, taken: () => void) => void) | undefined;
  /** Receives a value that passes from one stage to the next, for nodes that tap it; only before `onSettled`. */
  onTap?(stage: number, payload: Payload): void;
}

/** Callbacks of the ledger's owner, called for every request. */
export interface LedgerWatcher<C extends Caller = Caller> {
  /** A request settled at time `at`. */
  onSettled(request: OpenRequest<C>, settlement: Settlement, at: number): void;
  /** A request reached its deadline and settled; the engine should drop it too. */
  onExpired(id: RequestNumber): void;
  /** A request ended with an error, or was refused before it was opened. */
  onFailed(code: ErrorCode): void;
  /** A caller's callback threw. The ledger catches the error, so it affects no other request. */
  onThrown(error: Error, caller: C): void;
}

/** A request that has not settled. All times are on the ledger's clock. */
export interface OpenRequest<C extends Caller = Caller> {
  readonly id: RequestNumber;
  readonly caller: C;
  readonly timer: Timer | null;
  readonly openedAt: number;
  /** When the request was sent to the engine; Infinity while it waits at the entrance. */
  sentAt: number;
}

export class Ledger<C extends Caller = Caller> {
  /** Most open requests. */
  readonly capacity: number;
  readonly #durations: DurationMeter = new DurationMeter();
  readonly #clock: Clock;
  readonly #open: Table<OpenRequest<C>> = new Table();
  readonly #watcher: LedgerWatcher<C>;
  readonly #errors: Record<ErrorCode, number> = Object.fromEntries(ERROR_CODES.map((code) => [code, 0])) as Record<
    ErrorCode,
    number
  >;
  #lastNumber: RequestNumber;
  #ok = 0;
  #late = 0;
  #onEmpty: (() => void)[] = [];

  /** @param firstNumber number of the first request; two tables for the same engine must not share numbers */
  constructor(capacity: number, clock: Clock, watcher: LedgerWatcher<C>, firstNumber: RequestNumber = 1) {
    this.capacity = capacity;
    this.#clock = clock;
    this.#watcher = watcher;
    this.#lastNumber = firstNumber - 1;
  }

  /** Open requests now. */
  get backlog(): number {
    return this.#open.size;
  }

  /** Every code is present from the start. */
  read(): RequestReading {
    return {
      counts: { ok: this.#ok, ...this.#errors },
      late: this.#late,
      durations: this.#durations.read(),
      results: this.#durations.readResults(),
    };
  }

  /**
   * Opens a request.
   * @param places how many requests come now, this one included
   * @throws ModeletError `capacity_exceeded` if `capacity` has no room for all that come, and this one is not patient.
   */
  open(caller: C, deadline: Deadline, patient: boolean, places = 1): RequestNumber {
    if (this.#open.size + places > this.capacity && !patient) {
      this.#countError('capacity_exceeded');
      const full = `${this.#open.size} requests are open, the runtime's capacity`;
      const short = `${this.#open.size} of ${this.capacity} requests are open: there is no room for ${places} rows`;
      throw new ModeletError('capacity_exceeded', places > 1 ? short : full, { retryAfterSeconds: 1 });
    }
    this.#lastNumber += 1;
    const id = this.#lastNumber;
    const timer = deadline === Number.POSITIVE_INFINITY ? null : this.#clock.at(deadline, () => this.#expire(id));
    const openedAt = this.#clock.now();
    this.#open.set(id, { id, caller, timer, openedAt, sentAt: patient ? Number.POSITIVE_INFINITY : openedAt });
    return id;
  }

  /** Notes that a patient request was sent to the engine. */
  sent(id: RequestNumber): void {
    const request = this.#open.get(id);
    if (request) request.sentAt = this.#clock.now();
  }

  /** Settles a request. Returns false, without a call, if the request had already settled. */
  settle(
    id: RequestNumber,
    outcome: Outcome<Payload>,
    timings: readonly StageTiming[] = [],
    gathered: GatherReport | null = null,
  ): boolean {
    const request = this.#open.get(id);
    if (!request) {
      this.#late += 1;
      return false;
    }
    this.#open.delete(id);
    request.timer?.cancel();
    if (outcome.ok) this.#ok += 1;
    else this.#countError(outcome.error.code);
    const at = this.#clock.now();
    this.#durations.observe(outcome.ok ? 'ok' : outcome.error.code, at - request.openedAt);
    const settlement = { outcome, timings, gathered };
    this.#watcher.onSettled(request, settlement, at);
    this.#tell(request.caller, (caller) => caller.onSettled(settlement));
    if (this.#open.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve();
    return true;
  }

  /** Passes a tapped value to a request's caller. No effect if the request has settled. */
  tap(id: RequestNumber, stage: number, payload: Payload): void {
    const request = this.#open.get(id);
    if (request) this.#tell(request.caller, (caller) => caller.onTap?.(stage, payload));
  }

  /** Passes a part of a result to the request's caller. No effect if the request has settled. */
  part(id: RequestNumber, index: number, payload: Payload, taken: () => void): void {
    const request = this.#open.get(id);
    if (request) this.#tell(request.caller, (caller) => caller.onPart?.(payload, index, taken));
  }

  isOpen(id: RequestNumber): boolean {
    return this.#open.has(id);
  }

  /** Settles every open request, or the ones that `which` selects, each with a new error. */
  failAll(makeError: () => ModeletError, which: (id: RequestNumber) => boolean = () => true): void {
    // Select first: settling one request may change what `which` returns for others.
    const chosen = this.#open.values().filter(({ id }) => which(id));
    for (const { id } of chosen) this.settle(id, { ok: false, error: makeError() });
  }

  /** Counts a request that was refused before it was opened. */
  countRefused(code: ErrorCode): void {
    this.#countError(code);
  }

  /** Resolves when no request is open, or at `limit`. */
  whenEmpty(limit: Deadline = Number.POSITIVE_INFINITY): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#clock.at(limit, resolve);
      this.#onEmpty.push(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  #countError(code: ErrorCode): void {
    this.#errors[code] += 1;
    this.#watcher.onFailed(code);
  }

  #tell(caller: C, call: (caller: C) => void): void {
    try {
      call(caller);
    } catch (thrown) {
      this.#watcher.onThrown(asError(thrown), caller);
    }
  }

  #expire(id: RequestNumber): void {
    const error = new ModeletError('deadline_exceeded', 'not answered before its deadline');
    if (this.settle(id, { ok: false, error })) this.#watcher.onExpired(id);
  }
}

/** A request as a node, or a compiled endpoint, submits it. */
export interface SubmitRequest extends Caller {
  /** Id shown to users; need not be unique. */
  readonly requestId: string;
  /** How long the request waited at gates before it was submitted, in ms. */
  readonly gateMs: number;
  /** Id of the node at which the message entered, or would have. */
  readonly entry: string;
  readonly payload: Payload;
  readonly deadline: Deadline;
  /** Priority; a higher number goes first. */
  readonly priority: number;
  /** Whether the request waits for room instead of being refused. */
  readonly patient: boolean;
  /** How many requests come now, with this one: there must be room for all. Default: 1. */
  readonly places?: number | undefined;
  /** Group whose requests evict each other if a full queue drops the oldest; 0 means no group. */
  readonly group: number;
  /** Hash of the value whose requests stay on one version of a stage. Default: none. */
  readonly sticky?: number;
  /** JSON of the message properties, other than the payload, that stages may read. */
  readonly meta: Uint8Array | null;
}

/** The process of a desk. `Entry`: what it knows of the node at which a request enters. */
export interface DeskHost<Entry> {
  /** Returns where a request enters, or why it cannot. */
  entryOf(request: SubmitRequest): Entry | ModeletError;
  routeOf(entry: Entry): number;
  /** Returns why the host takes no further request, or not this one; null if it does. */
  refusalOf(request: SubmitRequest, entry: Entry): ModeletError | null;
  /** Lets an open request in. */
  enter(item: WireItem, entry: Entry): void;
  /** Drops a request that has settled early. */
  cancel(id: RequestNumber): void;
  /** The caller of a request has taken so many parts of its result. */
  taken(id: RequestNumber, parts: number): void;
  onSettled(id: RequestNumber, request: SubmitRequest): void;
  /** A request has failed, or was refused. */
  onFailed(): void;
  onLog(record: LogRecord): void;
}

/** The settings of a runtime that its desk needs. */
export interface DeskTerms {
  /** Most open requests. */
  readonly capacity: number;
  /** Why the runtime takes no requests at all; null if it does. */
  readonly barred: string | null;
}

export class Desk<Entry> {
  readonly #host: DeskHost<Entry>;
  readonly #clock: Clock;
  readonly #barred: string | null;
  readonly #ledger: Ledger<SubmitRequest>;
  readonly #refusals: Refusals;
  readonly slowRequests: SlowRequests = new SlowRequests();
  readonly failedRequests: FailedRequests = new FailedRequests();
  #isClosing = false;

  /** @param firstNumber number of the first request; two desks of the same engine must not share numbers */
  constructor(terms: DeskTerms, host: DeskHost<Entry>, clock: Clock, firstNumber: RequestNumber = FIRST_NUMBER.server) {
    this.#host = host;
    this.#clock = clock;
    this.#barred = terms.barred;
    this.#refusals = new Refusals(clock, (record) => host.onLog(record));
    const watcher: LedgerWatcher<SubmitRequest> = {
      onSettled: (open, settlement, at) => {
        this.slowRequests.note(open, settlement, at);
        if (!settlement.outcome.ok) this.failedRequests.note(settlement.outcome.error, at);
        host.onSettled(open.id, open.caller);
      },
      onExpired: (id) => host.cancel(id),
      onFailed: (code) => {
        this.#refusals.count(code);
        host.onFailed();
      },
      onThrown: (error, { requestId }) => {
        const message = `a callback of a request threw: ${error.stack}`;
        host.onLog({ level: 'error', message, fields: { requestId } });
      },
    };
    this.#ledger = new Ledger<SubmitRequest>(terms.capacity, clock, watcher, firstNumber);
  }

  /** Open requests now. */
  get backlog(): number {
    return this.#ledger.backlog;
  }

  get capacity(): number {
    return this.#ledger.capacity;
  }

  /** Counts of all requests so far. */
  read(): RequestReading {
    return this.#ledger.read();
  }

  deadlineFor(timeoutMs: number): Deadline {
    return deadlineAfter(this.#clock, timeoutMs);
  }

  /**
   * Opens a request and lets it in. Calls `onSettled` exactly once, later.
   * @throws ModeletError if the request is refused, which is counted here
   */
  submit(request: SubmitRequest): RequestNumber {
    const entry = this.#host.entryOf(request);
    if (entry instanceof ModeletError) throw this.#refuse(entry);
    const refusal = this.#refusal() ?? this.#host.refusalOf(request, entry);
    if (refusal) throw this.#refuse(refusal);
    const { deadline, patient, places } = request;
    const id = this.#ledger.open(request, deadline, patient, places);
    this.#host.enter(toItem(request, id, this.#host.routeOf(entry)), entry);
    return id;
  }

  /** Notes that a patient request waits no longer. */
  sent(id: RequestNumber): void {
    this.#ledger.sent(id);
  }

  isOpen(id: RequestNumber): boolean {
    return this.#ledger.isOpen(id);
  }

  /** Counts a request that failed before it could be submitted. */
  countRefused(error: Pick<ModeletError, 'code' | 'message'>): void {
    this.#ledger.countRefused(error.code);
    this.failedRequests.note(error, this.#clock.now());
  }

  /** Settles a request early and drops it. No effect if the request has settled. */
  abandon(id: RequestNumber, error: ModeletError): void {
    if (!this.#ledger.isOpen(id)) return;
    this.#ledger.settle(id, { ok: false, error });
    this.#host.cancel(id);
  }

  /** Passes an outcome to its request. */
  settle(item: WireItem): void {
    this.#ledger.settle(item.id, outcomeOf(item), item.timings, gatheredOf(item));
  }

  /** Passes a part of a result to its request. */
  part({ id, part, payload }: WireItem): void {
    this.#ledger.part(id, part, payload, () => this.#host.taken(id, part + 1));
  }

  /** Passes a value between two stages to its request. */
  tap({ id, stageRef, payload }: WireItem): void {
    this.#ledger.tap(id, stageRef, payload);
  }

  /** Settles every open request, or the ones that `which` selects, each with a new error. */
  failAll(makeError: () => ModeletError, which?: (id: RequestNumber) => boolean): void {
    this.#ledger.failAll(makeError, which);
  }

  /** Refuses every further request, and settles the open ones by `limit`; at once if it is null. */
  async close(limit: Deadline | null): Promise<void> {
    this.#isClosing = true;
    if (limit !== null) await this.#ledger.whenEmpty(limit);
    this.#ledger.failAll(shuttingDown);
    this.#refusals.close();
  }

  #refusal(): ModeletError | null {
    if (this.#isClosing) return shuttingDown();
    return this.#barred === null ? null : new ModeletError('config_invalid', this.#barred);
  }

  #refuse(error: ModeletError): ModeletError {
    this.countRefused(error);
    return error;
  }
}

export function shuttingDown(): ModeletError {
  return new ModeletError('shutting_down', 'the runtime is shutting down');
}

/** @param id the number that the ledger gave the request */
function toItem(request: SubmitRequest, id: RequestNumber, routeRef: number): WireItem {
  const { payload, deadline, priority, patient, group, sticky = 0, meta, onPart } = request;
  const streams = onPart !== undefined;
  return { ...bareItem(id, payload), routeRef, deadline, priority, patient, streams, group, sticky, meta };
}

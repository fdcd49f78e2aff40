/**
 * The table of open requests, and the only place where one settles: by its outcome, its deadline, a cancel by its caller, or
 * the loss of the engine.
 */
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { asError, ERROR_CODES, type ErrorCode, ModeletError } from '../../core/errors.ts';
import type { Outcome, Payload, RequestNumber, StageTiming } from '../../core/model.ts';
import { Table } from '../../core/queues/table.ts';
import type { RequestReading } from '../../core/readings.ts';
import type { GatherReport } from '../../core/routes/gather.ts';
import type { Settlement } from '../../core/routes/route.ts';
import { DurationMeter } from '../../observe/meters/request-meters.ts';

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
  /** Most open requests. Those that are open when it becomes less stay open. */
  capacity: number;
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

  /** Returns why there is no room for so many requests that come now; null if there is. Patient requests need none. */
  refusalOf(places = 1): ModeletError | null {
    if (this.#open.size + places <= this.capacity) return null;
    const full = `${this.#open.size} requests are open, the runtime's capacity`;
    const short = `${this.#open.size} of ${this.capacity} requests are open: there is no room for ${places} rows`;
    return new ModeletError('capacity_exceeded', places > 1 ? short : full, { retryAfterSeconds: 1 });
  }

  open(caller: C, deadline: Deadline, patient: boolean): RequestNumber {
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
    else this.countFailed(outcome.error.code);
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

  /** Returns the caller of an open request. */
  callerOf(id: RequestNumber): C | undefined {
    return this.#open.get(id)?.caller;
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

  /** Counts a request that has failed, or was refused before it was opened. */
  countFailed(code: ErrorCode): void {
    this.#errors[code] += 1;
    this.#watcher.onFailed(code);
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

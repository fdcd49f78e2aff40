/**
 * The table of open requests. The only place where a request settles: exactly once, by its outcome, its
 * deadline, its caller's going away, or the loss of what it waited for.
 */
import type { Clock, Deadline, Timer } from '../core/clock.ts';
import { asError, ERROR_CODES, type ErrorCode, ModeletError } from '../core/errors.ts';
import type { Outcome, Payload, RequestNumber, StageTiming } from '../core/model.ts';
import { Table } from '../core/table.ts';
import { DurationMeter } from '../observe/meters/duration-meter.ts';

/** An outcome as it comes back: the value still encoded, and what each stage cost. */
export interface Settlement {
  readonly outcome: Outcome<Payload>;
  readonly timings: readonly StageTiming[];
}

/** Who waits for a request. */
export interface Caller {
  /** Called exactly once, never before the request is open. */
  onSettled(settlement: Settlement): void;
  /**
   * A part of the result, which is not done; only before `onSettled`, and in order. Who has this is sent parts where the
   * result comes in parts. Must call `taken` once it has dealt with the part: only a few are under way at a time.
   */
  onPart?(payload: Payload, index: number, taken: () => void): void;
  /** A value on its way between two stages, for nodes that look on; only before `onSettled`. */
  onTap?(stage: number, payload: Payload): void;
}

/** Who else keeps something for open requests. */
export interface LedgerWatcher<C extends Caller = Caller> {
  /** Any request has settled, at this time. */
  onSettled(request: OpenRequest<C>, settlement: Settlement, at: number): void;
  /** One was settled by its deadline: others should drop it too. */
  onExpired(id: RequestNumber): void;
  /** A request has ended with an error, or was refused before it was opened. */
  onFailed(code: ErrorCode): void;
  /** A caller threw when it was told something: its own trouble, and no other request's. */
  onThrown(error: Error): void;
}

/** Times are those of the ledger's clock. */
export interface OpenRequest<C extends Caller = Caller> {
  readonly id: RequestNumber;
  readonly caller: C;
  readonly timer: Timer | null;
  readonly openedAt: number;
  /** When it left for the engine; Infinity while it waits to be let in. */
  sentAt: number;
}

export interface LedgerCounts {
  readonly ok: number;
  readonly errors: Readonly<Record<ErrorCode, number>>;
  /** Outcomes for requests that had settled before; ignored. */
  readonly late: number;
}

export class Ledger<C extends Caller = Caller> {
  /** Most open requests. */
  readonly capacity: number;
  /** How long requests were open. Those that were refused never were. */
  readonly durations: DurationMeter = new DurationMeter();
  readonly #clock: Clock;
  readonly #open: Table<OpenRequest<C>> = new Table();
  readonly #watcher: LedgerWatcher<C>;
  readonly #errors: Record<ErrorCode, number> = Object.fromEntries(ERROR_CODES.map((code) => [code, 0])) as Record<
    ErrorCode,
    number
  >;
  #lastNumber = 0;
  #ok = 0;
  #late = 0;
  #onEmpty: (() => void)[] = [];

  constructor(capacity: number, clock: Clock, watcher: LedgerWatcher<C>) {
    this.capacity = capacity;
    this.#clock = clock;
    this.#watcher = watcher;
  }

  /** Open requests now. */
  get backlog(): number {
    return this.#open.size;
  }

  get counts(): LedgerCounts {
    return { ok: this.#ok, errors: { ...this.#errors }, late: this.#late };
  }

  /**
   * Opens a request.
   * @throws ModeletError `capacity_exceeded` when `capacity` requests are open and this one is not patient.
   */
  open(caller: C, deadline: Deadline, patient: boolean): RequestNumber {
    if (this.#open.size >= this.capacity && !patient) {
      this.#countError('capacity_exceeded');
      throw new ModeletError('capacity_exceeded', `${this.#open.size} requests are open, the runtime's capacity`, {
        retryAfterSeconds: 1,
      });
    }
    this.#lastNumber += 1;
    const id = this.#lastNumber;
    const timer = deadline === Number.POSITIVE_INFINITY ? null : this.#clock.at(deadline, () => this.#expire(id));
    const openedAt = this.#clock.now();
    this.#open.set(id, { id, caller, timer, openedAt, sentAt: patient ? Number.POSITIVE_INFINITY : openedAt });
    return id;
  }

  /** A patient request has left for the engine. */
  sent(id: RequestNumber): void {
    const request = this.#open.get(id);
    if (request) request.sentAt = this.#clock.now();
  }

  /** False if the request had settled before: a late result reaches nobody. */
  settle(id: RequestNumber, outcome: Outcome<Payload>, timings: readonly StageTiming[] = []): boolean {
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
    this.durations.observe(outcome.ok ? 'ok' : outcome.error.code, at - request.openedAt);
    const settlement = { outcome, timings };
    this.#watcher.onSettled(request, settlement, at);
    this.#tell(() => request.caller.onSettled(settlement));
    if (this.#open.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve();
    return true;
  }

  /** Shows a passing value to a request's caller; no effect if the request has settled. */
  tap(id: RequestNumber, stage: number, payload: Payload): void {
    const request = this.#open.get(id);
    if (request) this.#tell(() => request.caller.onTap?.(stage, payload));
  }

  /** Hands on a part of a request's result; no effect if the request has settled. */
  part(id: RequestNumber, index: number, payload: Payload, taken: () => void): void {
    const request = this.#open.get(id);
    if (request) this.#tell(() => request.caller.onPart?.(payload, index, taken));
  }

  isOpen(id: RequestNumber): boolean {
    return this.#open.has(id);
  }

  /** Settles every open request, or those that `which` picks, with an error of its own. */
  failAll(makeError: () => ModeletError, which: (id: RequestNumber) => boolean = () => true): void {
    // Chosen before the first settles: settling one may move others.
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

  #tell(call: () => void): void {
    try {
      call();
    } catch (thrown) {
      this.#watcher.onThrown(asError(thrown));
    }
  }

  #expire(id: RequestNumber): void {
    const error = new ModeletError('deadline_exceeded', 'not answered before its deadline');
    if (this.settle(id, { ok: false, error })) this.#watcher.onExpired(id);
  }
}

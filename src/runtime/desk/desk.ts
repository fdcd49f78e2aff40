/**
 * Takes requests and answers each exactly once: admits or refuses them in front of the ledger, and passes outcomes and parts
 * of results to their callers. A runtime has a desk in Node-RED's process for requests that come through Node-RED, and one
 * in its engine for those of the engine's own listener.
 */
import { type Clock, type Deadline, deadlineAfter } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import { FIRST_NUMBER, type LogRecord, NO_COST, type Payload, type RequestNumber } from '../../core/model.ts';
import type { RequestReading } from '../../core/readings.ts';
import { Refusals } from '../../observe/log/refusals.ts';
import { FailedRequests } from '../../observe/meters/failed-requests.ts';
import { SlowRequests } from '../../observe/meters/request-meters.ts';
import { byteLengthOf } from '../../wire/codec/chunks.ts';
import { gatheredOf, outcomeOf } from '../../wire/frames/failures.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { bareItem } from '../../wire/frames/items.ts';
import { type Caller, Ledger, type LedgerWatcher } from './ledger.ts';

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
  /** All requests that come now, with this one: there must be room for all of them. Default: this one alone. */
  readonly together?: RequestRows | undefined;
  /** Whether the request is open, but goes in only when `enter` is called. */
  readonly isHeld?: boolean | undefined;
  /** Group whose requests evict each other if a full queue drops the oldest; 0 means no group. */
  readonly group: number;
  /** Hash of the value whose requests stay on one version of a stage. Default: none. */
  readonly sticky?: number;
  /** Hash of the request's key. Default: none. */
  readonly key?: number;
  /** Its share of a batch's cost. Default: not known. */
  readonly cost?: number;
  /** JSON of the message properties, other than the payload, that stages may read. */
  readonly meta: Uint8Array | null;
}

/** Requests that are admitted together, or not at all. */
export interface RequestRows {
  readonly count: number;
  /** Bytes of all their payloads. */
  readonly bytes: number;
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
  /** A request that was let in has settled. */
  onSettled(id: RequestNumber, request: SubmitRequest): void;
  /** A request has failed, or was refused. */
  onFailed(): void;
  onLog(record: LogRecord): void;
}

/** The settings of a runtime that its desk needs. */
export interface DeskTerms {
  /** Most open requests. */
  readonly capacity: number;
  /** Most bytes of payloads of requests that are held, unless those of one client alone are more. */
  readonly maxHeldBytes: number;
  /** Why the runtime takes no requests at all; null if it does. */
  readonly barred: string | null;
}

export class Desk<Entry> {
  readonly #host: DeskHost<Entry>;
  readonly #clock: Clock;
  readonly #barred: string | null;
  readonly #ledger: Ledger<SubmitRequest>;
  readonly #refusals: Refusals;
  readonly #maxHeldBytes: number;
  /** Bytes of the payload of each request that is held. */
  readonly #held: Map<RequestNumber, number> = new Map();
  #heldBytes = 0;
  readonly slowRequests: SlowRequests = new SlowRequests();
  readonly failedRequests: FailedRequests = new FailedRequests();
  #isClosing = false;

  /** @param firstNumber number of the first request; two desks of the same engine must not share numbers */
  constructor(terms: DeskTerms, host: DeskHost<Entry>, clock: Clock, firstNumber: RequestNumber = FIRST_NUMBER.server) {
    this.#host = host;
    this.#clock = clock;
    this.#barred = terms.barred;
    this.#maxHeldBytes = terms.maxHeldBytes;
    this.#refusals = new Refusals(clock, (record) => host.onLog(record));
    const watcher: LedgerWatcher<SubmitRequest> = {
      onSettled: (open, settlement, at) => {
        this.slowRequests.note(open, settlement, at);
        if (settlement.outcome.ok) this.failedRequests.answered(open.caller.entry);
        else this.failedRequests.note(settlement.outcome.error, at, open.caller.entry);
        if (!this.#letGo(open.id)) host.onSettled(open.id, open.caller);
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

  /** Most open requests from now on. */
  resize(capacity: number): void {
    this.#ledger.capacity = capacity;
  }

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
    const { deadline, patient, together, isHeld, payload } = request;
    const refusal =
      this.#refusal() ??
      this.#againstBytes(request) ??
      this.#host.refusalOf(request, entry) ??
      (patient ? null : this.#ledger.refusalOf(together?.count));
    if (refusal) throw this.#refuse(refusal);
    const id = this.#ledger.open(request, deadline, patient);
    if (isHeld) this.#hold(id, byteLengthOf(payload));
    else this.#host.enter(toItem(request, id, this.#host.routeOf(entry)), entry);
    return id;
  }

  /** Lets a request in that is held, on the route that is there now. No effect if it has settled. */
  enter(id: RequestNumber): void {
    const request = this.#ledger.callerOf(id);
    if (!request || !this.isHeld(id)) return;
    const entry = this.#host.entryOf(request);
    if (entry instanceof ModeletError) {
      // Still held: the host hears of the end only of requests that it has let in.
      this.#ledger.settle(id, { ok: false, error: entry });
      return;
    }
    this.#letGo(id);
    this.#host.enter(toItem(request, id, this.#host.routeOf(entry)), entry);
  }

  /** Notes that a patient request waits no longer. */
  sent(id: RequestNumber): void {
    this.#ledger.sent(id);
  }

  isOpen(id: RequestNumber): boolean {
    return this.#ledger.isOpen(id);
  }

  isHeld(id: RequestNumber): boolean {
    return this.#held.has(id);
  }

  /** Counts a request that failed before it could be submitted. */
  countRefused(error: Pick<ModeletError, 'code' | 'message'>): void {
    this.#ledger.countFailed(error.code);
    this.failedRequests.note(error, this.#clock.now());
  }

  /** Counts a result that its client could not get, because no answer can hold it. */
  countUnwritten(error: ModeletError, entry: string): void {
    this.failedRequests.note(error, this.#clock.now(), entry);
  }

  /** Settles a request early and drops it. No effect if the request has settled. */
  abandon(id: RequestNumber, error: ModeletError): void {
    if (!this.#ledger.isOpen(id)) return;
    const wasHeld = this.#held.has(id);
    this.#ledger.settle(id, { ok: false, error });
    if (!wasHeld) this.#host.cancel(id);
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

  /** Refuses further requests. */
  stop(): void {
    this.#isClosing = true;
  }

  /** Refuses every further request, and settles the open ones by `limit`; at once if it is null. */
  async close(limit: Deadline | null): Promise<void> {
    this.stop();
    if (limit !== null) await this.#ledger.whenEmpty(limit);
    this.#ledger.failAll(shuttingDown);
    this.#refusals.close();
  }

  #hold(id: RequestNumber, bytes: number): void {
    this.#held.set(id, bytes);
    this.#heldBytes += bytes;
  }

  /** Returns whether the request was held. */
  #letGo(id: RequestNumber): boolean {
    const bytes = this.#held.get(id);
    if (bytes === undefined) return false;
    this.#heldBytes -= bytes;
    return this.#held.delete(id);
  }

  #againstBytes({ together }: SubmitRequest): ModeletError | null {
    if (!together || this.#held.size === 0 || this.#heldBytes + together.bytes <= this.#maxHeldBytes) return null;
    const text = 'the rows of other requests fill the memory for payloads';
    return new ModeletError('capacity_exceeded', text, { retryAfterSeconds: 1 });
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
  const { payload, deadline, priority, patient, group, sticky = 0, key = 0, cost = NO_COST, meta, onPart } = request;
  const streams = onPart !== undefined;
  return { ...bareItem(id, payload), routeRef, deadline, priority, patient, streams, group, sticky, key, cost, meta };
}

/**
 * Moves items along their routes, from stage to stage, and settles each exactly once. Decides which version of a stage
 * gets an item, where an item goes behind a stage, and what becomes of an error.
 */
import { asModeletError, type ErrorCode, type ModeletError } from '../../../core/errors.ts';
import { FIRST_NUMBER, type Payload, type RequestNumber } from '../../../core/model.ts';
import { Table } from '../../../core/queues/table.ts';
import { CODEC } from '../../../wire/codec/codec.ts';
import { decodeFailure, encodeFailure, failedPayload } from '../../../wire/frames/failures.ts';
import { bareItem, type WireItem } from '../../../wire/frames/items.ts';
import { RunTimeout } from '../pools/pool.ts';
import { failingStage } from '../stage/hops.ts';
import {
  baseStage,
  type Item,
  itemOn,
  type LiveChoice,
  type LiveLeg,
  type LiveRoute,
  lastStage,
  NO_HOPS,
  nextStage,
  type RouteStage,
  type Submitter,
} from '../stage/item.ts';
import { dropped } from '../stage/stage-errors.ts';
import { Shadows } from '../versions/shadows.ts';
import { VersionAdmission } from '../versions/version-admission.ts';
import type { VersionTable } from '../versions/versions.ts';
import { Backpressure } from './backpressure.ts';
import { choose } from './choices.ts';
import { type ForksHost, failedBefore, fork } from './forks.ts';
import { asItGoesOn, eachItem } from './lists.ts';
import { Memory, type MemoryHost } from './memory.ts';

export interface RouterHost extends MemoryHost {
  /** Sends a copy of a value that passes from one stage to the next. */
  onTap(item: WireItem): void;
  /** The last item of a stage, or of a route, has left. @param route null if it may have items still */
  onLeft(route: LiveRoute | null): void;
}

export class Router {
  readonly #host: RouterHost;
  readonly #items: Table<Item> = new Table();
  readonly memory: Memory;
  /** Made for the first copy. */
  #shadows: Shadows | null = null;
  readonly #admission: VersionAdmission = new VersionAdmission((item) => this.#admit(item));
  readonly #forks: ForksHost;
  /** Requests whose branches are in progress, by the node that gathers them. */
  readonly #gathering: Map<number, number> = new Map();
  /** Number for the next item of the engine's own. */
  #nextOwn = FIRST_NUMBER.engine;
  /** Decides where a full queue holds items back. */
  backpressure: Backpressure = new Backpressure({ stages: [], routes: [] });
  /** Null: no stage has versions. */
  versions: VersionTable | null = null;

  constructor(host: RouterHost) {
    this.#host = host;
    this.memory = new Memory(host);
    const { clock, maxPayloadBytes } = host;
    this.#forks = {
      ...{ clock, maxPayloadBytes },
      nextNumber: () => this.#nextNumber(),
      onGathering: (node, change) => this.#gathering.set(node, (this.#gathering.get(node) ?? 0) + change),
      release: (branch) => this.memory.release(branch),
      begin: (branch, leg) => {
        this.#open(branch);
        this.#enter(branch, leg);
      },
      drop: (branch) => this.#drop(branch),
      gathered: (item, { gather, tapped, after }, value) => {
        this.#made(item, value);
        if (tapped) this.#tap(item, gather);
        this.#enter(item, after);
      },
      failed: (item, error, input) => this.#failed(item, error, failedPayload(error, input)),
    };
  }

  get(id: RequestNumber): Item | undefined {
    return this.#items.get(id);
  }

  /** Numbers of requests whose branches are in progress, by the node that gathers them. */
  get gathering(): (readonly [node: number, requests: number])[] {
    return [...this.#gathering].filter(([, requests]) => requests > 0);
  }

  /** Takes a request in, at the beginning of a route. */
  submit(wire: WireItem, route: LiveRoute, submitter: Submitter): void {
    const item = itemOn(route.leg, wire);
    item.submitter = submitter;
    this.#open(item);
    this.#enter(item, route.leg);
  }

  /** Forgets requests whose callers no longer wait. */
  cancel(ids: readonly RequestNumber[]): void {
    for (const id of ids) {
      const item = this.#items.get(id);
      if (item) this.#drop(item);
    }
  }

  /** See `VersionAdmission.grown`. */
  grown(stages: ReadonlyMap<number, RouteStage>): void {
    this.#admission.grown(stages);
  }

  /** Drops the items that wait in front of a stage for room. */
  resetWaiting({ ref, name }: RouteStage): void {
    const waiting = this.#admission.waitingAt(ref).flatMap((id) => this.#items.get(id) ?? []);
    for (const item of waiting) this.fail(item, dropped(name, 'reset'));
  }

  /** Cancels the copies of requests at a stage, or all of them. */
  cancelCopies(stage?: RouteStage): void {
    this.#shadows?.cancel(stage);
  }

  /** Cancels the requests for partial results: such a result may never end by itself. */
  cancelParts(): void {
    this.cancel(
      this.#items
        .values()
        .filter(({ wantsParts }) => wantsParts)
        .map(({ id }) => id),
    );
  }

  #nextNumber(): RequestNumber {
    this.#nextOwn += 1;
    return this.#nextOwn - 1;
  }

  #open(item: Item): void {
    this.#items.set(item.id, item);
    item.leg.route.open += 1;
    this.memory.hold(item);
  }

  /** Replaces the payload of an item, which nothing reads from then on. */
  #made(item: Item, payload: Payload): void {
    this.memory.release(item);
    item.payload.chunks?.free();
    item.payload = payload.codec === CODEC.list ? asItGoesOn(item, payload) : payload;
    item.passed = true;
    this.memory.hold(item);
  }

  /** Lets an item go on with a leg: to its first stage, or to what follows if it has none. */
  #enter(item: Item, leg: LiveLeg): void {
    item.leg = leg;
    item.position = 0;
    item.hops = NO_HOPS;
    if (leg.stages.length > 0) this.#arrive(item);
    else this.#leave(item);
  }

  /** Lets an item go on behind the last stage of its leg. */
  #leave(item: Item): void {
    const { next } = item.leg;
    if (next?.kind === 'fork') {
      const { list } = next.terms;
      if (list) eachItem(item, next, list, this.#forks);
      else fork(item, next, this.#forks);
    } else if (next) {
      this.#choose(item, next);
    } else if (item.parent) {
      this.#branchEnded(item, item.payload, null);
    } else {
      this.#settle(item, true, item.payload);
    }
  }

  #choose(item: Item, choice: LiveChoice): void {
    let way: LiveLeg;
    try {
      way = choose(choice, item.payload);
    } catch (thrown) {
      const error = asModeletError(thrown, 'protocol_error');
      this.#failed(item, error, failedPayload(error, inputOf(item)));
      return;
    }
    this.#enter(item, way);
  }

  #branchEnded(item: Item, payload: Payload, error: ModeletError | null): void {
    this.#close(item);
    const state = item.parent?.state;
    if (state?.tag === 'forked') state.branches.came(item, payload, error);
    else this.memory.release(item);
  }

  /** Gives an item to the stage at its position, or to a version of that stage, and copies of it to shadows. */
  #arrive(item: Item): void {
    const base = baseStage(item);
    const versions = this.versions?.of(base);
    const { ahead } = item;
    item.ahead = null;
    for (const shadow of versions?.shadows(item.sticky) ?? []) {
      this.#shadows ??= new Shadows(() => this.#nextNumber());
      this.#shadows.copy(item, base, shadow);
    }
    this.#give(item, ahead && versions?.mayGet(ahead) ? ahead : (versions?.choose(item.sticky) ?? base));
  }

  #give(item: Item, stage: RouteStage): void {
    item.stage = stage;
    stage.open += 1;
    // Within a route, the stage before holds back what has no room.
    if (item.patient && !item.passed && stage !== baseStage(item)) this.#admission.enter(item);
    else stage.enqueue(item, !item.passed);
  }

  /** Gives an item to the version for which it has waited, or to the base if the version answers nothing any more. */
  #admit(item: Item): void {
    const base = baseStage(item);
    if (this.versions?.of(base)?.mayGet(item.stage)) {
      item.stage.enqueue(item, true);
      return;
    }
    this.#takeBack(item);
    this.#give(item, base);
  }

  #takeBack(item: Item): void {
    const { stage } = item;
    stage.open -= 1;
    if (item.patient) this.#admission.leave(item);
    if (stage.open === 0) this.#host.onLeft(null);
  }

  /** Takes an item that a stage has finished. @param payload its value, or an encoded error if `ok` is false */
  advance(item: Item, ok: boolean, payload: Payload): void {
    const isCopy = this.#shadows?.ended(item) === true;
    if (!isCopy && !this.#items.has(item.id)) return;
    const error = ok ? null : decodeFailure(payload).error;
    const failing = error && failingStage(item, error);
    if (error) failing?.meter.failed(error.code);
    if (!error || FAILURES.has(error.code)) {
      this.versions?.of(baseStage(item))?.ended(item.stage, failing === item.stage);
    }
    if (isCopy) return;
    if (error) {
      // A host that ran the item through several stages has added the input of the stage that failed.
      const isWhole = payload.codec !== CODEC.none;
      this.#takeBack(item);
      this.#failedAt(item, error, isWhole ? payload : encodeFailure(payload.bytes, inputOf(item)));
      return;
    }
    this.#made(item, payload);
    const last = item.position + item.hops.length;
    const next = nextStage(item);
    if (item.leg.tapped[last] && (next || item.leg.next || item.parent)) {
      lastStage(item).meter.tapped();
      this.#tap(item, (item.leg.stages[last] as RouteStage).ref);
    }
    this.#takeBack(item);
    if (!next) {
      this.#leave(item);
      return;
    }
    item.position = last + 1;
    item.hops = NO_HOPS;
    this.#arrive(item);
  }

  /** Passes on a part of an item's result; more may follow. */
  part(item: Item, part: WireItem): void {
    if (!this.#items.has(item.id)) return;
    lastStage(item).meter.partSent();
    item.submitter?.onPart(part);
  }

  #tap(item: Item, ref: number): void {
    const { deadline, priority, payload } = item;
    let request = item;
    while (request.parent) request = request.parent;
    payload.chunks?.share();
    this.#host.onTap({ ...bareItem(request.id, payload), deadline, priority, patient: true, stageRef: ref });
  }

  /** Takes an item that a stage could not serve. */
  fail(item: Item, error: ModeletError): void {
    const isCopy = this.#shadows?.ended(item) === true;
    if (!isCopy && !this.#items.has(item.id)) return;
    const { stage } = item;
    const base = baseStage(item);
    if (!isCopy && stage !== base && error.code === 'stage_unavailable') {
      // No worker has begun the item, so the base may answer it.
      stage.meter.redirected();
      this.#takeBack(item);
      this.#give(item, base);
      return;
    }
    stage.meter.notServed(error.code);
    const isFailure = FAILURES.has(error.code) || error.cause instanceof RunTimeout;
    if (isFailure) this.versions?.of(base)?.ended(stage, true);
    if (isCopy) return;
    this.#takeBack(item);
    this.#failedAt(item, error, failedPayload(error, inputOf(item)));
  }

  /** Ends an item that has left a stage with an error. In front of a fork, the error is the outcome of all branches. */
  #failedAt(item: Item, error: ModeletError, failure: Payload): void {
    const { next } = item.leg;
    if (next?.kind !== 'fork') {
      this.#failed(item, error, failure);
      return;
    }
    const end = failedBefore(item, next, error);
    this.#failed(item, end, failedPayload(end, decodeFailure(failure).input));
  }

  /** Ends an item that no stage has with an error. */
  #failed(item: Item, error: ModeletError, failure: Payload): void {
    if (item.parent) this.#branchEnded(item, failure, error);
    else this.#settle(item, false, failure);
  }

  #settle(item: Item, ok: boolean, payload: Payload): void {
    item.ok = ok;
    item.payload = payload;
    item.meta = item.gathered && Buffer.from(JSON.stringify(item.gathered));
    this.#forget(item);
    item.submitter?.onOutcome(item);
  }

  /** Ends an item whose result is no longer wanted. */
  #drop(item: Item): void {
    if (item.state.tag === 'forked') {
      this.#forget(item);
      item.state.branches.drop();
      return;
    }
    this.#takeBack(item);
    this.#forget(item);
    item.stage.cancel(item);
    if (item.passed) item.payload.chunks?.free();
  }

  #forget(item: Item): void {
    this.memory.release(item);
    this.#close(item);
  }

  #close(item: Item): void {
    const { route } = item.leg;
    this.#items.delete(item.id);
    route.open -= 1;
    if (route.open === 0) this.#host.onLeft(route);
  }

  /** Whether an item may go on: the next stage has room, or its full queue does not hold this stage's items back. */
  mayLeave(item: Item): boolean {
    const next = nextStage(item);
    if (!next) return this.#mayLeaveLeg(item);
    const versions = this.versions?.of(next);
    // Chosen now and not when the item arrives, because each version has its own queue.
    if (versions && !(item.ahead && versions.mayGet(item.ahead))) item.ahead = versions.choose(item.sticky);
    const target = item.ahead ?? next;
    return this.#takes(target, item) && this.#hasMemory(item, [target]);
  }

  /** Whether the result of an item has room in front of the stages to which it may go. */
  #hasMemory(item: Item, targets: readonly RouteStage[]): boolean {
    const way = (item.timings.length + 1) / Math.max(1, item.leg.route.stages.length - 1);
    return this.memory.fits(item, way, targets);
  }

  /** Behind a choice, the item may get to any of the stages: a full one holds nothing back while others take items. */
  #mayLeaveLeg(item: Item): boolean {
    const { next, following } = item.leg;
    if (following.length === 0) return !this.#items.has(item.id) || this.memory.mayAnswer(item);
    if (!this.#hasMemory(item, following)) return false;
    if (next?.kind === 'choice') return following.some((stage) => this.#takes(stage, item));
    return following.every((stage) => this.#takes(stage, item));
  }

  #takes(stage: RouteStage, item: Item): boolean {
    return !stage.holdsBack || !this.backpressure.holds(lastStage(item).ref, stage.ref);
  }
}

/** Errors that a modelet or its workers are to blame for, not the client, a limit or the time. */
const FAILURES: ReadonlySet<ErrorCode> = new Set([
  'modelet_failed',
  'bad_batch_length',
  'worker_lost',
  'protocol_error',
]);

/** Returns the present stage's input, or null if it is the request's, which the server still has. */
function inputOf({ passed, payload }: Item): Payload | null {
  return passed ? payload : null;
}

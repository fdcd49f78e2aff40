/**
 * The engine: moves items along routes from stage to stage and settles them. Composition root of the engine process;
 * knows nothing of Node-RED. The engine answers through callbacks, so tests can host it in their own process.
 */

import type { EnginePlan, StageDefinition } from '../config/stage-definition.ts';
import { type Clock, type Deadline, systemClock } from '../core/clock.ts';
import { type ErrorCode, ModeletError } from '../core/errors.ts';
import {
  type EngineStatus,
  type LogRecord,
  type ModeletDescription,
  type Payload,
  RECALLED,
  type RequestNumber,
  type Route,
  type StageAction,
} from '../core/model.ts';
import { Table } from '../core/table.ts';
import { isVersionAction } from '../core/versions.ts';
import { residentBytes } from '../observe/meters/usage.ts';
import { CODEC } from '../wire/codec/codec.ts';
import { encodeError } from '../wire/codec/error-codec.ts';
import type { DescribedStage } from '../wire/frames/bodies.ts';
import { decodeFailure, encodeFailure } from '../wire/frames/failure.ts';
import type { WireItem } from '../wire/frames/frames.ts';
import { HoldBack } from './hold-back.ts';
import { type CheckResult, RunTimeout } from './pools/pool.ts';
import { failingStage } from './stage/hops.ts';
import { baseStage, type Item, type LiveRoute, lastStage, MOVING, nextStage, type RouteStage } from './stage/item.ts';
import { Stage } from './stage/stage.ts';
import type { StageHost } from './stage/stage-host.ts';
import { Shadows } from './versions/shadows.ts';
import { VersionTable } from './versions/version-table.ts';

export interface EngineOutput {
  onOutcome(item: WireItem): void;
  /** Sends a part of an unfinished result. */
  onPart(part: WireItem): void;
  /** Sends a copy of a value that passes from one stage to the next. */
  onTap(item: WireItem): void;
  /** Announces that the status has changed; the engine may call this often. */
  onChange(): void;
  onDescribed(stage: DescribedStage): void;
  onLog(record: LogRecord): void;
}

export class Engine {
  readonly #output: EngineOutput;
  readonly #clock: Clock;
  readonly #stageHost: StageHost;
  readonly #items: Table<Item> = new Table();
  readonly #stages: Map<number, Stage> = new Map();
  #routes: ReadonlyMap<number, LiveRoute> = new Map();
  /** Routes that a deploy dropped, kept for requests still in transit. */
  #earlier: ReadonlyMap<number, LiveRoute> = new Map();
  /** Routes of earlier plans that still have items on them. */
  readonly #ending: Set<LiveRoute> = new Set();
  /** Stages that a deploy dropped but that still serve the requests on ending routes. */
  readonly #leaving: Set<Stage> = new Set();
  /** Dropped stages that no request can reach, until their workers have ended. */
  readonly #closing: Set<Stage> = new Set();
  readonly #versions: VersionTable;
  readonly #shadows: Shadows = new Shadows();
  #holdBack: HoldBack = new HoldBack({ stages: [], routes: [] });

  constructor(createPool: StageHost['createPool'], output: EngineOutput, clock: Clock = systemClock) {
    this.#output = output;
    this.#clock = clock;
    this.#versions = new VersionTable({ onLog: output.onLog, onChange: output.onChange });
    this.#stageHost = {
      clock,
      createPool,
      onOutcome: (item, ok, payload) => this.#advance(item, ok, payload),
      onFailed: (item, error) => this.#fail(item, error),
      onPart: (item, part) => {
        if (!this.#items.has(item.id)) return;
        lastStage(item).meter.partSent();
        output.onPart(part);
      },
      mayLeave: (item) => this.#mayLeave(item),
      onRoom: () => this.#pumpAll(),
      onChange: () => output.onChange(),
      onDescribed: (stage, description) => output.onDescribed({ stage, description }),
      onLog: (record) => output.onLog(record),
    };
  }

  /** Replaces the plan. Stages in both plans keep their queue, and their workers if the revision is the same. */
  apply(plan: EnginePlan): void {
    const planned = new Set(plan.stages.map((stage) => stage.ref));
    for (const definition of plan.stages) this.#place(definition);
    this.#versions.apply(plan.stages, this.#stages);
    for (const [ref, stage] of this.#stages) {
      if (planned.has(ref)) continue;
      this.#stages.delete(ref);
      this.#leaving.add(stage);
    }
    for (const routes of [this.#routes, this.#earlier]) {
      for (const route of routes.values()) if (route.open > 0) this.#ending.add(route);
    }
    this.#routes = this.#live(plan.routes);
    this.#earlier = this.#live(plan.earlier ?? []);
    this.#holdBack = new HoldBack(plan);
    this.#releaseLeaving();
    // The new plan may release items that the old one held back.
    this.#pumpAll();
    this.#output.onChange();
  }

  submit(items: readonly WireItem[]): void {
    for (const wire of items) {
      const route = this.#routes.get(wire.routeRef) ?? this.#earlier.get(wire.routeRef);
      if (!route) {
        const error = new ModeletError('shutting_down', 'the pipeline was changed before the request arrived');
        this.#output.onOutcome({ ...wire, ok: false, payload: encodeFailure(encodeError(error), null) });
        continue;
      }
      const item: Item = Object.assign(wire, {
        ...{ route, position: 0, stage: route.stages[0] as RouteStage, hops: 0, ahead: null },
        arrivedAt: 0,
        state: MOVING,
        lookup: null,
        run: null,
        wantsParts: wire.streams,
        parts: 0,
        onTaken: null,
      });
      this.#items.set(item.id, item);
      route.open += 1;
      this.#arrive(item);
    }
  }

  /** Forgets requests whose callers no longer wait. */
  cancel(ids: readonly RequestNumber[]): void {
    for (const id of ids) {
      const item = this.#items.get(id);
      if (!item) continue;
      this.#forget(item);
      item.stage.cancel(item);
    }
  }

  /** Notes how many parts of each result the flow has taken. */
  taken(requests: readonly (readonly [id: RequestNumber, parts: number])[]): void {
    for (const [id, parts] of requests) this.#items.get(id)?.onTaken?.(parts);
  }

  /** Applies an action to a stage's waiting items, to its workers, or to its share as a version. */
  act(ref: number, action: StageAction): void {
    const stage = this.#stages.get(ref);
    if (!stage) return;
    if (!isVersionAction(action)) stage[action]();
    else this.#versions.act(stage, action);
  }

  /** Sends a copy of the last input of a stage. */
  recall(stage: number): void {
    const input = this.#stages.get(stage)?.lastInput ?? null;
    const payload = input ?? { codec: CODEC.none, bytes: new Uint8Array() };
    this.#output.onTap({
      ...TAP,
      id: RECALLED,
      deadline: 0,
      priority: 0,
      stageRef: stage,
      ok: input !== null,
      payload,
    });
  }

  /** Runs the examples of all stages on current routes, in parallel; settles by the deadline. */
  check(deadline: Deadline): Promise<(CheckResult & { readonly stage: number })[]> {
    const refs = new Set([...this.#routes.values()].flatMap((route) => route.stages.map(({ ref }) => ref)));
    const stages = [...refs].flatMap((ref) => this.#stages.get(ref) ?? []);
    return Promise.all(stages.map(async (stage) => ({ stage: stage.ref, ...(await stage.check(deadline)) })));
  }

  /** Returns what a stage's modelet tells of itself, or null before its first worker is ready. */
  description(stage: number): ModeletDescription | null {
    return this.#stages.get(stage)?.description ?? null;
  }

  status(): EngineStatus {
    const stages = [...this.#stages.values()].map((stage) => {
      const versions = this.#versions.of(stage);
      return { ...stage.status(), ...(versions ? { versions: versions.status() } : {}) };
    });
    return { stages, rssBytes: residentBytes() };
  }

  /**
   * Ends all workers by one deadline. The caller must answer the requests that they do not finish by then.
   * Cancels requests for partial results at once, since such a result may never end by itself.
   */
  async close(deadline: Deadline): Promise<void> {
    const inParts = this.#items.values().filter(({ wantsParts }) => wantsParts);
    this.cancel(inParts.map(({ id }) => id));
    this.#shadows.cancel();
    const stages = [...this.#stages.values(), ...this.#leaving, ...this.#closing];
    await Promise.all(stages.map((stage) => stage.close(deadline)));
  }

  #place(definition: StageDefinition): void {
    const present = this.#stages.get(definition.ref);
    if (present) present.redefine(definition);
    else this.#stages.set(definition.ref, new Stage(definition, this.#stageHost));
  }

  /** Returns the routes whose stages all exist, by number. */
  #live(routes: readonly Route[]): Map<number, LiveRoute> {
    const live = new Map<number, LiveRoute>();
    for (const { ref, stages, taps } of routes) {
      const found = stages.flatMap((stage) => this.#stages.get(stage) ?? []);
      const tapped = stages.map((stage) => taps.includes(stage));
      if (found.length === stages.length) live.set(ref, { ref, stages: found, tapped, open: 0 });
    }
    return live;
  }

  /** Gives an item to the stage at its position, or to a version of that stage, and copies of it to shadows. */
  #arrive(item: Item): void {
    const base = baseStage(item);
    const versions = this.#versions.of(base);
    const { ahead } = item;
    item.ahead = null;
    for (const shadow of versions?.shadows(item.sticky) ?? []) this.#shadows.copy(item, base, shadow);
    this.#give(item, ahead && versions?.mayGet(ahead) ? ahead : (versions?.choose(item.sticky) ?? base));
  }

  #give(item: Item, stage: RouteStage): void {
    item.stage = stage;
    stage.open += 1;
    stage.enqueue(item, item.position === 0);
  }

  #takeBack({ stage }: Item): void {
    stage.open -= 1;
    if (stage.open === 0 && this.#leaving.size > 0) this.#releaseLeaving();
  }

  #advance(item: Item, ok: boolean, payload: Payload): void {
    const isCopy = this.#shadows.ended(item);
    if (!isCopy && !this.#items.has(item.id)) return;
    const error = ok ? null : decodeFailure(payload).error;
    const failing = error && failingStage(item, error);
    if (error) failing?.meter.failed(error.code);
    if (!error || FAILURES.has(error.code)) {
      this.#versions.of(baseStage(item))?.ended(item.stage, failing === item.stage);
    }
    if (isCopy) return;
    if (!ok) {
      // A host that ran the item through several stages has added the input of the one that failed.
      const isWhole = payload.codec !== CODEC.none;
      this.#settle(item, false, isWhole ? payload : encodeFailure(payload.bytes, inputOf(item)));
      return;
    }
    const next = nextStage(item);
    if (!next) {
      this.#settle(item, true, payload);
      return;
    }
    item.payload = payload;
    const last = item.position + item.hops;
    if (item.route.tapped[last]) this.#tap(item);
    this.#takeBack(item);
    item.position = last + 1;
    item.hops = 0;
    this.#arrive(item);
  }

  #tap(item: Item): void {
    const { id, deadline, priority, payload } = item;
    lastStage(item).meter.tapped();
    const base = item.route.stages[item.position + item.hops] as RouteStage;
    this.#output.onTap({ ...TAP, id, deadline, priority, stageRef: base.ref, ok: true, payload });
  }

  #fail(item: Item, error: ModeletError): void {
    const isCopy = this.#shadows.ended(item);
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
    if (isFailure) this.#versions.of(base)?.ended(stage, true);
    if (!isCopy) this.#settle(item, false, encodeFailure(encodeError(error), inputOf(item)));
  }

  #settle(item: Item, ok: boolean, payload: Payload): void {
    item.ok = ok;
    item.payload = payload;
    this.#forget(item);
    this.#output.onOutcome(item);
  }

  #forget(item: Item): void {
    this.#items.delete(item.id);
    this.#takeBack(item);
    item.route.open -= 1;
    if (item.route.open === 0 && this.#ending.delete(item.route)) this.#releaseLeaving();
  }

  #releaseLeaving(): void {
    for (const stage of this.#leaving) {
      // A version may have requests although it is on no route.
      if (stage.open > 0 || [...this.#ending].some((route) => route.stages.includes(stage))) continue;
      this.#leaving.delete(stage);
      this.#shadows.cancel(stage);
      this.#closing.add(stage);
      void stage.close(this.#clock.now() + LEAVING_MS).then(() => this.#closing.delete(stage));
    }
  }

  #pumpAll(): void {
    for (const stage of [...this.#stages.values(), ...this.#leaving]) stage.pumpSoon();
  }

  #mayLeave(item: Item): boolean {
    const next = nextStage(item);
    if (!next) return true;
    const versions = this.#versions.of(next);
    // Chosen now and not when the item arrives, because each version has a queue of its own.
    if (versions && !(item.ahead && versions.mayGet(item.ahead))) item.ahead = versions.choose(item.sticky);
    const target = item.ahead ?? next;
    return target.hasRoom || !this.#holdBack.holds(lastStage(item).ref, target.ref);
  }
}

/** The part of an item that is the same for all taps. */
const TAP = { routeRef: 0, part: 0, patient: true, streams: false, group: 0, sticky: 0, meta: null, timings: [] };

/** Errors that a modelet or its workers are to blame for, not the client, a limit or the time. */
const FAILURES: ReadonlySet<ErrorCode> = new Set([
  'modelet_failed',
  'bad_batch_length',
  'worker_lost',
  'protocol_error',
]);

/** Time limit for closing a dropped stage: its workers only have to run their teardown. */
const LEAVING_MS = 5000;

/** Returns the present stage's input, or null at the first stage, whose input the server still has. */
function inputOf({ position, payload }: Item): Payload | null {
  return position === 0 ? null : payload;
}

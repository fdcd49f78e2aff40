/**
 * A request inside the engine: the item that came over the wire, and its state. Also the run that several requests
 * with the same input share.
 */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { Deadline } from '../../../core/clock.ts';
import type { ModeletError } from '../../../core/errors.ts';
import type { Payload, RequestNumber, StageTiming } from '../../../core/model.ts';
import type { FifoNode } from '../../../core/queues/fifo.ts';
import type { GatherReport } from '../../../core/routes/gather.ts';
import type { Choice, Fork } from '../../../core/routes/route.ts';
import type { StageMeter } from '../../../observe/meters/stage-meter.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';

/** How worker hosts serve a stage. */
export interface Hop {
  /** Name of the stage on hosts. */
  readonly key: string;
  /** Items that the workers of all hosts can run at a time. */
  readonly items: number;
  /** Whether the stage runs an item again whose worker or host was lost. */
  readonly retryLost: boolean;
}

/** A stage as the items on a route see it. */
export interface RouteStage extends Pick<StageDefinition, 'ref' | 'id' | 'name'> {
  readonly meter: StageMeter;
  /** Whether its queue takes one more item. */
  readonly hasRoom: boolean;
  /** Whether the stages before wait while its queue is full. A stage that drops its oldest items never makes them wait. */
  readonly holdsBack: boolean;
  /** Most patient requests that it may have at a time. */
  readonly patientRoom: number;
  /** How many items its workers run at a time. */
  readonly places: number;
  /** Whether a worker serves. */
  readonly isAvailable: boolean;
  /** Returns the expected bytes of a result, see `Growth`. */
  resultBytes(input: number, most: number, unknown: number): number;
  /** Number of requests that it has. Written by the engine. */
  open: number;
  /** `entry`: the route begins here, and a full queue may refuse the request. */
  enqueue(request: Item, entry: boolean): void;
  cancel(request: Item): void;
  /** How items can pass it on a worker host; null: they must come here. */
  readonly hop: Hop | null;
  /** Notes that an item went through the stage on a worker host, and returns the timing as one of this stage. */
  passedOnHost(timing: StageTiming): StageTiming;
}

/** A route with its stages resolved. Items keep their route across deploys: they finish on the route they began. */
export interface LiveRoute {
  readonly ref: number;
  readonly stages: readonly RouteStage[];
  readonly leg: LiveLeg;
  readonly forEngine: boolean;
  /** Number of unsettled items on this route, branches included. */
  open: number;
}

/** A part of a route, see core/routes/route.ts. */
export interface LiveLeg {
  readonly route: LiveRoute;
  readonly stages: readonly RouteStage[];
  /** Whether a tap wants a copy of the value that a stage passes on; by position. */
  readonly tapped: readonly boolean[];
  readonly next: LiveFork | LiveChoice | null;
  /** The stages that an item may get to behind the last stage: after a fork all of them, after a choice one. */
  readonly following: readonly RouteStage[];
}

export interface LiveFork extends Pick<Fork, 'kind' | 'gather' | 'terms' | 'timeoutMs'> {
  readonly branches: readonly LiveLeg[];
  readonly after: LiveLeg;
  /** Whether a tap wants a copy of the gathered value. */
  readonly tapped: boolean;
}

export interface LiveChoice extends Pick<Choice, 'kind' | 'path' | 'rules'> {
  readonly ways: readonly LiveLeg[];
}

/** Follows the branches of one item from a fork to the node that gathers them. */
export interface Branches {
  /** Takes the outcome of a branch. @param payload its value, or with an `error` the failure that the engine sends */
  came(branch: Item, payload: Payload, error: ModeletError | null): void;
  /** Ends all running branches, whose results are no longer wanted. */
  drop(): void;
}

/**
 * An item's state, written by the stage that has the item; `forked` by the engine: no stage has the item.
 * `alone`: a worker died while it ran the item, or the call for its batch failed, and the stage runs the item once more,
 * in its own batch. `sharing`: the item waits for the run of another item.
 */
export type ItemState =
  | { readonly tag: 'moving' }
  | { readonly tag: 'queued'; readonly node: FifoNode<Item>; readonly alone: boolean }
  | { readonly tag: 'running'; readonly alone: boolean }
  | { readonly tag: 'sharing'; readonly run: CoalescedRun }
  | { readonly tag: 'forked'; readonly branches: Branches };

/** Bytes of an item in one of the sums of memory.ts. */
export interface Charge {
  readonly sum: 'entered' | 'made' | 'expected' | 'leaving';
  readonly bytes: number;
}

/** The memory that an item takes. `none`: it is a copy, or its request has ended. */
export type ItemMemory =
  | { readonly tag: 'none' }
  | { readonly tag: 'holds'; readonly payload: Charge }
  | { readonly tag: 'runs'; readonly payload: Charge; readonly result: Charge };

/** The process, or the part of this one, that submitted an item: it gets the parts of its result and its outcome. */
export interface Submitter {
  /** Takes a part of an unfinished result. */
  onPart(part: WireItem): void;
  onOutcome(item: WireItem): void;
}

export interface Item extends WireItem {
  /** Null for a branch and for a shadow's copy, which only the engine knows. Written by the router. */
  submitter: Submitter | null;
  leg: LiveLeg;
  deadline: Deadline;
  priority: number;
  /** Index into `leg.stages` of the stage that has the item, or of the base of the version that has it. */
  position: number;
  /** The stage that has the item, or had it last. Written by the engine. */
  stage: RouteStage;
  /** Whether a stage has made its payload. If not, the server still has it. */
  passed: boolean;
  /** The item that forked, if this is one of its branches; null for a request and for a shadow's copy. */
  readonly parent: Item | null;
  /** The report of the gathering nodes on its way; null if it has passed none. */
  gathered: GatherReport | null;
  /** The further stages that the item passes together with the present one, see hops.ts. Chosen when a worker gets it. */
  hops: readonly Hop[];
  /** The version of the next stage that will get the item; null if it is not chosen yet. Written by the engine. */
  ahead: RouteStage | null;
  /** Written by memory.ts. */
  memory: ItemMemory;
  /** Time at which the item entered the present stage's queue. */
  arrivedAt: number;
  state: ItemState;
  /** How many batches of the present stage have taken younger items, of a cost that fitted better. */
  passedBy: number;
  /** Whether the caller wants partial results; `streams` tells this only to the last stage's worker. */
  readonly wantsParts: boolean;
  parts: number;
  /** Call with the number of parts that the flow has taken; null before the first part. */
  onTaken: ((parts: number) => void) | null;
  /** The item's place in the cache of the present stage; null if the stage keeps no result of this item. */
  lookup: { readonly key: string; counted: boolean } | null;
  /** The run that this item began and others may share, while a worker has the item. */
  run: CoalescedRun | null;
}

export const NO_MEMORY: ItemMemory = { tag: 'none' };
export const NO_HOPS: readonly Hop[] = [];
export const MOVING: ItemState = { tag: 'moving' };
export const RUNNING: ItemState = { tag: 'running', alone: false };
const RUNNING_ALONE: ItemState = { tag: 'running', alone: true };

/**
 * Returns the item of a request that begins a route, or of a branch that begins a leg. Every field is written out, because
 * V8 keeps an object as a slow dictionary if `Object.assign` or a spread adds so many fields to it.
 * @param parent the item that forks, if this is a branch of it; `wire` is that item, too
 */
export function itemOn(leg: LiveLeg, wire: WireItem, id: RequestNumber = wire.id, parent: Item | null = null): Item {
  return {
    id,
    deadline: wire.deadline,
    priority: wire.priority,
    routeRef: wire.routeRef,
    stageRef: wire.stageRef,
    part: wire.part,
    ok: wire.ok,
    patient: wire.patient,
    // Results of branches have no parts.
    streams: parent === null && wire.streams,
    together: false,
    group: wire.group,
    sticky: wire.sticky,
    key: wire.key,
    tenure: 0,
    cost: wire.cost,
    passedBy: 0,
    payload: wire.payload,
    meta: wire.meta,
    timings: parent === null ? wire.timings : [],
    submitter: null,
    leg,
    position: 0,
    stage: leg.route.stages[0] as RouteStage,
    hops: NO_HOPS,
    ahead: null,
    passed: parent?.passed ?? false,
    parent,
    gathered: null,
    memory: NO_MEMORY,
    arrivedAt: 0,
    state: MOVING,
    lookup: null,
    run: null,
    wantsParts: parent === null && wire.streams,
    parts: 0,
    onTaken: null,
  };
}

/** Whether the item waits for, or is in, its own batch. */
export function isAlone({ state }: Item): boolean {
  return (state.tag === 'queued' || state.tag === 'running') && state.alone;
}

/** Returns the run that an item has begun or waits for. */
export function runOf({ state, run }: Item): CoalescedRun | null {
  return state.tag === 'sharing' ? state.run : run;
}

/** Gives an item to a worker. @param alone see `ItemState` */
export function goesToWorker(item: Item, alone: boolean): void {
  item.state = alone ? RUNNING_ALONE : RUNNING;
  item.streams = sendsParts(item);
}

/** Takes an item without a run from its worker; returns false if its request was cancelled meanwhile. */
export function leavesWorker(item: Item): boolean {
  if (item.state.tag !== 'running') return false;
  item.state = MOVING;
  return true;
}

/** Whether the item's present stage forwards partial results. Only the last stage does, or a stage that hops to the end. */
export function sendsParts(item: Item): boolean {
  return item.wantsParts && nextStage(item) === undefined && item.leg.next === null;
}

/** Returns the stage of the route at the item's position: the stage that has it, or the base of the version that has it. */
export function baseStage(item: Item): RouteStage {
  return item.leg.stages[item.position] as RouteStage;
}

/** Returns the stage of the leg to which the item comes after those that it passes now; undefined at the leg's end. */
export function nextStage(item: Item): RouteStage | undefined {
  return item.leg.stages[item.position + item.hops.length + 1];
}

/** Returns the last of the stages that the item passes together: the present one, unless it hops. */
export function lastStage(item: Item): RouteStage {
  const { hops, leg, position, stage } = item;
  return hops.length === 0 ? stage : (leg.stages[position + hops.length] as RouteStage);
}

/** One run for all requests with the same input. The worker sees only `item`, the request that began the run. */
export class CoalescedRun {
  readonly key: string;
  readonly item: Item;
  /** Requests that wait for the run, in order of arrival. The first may have left. */
  readonly #requests: Set<Item>;

  constructor(key: string, item: Item) {
    this.key = key;
    this.item = item;
    this.#requests = new Set([item]);
  }

  /** Whether any request waits for the run. */
  get isWanted(): boolean {
    return this.#requests.size > 0;
  }

  join(request: Item): void {
    request.state = { tag: 'sharing', run: this };
    this.#requests.add(request);
  }

  /** Lets a cancelled request go. The item that began the run stays with the worker. */
  leave(request: Item): void {
    this.#requests.delete(request);
    if (request !== this.item) request.state = MOVING;
  }

  /** Ends the run. Returns the requests that waited for it. */
  end(): Item[] {
    this.item.state = MOVING;
    for (const request of this.#requests) request.state = MOVING;
    return [...this.#requests];
  }
}

/**
 * A request inside the engine: the item that came over the wire, and its state. Also the run that several requests
 * with the same input share.
 */
import type { Deadline } from '../../core/clock.ts';
import { Fifo, type FifoNode } from '../../core/fifo.ts';
import type { Payload, SavedRun } from '../../core/model.ts';
import type { StageMeter } from '../../observe/meters/stage-meter.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { earliestStart } from './lateness.ts';

/** A stage as the items on a route see it. */
export interface RouteStage {
  readonly ref: number;
  readonly meter: StageMeter;
  /** Whether its queue takes one more item. */
  readonly hasRoom: boolean;
  /** `entry`: the route begins here, and a full queue may refuse the request. */
  enqueue(request: Item, entry: boolean): void;
  cancel(request: Item): void;
}

/** A route with its stages resolved. Items keep their route across deploys: they finish on the route they began. */
export interface LiveRoute {
  readonly ref: number;
  readonly stages: readonly RouteStage[];
  /** Whether a tap wants a copy of the value that a stage passes on; by position. */
  readonly tapped: readonly boolean[];
  /** Number of unsettled items on this route. */
  open: number;
}

/**
 * An item's state, written by the stage that has the item. `alone`: a worker died while it ran the item, and the stage
 * runs the item once more, in a batch of its own. `sharing`: the item waits for a run that another item represents.
 */
export type ItemState =
  | { readonly tag: 'moving' }
  | { readonly tag: 'queued'; readonly node: FifoNode<Item>; readonly alone: boolean }
  | { readonly tag: 'running'; readonly alone: boolean }
  | { readonly tag: 'sharing'; readonly run: CoalescedRun; readonly node: FifoNode<Item> };

export interface Item extends WireItem {
  readonly route: LiveRoute;
  deadline: Deadline;
  priority: number;
  /** Index into `route.stages` of the stage that has the item. */
  position: number;
  /** Time at which the item entered the present stage's queue. */
  arrivedAt: number;
  state: ItemState;
  /** Whether the caller wants partial results; `streams` tells this only to the last stage's worker. */
  readonly wantsParts: boolean;
  /** Number of parts sent. */
  parts: number;
  /** Call with the number of parts that the flow has taken; null before the first part. */
  onTaken: ((parts: number) => void) | null;
  /** The run whose requests this item represents; null if the item is a request itself. */
  readonly run: CoalescedRun | null;
}

export const MOVING: ItemState = { tag: 'moving' };
export const RUNNING: ItemState = { tag: 'running', alone: false };
export const RUNNING_ALONE: ItemState = { tag: 'running', alone: true };

/** Whether the item waits for, or is in, a batch of its own. */
export function isAlone({ state }: Item): boolean {
  return (state.tag === 'queued' || state.tag === 'running') && state.alone;
}

/** Whether the item's answer is known: the item waits for the next stage, not for a worker. */
export function isKnown({ run }: Item): boolean {
  return run !== null && run.known !== null;
}

/** Whether the item's present stage forwards partial results. Only the last stage does. */
export function sendsParts(item: Item): boolean {
  return item.wantsParts && nextStage(item) === undefined;
}

export function nextStage(item: Item): RouteStage | undefined {
  return item.route.stages[item.position + 1];
}

/** An answer that only waits for room at the next stage, and its run's place among the runs that wait there. */
export interface KnownAnswer {
  readonly payload: Payload;
  readonly how: SavedRun;
  readonly node: FifoNode<CoalescedRun>;
}

/** One run for all requests with the same input. The queue and the workers see only `item`, which represents it. */
export class CoalescedRun {
  readonly key: string;
  readonly item: Item;
  /** The known answer, while it waits for room at the next stage; otherwise null. */
  known: KnownAnswer | null = null;
  /** Arrival time of the request whose deadline the item has. */
  longestSince: number;
  /** The run is not late before this time, however long answers take. */
  earliestStart: number = Number.NEGATIVE_INFINITY;
  /** Requests that share the run, in order of arrival. */
  readonly #requests: Fifo<Item> = new Fifo();

  /** @param first gives the item its input, its place in the queue and its number */
  constructor(key: string, first: Item) {
    this.key = key;
    const { id, deadline, priority, ref, patient, group, payload, meta, route, position, arrivedAt } = first;
    const wire = { id, deadline, priority, ref, ok: true, patient, group, payload, meta, timings: [] };
    const whole = { streams: false, wantsParts: false, parts: 0, onTaken: null };
    this.longestSince = arrivedAt;
    this.item = { ...wire, ...whole, route, position, arrivedAt, state: MOVING, run: this };
    this.add(first);
  }

  /** Number of requests that share the run. */
  get size(): number {
    return this.#requests.size;
  }

  get requests(): Iterable<Item> {
    return this.#requests;
  }

  add(request: Item): void {
    request.state = { tag: 'sharing', run: this, node: this.#requests.push(request) };
    this.earliestStart = Math.max(this.earliestStart, earliestStart(request));
  }

  /** Extends the item's deadline to that of a request that shares the run, if the request's is later. */
  prolong({ deadline, arrivedAt }: Item): void {
    if (deadline < this.item.deadline) return;
    this.item.deadline = deadline;
    this.longestSince = arrivedAt;
  }

  remove(request: Item): void {
    if (request.state.tag !== 'sharing' || !this.#requests.remove(request.state.node)) return;
    request.state = MOVING;
  }

  /** Removes and returns the requests that match `which`. */
  take(which: (request: Item) => boolean = () => true): Item[] {
    const taken = [...this.#requests].filter(which);
    for (const request of taken) this.remove(request);
    return taken;
  }
}

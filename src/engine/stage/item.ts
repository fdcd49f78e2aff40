/**
 * A request inside the engine: the item that came over the wire and its state; and the run that several requests with
 * the same input share.
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

/** A route with its stages resolved. Items keep theirs across deploys: they finish on the route they began. */
export interface LiveRoute {
  readonly ref: number;
  readonly stages: readonly RouteStage[];
  /** Whether a tap wants a copy of the value that the stage at a position passes on. */
  readonly tapped: readonly boolean[];
  /** Items on it that have not been settled. */
  open: number;
}

/**
 * An item's state; the stage that has the item writes it. `alone`: a worker has died with it, and the stage gives it one
 * more run, in a batch of its own. `sharing`: it waits for a run that another item stands for.
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
  /** Index into `route.stages` of the stage that has it. */
  position: number;
  /** When it entered the present stage's queue. */
  arrivedAt: number;
  state: ItemState;
  /** The caller wants parts of the result as they come; `streams` says so to the worker of the last stage only. */
  readonly wantsParts: boolean;
  /** How many parts have been sent. */
  parts: number;
  /** Call with how many parts the flow has taken; null before the first part. */
  onTaken: ((parts: number) => void) | null;
  /** Null for a request; else the item is no request itself and stands for the requests of the run. */
  readonly run: CoalescedRun | null;
}

export const MOVING: ItemState = { tag: 'moving' };
export const RUNNING: ItemState = { tag: 'running', alone: false };
export const RUNNING_ALONE: ItemState = { tag: 'running', alone: true };

/** Whether the item waits for, or is in, a run that it has to itself. */
export function isAlone({ state }: Item): boolean {
  return (state.tag === 'queued' || state.tag === 'running') && state.alone;
}

/** Whether its answer is known: it waits for the next stage and for no worker. */
export function isKnown({ run }: Item): boolean {
  return run !== null && run.known !== null;
}

/** Whether the stage that has the item sends its result in parts, if it comes in parts. */
export function sendsParts(item: Item): boolean {
  return item.wantsParts && nextStage(item) === undefined;
}

export function nextStage(item: Item): RouteStage | undefined {
  return item.route.stages[item.position + 1];
}

/** An answer that only the next stage keeps from going on, and the run's place among the runs that wait for that stage. */
export interface KnownAnswer {
  readonly payload: Payload;
  readonly how: SavedRun;
  readonly node: FifoNode<CoalescedRun>;
}

/** One run for all requests with the same input. The queue and the workers see its item, which stands for them. */
export class CoalescedRun {
  readonly key: string;
  readonly item: Item;
  /** Set while the answer is known and only the next stage keeps it from going on. */
  known: KnownAnswer | null = null;
  /** When the request came whose deadline the item has. */
  longestSince: number;
  /** Before this time no request that shares the run is late, however long answers take. */
  earliestStart: number = Number.NEGATIVE_INFINITY;
  /** In the order they came. */
  readonly #requests: Fifo<Item> = new Fifo();

  /** `first` gives the item its input, its place in the queue and its number. */
  constructor(key: string, first: Item) {
    this.key = key;
    const { id, deadline, priority, ref, patient, group, payload, meta, route, position, arrivedAt } = first;
    const wire = { id, deadline, priority, ref, ok: true, patient, group, payload, meta, timings: [] };
    const whole = { streams: false, wantsParts: false, parts: 0, onTaken: null };
    this.longestSince = arrivedAt;
    this.item = { ...wire, ...whole, route, position, arrivedAt, state: MOVING, run: this };
    this.add(first);
  }

  /** How many requests share it. */
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

  /** Gives the item the time of a request that shares it, if that has more. */
  prolong({ deadline, arrivedAt }: Item): void {
    if (deadline < this.item.deadline) return;
    this.item.deadline = deadline;
    this.longestSince = arrivedAt;
  }

  remove(request: Item): void {
    if (request.state.tag !== 'sharing' || !this.#requests.remove(request.state.node)) return;
    request.state = MOVING;
  }

  /** Removes and returns the requests that `which` picks. */
  take(which: (request: Item) => boolean = () => true): Item[] {
    const taken = [...this.#requests].filter(which);
    for (const request of taken) this.remove(request);
    return taken;
  }
}

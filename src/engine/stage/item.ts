/** A request inside the engine: what came over the wire, and where it is. */
import type { Deadline } from '../../core/clock.ts';
import type { FifoNode } from '../../core/fifo.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import type { Flight } from './flight.ts';
import type { Stage } from './stage.ts';

/** A route with its stages resolved. Items keep theirs across deploys: they finish on the route they began. */
export interface LiveRoute {
  readonly ref: number;
  readonly stages: readonly Stage[];
  /** Whether the value that the stage at a position passes on is also wanted outside. */
  readonly tapped: readonly boolean[];
  /** Items on it that have not been settled. */
  open: number;
}

/**
 * Where an item is; written by the stage that has it. `alone`: a worker has died with it, and the stage gives it one
 * more run, in a batch of its own. `sharing`: it waits for a run that another item stands for.
 */
export type Whereabouts =
  | { readonly tag: 'moving' }
  | { readonly tag: 'queued'; readonly node: FifoNode<Item>; readonly alone: boolean }
  | { readonly tag: 'running'; readonly alone: boolean }
  | { readonly tag: 'sharing'; readonly flight: Flight; readonly node: FifoNode<Item> };

export interface Item extends WireItem {
  readonly route: LiveRoute;
  deadline: Deadline;
  priority: number;
  /** Index into `route.stages` of the stage that has it. */
  position: number;
  /** When it entered the present stage's queue. */
  arrivedAt: number;
  at: Whereabouts;
  /** Parts of its result are wanted as they come; `streams` says so to the worker of its last stage only. */
  readonly wantsParts: boolean;
  /** How many of them have gone. */
  parts: number;
  /** To be told how many the flow has taken; null before there are any. */
  onTaken: ((parts: number) => void) | null;
  /** Null for a request; else the item is no request itself and stands for those of the flight. */
  readonly flight: Flight | null;
}

export const MOVING: Whereabouts = { tag: 'moving' };
export const RUNNING: Whereabouts = { tag: 'running', alone: false };
export const RUNNING_ALONE: Whereabouts = { tag: 'running', alone: true };

/** Whether the item waits for, or is in, the run that it has all to itself. */
export function isAlone({ at }: Item): boolean {
  return (at.tag === 'queued' || at.tag === 'running') && at.alone;
}

/** Whether its answer is known: it waits for the next stage and for no worker. */
export function isKnown({ flight }: Item): boolean {
  return flight !== null && flight.known !== null;
}

/** Whether the stage that has the item is to send its result in parts, where it comes in parts. */
export function sendsParts(item: Item): boolean {
  return item.wantsParts && nextStage(item) === undefined;
}

export function nextStage(item: Item): Stage | undefined {
  return item.route.stages[item.position + 1];
}

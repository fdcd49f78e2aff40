/** A request inside the engine: what came over the wire, and where it is. */
import type { FifoNode } from '../core/fifo.ts';
import type { WireItem } from '../wire/frames.ts';
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

/** Where an item is; written by the stage that has it. */
export type Whereabouts =
  | { readonly tag: 'moving' }
  | { readonly tag: 'queued'; readonly node: FifoNode<Item> }
  | { readonly tag: 'running' };

export interface Item extends WireItem {
  readonly route: LiveRoute;
  /** Index into `route.stages` of the stage that has it. */
  position: number;
  /** When it entered the present stage's queue. */
  arrivedAt: number;
  at: Whereabouts;
}

export const MOVING: Whereabouts = { tag: 'moving' };
export const RUNNING: Whereabouts = { tag: 'running' };

export function nextStage(item: Item): Stage | undefined {
  return item.route.stages[item.position + 1];
}

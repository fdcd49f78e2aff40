/** Items as a stage's queue has them. */
import { type Item, MOVING, type RouteStage } from '../../src/engine/stage/item.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { item } from '../wire/frame-values.ts';

export const NEVER: number = Number.POSITIVE_INFINITY;

export function queued(id: number, arrivedAt: number, overrides: Partial<WireItem> = {}): Item {
  const route = { ref: 1, stages: [], tapped: [], open: 0 };
  return {
    ...item({ id, ...overrides }),
    route,
    position: 0,
    // A queue asks nothing of the stage.
    stage: {} as RouteStage,
    hops: 0,
    ahead: null,
    arrivedAt,
    state: MOVING,
    lookup: null,
    run: null,
    wantsParts: false,
    parts: 0,
    onTaken: null,
  };
}

export const ids = (items: readonly Item[]): number[] => items.map(({ id }) => id);

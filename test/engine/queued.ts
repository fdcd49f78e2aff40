/** Items as a stage's queue has them. */
import { type Item, type LiveLeg, MOVING, NO_MEMORY, type RouteStage } from '../../src/runtime/engine/stage/item.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { item } from '../wire/frame-values.ts';

export const NEVER: number = Number.POSITIVE_INFINITY;

export function queued(id: number, arrivedAt: number, overrides: Partial<WireItem> = {}): Item {
  return {
    ...item({ id, ...overrides }),
    // A queue asks nothing of the leg and the stage.
    leg: {} as LiveLeg,
    stage: {} as RouteStage,
    position: 0,
    passed: false,
    parent: null,
    gathered: null,
    hops: [],
    submitter: null,
    ahead: null,
    memory: NO_MEMORY,
    arrivedAt,
    state: MOVING,
    passedBy: 0,
    lookup: null,
    run: null,
    wantsParts: false,
    parts: 0,
    onTaken: null,
  };
}

export const ids = (items: readonly Item[]): number[] => items.map(({ id }) => id);

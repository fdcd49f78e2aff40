/**
 * Copies of requests for shadow versions. No request waits for a copy: its outcome is counted at its stage and dropped.
 */
import type { RequestNumber } from '../../../core/model.ts';
import { bareItem } from '../../../wire/frames/items.ts';
import { soleRoute } from '../routes/live-routes.ts';
import { type Item, itemOn, type RouteStage } from '../stage/item.ts';

/** A stage that also has its own requests takes them before copies, and evicts copies first. */
const LOWEST_PRIORITY = -(2 ** 31);

export class Shadows {
  readonly #copies: Set<Item> = new Set();
  readonly #nextNumber: () => RequestNumber;

  /** @param nextNumber returns the number of a new item of the engine's own */
  constructor(nextNumber: () => RequestNumber) {
    this.#nextNumber = nextNumber;
  }

  /** Gives a shadow of a stage a copy of a request. A shadow without room or without a worker gets none. */
  copy({ deadline, payload, meta, key, cost }: Item, base: RouteStage, stage: RouteStage): void {
    if (!stage.isAvailable || !stage.hasRoom) {
      stage.meter.notServed(stage.isAvailable ? 'capacity_exceeded' : 'stage_unavailable');
      return;
    }
    payload.chunks?.share();
    const bare = bareItem(this.#nextNumber(), payload);
    const wire = { ...bare, deadline, priority: LOWEST_PRIORITY, meta, key, cost };
    // A separate route, so that no route of requests waits for it.
    const copy = itemOn(soleRoute(base).leg, wire);
    copy.stage = stage;
    this.#copies.add(copy);
    stage.enqueue(copy, true);
  }

  /** Takes an item that has ended. Returns false if it is a request, not a copy. */
  ended(item: Item): boolean {
    return this.#copies.size > 0 && this.#copies.delete(item);
  }

  cancel(stage?: RouteStage): void {
    for (const copy of [...this.#copies]) {
      if (stage && copy.stage !== stage) continue;
      this.#copies.delete(copy);
      copy.stage.cancel(copy);
    }
  }
}

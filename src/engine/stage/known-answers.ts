/**
 * Flights in a stage's queue whose answer is known and that only the next stage keeps from going on: by that stage, in
 * the order of leaving. While it is full, one of them is asked for and not all.
 */
import type { FifoNode } from '../../core/fifo.ts';
import type { Payload, SavedRun } from '../../core/model.ts';
import { PriorityFifo } from '../../core/priority-fifo.ts';
import type { Flight } from './flight.ts';
import { type Item, nextStage } from './item.ts';
import type { Stage } from './stage.ts';

/** The answer, how it was come by, and the flight's place among those that wait for the same stage. */
export interface KnownAnswer {
  readonly payload: Payload;
  readonly how: SavedRun;
  readonly node: FifoNode<Flight>;
}

export class KnownAnswers {
  readonly #waiting: Map<Stage | undefined, PriorityFifo<Flight>> = new Map();

  add(flight: Flight, payload: Payload, how: SavedRun): void {
    const next = nextStage(flight.item);
    const waiting = this.#waiting.get(next) ?? new PriorityFifo<Flight>();
    this.#waiting.set(next, waiting);
    flight.known = { payload, how, node: waiting.push(flight.item.priority, flight) };
  }

  /** Its answer stays known. */
  remove(flight: Flight): void {
    if (!flight.known) return;
    const next = nextStage(flight.item);
    const waiting = this.#waiting.get(next);
    waiting?.remove(flight.known.node);
    if (waiting?.size === 0) this.#waiting.delete(next);
  }

  /** Removes and returns all. */
  drain(): Flight[] {
    const all = [...this.#waiting.values()].flatMap((waiting) => [...waiting]);
    this.#waiting.clear();
    return all;
  }

  /** Those that may leave, one by one: the next stage fills as they do. Each is to be removed before the next is asked for. */
  *leaving(mayLeave: (item: Item) => boolean): Iterable<Flight> {
    for (const waiting of [...this.#waiting.values()]) {
      for (const flight of waiting) {
        if (!mayLeave(flight.item)) break;
        yield flight;
      }
    }
  }
}

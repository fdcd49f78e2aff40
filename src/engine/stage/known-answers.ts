/**
 * Shared runs in a stage's queue whose answer is known and that only the next stage keeps from going on: by that stage,
 * in the order of leaving. While the next stage is full, only the first of them is asked about.
 */
import type { Payload, SavedRun } from '../../core/model.ts';
import { PriorityFifo } from '../../core/priority-fifo.ts';
import { type CoalescedRun, type Item, nextStage, type RouteStage } from './item.ts';

export class KnownAnswers {
  readonly #waiting: Map<RouteStage | undefined, PriorityFifo<CoalescedRun>> = new Map();

  add(run: CoalescedRun, payload: Payload, how: SavedRun): void {
    const next = nextStage(run.item);
    const waiting = this.#waiting.get(next) ?? new PriorityFifo<CoalescedRun>();
    this.#waiting.set(next, waiting);
    run.known = { payload, how, node: waiting.push(run.item.priority, run) };
  }

  /** Its answer stays known. */
  remove(run: CoalescedRun): void {
    if (!run.known) return;
    const next = nextStage(run.item);
    const waiting = this.#waiting.get(next);
    waiting?.remove(run.known.node);
    if (waiting?.size === 0) this.#waiting.delete(next);
  }

  /** Removes and returns all. */
  drain(): CoalescedRun[] {
    const all = [...this.#waiting.values()].flatMap((waiting) => [...waiting]);
    this.#waiting.clear();
    return all;
  }

  /** Those that may leave, one by one: the next stage fills as they do. Each is to be removed before the next is asked for. */
  *leaving(mayLeave: (item: Item) => boolean): Iterable<CoalescedRun> {
    for (const waiting of [...this.#waiting.values()]) {
      for (const run of waiting) {
        if (!mayLeave(run.item)) break;
        yield run;
      }
    }
  }
}

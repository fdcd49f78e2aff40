/**
 * Shared runs in a stage's queue whose answer is known and only waits for room at the next stage. Groups them by that
 * stage, in the order of leaving. While the next stage is full, only the first run of its group is checked.
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

  /** Removes the run from this collection; `run.known` keeps the answer. */
  remove(run: CoalescedRun): void {
    if (!run.known) return;
    const next = nextStage(run.item);
    const waiting = this.#waiting.get(next);
    waiting?.remove(run.known.node);
    if (waiting?.size === 0) this.#waiting.delete(next);
  }

  /** Removes and returns all runs. */
  drain(): CoalescedRun[] {
    const all = [...this.#waiting.values()].flatMap((waiting) => [...waiting]);
    this.#waiting.clear();
    return all;
  }

  /**
   * Yields the runs that may leave, one at a time, because each one fills the next stage. The caller must remove each
   * run before it asks for the next.
   */
  *leaving(mayLeave: (item: Item) => boolean): Iterable<CoalescedRun> {
    for (const waiting of [...this.#waiting.values()]) {
      for (const run of waiting) {
        if (!mayLeave(run.item)) break;
        yield run;
      }
    }
  }
}

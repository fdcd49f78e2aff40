/**
 * Holds patient requests in front of versions whose queues have no room. The server, or the listener, sends as many as
 * fit into the first stage of the route, and knows nothing of versions, each of which has its own queue.
 */
import type { RequestNumber } from '../../../core/model.ts';
import { AdmissionQueue } from '../../desk/admission-queue.ts';
import type { Item, RouteStage } from '../stage/item.ts';

export class VersionAdmission {
  readonly #queue: AdmissionQueue<Item>;
  readonly #give: (item: Item) => void;
  /** The items that go to their stages now. An item that fails there at once lets the next item in. */
  readonly #admitted: Item[] = [];

  /** @param give gives an item to its stage, or to another one if that is no longer the right one */
  constructor(give: (item: Item) => void) {
    this.#give = give;
    this.#queue = new AdmissionQueue(0, (item) => this.#admit(item));
  }

  /** Takes an item for the version that its `stage` is. */
  enter(item: Item): void {
    const { ref, patientRoom } = item.stage;
    this.#queue.enter(item, ref, patientRoom);
  }

  /** Lets items in where a deploy has raised a capacity. @param stages those of the present plan, by number */
  grown(stages: ReadonlyMap<number, RouteStage>): void {
    this.#queue.grown((ref) => stages.get(ref)?.patientRoom ?? 0);
  }

  /** Frees the place of an item that leaves its stage. No effect if it did not enter here. */
  leave({ id, stage }: Item): void {
    this.#queue.leave(id, () => stage.patientRoom);
  }

  waitingAt(stage: number): RequestNumber[] {
    return this.#queue.waitingAt(stage);
  }

  /** In a loop and not recursively: thousands of items may fail one after the other. */
  #admit(item: Item): void {
    if (this.#admitted.push(item) > 1) return;
    for (const admitted of this.#admitted) this.#give(admitted);
    this.#admitted.length = 0;
  }
}

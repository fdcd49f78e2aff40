/** One run for all requests with the same input: the item that the queue and the workers see, and whom it stands for. */
import { Fifo } from '../../core/fifo.ts';
import { type Item, MOVING } from './item.ts';
import type { KnownAnswer } from './known-answers.ts';
import { earliestStart } from './latest-start.ts';

export class Flight {
  readonly key: string;
  readonly item: Item;
  /** Where the answer is known and only the next stage keeps it from going on. */
  known: KnownAnswer | null = null;
  /** When the request came whose deadline the item has. */
  longestSince: number;
  /** Before this it is not too late for all that have waited for it, however long answers take. */
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
    this.item = { ...wire, ...whole, route, position, arrivedAt, at: MOVING, flight: this };
    this.add(first);
  }

  /** How many wait for it. */
  get size(): number {
    return this.#requests.size;
  }

  get requests(): Iterable<Item> {
    return this.#requests;
  }

  add(request: Item): void {
    request.at = { tag: 'sharing', flight: this, node: this.#requests.push(request) };
    this.earliestStart = Math.max(this.earliestStart, earliestStart(request));
  }

  /** Gives the item the time of a request that shares it, if that has more. */
  prolong({ deadline, arrivedAt }: Item): void {
    if (deadline < this.item.deadline) return;
    this.item.deadline = deadline;
    this.longestSince = arrivedAt;
  }

  remove(request: Item): void {
    if (request.at.tag !== 'sharing' || !this.#requests.remove(request.at.node)) return;
    request.at = MOVING;
  }

  /** Removes and returns those that `which` picks. */
  take(which: (request: Item) => boolean = () => true): Item[] {
    const taken = [...this.#requests].filter(which);
    for (const request of taken) this.remove(request);
    return taken;
  }
}

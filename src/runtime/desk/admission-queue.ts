/**
 * Holds patient requests until their stage has room: ordered by priority, then first in, first out. On the server for
 * the first stage of a route, in the engine for its versions. So no queue gets more patient requests than fit.
 */
import { ModeletError } from '../../core/errors.ts';
import type { RequestNumber } from '../../core/model.ts';
import { type FifoNode, PriorityFifo } from '../../core/queues/fifo.ts';
import { Table } from '../../core/queues/table.ts';
import type { WireItem } from '../../wire/frames/frames.ts';

interface WaitingItem<One> {
  readonly item: One;
  readonly stage: number;
}

interface Door<One> {
  /** Patient requests that were sent and have not settled. */
  sent: number;
  readonly waiting: PriorityFifo<WaitingItem<One>>;
}

/** State of a request at the entrance. Only `AdmissionQueue` writes it. */
type AdmissionState<One> =
  | { readonly tag: 'sent'; readonly stage: number }
  | { readonly tag: 'waiting'; readonly stage: number; readonly node: FifoNode<WaitingItem<One>> };

export class AdmissionQueue<One extends WireItem = WireItem> {
  readonly #send: (item: One) => void;
  /** Most requests that may wait at all doors together; 0 means no limit. */
  readonly #mostWaiting: number;
  readonly #doors: Map<number, Door<One>> = new Map();
  readonly #places: Table<AdmissionState<One>> = new Table();
  #waiting = 0;

  constructor(mostWaiting: number, send: (item: One) => void) {
    this.#mostWaiting = mostWaiting;
    this.#send = send;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Numbers of the routes of all waiting requests. */
  get routes(): Set<number> {
    const routes = new Set<number>();
    for (const { waiting } of this.#doors.values()) for (const { item } of waiting) routes.add(item.routeRef);
    return routes;
  }

  /** Returns an error if too many requests wait already, else null. Call before `ledger.open`. */
  check(stage: number, limit: number): ModeletError | null {
    if (this.#door(stage).sent < limit || this.#mostWaiting === 0 || this.#waiting < this.#mostWaiting) return null;
    return new ModeletError('capacity_exceeded', `${this.#waiting} messages are waiting (nodeMessageBufferMaxLength)`);
  }

  /** Sends the request, or queues it while `limit` requests that entered at its stage have not left. */
  enter(item: One, stage: number, limit: number): void {
    const door = this.#door(stage);
    if (door.sent < limit && door.waiting.size === 0) {
      this.#pass(item, stage, door);
      return;
    }
    const node = door.waiting.push(item.priority, { item, stage });
    this.#waiting += 1;
    this.#places.set(item.id, { tag: 'waiting', stage, node });
  }

  /** Frees the place of a settled request and sends the next ones. No effect if the request never entered here. */
  leave(id: RequestNumber, limitOf: (stage: number) => number): void {
    const place = this.#places.get(id);
    if (!place) return;
    this.#places.delete(id);
    const door = this.#door(place.stage);
    if (place.tag === 'sent') {
      door.sent -= 1;
      this.#admit(door, limitOf(place.stage));
    } else if (door.waiting.remove(place.node)) {
      this.#waiting -= 1;
    }
    if (door.sent === 0 && door.waiting.size === 0) this.#doors.delete(place.stage);
  }

  /** Sends waiting requests where a deploy has raised the limit. */
  grown(limitOf: (stage: number) => number): void {
    for (const [stage, door] of [...this.#doors]) this.#admit(door, limitOf(stage));
  }

  isWaiting(id: RequestNumber): boolean {
    return this.#places.get(id)?.tag === 'waiting';
  }

  waitingAt(stage: number): RequestNumber[] {
    return [...(this.#doors.get(stage)?.waiting ?? [])].map(({ item }) => item.id);
  }

  #admit(door: Door<One>, limit: number): void {
    while (door.sent < limit) {
      const next = door.waiting.shift();
      if (!next) return;
      this.#waiting -= 1;
      this.#pass(next.item, next.stage, door);
    }
  }

  #pass(item: One, stage: number, door: Door<One>): void {
    door.sent += 1;
    this.#places.set(item.id, { tag: 'sent', stage });
    this.#send(item);
  }

  #door(stage: number): Door<One> {
    let door = this.#doors.get(stage);
    if (!door) {
      door = { sent: 0, waiting: new PriorityFifo() };
      this.#doors.set(stage, door);
    }
    return door;
  }
}

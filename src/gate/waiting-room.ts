/**
 * Queue of the requests that wait at a gate, in the order of `compareWaiting`. Knows nothing of budgets; its owner
 * enforces `capacity`.
 */
import type { Clock, Deadline, Timer } from '../core/clock.ts';
import { Fifo, type FifoNode } from '../core/queues/fifo.ts';
import { compareExpiry, compareWaiting, Heap, type HeapNode, type WaitingOrder } from '../core/queues/priority-heap.ts';

/** A waiting request, from `enter` until `leave` or `sweep`. */
export interface WaitingRequest<T> extends WaitingOrder {
  readonly value: T;
  readonly deadline: Deadline;
  readonly arrivedAt: number;
}

interface Seat<T> extends WaitingRequest<T> {
  nodes: {
    readonly order: HeapNode<Seat<T>>;
    readonly expiry: HeapNode<Seat<T>>;
    readonly age: FifoNode<Seat<T>>;
  } | null;
}

export class WaitingRoom<T> {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  readonly #order = new Heap<Seat<T>>(compareWaiting);
  readonly #expiry = new Heap<Seat<T>>(compareExpiry);
  readonly #age: Fifo<Seat<T>> = new Fifo();
  #number = 0;
  #timer: Timer | null = null;
  #timerAt: Deadline = Number.POSITIVE_INFINITY;

  /** `onDue` is called when a deadline of a waiting request has passed, so that `sweep` returns it. */
  constructor(clock: Clock, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  get size(): number {
    return this.#age.size;
  }

  /** Request to admit next. */
  get first(): WaitingRequest<T> | undefined {
    return this.#order.first;
  }

  /** Arrival time of the request that has waited longest; null if none waits. */
  get oldestAt(): number | null {
    return this.#age.first?.value.arrivedAt ?? null;
  }

  enter(value: T, priority: number, deadline: Deadline): WaitingRequest<T> {
    this.#number += 1;
    const arrivedAt = this.#clock.now();
    const seat: Seat<T> = { value, priority, deadline, arrivedAt, number: this.#number, nodes: null };
    seat.nodes = { order: this.#order.push(seat), expiry: this.#expiry.push(seat), age: this.#age.push(seat) };
    this.#arm();
    return seat;
  }

  /** Removes a request. Returns false if it no longer waits. */
  leave(place: WaitingRequest<T>): boolean {
    const seat = place as Seat<T>;
    if (!seat.nodes || !this.#order.remove(seat.nodes.order)) return false;
    this.#expiry.remove(seat.nodes.expiry);
    this.#age.remove(seat.nodes.age);
    seat.nodes = null;
    this.#arm();
    return true;
  }

  /** Removes and returns the requests whose deadline has passed, earliest first. */
  sweep(): T[] {
    const now = this.#clock.now();
    const expired: T[] = [];
    for (let seat = this.#expiry.first; seat && seat.deadline <= now; seat = this.#expiry.first) {
      this.leave(seat);
      expired.push(seat.value);
    }
    return expired;
  }

  /** Sets the only timer to the earliest deadline. */
  #arm(): void {
    const at = this.#expiry.first?.deadline ?? Number.POSITIVE_INFINITY;
    if (at === this.#timerAt) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = at === Number.POSITIVE_INFINITY ? null : this.#clock.at(at, () => this.#fire());
  }

  #fire(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.#onDue();
    this.#arm();
  }
}

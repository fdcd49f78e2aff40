/**
 * The order in which waiting work is served, and a binary heap that keeps it: highest priority first, then the earliest
 * deadline, then first in first out. Gates wait in this order, in memory and in the durable store.
 *
 * The queues of stages and runtimes (fifo.ts) leave out the deadline: a stage removes the requests that would
 * be late before it serves the others, and puts requests that a worker did not start back at the head.
 */

export interface WaitingOrder {
  readonly priority: number;
  readonly deadline: number;
  /** Order of arrival. */
  readonly number: number;
}

/** Compares for `sort`: negative if `a` is served before `b`. */
export function compareWaiting(a: WaitingOrder, b: WaitingOrder): number {
  return compare(b.priority, a.priority) || compareExpiry(a, b);
}

/** `compareWaiting` as columns of SQL: the store sorts by them and has an index over them. */
export const WAITING_ORDER = 'priority DESC, deadline, seq';

/** Compares for `sort`: negative if `a` expires before `b`, or with it and came first. */
export function compareExpiry(a: WaitingOrder, b: WaitingOrder): number {
  return compare(a.deadline, b.deadline) || compare(a.number, b.number);
}

/** Not a difference: the difference of two infinite numbers is not a number. */
function compare(a: number, b: number): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

export interface HeapNode<T> {
  readonly value: T;
  /** Position in the heap; -1 after removal. */
  index: number;
}

export class Heap<T> {
  readonly #nodes: HeapNode<T>[] = [];
  readonly #compare: (a: T, b: T) => number;

  /** `compare` must be negative or positive for any two values, never 0. */
  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#nodes.length;
  }

  /** The value that comes before all others. */
  get first(): T | undefined {
    return this.#nodes[0]?.value;
  }

  push(value: T): HeapNode<T> {
    const node = { value, index: this.#nodes.length };
    this.#nodes.push(node);
    this.#rise(node);
    return node;
  }

  /** Removes a node. Returns false if it is not (or no longer) in this heap. */
  remove(node: HeapNode<T>): boolean {
    if (this.#nodes[node.index] !== node) return false;
    const last = this.#nodes.pop() as HeapNode<T>;
    if (last !== node) {
      this.#put(last, node.index);
      this.#rise(last);
      this.#sink(last);
    }
    node.index = -1;
    return true;
  }

  #put(node: HeapNode<T>, index: number): void {
    node.index = index;
    this.#nodes[index] = node;
  }

  #rise(node: HeapNode<T>): void {
    while (node.index > 0) {
      const at = node.index;
      const parent = this.#nodes[(at - 1) >> 1] as HeapNode<T>;
      if (this.#compare(node.value, parent.value) > 0) return;
      this.#put(node, parent.index);
      this.#put(parent, at);
    }
  }

  #sink(node: HeapNode<T>): void {
    for (;;) {
      const at = node.index;
      const [left, right] = [this.#nodes[2 * at + 1], this.#nodes[2 * at + 2]];
      if (!left) return;
      const child = right && this.#compare(right.value, left.value) < 0 ? right : left;
      if (this.#compare(child.value, node.value) > 0) return;
      this.#put(node, child.index);
      this.#put(child, at);
    }
  }
}

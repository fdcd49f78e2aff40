/**
 * Queues with constant-time removal from anywhere: first in first out, and by descending priority.
 *
 * Lists are linked. An array does not fit: requests leave a queue from its middle (cancelled, expired), and
 * `array.shift()` copies. A Set does not fit either: it keeps removed values alive for a long time, see table.ts.
 */

export interface FifoNode<T> {
  readonly value: T;
  previous: FifoNode<T> | null;
  next: FifoNode<T> | null;
  /** The list that holds the node; null after the node was removed. */
  owner: Fifo<T> | null;
}

export class Fifo<T> implements Iterable<T> {
  #head: FifoNode<T> | null = null;
  #tail: FifoNode<T> | null = null;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): FifoNode<T> | null {
    return this.#head;
  }

  push(value: T): FifoNode<T> {
    return this.#insert(this.#tail, value, null);
  }

  /** Puts a value at the head. For work that a worker took but provably did not start. */
  unshift(value: T): FifoNode<T> {
    return this.#insert(null, value, this.#head);
  }

  /** Removes a node and puts a value in its place. The node must be in this list. */
  replace(old: FifoNode<T>, value: T): FifoNode<T> {
    const { previous, next } = old;
    this.remove(old);
    return this.#insert(previous, value, next);
  }

  shift(): T | undefined {
    const node = this.#head;
    if (!node) return undefined;
    this.remove(node);
    return node.value;
  }

  /** Removes a node. Returns false if the node is not (or no longer) in this list. */
  remove(node: FifoNode<T>): boolean {
    if (node.owner !== this) return false;
    if (node.previous) node.previous.next = node.next;
    else this.#head = node.next;
    if (node.next) node.next.previous = node.previous;
    else this.#tail = node.previous;
    node.owner = null;
    // If an old node kept its links, V8's minor collections would keep every node that came after it.
    node.previous = null;
    node.next = null;
    this.#size -= 1;
    return true;
  }

  #insert(previous: FifoNode<T> | null, value: T, next: FifoNode<T> | null): FifoNode<T> {
    const node: FifoNode<T> = { value, previous, next, owner: this };
    if (previous) previous.next = node;
    else this.#head = node;
    if (next) next.previous = node;
    else this.#tail = node;
    this.#size += 1;
    return node;
  }

  /** Iterates from first to last. The caller may remove the node just yielded. */
  *[Symbol.iterator](): Iterator<T> {
    for (let node = this.#head; node; ) {
      const next = node.next;
      yield node.value;
      node = next;
    }
  }
}

interface Level<T> {
  readonly priority: number;
  readonly items: Fifo<T>;
}

/**
 * Orders by descending priority, then first in first out. priority-heap.ts has the order that also counts deadlines, and
 * says why this queue does not.
 */
export class PriorityFifo<T> implements Iterable<T> {
  /** Levels by descending priority. Priorities come from messages, so empty levels must not pile up. */
  #levels: Level<T>[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The first value of each priority, highest priority first. */
  get heads(): T[] {
    return this.#levels.flatMap(({ items }) => (items.first ? [items.first.value] : []));
  }

  push(priority: number, value: T): FifoNode<T> {
    this.#size += 1;
    return this.#level(priority).push(value);
  }

  /** Puts a value ahead of all others of its priority. */
  unshift(priority: number, value: T): FifoNode<T> {
    this.#size += 1;
    return this.#level(priority).unshift(value);
  }

  /** Removes a node and puts a value in its place. Returns null if the node is in no queue. */
  replace(node: FifoNode<T>, value: T): FifoNode<T> | null {
    return node.owner?.replace(node, value) ?? null;
  }

  shift(): T | undefined {
    for (const { items } of this.#levels) {
      const node = items.first;
      if (node && this.remove(node)) return node.value;
    }
    return undefined;
  }

  /** Removes a node. Returns false if the node is not (or no longer) in this queue. */
  remove(node: FifoNode<T>): boolean {
    if (!node.owner?.remove(node)) return false;
    this.#size -= 1;
    return true;
  }

  /** Iterates in dispatch order. The caller may remove the node just yielded. */
  *[Symbol.iterator](): Iterator<T> {
    for (const { items } of [...this.#levels]) yield* items;
  }

  /** Iterates from the lowest priority, oldest first within a priority. */
  *fromLowest(): Iterable<T> {
    for (const { items } of this.#levels.toReversed()) yield* items;
  }

  #level(priority: number): Fifo<T> {
    const found = this.#levels.find((level) => level.priority <= priority);
    if (found?.priority === priority) return found.items;
    const level: Level<T> = { priority, items: new Fifo() };
    const kept = this.#levels.filter(({ items }) => items.size > 0);
    this.#levels = [...kept, level].sort((a, b) => b.priority - a.priority);
    return level.items;
  }
}

/**
 * A first-in first-out list with constant-time removal from anywhere in it.
 *
 * The list is linked. An array does not fit: requests leave a queue from its middle (cancelled, expired), and
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
    const node: FifoNode<T> = { value, previous: this.#tail, next: null, owner: this };
    if (this.#tail) this.#tail.next = node;
    else this.#head = node;
    this.#tail = node;
    this.#size += 1;
    return node;
  }

  /** Puts a value at the head. For work that a worker took but provably did not start. */
  unshift(value: T): FifoNode<T> {
    const node: FifoNode<T> = { value, previous: null, next: this.#head, owner: this };
    if (this.#head) this.#head.previous = node;
    else this.#tail = node;
    this.#head = node;
    this.#size += 1;
    return node;
  }

  /** Removes a node and puts a value in its place. The node must be in this list. */
  replace(old: FifoNode<T>, value: T): FifoNode<T> {
    const node: FifoNode<T> = { value, previous: old.previous, next: old.next, owner: this };
    if (old.previous) old.previous.next = node;
    else this.#head = node;
    if (old.next) old.next.previous = node;
    else this.#tail = node;
    old.owner = null;
    old.previous = null;
    old.next = null;
    return node;
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

  /** Iterates from first to last. The caller may remove the node just yielded. */
  *[Symbol.iterator](): Iterator<T> {
    for (let node = this.#head; node; ) {
      const next = node.next;
      yield node.value;
      node = next;
    }
  }
}

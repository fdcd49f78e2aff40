/**
 * A first-in first-out list with constant-time removal from anywhere in it.
 *
 * A linked list and not an array: requests leave a queue from its middle (cancelled, expired), and
 * `array.shift()` copies. Nor a Set, which keeps what has left it for long: see table.ts.
 */

export interface FifoNode<T> {
  readonly value: T;
  previous: FifoNode<T> | null;
  next: FifoNode<T> | null;
  /** The list that holds the node; null once it was removed. */
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

  /** Puts a value at the head: for work that was taken but provably not started. */
  unshift(value: T): FifoNode<T> {
    const node: FifoNode<T> = { value, previous: null, next: this.#head, owner: this };
    if (this.#head) this.#head.previous = node;
    else this.#tail = node;
    this.#head = node;
    this.#size += 1;
    return node;
  }

  /** Puts a value in the place of a node's, which leaves. The node must be in this list. */
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

  /** Takes a node out; false if it is not (or no longer) in this list. */
  remove(node: FifoNode<T>): boolean {
    if (node.owner !== this) return false;
    if (node.previous) node.previous.next = node.next;
    else this.#head = node.next;
    if (node.next) node.next.previous = node.previous;
    else this.#tail = node.previous;
    node.owner = null;
    // With its links left in place, V8's minor collections would keep all that came after a node that grew old.
    node.previous = null;
    node.next = null;
    this.#size -= 1;
    return true;
  }

  /** Removing the node just yielded while iterating is allowed. */
  *[Symbol.iterator](): Iterator<T> {
    for (let node = this.#head; node; ) {
      const next = node.next;
      yield node.value;
      node = next;
    }
  }
}

/** A binary heap that can remove any of its nodes. */

export interface HeapNode<T> {
  readonly value: T;
  /** Position in the heap; -1 after removal. */
  index: number;
}

export class Heap<T> {
  readonly #nodes: HeapNode<T>[] = [];
  readonly #before: (a: T, b: T) => boolean;

  /** `before` must be a strict order of all values. */
  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before;
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
      if (!this.#before(node.value, parent.value)) return;
      this.#put(node, parent.index);
      this.#put(parent, at);
    }
  }

  #sink(node: HeapNode<T>): void {
    for (;;) {
      const at = node.index;
      const [left, right] = [this.#nodes[2 * at + 1], this.#nodes[2 * at + 2]];
      if (!left) return;
      const child = right && this.#before(right.value, left.value) ? right : left;
      if (!this.#before(child.value, node.value)) return;
      this.#put(node, child.index);
      this.#put(child, at);
    }
  }
}

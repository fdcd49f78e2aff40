/**
 * A queue by descending priority, first in first out within a priority, with constant-time removal from anywhere.
 * priority-heap.ts has the order that also counts deadlines, and says why this queue does not.
 */
import { Fifo, type FifoNode } from './fifo.ts';

interface Level<T> {
  readonly priority: number;
  readonly items: Fifo<T>;
}

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

/** By falling priority, first in first out within one, removal from anywhere. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import type { FifoNode } from '../../src/core/queues/fifo.ts';
import { PriorityFifo } from '../../src/core/queues/fifo.ts';

interface Entry {
  readonly priority: number;
  readonly number: number;
}

type Step =
  | { readonly do: 'push' | 'unshift'; readonly priority: number }
  | { readonly do: 'shift' }
  | { readonly do: 'remove' | 'replace'; readonly which: number };

const priority = fc.oneof(fc.constantFrom(-1, 0, 0, 1), fc.integer({ min: -(2 ** 31) + 1, max: 2 ** 31 - 1 }));
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: priority.map((of): Step => ({ do: 'push', priority: of })) },
  { weight: 1, arbitrary: priority.map((of): Step => ({ do: 'unshift', priority: of })) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'shift' }) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom('remove' as const, 'replace' as const), fc.nat({ max: 60 }))
      .map(([what, which]): Step => ({ do: what, which })),
  },
);

/** The queue, and a plain list in the order of leaving. */
class Model {
  readonly queue = new PriorityFifo<Entry>();
  expected: Entry[] = [];
  readonly nodes: FifoNode<Entry>[] = [];

  run(what: Step): void {
    switch (what.do) {
      case 'push':
        this.#insert(what.priority, (other) => other.priority >= what.priority, 'push');
        break;
      case 'unshift':
        this.#insert(what.priority, (other) => other.priority > what.priority, 'unshift');
        break;
      case 'shift':
        assert.equal(this.queue.shift(), this.expected.shift());
        break;
      case 'remove':
        this.#remove(what.which);
        break;
      case 'replace':
        this.#replace(what.which);
    }
    this.#check();
  }

  /** Puts an entry behind all those that `before` it. */
  #insert(of: number, before: (other: Entry) => boolean, how: 'push' | 'unshift'): void {
    const entry = { priority: of, number: this.nodes.length };
    this.nodes.push(this.queue[how](of, entry));
    const place = this.expected.findIndex((other) => !before(other));
    this.expected.splice(place < 0 ? this.expected.length : place, 0, entry);
  }

  #remove(which: number): void {
    const node = this.nodes[which % Math.max(1, this.nodes.length)];
    if (!node) return;
    assert.equal(this.queue.remove(node), this.expected.includes(node.value));
    assert.equal(this.queue.remove(node), false);
    this.expected = this.expected.filter((other) => other !== node.value);
  }

  #replace(which: number): void {
    const old = this.nodes[which % Math.max(1, this.nodes.length)];
    if (!old) return;
    const entry = { priority: old.value.priority, number: this.nodes.length };
    const node = this.queue.replace(old, entry);
    const place = this.expected.indexOf(old.value);
    assert.equal(node !== null, place >= 0);
    if (!node) return;
    this.nodes.push(node);
    this.expected[place] = entry;
  }

  #check(): void {
    assert.deepEqual([...this.queue], this.expected);
    assert.equal(this.queue.size, this.expected.length);
    const isHead = (entry: Entry, index: number): boolean => this.expected[index - 1]?.priority !== entry.priority;
    assert.deepEqual(this.queue.heads, this.expected.filter(isHead));
    const rising = [...this.expected].sort((a, b) => a.priority - b.priority);
    assert.deepEqual([...this.queue.fromLowest()], rising);
  }
}

test('a PriorityFifo behaves like a sorted list under any sequence of operations', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const model = new Model();
      for (const each of steps) model.run(each);
    }),
    { numRuns: 500 },
  );
});

test('a caller may remove the item just yielded while it iterates in either direction', () => {
  for (const order of ['highest', 'lowest'] as const) {
    const queue = new PriorityFifo<number>();
    const nodes = new Map([3, 1, 2, 1].map((of, index) => [index, queue.push(of, index)]));
    const seen: number[] = [];
    for (const index of order === 'highest' ? queue : queue.fromLowest()) {
      seen.push(index);
      queue.remove(nodes.get(index) as FifoNode<number>);
    }
    assert.deepEqual(seen, order === 'highest' ? [0, 2, 1, 3] : [1, 3, 2, 0]);
    assert.equal(queue.size, 0);
  }
});

test('a queue does not keep memory for priorities that have passed', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const used = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const queue = new PriorityFifo<number>();
  const before = used();
  for (let number = 0; number < 100_000; number += 1) {
    queue.push(number % 2 === 0 ? number : -number, number);
    queue.shift();
  }
  const grown = used() - before;
  assert.equal(queue.size, 0);
  assert.ok(grown < 4_000_000, `${grown} bytes are kept for 100000 priorities that have passed`);
});

test('a queue keeps many priorities in order', () => {
  const queue = new PriorityFifo<number>();
  for (let number = 0; number < 2000; number += 1) queue.push((number * 7919) % 2000, number);
  const left: number[] = [];
  for (let value = queue.shift(); value !== undefined; value = queue.shift()) left.push((value * 7919) % 2000);
  assert.deepEqual(
    left,
    [...left].sort((a, b) => b - a),
  );
  assert.equal(left.length, 2000);
});

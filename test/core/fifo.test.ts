/** The list behaves like an array, and removing from its middle leaves the rest in order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fifo, type FifoNode } from '../../src/core/queues/fifo.ts';

/** The list and what an array says it should hold. */
class Model {
  readonly fifo = new Fifo<number>();
  readonly expected: FifoNode<number>[] = [];
  /** Every node there ever was, to try removing those that are gone. */
  readonly nodes: FifoNode<number>[] = [];
  #next = 0;

  run(step: Step): void {
    this.#next += 1;
    switch (step.do) {
      case 'push':
        this.#keep(this.fifo.push(this.#next), this.expected.length);
        break;
      case 'unshift':
        this.#keep(this.fifo.unshift(this.#next), 0);
        break;
      case 'shift':
        assert.equal(this.fifo.shift(), this.expected.shift()?.value);
        break;
      case 'remove':
        this.#remove(step.which);
        break;
      case 'replace':
        this.#replace(step.which);
        break;
    }
    this.check();
  }

  #keep(node: FifoNode<number>, position: number): void {
    this.expected.splice(position, 0, node);
    this.nodes.push(node);
  }

  #remove(which: number): void {
    const node = this.nodes[which % Math.max(1, this.nodes.length)];
    if (!node) return;
    const position = this.expected.indexOf(node);
    assert.equal(this.fifo.remove(node), position >= 0);
    if (position >= 0) this.expected.splice(position, 1);
    assert.equal(node.owner, null);
  }

  #replace(which: number): void {
    const position = which % Math.max(1, this.expected.length);
    const old = this.expected[position];
    if (!old) return;
    const node = this.fifo.replace(old, this.#next);
    this.expected[position] = node;
    this.nodes.push(node);
    assert.equal(this.fifo.remove(old), false);
  }

  check(): void {
    const values = this.expected.map((node) => node.value);
    assert.deepEqual([...this.fifo], values);
    assert.equal(this.fifo.size, values.length);
    assert.equal(this.fifo.first, this.expected[0] ?? null);
  }
}

type Step =
  | { readonly do: 'push' | 'unshift' | 'shift' }
  | { readonly do: 'remove' | 'replace'; readonly which: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constantFrom<Step>({ do: 'push' }, { do: 'push' }, { do: 'unshift' }, { do: 'shift' }),
  fc
    .tuple(fc.constantFrom('remove' as const, 'replace' as const), fc.nat({ max: 50 }))
    .map(([what, which]): Step => ({ do: what, which })),
);

test('a Fifo behaves like an array under any sequence of operations', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const model = new Model();
      for (const each of steps) model.run(each);
    }),
    { numRuns: 500 },
  );
});

test('a Fifo does not remove the node of another list', () => {
  const one = new Fifo<string>();
  const other = new Fifo<string>();
  const node = one.push('a');
  other.push('b');
  assert.equal(other.remove(node), false);
  assert.deepEqual([[...one], [...other]], [['a'], ['b']]);
});

test('a caller may remove the node just yielded while it iterates', () => {
  const fifo = new Fifo<number>();
  const nodes = [1, 2, 3, 4].map((value) => fifo.push(value));
  const seen: number[] = [];
  for (const value of fifo) {
    seen.push(value);
    fifo.remove(nodes[value - 1] as FifoNode<number>);
  }
  assert.deepEqual(seen, [1, 2, 3, 4]);
  assert.equal(fifo.size, 0);
});

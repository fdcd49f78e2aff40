import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Table } from '../../src/core/queues/table.ts';

/** Few numbers, some of which share a chain. */
const numbers = fc.constantFrom(0, 1, 2, 1023, 1024, 1025, 2048, 2 ** 32, Number.MAX_SAFE_INTEGER);
const steps = fc.array(fc.record({ action: fc.constantFrom('set', 'delete'), number: numbers, entry: fc.nat() }));

test('a Table behaves like a Map under any sequence of operations', () => {
  fc.assert(
    fc.property(steps, (done) => {
      const table = new Table<number>();
      const map = new Map<number, number>();
      for (const { action, number, entry } of done) {
        if (action === 'delete') {
          assert.equal(table.delete(number), map.delete(number));
        } else {
          table.set(number, entry);
          map.set(number, entry);
        }
        assert.equal(table.get(number), map.get(number));
        assert.equal(table.has(number), map.has(number));
        assert.equal(table.size, map.size);
      }
      const sorted = [...map].sort(([a], [b]) => a - b);
      assert.deepEqual(
        table.values(),
        sorted.map(([, entry]) => entry),
      );
    }),
  );
});

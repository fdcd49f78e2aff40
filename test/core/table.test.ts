import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Table } from '../../src/core/table.ts';

const keys = fc.oneof(
  fc.integer({ min: 0, max: 20 }),
  fc.constantFrom(2 ** 32, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER),
  fc.constantFrom('a', 'b', '__proto__', 'constructor', 'toString'),
);
const steps = fc.array(fc.record({ action: fc.constantFrom('set', 'delete'), key: keys, entry: fc.nat() }));

test('a table holds what a map would', () => {
  fc.assert(
    fc.property(steps, (done) => {
      const table = new Table<number | string, number>();
      const map = new Map<string, number>();
      for (const { action, key, entry } of done) {
        if (action === 'delete') {
          assert.equal(table.delete(key), map.delete(String(key)));
        } else {
          table.set(key, entry);
          map.set(String(key), entry);
        }
        assert.equal(table.get(key), map.get(String(key)));
        assert.equal(table.has(key), map.has(String(key)));
        assert.equal(table.size, map.size);
      }
      assert.deepEqual(table.values().sort(), [...map.values()].sort());
    }),
  );
});

test('entries by number come in rising order', () => {
  const table = new Table<number, string>();
  for (const key of [30, 2, 100_000, 7]) table.set(key, `entry ${key}`);
  assert.deepEqual(table.values(), ['entry 2', 'entry 7', 'entry 30', 'entry 100000']);
});

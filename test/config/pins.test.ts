/** The text form of CPU pins. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formatCpus, parseCpus, parsePins } from '../../src/config/formats/pins.ts';
import type { Pin } from '../../src/core/model.ts';

const READ: readonly (readonly [string, readonly Pin[]])[] = [
  ['', []],
  ['   ', []],
  ['3', [[3]]],
  ['0,1,2-3,[4,5]', [[0], [1], [2], [3], [4, 5]]],
  [' 0 , 1 , [ 4 , 5 ] ', [[0], [1], [4, 5]]],
  ['[4-7]', [[4, 5, 6, 7]]],
  ['[7,4-5,4]', [[4, 5, 7]]],
  ['2-2', [[2]]],
  ['-', [null]],
  ['-,3,-', [null, [3], null]],
  ['0,0,0', [[0], [0], [0]]],
  ['4095', [[4095]]],
];

for (const [text, pins] of READ) {
  test(`"${text}" is ${JSON.stringify(pins)}`, () => assert.deepEqual(parsePins(text), pins));
}

const UNREADABLE = [
  'a',
  '1.5',
  '-1',
  '3-2',
  '1-',
  '--',
  '1,,2',
  ',1',
  '1,',
  '0 1',
  '[]',
  '[1',
  '1]',
  '[1]]',
  '[[1]]',
  '[1][2]',
  '0[1]',
  '[1]0',
  '[-]',
  '4096',
  '0-4096',
  '99999',
  '0x1',
  '1;2',
];

for (const text of UNREADABLE) {
  test(`"${text}" is refused with an error that quotes it`, () => {
    assert.throws(
      () => parsePins(text),
      (error) => error instanceof Error && /"/.test(error.message) && /core|entries/.test(error.message),
    );
  });
}

const cpu = fc.nat({ max: 4095 });
const group = fc.uniqueArray(cpu, { minLength: 1, maxLength: 6 }).map((cpus) => cpus.sort((a, b) => a - b));

test('a set of cores survives formatting and parsing', () => {
  fc.assert(fc.property(group, (cpus) => assert.deepEqual(parseCpus(formatCpus(cpus)), cpus)));
});

test('the kernel form with ranges parses to the same set', () => {
  const range = fc.tuple(fc.nat({ max: 4000 }), fc.nat({ max: 90 }));
  fc.assert(
    fc.property(fc.array(range, { minLength: 1, maxLength: 4 }), (ranges) => {
      const text = ranges.map(([first, more]) => `${first}-${first + more}`).join(',');
      const all = ranges.flatMap(([first, more]) => Array.from({ length: more + 1 }, (_, index) => first + index));
      assert.deepEqual(
        parseCpus(text),
        [...new Set(all)].sort((a, b) => a - b),
      );
    }),
  );
});

test('any list of pins survives formatting and parsing', () => {
  const pin: fc.Arbitrary<Pin> = fc.oneof(
    cpu.map((one) => [one]),
    group,
    fc.constant(null),
  );
  fc.assert(
    fc.property(fc.array(pin, { maxLength: 8, size: 'max' }), (pins) => {
      const text = pins.map((one) => (one === null ? '-' : one.length === 1 ? `${one}` : `[${formatCpus(one)}]`));
      assert.deepEqual(parsePins(text.join(', ')), pins);
    }),
  );
});

test('the parser reads or refuses any text, and its result is within bounds', () => {
  const text = fc.string({ unit: fc.constantFrom(...'0123456789,,--[] x'), maxLength: 20, size: 'max' });
  fc.assert(
    fc.property(text, (entry) => {
      let pins: Pin[];
      try {
        pins = parsePins(entry);
      } catch (thrown) {
        assert.equal((thrown as Error).constructor, Error);
        return;
      }
      for (const core of pins.flatMap((one) => one ?? []))
        assert.ok(Number.isInteger(core) && core >= 0 && core <= 4095);
    }),
    { numRuns: 2000 },
  );
});

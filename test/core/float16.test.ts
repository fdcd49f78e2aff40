/** Numbers of 16 bits, on Nodes that have arrays of them and on Nodes that have none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bitsOfHalf, fromHalfBits, halfOfBits, toHalfBits } from '../../src/core/float16.ts';

const ALL: Uint16Array = Uint16Array.from({ length: 2 ** 16 }, (_, bits) => bits);
const Native = (globalThis as { Float16Array?: new (values: number[] | ArrayBuffer) => ArrayLike<number> })
  .Float16Array;

test('every 16-bit float survives reading and writing unchanged', () => {
  for (const bits of ALL) {
    const number = halfOfBits(bits);
    if (Number.isNaN(number)) assert.ok((bits & 0x7fff) > 0x7c00);
    else assert.equal(bitsOfHalf(number), bits);
  }
  const numbers = fromHalfBits(ALL);
  assert.equal(numbers.length, ALL.length);
  assert.deepEqual(Array.from(numbers), Array.from(ALL, halfOfBits));
  assert.deepEqual(
    toHalfBits(numbers).filter((bits, at) => bits !== ALL[at] && !Number.isNaN(numbers[at])),
    new Uint16Array(),
  );
});

test('a number between two 16-bit floats rounds to the nearest, ties to even', () => {
  const rounded: readonly (readonly [number, number])[] = [
    [1 + 2 ** -11, 1],
    [1 + 3 * 2 ** -11, 1 + 2 ** -9],
    [1 + 2 ** -11 + 2 ** -30, 1 + 2 ** -10],
    [2 - 2 ** -12, 2],
    [65_519, 65_504],
    [65_520, Number.POSITIVE_INFINITY],
    [-1e9, Number.NEGATIVE_INFINITY],
    [2 ** -25, 0],
    [2 ** -25 + 2 ** -40, 2 ** -24],
    [2 ** -14 - 2 ** -26, 2 ** -14],
    [-0, -0],
  ];
  for (const [number, nearest] of rounded) assert.ok(Object.is(halfOfBits(bitsOfHalf(number)), nearest), `${number}`);
  assert.ok(Number.isNaN(halfOfBits(bitsOfHalf(Number.NaN))));
});

test('the conversion agrees with Float16Array where Node.js has it', () => {
  const Float16Array = Native;
  if (!Float16Array) return assert.equal(fromHalfBits(ALL) instanceof Float32Array, true);
  assert.deepEqual(Array.from(ALL, halfOfBits), Array.from(new Float16Array(ALL.slice().buffer)));
  const odd = Array.from({ length: 10_000 }, (_, index) => Math.sin(index) * 2 ** ((index % 44) - 26));
  assert.deepEqual(
    odd.map((number) => halfOfBits(bitsOfHalf(number))),
    Array.from(new Float16Array(odd)),
  );
});

/** Values as JSON answers have them: what JSON would make something else of becomes what it stands for. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { jsonable } from '../../src/http/values/conversion.ts';

const written = (value: unknown): unknown => JSON.parse(JSON.stringify(jsonable(value)));
const nothing = { data: new Float32Array(0), dims: [0, 3], type: 'float32' };

describe('an answer in JSON', () => {
  const rows: readonly (readonly [string, unknown, unknown])[] = [
    ['a typed array', Float32Array.of(1, 2.5), [1, 2.5]],
    ['an empty typed array', new Int32Array(0), []],
    ['NaN in a typed array', Float64Array.of(Number.NaN, 1), [null, 1]],
    ['a typed array of bytes', Uint8Array.of(1, 255), [1, 255]],
    ['integers of 64 bits', BigInt64Array.of(5n, 2n ** 60n), [5, '1152921504606846976']],
    [
      'a tensor',
      { data: Float32Array.of(1, 2, 3, 4, 5, 6), dims: [2, 3], type: 'float32' },
      [
        [1, 2, 3],
        [4, 5, 6],
      ],
    ],
    ['a tensor of no dimension', { data: Float32Array.of(7), dims: [], type: 'float32' }, 7],
    ['a tensor of int64', { data: BigInt64Array.of(1n, -2n), dims: [2, 1], type: 'int64' }, [[1], [-2]]],
    ['a tensor of truth', { data: Uint8Array.of(1, 0), dims: [1, 2], type: 'bool' }, [[true, false]]],
    ['a tensor of texts', { data: ['a', 'b'], dims: [2, 1], type: 'string' }, [['a'], ['b']]],
    ['a tensor of half floats', { data: Float32Array.of(0.5), dims: [1, 1], type: 'float16' }, [[0.5]]],
    ['a tensor without elements', nothing, []],
    ['a set', new Set([1, Float32Array.of(2)]), [1, [2]]],
    [
      'a map with texts and numbers as keys',
      new Map<unknown, unknown>([
        ['a', new Set([1])],
        [2, 3n],
      ]),
      { a: [1], 2: 3 },
    ],
    ['a map with other keys', new Map([[{ k: 1 }, 1]]), [[{ k: 1 }, 1]]],
    [
      'a map in which two keys are one text',
      new Map<unknown, unknown>([
        ['1', 'a'],
        [1, 'b'],
      ]),
      [
        ['1', 'a'],
        [1, 'b'],
      ],
    ],
    ['a BigInt', [2n, 2n ** 53n, -(2n ** 70n)], [2, '9007199254740992', '-1180591620717411303424']],
    [
      'an ArrayBuffer and a DataView',
      [Uint8Array.of(1).buffer, new DataView(Uint8Array.of(0, 2).buffer, 1)],
      [[1], [2]],
    ],
    ['a Buffer', { image: Buffer.from([1]) }, { image: { type: 'Buffer', data: [1] } }],
    ['a date', [new Date(0), new Date(Number.NaN)], ['1970-01-01T00:00:00.000Z', null]],
    ['an error and a pattern', [new RangeError('far'), /a/g], [{ name: 'RangeError', message: 'far' }, '/a/g']],
    ['what says how it becomes JSON', { toJSON: () => new Set([1n]) }, [1]],
    ['boxed values', [Object(1), Object('a')], [1, 'a']],
    ['functions, which JSON leaves out', { a: 1, call: () => 1 }, { a: 1 }],
    ['arrays within lists within objects', { all: [{ rows: [Int8Array.of(1)] }] }, { all: [{ rows: [[1]] }] }],
    ['plain values', { a: [1, null, 'b', { c: true }] }, { a: [1, null, 'b', { c: true }] }],
  ];
  for (const [name, value, expected] of rows) {
    test(`holds ${name}`, () => assert.deepEqual(written(value), expected));
  }

  test('holds values from the realm of a function node', () => {
    const made: unknown = runInNewContext(
      '({ f: new Float32Array([1]), s: new Set([2]), m: new Map([["a", 3n]]), none: {} })',
    );
    assert.deepEqual(written(made), { f: [1], s: [2], m: { a: 3 }, none: {} });
  });

  const odd: readonly (readonly [string, object])[] = [
    ['dims of another size', { data: Float32Array.of(1), dims: [2], type: 'float32' }],
    ['another type', { data: Float32Array.of(1), dims: [1], type: 'int8' }],
    ['more properties', { data: Float32Array.of(1), dims: [1], type: 'float32', name: 'scores' }],
  ];
  for (const [name, value] of odd) {
    test(`keeps an object with ${name} than a tensor has`, () => {
      assert.deepEqual(written(value), { ...value, data: [1] });
    });
  }

  test('does not grow by dims that claim many arrays without elements', () => {
    for (const dims of [[1e9, 0], [0, 1e9].reverse(), new Array(900).fill(1) as number[]]) {
      const data = dims.includes(0) ? [] : ['a'];
      const value = { data, dims, type: 'string' };
      const text = JSON.stringify(jsonable(value));
      assert.ok(text.length < 100_000, `${text.length}`);
    }
    const hostile = {
      data: new Array(1000).fill(''),
      dims: [1000, ...(new Array(60).fill(1) as number[])],
      type: 'string',
    };
    assert.equal(jsonable(hostile), hostile);
  });

  test('changes no value, and copies only values that need another form', () => {
    const plain = Object.freeze({ list: Object.freeze([1, { a: 'b' }]) });
    assert.equal(jsonable(plain), plain);
    const value = Object.freeze({ plain, made: Object.freeze([Float32Array.of(1)]) });
    const made = jsonable(value) as typeof value;
    assert.equal(made.plain, plain);
    assert.deepEqual(value.made, [Float32Array.of(1)]);
    const named = jsonable(JSON.parse('{"__proto__": 1}')) as object;
    assert.deepEqual(Object.keys(named), ['__proto__']);
    assert.equal(JSON.stringify(jsonable(new Map([['__proto__', 1n]]))), '{"__proto__":1}');
  });

  test('cannot hold objects without data, and values that contain themselves', () => {
    const itself: { self?: unknown } = {};
    itself.self = itself;
    assert.throws(() => jsonable({ all: [new WeakMap()] }), /a WeakMap in it, which has no own data: return its data/);
    assert.throws(() => jsonable([Promise.resolve(1)]), /a Promise in it/);
    assert.throws(() => jsonable(itself), /contains itself/);
  });
});

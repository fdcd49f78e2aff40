import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { decode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { isModeletError, type ModeletError } from '../../src/core/errors.ts';
import { elementType } from '../../src/core/tensor.ts';
import { decodeMsgpack, encodeMsgpack } from '../../src/http/values/msgpack.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

function refusal(act: () => unknown): ModeletError {
  try {
    act();
  } catch (thrown) {
    assert.ok(isModeletError(thrown), String(thrown));
    return thrown as ModeletError;
  }
  throw new assert.AssertionError({ message: 'it was taken' });
}

describe('msgpack: there and back', () => {
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 4 },
      fc.string({ unit: 'grapheme' }),
      fc.integer(),
      fc.maxSafeInteger(),
      fc.double({ noNaN: true }).filter((number) => !Object.is(number, -0)),
      fc.boolean(),
      fc.constant(null),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
      fc.date({ noInvalidDate: true }),
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      fc.array(tie('any')),
      fc.dictionary(
        fc.string().filter((key) => key !== '__proto__'),
        tie('any'),
        { noNullPrototype: true },
      ),
    ),
  })).any;

  /** A BigInt that a number can hold comes back as one. */
  const asCame = (made: unknown): unknown => {
    if (typeof made === 'bigint') return Number.isSafeInteger(Number(made)) ? Number(made) : made;
    if (Array.isArray(made)) return made.map(asCame);
    const isPlain = made !== null && typeof made === 'object' && Object.getPrototypeOf(made) === Object.prototype;
    return isPlain ? Object.fromEntries(Object.entries(made).map(([key, inner]) => [key, asCame(inner)])) : made;
  };

  test('an encoded value decodes to the same', () => {
    fc.assert(
      fc.property(value, (made) => {
        assert.deepEqual(decodeMsgpack(encodeMsgpack(made)), asCame(made));
      }),
    );
  });

  test('a tensor comes back with its type and shape', () => {
    for (const data of [
      Int8Array.of(-1, 2),
      Uint8Array.of(1, 2),
      Int16Array.of(-1, 2),
      Uint16Array.of(1, 2),
      Int32Array.of(-1, 2),
      Uint32Array.of(1, 2),
      Float32Array.of(1.5, Number.NaN),
      Float64Array.of(0.1, -0),
      BigInt64Array.of(-(2n ** 63n), 1n),
      BigUint64Array.of(2n ** 64n - 1n, 1n),
    ]) {
      const tensor = { data, dims: [1, 2], type: elementType(data) };
      assert.deepEqual(decodeMsgpack(encodeMsgpack(tensor)), tensor);
      assert.deepEqual(decodeMsgpack(encodeMsgpack({ a: [tensor], b: 2n ** 63n })), { a: [tensor], b: 2n ** 63n });
    }
    const mask = { data: Uint8Array.of(1, 0), dims: [2, 1], type: 'bool' };
    assert.deepEqual(decodeMsgpack(encodeMsgpack(mask)), mask);
    const half = decodeMsgpack(encodeMsgpack({ data: Float32Array.of(0.5), dims: [1], type: 'float16' }));
    assert.deepEqual([...(half as { data: Float32Array }).data], [0.5]);
  });

  test('bytes that fit no tensor stay as they are', () => {
    const data = Buffer.alloc(6);
    for (const value of [
      { data, dims: [2], type: 'float32' },
      { data, dims: [2, 2], type: 'uint8' },
      { data, dims: [6], type: 'complex64' },
      { data, dims: 6, type: 'uint8' },
      { data, dims: [6], type: 'uint8', more: 1 },
      { dims: null },
    ]) {
      assert.deepEqual(decodeMsgpack(encodeMsgpack(value)), value);
    }
  });

  test('msgpack that is cut off, or followed by more bytes, gets bad_request', () => {
    fc.assert(
      fc.property(value, fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (made, part) => {
        const bytes = encodeMsgpack(made);
        const cut = bytes.subarray(0, Math.floor(part * bytes.length));
        assert.equal(refusal(() => decodeMsgpack(cut)).code, 'bad_request');
        assert.equal(refusal(() => decodeMsgpack(Buffer.concat([bytes, hex('c0')]))).code, 'bad_request');
      }),
    );
  });
});

describe('msgpack: what comes in', () => {
  test('the decoder decodes or refuses any bytes', () => {
    const heads = fc.constantFrom(
      0x80,
      0x81,
      0x91,
      0x9f,
      0xa1,
      0xbf,
      ...Array.from({ length: 32 }, (_, at) => 0xc0 + at),
    );
    const some = fc.array(fc.oneof(fc.integer({ min: 0, max: 255 }), heads), { maxLength: 64 });
    fc.assert(
      fc.property(some, (bytes) => {
        try {
          decodeMsgpack(Buffer.from(bytes));
        } catch (thrown) {
          assert.ok(isModeletError(thrown), String(thrown));
          assert.equal((thrown as ModeletError).code, 'bad_request');
        }
      }),
      { numRuns: 2000 },
    );
  });

  const refused: readonly (readonly [what: string, bytes: Buffer, why: RegExp])[] = [
    ['nothing', Buffer.alloc(0), /ends in the middle/],
    ['a byte that is no value', hex('c1'), /a byte that no value begins with/],
    ['a text that ends too early', hex('a5 61 62'), /ends in the middle/],
    ['an array that claims four thousand million items', hex('dd ff ff ff ff c0'), /ends in the middle/],
    ['a map that claims as many', hex('df ff ff ff ff'), /ends in the middle/],
    [
      'arrays in arrays that claim more than all bytes together',
      hex('dd 00 00 00 08 dc 00 08 c0 c0 c0 c0 c0 c0'),
      /ends in/,
    ],
    ['a text that is no UTF-8', hex('92 a1 61 a1 ff'), /a text that is not UTF-8/],
    ['a longer one', hex('d9 03 61 c3 28'), /a text that is not UTF-8/],
    ['a key that is no UTF-8', hex('81 a1 80 c0'), /a text that is not UTF-8/],
    ['a key __proto__', hex('81 a9 5f5f70726f746f5f5f 80'), /__proto__/],
    ['a key that is an array', hex('81 90 c0'), /key/],
    ['an unknown extension', hex('d4 05 00'), /extension of type 5, of which there is only -1/],
    ['another one, of a negative type', hex('d4 fe 00'), /extension of type -2/],
    ['a timestamp of one byte', hex('d4 ff 00'), /a timestamp of 1 byte$/],
    ['a timestamp beyond all dates', hex('c7 0c ff 00000000 7fffffffffffffff'), /beyond what a date can be/],
    ['two values', hex('01 02'), /: 1 byte too many$/],
    ['a million levels', Buffer.alloc(1_000_000, 0x91), /more than 1000 levels/],
  ];
  for (const [what, bytes, why] of refused) {
    test(`${what}: bad_request`, () => {
      const { code, message } = refusal(() => decodeMsgpack(bytes));
      assert.equal(code, 'bad_request');
      assert.match(message, why);
      assert.match(message, /^the body is not valid msgpack: /);
    });
  }

  test('more small values than memory should hold get payload_too_large', () => {
    const emptyMaps = Buffer.concat([hex('dd 00 1e 84 80'), Buffer.alloc(2_000_000, 0x80)]);
    assert.equal(refusal(() => decodeMsgpack(emptyMaps)).code, 'payload_too_large');
    const zeros = Buffer.concat([hex('dd 00 7a 12 01'), Buffer.alloc(8_000_001)]);
    assert.equal(refusal(() => decodeMsgpack(zeros)).code, 'payload_too_large');
  });

  test('the decoder reads binaries, dates, 64-bit integers and numeric keys of other languages', () => {
    assert.deepEqual(decodeMsgpack(hex('c4 03 010203')), Buffer.from([1, 2, 3]));
    assert.deepEqual(decodeMsgpack(hex('d6 ff 00000001')), new Date(1000));
    assert.deepEqual(decodeMsgpack(hex('92 cf 000000e8d4a51000 cf ffffffffffffffff')), [1e12, 2n ** 64n - 1n]);
    assert.deepEqual(decodeMsgpack(hex('81 07 a161')), { 7: 'a' });
    assert.deepEqual(decodeMsgpack(hex('81 ab 636f6e7374727563746f72 c0')), { constructor: null });
  });
});

describe('msgpack: what goes out', () => {
  test('the encoder leaves out undefined properties and writes other undefined values as nil', () => {
    assert.deepEqual(encodeMsgpack({ a: undefined, b: 1 }), hex('81 a162 01'));
    assert.deepEqual(encodeMsgpack([undefined]), hex('91 c0'));
    assert.deepEqual(encodeMsgpack(undefined), hex('c0'));
  });

  test('whole numbers stay whole, also beside a BigInt', () => {
    assert.deepEqual(encodeMsgpack(2 ** 40), hex('cf 0000010000000000'));
    assert.deepEqual(
      encodeMsgpack([1n, 2 ** 40, -(2 ** 40), 7]).subarray(10),
      hex('cf 0000010000000000 d3 ffffff0000000000 07'),
    );
  });

  test('a zero keeps its sign, also beside a BigInt', () => {
    assert.deepEqual(encodeMsgpack([-0, 0]), hex('92 cb8000000000000000 00'));
    assert.deepEqual(encodeMsgpack([1n, { a: -0 }]).subarray(10), hex('81 a161 cb8000000000000000'));
    assert.deepEqual(decodeMsgpack(encodeMsgpack([-0, 0])), [-0, 0]);
  });

  test('typed arrays keep their type and their shape, which their bytes alone do not tell', () => {
    const sent = (value: unknown): unknown => decode(encodeMsgpack(value));
    const one = { data: hex('0000803f'), dims: [1], type: 'float32' };
    assert.deepEqual(sent(Float32Array.of(1)), one);
    assert.deepEqual(sent({ list: [1n, Float32Array.of(1)] }), { list: [1, one] });
    assert.deepEqual(sent(BigInt64Array.of(-1n)), { data: hex('ffffffffffffffff'), dims: [1], type: 'int64' });
    const square = { data: Int16Array.of(1, 2, 3, 4), dims: [2, 2], type: 'int16' };
    assert.deepEqual(sent(square), { data: hex('0100 0200 0300 0400'), dims: [2, 2], type: 'int16' });
    const mask = { data: Uint8Array.of(1, 0), dims: [1, 2], type: 'bool' };
    assert.deepEqual(sent(mask), { data: hex('0100'), dims: [1, 2], type: 'bool' });
    const half = { data: Float32Array.of(1, -2), dims: [2], type: 'float16' };
    assert.deepEqual(sent(half), { data: hex('003c 00c0'), dims: [2], type: 'float16' });
    const texts = { data: ['a', 'b'], dims: [2, 1], type: 'string' };
    assert.deepEqual(sent(texts), texts);
  });

  test('the encoder writes bytes as bytes, sets as arrays, maps as maps, and the result of toJSON', () => {
    assert.deepEqual(encodeMsgpack(Uint8Array.of(9)), hex('c4 01 09'));
    assert.deepEqual(encodeMsgpack(Uint8Array.of(9).buffer), hex('c4 01 09'));
    assert.deepEqual(encodeMsgpack(new Set([1])), hex('91 01'));
    assert.deepEqual(encodeMsgpack(new Map([['a', new Set()]])), hex('81 a161 90'));
    assert.deepEqual(encodeMsgpack({ toJSON: () => 'a' }), hex('a1 61'));
    assert.deepEqual(encodeMsgpack({ at: new Date(Number.NaN), of: Object(3) }), hex('82 a26174 c0 a26f66 03'));
  });

  test('the encoder replaces halves of surrogate pairs, which no client could read', () => {
    assert.deepEqual(encodeMsgpack(['a\ud83d', '🌍']), hex('92 a4 61 efbfbd a4 f09f8c8d'));
  });

  test('the encoder accepts values from the realm of a function node', () => {
    const made: unknown = runInNewContext(
      '({ at: new Date(1000), bytes: Uint8Array.of(1), list: [1n], map: new Map() })',
    );
    const back = decodeMsgpack(encodeMsgpack(made));
    assert.deepEqual(back, { at: new Date(1000), bytes: Buffer.from([1]), list: [1], map: {} });
  });

  test('the encoder writes a property __proto__ like any other', () => {
    const parsed: unknown = JSON.parse('{"__proto__": 1}');
    assert.deepEqual(encodeMsgpack(parsed), hex('81 a9 5f5f70726f746f5f5f 01'));
    assert.deepEqual(encodeMsgpack([1n, parsed]).subarray(-12), hex('81 a9 5f5f70726f746f5f5f 01'));
  });

  const itself: { self?: unknown; again?: unknown } = {};
  itself.self = itself;
  itself.again = itself;
  const refused: readonly (readonly [what: string, value: unknown, why: RegExp])[] = [
    ['a function', { callback: () => 1 }, /there is a function in it/],
    ['a symbol', [Symbol('s')], /there is a symbol in it/],
    ['a BigInt of 65 bits', 2n ** 64n, /18446744073709551616 has more than 64 bits/],
    ['a map of objects', new Map([[{}, 1]]), /a Map with a object as key/],
    [
      'a map with the same key twice',
      new Map<unknown, unknown>([
        ['1', 1],
        [1, 1],
      ]),
      /a Map with the same key twice/,
    ],
    ['an object without data', [new WeakMap()], /a WeakMap in it, which has no own data: return its data as/],
    ['what contains itself', itself, /contains itself/],
  ];
  for (const [what, value, why] of refused) {
    test(`${what}: modelet_failed`, () => {
      const { code, message } = refusal(() => encodeMsgpack(value));
      assert.equal(code, 'modelet_failed');
      assert.match(message, why);
    });
  }

  test('encoding does not change the value', () => {
    const inner = Object.freeze({ when: 1n, set: new Set([1]) });
    const value = Object.freeze({ list: Object.freeze([inner, 2 ** 40]) });
    encodeMsgpack(value);
    assert.deepEqual(value, { list: [{ when: 1n, set: new Set([1]) }, 2 ** 40] });
  });
});

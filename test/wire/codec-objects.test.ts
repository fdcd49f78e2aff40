/** Unusual objects: other realms, prototypes, `__proto__`, toJSON. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import { CODEC, encodePayload } from '../../src/wire/codec/codec.ts';
import { AS_INPUT, codecOf, roundTrip } from './payload.ts';

/** As Node-RED's function node runs its code: a separate context with the host's Buffer. */
function functionNode(expression: string): unknown {
  return runInContext(`(${expression})`, createContext({ Buffer, console }));
}

test('plain values of a function node stay plain values', () => {
  const made = functionNode('{ n: 1, list: [1, { a: null }], text: "x", none: undefined }');
  assert.equal(codecOf(made), CODEC.json);
  assert.deepStrictEqual(roundTrip(made), { n: 1, list: [1, { a: null }], text: 'x' });
});

test('dates, maps, sets, errors and patterns of a function node keep their kind', () => {
  const made = functionNode(
    '{ at: new Date(5), map: new Map([[1, 2]]), set: new Set([3]), re: /x/g, e: new RangeError("r") }',
  );
  const back = roundTrip(made) as { at: Date; map: unknown; set: unknown; re: unknown; e: Error };
  assert.deepStrictEqual(back.at, new Date(5));
  assert.deepStrictEqual(back.map, new Map([[1, 2]]));
  assert.deepStrictEqual(back.set, new Set([3]));
  assert.deepStrictEqual(back.re, /x/g);
  assert.ok(back.e instanceof RangeError && back.e.message === 'r');
});

test('binaries of a function node keep their kind', () => {
  const made = functionNode('{ f: new Float32Array([1.5]), b: Buffer.from("b"), v: new DataView(new ArrayBuffer(2)) }');
  assert.equal(codecOf(made), CODEC.sections);
  assert.deepStrictEqual(roundTrip(made), {
    f: new Float32Array([1.5]),
    b: Buffer.from('b'),
    v: new DataView(new ArrayBuffer(2)),
  });
  assert.deepStrictEqual(roundTrip(functionNode('new Uint16Array([1, 2])')), new Uint16Array([1, 2]));
  assert.deepStrictEqual(roundTrip(functionNode('new ArrayBuffer(3)')), new ArrayBuffer(3));
});

test('the codec refuses a function made in a function node and names its path', () => {
  const made = functionNode('{ a: { f() {} } }');
  assert.throws(() => encodePayload(made, AS_INPUT), { code: 'invalid_input', message: /at a\.f is a function/ });
});

const HOSTILE = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":1}';

test('an own __proto__ key stays data and pollutes nothing', () => {
  const hostile = JSON.parse(HOSTILE) as Record<string, unknown>;
  const inSections = Object.fromEntries([['__proto__', { polluted: Buffer.from('x') }]]);
  const values = [hostile, [hostile], { at: new Date(0), hostile }, inSections];
  for (const value of values) {
    const back = roundTrip(value);
    assert.deepStrictEqual(back, value);
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  }
  const back = roundTrip(hostile) as object;
  assert.ok(Object.hasOwn(back, '__proto__'));
  assert.equal(Object.getPrototypeOf(back), Object.prototype);
  assert.equal((back as { polluted?: unknown }).polluted, undefined);
});

test('the codec uses the toJSON of an object', () => {
  class Money {
    readonly #cents = 150;
    toJSON(): unknown {
      return { euros: this.#cents / 100 };
    }
  }
  assert.deepStrictEqual(roundTrip({ price: new Money() }), { price: { euros: 1.5 } });
  assert.deepStrictEqual(roundTrip({ price: new Money(), scan: Buffer.from('s') }), {
    price: { euros: 1.5 },
    scan: Buffer.from('s'),
  });
  assert.deepStrictEqual(roundTrip([{ toJSON: () => 'own' }]), ['own']);
  assert.deepStrictEqual(roundTrip({ toJSON: 'a plain property' }), { toJSON: 'a plain property' });
});

test('an object with toJSON beside a Date uses it, and beside a value that only V8 carries travels as its fields', () => {
  const money = Object.assign(Object.create({ toJSON: () => '1.50' }), { cents: 150, note: undefined }) as object;
  assert.deepStrictEqual(roundTrip({ money }), { money: '1.50' });
  assert.deepStrictEqual(roundTrip({ money, at: new Date(0) }), { money: '1.50', at: new Date(0) });
  const back = roundTrip({ money, pattern: /x/ });
  assert.deepStrictEqual(back, { money: { cents: 150, note: undefined }, pattern: /x/ });
});

test('a proxy travels as its visible properties, and the codec omits symbol keys', () => {
  const proxy = new Proxy({ a: 1, [Symbol('hidden')]: 2 }, { get: (target, key) => Reflect.get(target, key) ?? 3 });
  assert.deepStrictEqual(roundTrip({ proxy }), { proxy: { a: 1 } });
});

test('an instance of a class travels as its fields, an object without prototype as a plain one', () => {
  class Point {
    x = 1;
    y = 2;
  }
  assert.deepStrictEqual(roundTrip({ at: new Point() }), { at: { x: 1, y: 2 } });
  assert.deepStrictEqual(roundTrip(Object.assign(Object.create(null), { a: 1 })), { a: 1 });
});

test('the JSON codec writes JSON', () => {
  const value = { text: 'ü\ud800', list: [1, 2.5, true, null], nested: { '': {} } };
  const { codec, bytes } = encodePayload(value, AS_INPUT);
  assert.equal(codec, CODEC.json);
  assert.deepStrictEqual(JSON.parse(Buffer.from(bytes).toString()), value);
});

/** The codec refuses values that it cannot carry, with the code of the party at fault and the path. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { ModeletError } from '../../src/core/errors.ts';
import { CODEC, decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';
import { AS_INPUT, AS_RESULT, roundTrip } from './payload.ts';

function refused(code: string, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ModeletError, `not a ModeletError: ${String(error)}`);
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  };
}

const FORBIDDEN: readonly (readonly [string, unknown, RegExp])[] = [
  ['a function', () => 1, /^the value is a function/],
  ['a symbol', Symbol('s'), /^the value is a symbol/],
  ['a nested function', { model: { run() {} } }, /^the value at model\.run is a function/],
  ['a nested symbol', [{ tags: ['a', Symbol('b')] }], /^the value at 0\.tags\.1 is a symbol/],
  ['a forgotten await', { result: Promise.resolve(1) }, /^the value at result is a Promise/],
  ['a WeakMap', [new WeakMap()], /^the value at 0 is a WeakMap/],
  ['a function beside a date', { at: new Date(0), run: () => 'beside' }, /^the value at run is a function/],
  ['a function in a Map', new Map([['run', () => 'mapped']]), /^the value at 0\.1 is a function/],
  ['a function that only V8 sees', { pattern: /x/, run: () => 'beside' }, /beside.*could not be cloned/],
  ['shared memory', { shared: new SharedArrayBuffer(8) }, /cannot be sent to another process/],
  ['a getter that throws', Object.defineProperty({}, 'x', { enumerable: true, get: throwBroken }), /broken getter/],
  [
    'a getter that throws nothing',
    {
      get x() {
        throw null;
      },
    },
    /thrown: null/,
  ],
  [
    'a getter that throws what cannot be read',
    {
      get x() {
        throw revoked();
      },
    },
    /thrown: a value .* cannot be read/,
  ],
  ['a revoked proxy', { list: [revoked()] }, /proxy that has been revoked/],
  ['a proxy beside a pattern', { pattern: /x/, shown: new Proxy({}, {}) }, /could not be cloned/],
  ['a toJSON that says nothing', { toJSON: () => undefined }, /cannot be sent to another process/],
  ['a toJSON that throws', { deep: [{ toJSON: throwBroken }] }, /broken getter/],
];

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

function throwBroken(): never {
  throw new Error('broken getter');
}

for (const [name, value, message] of FORBIDDEN) {
  test(`${name} is the caller's fault in an input and the modelet's in a result`, () => {
    assert.throws(() => encodePayload(value, AS_INPUT), refused('invalid_input', message));
    assert.throws(() => encodePayload(value, AS_RESULT), refused('modelet_failed', message));
  });
}

class Handle {
  readonly #pointer = 7;
  read(): number {
    return this.#pointer;
  }
}

const WITHOUT_DATA: readonly (readonly [string, unknown, RegExp])[] = [
  ['a handle of a library', new Handle(), /^the value is a Handle, which has no own data: return its data as/],
  ['a nested one', { model: [new Handle()] }, /^the value at model\.0 is a Handle, which has no own data/],
  ['one beside a date', { at: new Date(0), model: new Handle() }, /is a Handle, which has no own data/],
  ['one beside a pattern', { pattern: /x/, model: new Handle() }, /is a Handle, which has no own data/],
  ['one in a Map', new Map([['model', new Handle()]]), /is a Handle, which has no own data/],
  ['an iterator', { all: new Map([[1, 2]]).values() }, /Iterator, which has no own data/],
  ['an object of which all properties are undefined', Object.assign(new Handle(), { a: undefined }), /no own data/],
];

for (const [name, value, message] of WITHOUT_DATA) {
  test(`the codec refuses ${name} as a result, because it would arrive as {}`, () => {
    assert.throws(() => encodePayload(value, AS_RESULT), refused('modelet_failed', message));
    assert.doesNotThrow(() => encodePayload(value, AS_INPUT));
  });
}

test('the error for a refused result tells its author what to return', () => {
  const advice: readonly (readonly [unknown, RegExp])[] = [
    [{ result: Promise.resolve(1) }, /is a Promise, which no other process can use: await it$/],
    [() => 1, /: return its data as a plain object, an array, a Buffer or a typed array$/],
    [new WeakSet(), /: return its data as a plain object/],
  ];
  for (const [value, message] of advice)
    assert.throws(() => encodePayload(value, AS_RESULT), refused('modelet_failed', message));
});

test('the codec carries empty plain objects of any realm, and class instances with properties', () => {
  const foreign: unknown = runInNewContext('({ none: {}, at: new Date(0), list: [{}] })');
  const fields = Object.assign(new Handle(), { size: 1 });
  for (const value of [
    {},
    Object.create(null),
    foreign,
    { a: {} },
    fields,
    { at: new Date(0), none: {}, n: Object(1) },
  ]) {
    assert.doesNotThrow(() => encodePayload(value, AS_RESULT));
  }
});

test('the codec carries a payload at the limit and refuses a larger one', () => {
  for (const value of [
    'x'.repeat(98),
    Buffer.alloc(100),
    new Uint8Array(92),
    { b: Buffer.alloc(1000) },
    new Map([[1, 'x'.repeat(200)]]),
  ]) {
    const size = encodePayload(value, AS_INPUT).bytes.byteLength;
    assert.equal(encodePayload(value, { ...AS_INPUT, maxBytes: size }).bytes.byteLength, size);
    const tight = { maxBytes: size - 1 };
    const message = /limit is \d+ bytes/;
    assert.throws(() => encodePayload(value, { ...AS_INPUT, ...tight }), refused('payload_too_large', message));
    assert.throws(() => encodePayload(value, { ...AS_RESULT, ...tight }), refused('modelet_failed', message));
  }
});

function nested(levels: number, bottom: unknown = 'bottom'): unknown {
  let value = bottom;
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { down: value };
  return value;
}

test('the codec carries 900 levels and refuses 1100', () => {
  assert.deepEqual(JSON.stringify(roundTrip(nested(900))), JSON.stringify(nested(900)));
  assert.throws(() => encodePayload(nested(1100), AS_INPUT), refused('invalid_input', /nested deeper than 1000/));
  assert.throws(() => encodePayload(nested(1100), AS_RESULT), refused('modelet_failed', /nested deeper than 1000/));
});

test('the codec refuses a million levels without a stack overflow', () => {
  assert.throws(() => encodePayload(nested(1_000_000), AS_INPUT), refused('invalid_input', /nested deeper/));
  const mixed = { first: Number.NaN, deep: nested(1_000_000) };
  assert.throws(() => encodePayload(mixed, AS_INPUT), refused('invalid_input', /nested deeper/));
  const byV8 = { pattern: /x/, deep: nested(1_000_000) };
  assert.throws(() => encodePayload(byV8, AS_INPUT), refused('invalid_input', /nested deeper/));
  const inMap = new Map([[1, nested(1_000_000)]]);
  assert.throws(() => encodePayload(inMap, AS_INPUT), refused('invalid_input', /nested deeper/));
});

test('the codec refuses multiplying shared references after a walk bounded by the limit', () => {
  let reads = 0;
  let value: unknown = Object.defineProperty({}, 'leaf', { enumerable: true, get: () => (reads += 1) });
  for (let level = 0; level < 40; level += 1) value = [value, value];
  const limit = { ...AS_INPUT, maxBytes: 100_000 };
  assert.throws(() => encodePayload(value, limit), refused('payload_too_large', /^payload is too large; the limit is/));
  assert.ok(reads <= 10_000, `${reads} of 2^40 leaves were visited`);
  const result = { ...limit, blame: 'modelet_failed' } as const;
  const message = /^the result is at least \d+ bytes; the limit is \d+ bytes$/;
  assert.throws(() => encodePayload(value, result), refused('modelet_failed', message));
});

test('a binary counts once for each reference to it', () => {
  const megabyte = Buffer.alloc(1 << 20);
  const value = Array.from({ length: 100_000 }, () => megabyte);
  assert.throws(
    () => encodePayload(value, AS_INPUT),
    refused('payload_too_large', /^payload is too large; the limit is/),
  );
});

const TOO_LARGE = refused('payload_too_large', /^payload is too large; the limit is/);

/** One megabyte, referred to so often that it would be 100 GB. */
const text = 'x'.repeat(1 << 20);
const megabyte = new Uint8Array(1 << 20);
const hugeInteger = 2n ** 8_000_000n;
const texts = Array.from({ length: 100_000 }, () => text);
const multiplied: Record<string, unknown> = {
  texts,
  'texts behind a NaN': [Number.NaN, ...texts],
  'texts behind a pattern': [/x/, ...texts],
  'a Map of texts behind a pattern': [/x/, new Map(texts.map((member, index) => [{ index }, member]))],
  'a Set of texts behind a pattern': [/x/, new Set(texts.map((member) => [member]))],
  'large integers behind a pattern': [/x/, ...Array.from({ length: 1000 }, () => 2n ** 8_000_000n)],
  'keys of a Map': new Map(texts.map((key, index) => [{ index }, key])),
  'members of a Set': new Set(texts.map((member) => [member])),
  'messages of errors': texts.slice(0, 100).map((message) => Object.assign(new Error(), { message })),
  'names of properties': texts.map((name) => ({ [name]: 1 })),
  'large integers': Array.from({ length: 1000 }, () => hugeInteger),
  'views of one buffer': [/x/, ...Array.from({ length: 1000 }, () => new Uint8Array(megabyte.buffer, 0, 1 << 20))],
  'what a toJSON says': { toJSON: () => texts },
  'what a toJSON says beside a binary': { scan: Buffer.from('s'), rest: { toJSON: () => texts } },
};

for (const [name, value] of Object.entries(multiplied)) {
  test(`${name}: the codec finds too many while it counts, before it writes`, () => {
    assert.throws(() => encodePayload(value, AS_INPUT), TOO_LARGE);
  });
}

test('the holes of an array count like elements', () => {
  for (const value of [new Array(2 ** 32 - 1), [Number.NaN, new Array(2 ** 32 - 1)], [/x/, new Array(2 ** 32 - 1)]]) {
    assert.throws(() => encodePayload(value, AS_INPUT), TOO_LARGE);
  }
  const huge = new Proxy([], { get: (_target, key) => (key === 'length' ? 2 ** 53 - 1 : 1) });
  assert.throws(() => encodePayload(huge, AS_INPUT), TOO_LARGE);
});

test('bytes that contradict their tag are a bad request', () => {
  const bytes = Buffer.from('{"a":');
  for (const codec of [CODEC.json, CODEC.binary, CODEC.sections, CODEC.structured, 77]) {
    assert.throws(() => decodePayload({ codec, bytes }), refused('protocol_error', /payload/));
  }
  for (const specials of [[[[], 'Function']], [[['none'], 'Date', 0]], [[[], 'Map']], [[[], 'BigInt', 'x']], [7]]) {
    const head = Buffer.from(JSON.stringify({ value: 1, paths: [], specials }));
    const index = Buffer.alloc(8);
    index.writeUInt32LE(head.byteLength, 0);
    const bytes = Buffer.concat([index, head, Buffer.alloc(8)]);
    assert.throws(() => decodePayload({ codec: CODEC.sections, bytes }), refused('protocol_error', /payload/));
  }
  assert.throws(
    () => decodePayload({ codec: CODEC.binary, bytes: Buffer.alloc(0) }),
    refused('protocol_error', /payload/),
  );
  assert.throws(
    () => decodePayload({ codec: CODEC.binary, bytes: Buffer.from([200, 0, 0, 0, 0, 0, 0, 0]) }),
    refused('protocol_error', /kind 200/),
  );
});

test('a large value with a cycle is carried: going around the cycle does not make it too large', () => {
  const frame: Record<string, unknown> = { pixels: Array.from({ length: 100_000 }, (_, at) => at) };
  frame['self'] = frame;
  const limit = { blame: 'invalid_input', maxBytes: 4_000_000 } as const;
  const payload = encodePayload(frame, limit);
  assert.equal(payload.codec, CODEC.structured);
  const copy = decodePayload(payload) as typeof frame;
  assert.equal(copy['self'], copy);
  const shared = { pixels: frame['pixels'] };
  const often = Array.from({ length: 50 }, () => shared);
  assert.throws(() => encodePayload(often, limit), refused('payload_too_large', /too large/));
  assert.throws(() => encodePayload(frame, { ...limit, maxBytes: 50_000 }), refused('payload_too_large', /too large/));
});

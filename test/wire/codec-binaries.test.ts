/** Binaries come back in separate memory, whatever way they travelled. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CODEC, decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';
import { AS_INPUT, codecOf, roundTrip } from './payload.ts';

type View = ArrayBufferView & { readonly buffer: ArrayBuffer };

/** The same array alone, nested in a plain value, and beside a Date, in a Map, and in a value that only V8 carries. */
function allWays(view: ArrayBufferView): View[] {
  const alone = roundTrip(view);
  const nested = (roundTrip({ deep: [{ view }] }) as { deep: { view: unknown }[] }).deep[0]?.view;
  const beside = (roundTrip({ at: new Date(0), list: [view] }) as { list: unknown[] }).list[0];
  const inMap = (roundTrip(new Map([['view', view]])) as Map<string, unknown>).get('view');
  const byV8 = (roundTrip({ pattern: /x/, list: [view] }) as { list: unknown[] }).list[0];
  return [alone, nested, beside, inMap, byV8] as View[];
}

test('the round trips cover the four codecs', () => {
  const view = new Float32Array(2);
  assert.equal(codecOf(view), CODEC.binary);
  assert.equal(codecOf(Buffer.alloc(2)), CODEC.bytes);
  assert.equal(codecOf({ view }), CODEC.sections);
  assert.equal(codecOf({ at: new Date(0), view }), CODEC.sections);
  assert.equal(codecOf({ pattern: /x/, view }), CODEC.structured);
});

test('a typed array comes back with a buffer of exactly its own bytes', () => {
  const larger = new ArrayBuffer(64);
  const views = [
    new Float32Array(larger, 8, 3),
    new Float64Array(larger, 16, 2),
    new Uint8Array(larger, 1, 5),
    new Int16Array(0),
    new BigUint64Array([1n, 2n ** 64n - 1n]),
    new DataView(larger, 3, 7),
  ];
  for (const view of views) {
    for (const back of allWays(view)) {
      assert.deepStrictEqual(back, view);
      assert.equal(back.byteOffset, 0);
      assert.equal(back.buffer.byteLength, view.byteLength);
    }
  }
});

test('a Buffer comes back as a Buffer, and no other binary does', () => {
  const backs = allWays(Buffer.from('abc'));
  for (const back of backs) assert.ok(Buffer.isBuffer(back) && back.toString() === 'abc');
  for (const back of allWays(new Uint8Array([1, 2]))) assert.equal(Buffer.isBuffer(back), false);
});

test('a decoded value shares no memory with the bytes it came from', () => {
  for (const value of [
    Buffer.from('abcd'),
    { a: Buffer.from('abcd') },
    { at: new Date(0), a: new Uint8Array(4) },
    [/x/, new Uint8Array(4)],
  ]) {
    const payload = encodePayload(value, AS_INPUT);
    const bytes = Buffer.from(payload.bytes);
    const decoded = decodePayload({ codec: payload.codec, bytes });
    const before = structuredClone(decoded);
    bytes.fill(0xff);
    assert.deepEqual(structuredClone(decoded), before);
  }
});

test('a large Buffer keeps the bytes it came from if no other code reads them and nothing else is in their memory', () => {
  const frame = Buffer.allocUnsafeSlow(100_000);
  const payload = { codec: CODEC.bytes, bytes: frame.subarray(72) };
  assert.equal((decodePayload(payload, true) as Buffer).buffer, frame.buffer);
  assert.notEqual((decodePayload(payload) as Buffer).buffer, frame.buffer);
  const amongOthers = { codec: CODEC.bytes, bytes: frame.subarray(50_000) };
  assert.notEqual((decodePayload(amongOthers, true) as Buffer).buffer, frame.buffer);
});

test('a Float16Array comes back where the platform has it', () => {
  const make = (globalThis as { Float16Array?: new (from: number[]) => ArrayBufferView }).Float16Array;
  const payload = make
    ? encodePayload(new make([1, 0.5]), AS_INPUT)
    : { codec: CODEC.binary, bytes: Buffer.from([14, 0, 0, 0, 0, 0, 0, 0, 0, 0x3c, 0, 0x38]) };
  if (make) assert.deepStrictEqual(decodePayload(payload), new make([1, 0.5]));
  else
    assert.throws(() => decodePayload(payload), { code: 'protocol_error', message: /Float16Array is not known here/ });
});

test('a subclass of Buffer or a typed array travels as its base class', () => {
  class Tensor extends Float32Array {
    readonly shape = [2];
  }
  const back = roundTrip({ tensor: Tensor.from([1, 2]) }) as { tensor: Float32Array };
  assert.deepStrictEqual(back.tensor, new Float32Array([1, 2]));
});

test('the same binary at two paths comes back at both', () => {
  const shared = Buffer.from('shared');
  const back = roundTrip({ a: shared, b: [shared, null] });
  assert.deepStrictEqual(back, { a: Buffer.from('shared'), b: [Buffer.from('shared'), null] });
});

test('a view on shared memory is copied', () => {
  const view = new Uint8Array(new SharedArrayBuffer(4)).fill(7);
  for (const back of [roundTrip(view), (roundTrip({ view }) as { view: unknown }).view]) {
    assert.deepStrictEqual(back, new Uint8Array([7, 7, 7, 7]));
  }
});

test('a nested binary travels as raw bytes, not as text', () => {
  for (const binary of [Buffer.alloc(10_000, 200), new Uint8Array(10_000).fill(200), new ArrayBuffer(10_000)]) {
    assert.ok(encodePayload({ binary }, AS_INPUT).bytes.byteLength < 10_200);
  }
});

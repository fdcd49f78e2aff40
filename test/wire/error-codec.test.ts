/** Errors survive the way between processes: what users match on, and what people read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { ModeletError } from '../../src/core/errors.ts';
import { decodeError, decodeModeletError, encodeError } from '../../src/wire/codec/error-codec.ts';

type Fields = Error & Record<string, unknown>;

function roundTrip(thrown: unknown): Fields {
  return decodeError(encodeError(thrown)) as Fields;
}

test('an error keeps its name, message, code, stack and own fields', () => {
  const error = Object.assign(new TypeError('wrong'), { code: 'E_WRONG', status: 7, detail: { list: [1, 'a'] } });
  const back = roundTrip(error);
  assert.ok(back instanceof Error);
  assert.equal(back.name, 'TypeError');
  assert.equal(back.message, 'wrong');
  assert.equal(back['code'], 'E_WRONG');
  assert.equal(back.stack, error.stack);
  assert.equal(back['status'], 7);
  assert.deepStrictEqual(back['detail'], { list: [1, 'a'] });
  assert.deepStrictEqual(Object.keys(back).sort(), ['code', 'detail', 'status']);
});

test('an error keeps a numeric code and loses a code of another type', () => {
  assert.equal(roundTrip(Object.assign(new Error('n'), { code: 23 }))['code'], 23);
  assert.equal(roundTrip(Object.assign(new Error('n'), { code: { no: 1 } }))['code'], undefined);
});

test('a ModeletError stays a ModeletError with all its fields', () => {
  const cause = Object.assign(new RangeError('root'), { at: 3 });
  const error = new ModeletError('capacity_exceeded', 'full', { stage: 'digits', retryAfterSeconds: 4, cause });
  const back = roundTrip(error);
  assert.ok(back instanceof ModeletError);
  assert.equal(back.code, 'capacity_exceeded');
  assert.equal(back.statusCode, 429);
  assert.equal(back.stage, 'digits');
  assert.equal(back.retryAfterSeconds, 4);
  assert.equal(back.stack, error.stack);
  assert.equal((back.cause as Fields).name, 'RangeError');
  assert.equal((back.cause as Fields)['at'], 3);
});

test('decodeModeletError keeps a ModeletError and gives other errors and garbage the given code', () => {
  const ours = decodeModeletError(encodeError(new ModeletError('dropped', 'd')), 'protocol_error');
  assert.equal(ours.code, 'dropped');
  const foreign = decodeModeletError(encodeError(new Error('boom')), 'modelet_failed');
  assert.equal(foreign.code, 'modelet_failed');
  assert.equal(foreign.message, 'boom');
  assert.equal((foreign.cause as Error).message, 'boom');
  assert.equal(decodeModeletError(Buffer.from('{"na'), 'protocol_error').code, 'protocol_error');
  assert.equal(decodeModeletError(Buffer.from('null'), 'protocol_error').code, 'protocol_error');
});

test('a foreign error with a code of this package does not become a ModeletError', () => {
  const back = roundTrip(Object.assign(new Error('mine'), { code: 'invalid_input' }));
  assert.equal(back instanceof ModeletError, false);
  assert.equal(back['code'], 'invalid_input');
});

test('causes travel five levels deep, and a circle of causes ends', () => {
  let error = new Error('level 0');
  for (let level = 1; level <= 10; level += 1) error = new Error(`level ${level}`, { cause: error });
  const messages: string[] = [];
  for (let at: Error | undefined = roundTrip(error); at; at = at.cause as Error | undefined) messages.push(at.message);
  assert.deepStrictEqual(messages, ['level 10', 'level 9', 'level 8', 'level 7', 'level 6', 'level 5']);

  const circle = new Error('round');
  circle.cause = circle;
  assert.equal(((roundTrip(circle).cause as Error).cause as Error).message, 'round');
});

test('a thrown string, number, object, null or undefined becomes an error that describes it', () => {
  assert.equal(roundTrip('just text').message, 'just text');
  assert.match(roundTrip(42).message, /42/);
  assert.match(roundTrip(null).message, /null/);
  assert.match(roundTrip(undefined).message, /undefined/);
  assert.match(roundTrip({ why: 'because' }).message, /because/);
  const shaped = roundTrip({ message: 'shaped', code: 'E_SHAPE' });
  assert.equal(shaped.message, 'shaped');
  assert.equal(shaped['code'], 'E_SHAPE');
  const circle: { self?: unknown } = {};
  circle.self = circle;
  assert.match(roundTrip(circle).message, /object/);
  assert.equal(roundTrip(new Error('e', { cause: 'text cause' })).cause instanceof Error, true);
});

test('an error of another realm keeps its message and code', () => {
  const back = roundTrip(runInNewContext('Object.assign(new TypeError("far"), { code: "E_FAR" })'));
  assert.equal(back.message, 'far');
  assert.equal(back['code'], 'E_FAR');
});

test('a field named __proto__ stays a field and pollutes nothing', () => {
  const error = new Error('hostile');
  Object.defineProperty(error, '__proto__', { value: { polluted: true }, enumerable: true });
  const back = roundTrip(error);
  assert.ok(Object.hasOwn(back, '__proto__'));
  assert.deepStrictEqual(Object.getOwnPropertyDescriptor(back, '__proto__')?.value, { polluted: true });
  assert.equal(Object.getPrototypeOf(back), Error.prototype);
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
});

test('the codec omits fields that JSON cannot hold and keeps the others', () => {
  const circle: { self?: unknown } = {};
  circle.self = circle;
  const back = roundTrip(
    Object.assign(new Error('fields'), { circle, big: 1n, run() {}, kept: [1], nothing: undefined }),
  );
  assert.deepStrictEqual(Object.keys(back), ['kept']);
});

test('the codec truncates huge messages, stacks and fields', () => {
  const error = Object.assign(new Error('m'.repeat(1_000_000)), { large: 'f'.repeat(1_000_000), small: 's' });
  const bytes = encodeError(error);
  assert.ok(bytes.byteLength < 50_000, `${bytes.byteLength} bytes`);
  const back = roundTrip(error);
  assert.match(back.message, /^m{16384}\.\.\. \(1000000 characters\)$/);
  assert.equal(back['small'], 's');
  assert.equal(back['large'], undefined);
});

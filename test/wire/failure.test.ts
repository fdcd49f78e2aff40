/** A failure carries its error and the value that the failing stage was given. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModeletError } from '../../src/core/errors.ts';
import { CODEC, decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';
import { encodeError } from '../../src/wire/codec/error-codec.ts';
import { decodeFailure, encodeFailure } from '../../src/wire/frames/failures.ts';

const ERROR = encodeError(new ModeletError('modelet_failed', 'told to fail', { stage: 'second' }));

for (const value of [
  { a: [1, 'ü'] },
  '',
  Buffer.from('raw'),
  Float64Array.of(1, Number.NaN),
  new Map([[1, new Date(7)]]),
]) {
  test(`a failure brings back its error and the value ${JSON.stringify(value)}`, () => {
    const input = encodePayload(value, { blame: 'modelet_failed', maxBytes: 1000 });
    const back = decodeFailure(encodeFailure(ERROR, input));
    assert.deepEqual(
      [back.error.code, back.error.message, back.error.stage],
      ['modelet_failed', 'told to fail', 'second'],
    );
    assert.ok(back.input);
    assert.deepEqual(decodePayload(back.input), value);
  });
}

test('a failure without a value is its error alone', () => {
  const payload = encodeFailure(ERROR, null);
  assert.equal(payload.bytes, ERROR);
  const { error, input } = decodeFailure(payload);
  assert.deepEqual([error.code, input], ['modelet_failed', null]);
});

test('bytes that are not a failure become a protocol_error and never throw', () => {
  const tooLong = Buffer.alloc(16);
  tooLong.writeUInt32LE(4000, 0);
  for (const bytes of [Buffer.alloc(0), Buffer.alloc(7), Buffer.alloc(64), tooLong]) {
    assert.equal(decodeFailure({ codec: CODEC.json, bytes }).error.code, 'protocol_error');
  }
  assert.equal(decodeFailure({ codec: CODEC.none, bytes: Buffer.from('{') }).error.code, 'protocol_error');
});

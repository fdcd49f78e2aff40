/** The error codes, their HTTP statuses, and errors made of whatever was thrown. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asError, ERROR_CODES, HTTP_STATUS, isErrorCode, isModeletError, ModeletError } from '../../src/core/errors.ts';

/** The table of the design, written out once more: flows depend on it. */
const TABLE: Readonly<Record<string, number>> = {
  unauthorized: 401,
  forbidden: 403,
  rate_limited: 429,
  invalid_input: 422,
  bad_request: 400,
  payload_too_large: 413,
  unsupported_media: 415,
  capacity_exceeded: 429,
  dropped: 503,
  gate_refused: 429,
  deadline_exceeded: 408,
  cancelled: 499,
  modelet_failed: 500,
  bad_batch_length: 500,
  worker_lost: 503,
  engine_lost: 503,
  stage_unavailable: 503,
  shutting_down: 503,
  store_unavailable: 503,
  config_invalid: 503,
  protocol_error: 500,
};

test('every error code has the status of the table, and there is no other code', () => {
  assert.deepEqual({ ...HTTP_STATUS }, TABLE);
  assert.deepEqual([...ERROR_CODES].sort(), Object.keys(TABLE).sort());
  for (const code of ERROR_CODES) assert.equal(new ModeletError(code, '').statusCode, TABLE[code]);
});

test('isErrorCode accepts the codes, but no inherited property name', () => {
  for (const code of ERROR_CODES) assert.ok(isErrorCode(code));
  for (const other of ['', 'ENOENT', 'toString', '__proto__', 'constructor', 429, null, undefined, {}]) {
    assert.equal(isErrorCode(other), false);
  }
});

test('a ModeletError carries its arguments, and no cause if none was given', () => {
  const cause = new Error('below');
  const error = new ModeletError('worker_lost', 'gone', { stage: 's', retryAfterSeconds: 2, cause });
  assert.ok(error instanceof Error);
  assert.deepEqual(
    [error.name, error.code, error.message, error.stage, error.retryAfterSeconds, error.cause],
    ['ModeletError', 'worker_lost', 'gone', 's', 2, cause],
  );
  assert.equal(Object.hasOwn(new ModeletError('dropped', ''), 'cause'), false);
});

test('isModeletError recognizes an error by its code', () => {
  assert.ok(isModeletError(new ModeletError('dropped', '')));
  assert.ok(isModeletError(Object.assign(new Error(), { code: 'invalid_input' })));
  assert.equal(isModeletError(Object.assign(new Error(), { code: 'ENOENT' })), false);
  assert.equal(isModeletError({ code: 'dropped' }), false);
});

test('asError returns errors unchanged and makes readable errors of other values', () => {
  const error = new TypeError('t');
  assert.equal(asError(error), error);
  assert.equal(asError('text').message, 'text');
  assert.match(asError({ a: 1 }).message, /\{"a":1\}/);
  const circle: { self?: unknown } = {};
  circle.self = circle;
  for (const thrown of [undefined, null, 0, 1n, Symbol('s'), () => 1, circle, Object.create(null)]) {
    assert.ok(asError(thrown) instanceof Error);
    assert.notEqual(asError(thrown).message, '');
  }
});

test('asError keeps the message and code of an object that resembles an error', () => {
  const error = asError({ message: 'shaped', code: 'invalid_input' });
  assert.equal(error.message, 'shaped');
  assert.equal((error as { code?: unknown }).code, 'invalid_input');
});

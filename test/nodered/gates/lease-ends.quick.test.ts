/** The evidence in a returning message about the request that a gate has admitted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HTTP_STATUS } from '../../../src/core/errors.ts';
import { endOfError, endOfMessage } from '../../../src/gate/node-red/message-leases.ts';
import type { LeaseEnd } from '../../../src/gate/source.ts';
import type { PipelineMessage } from '../../../src/node-red/request/messages.ts';

const answered = { responseUrl: 'http://127.0.0.1/model' };

const MESSAGES: readonly (readonly [what: string, msg: object, end: LeaseEnd])[] = [
  ['a result', {}, { kind: 'done' }],
  ['an answer', { ...answered, statusCode: 200 }, { kind: 'done' }],
  ['an answer that it is not there', { ...answered, statusCode: 404 }, { kind: 'done' }],
  ['an answer of a fault', { ...answered, statusCode: 500 }, { kind: 'failed' }],
  ['429', { ...answered, statusCode: 429 }, { kind: 'refused', retryAfterMs: 0 }],
  ['503', { ...answered, statusCode: 503, headers: {} }, { kind: 'refused', retryAfterMs: 0 }],
  [
    'Retry-After in seconds',
    { ...answered, statusCode: 503, headers: { 'retry-after': ' 7 ' } },
    { kind: 'refused', retryAfterMs: 7000 },
  ],
  [
    'Retry-After whose date has passed',
    { ...answered, statusCode: 429, headers: { 'retry-after': 'Wed, 21 Oct 2015 07:28:00 GMT' } },
    { kind: 'refused', retryAfterMs: 0 },
  ],
  [
    'Retry-After that cannot be read',
    { ...answered, statusCode: 429, headers: { 'retry-after': 'soon' } },
    { kind: 'refused', retryAfterMs: 0 },
  ],
  [
    'Retry-After of a thousand years',
    { ...answered, statusCode: 429, headers: { 'retry-after': '31536000000' } },
    { kind: 'refused', retryAfterMs: 3_600_000 },
  ],
  ['a status that the flow has set itself', { statusCode: 503 }, { kind: 'done' }],
  ['no answer', { statusCode: 'ECONNREFUSED' }, { kind: 'failed' }],
  ['an error of any node', { error: { message: 'no', source: { id: 'n' } } }, { kind: 'failed' }],
  ['an error with its own code', { error: { message: 'no', code: 'ETIMEDOUT' } }, { kind: 'failed' }],
  [
    'an error of a pipeline',
    { error: { code: 'capacity_exceeded' }, headers: { 'Retry-After': '2' } },
    { kind: 'refused', retryAfterMs: 2000 },
  ],
];

for (const [what, msg, end] of MESSAGES) {
  test(`${what}: ${end.kind}`, () => assert.deepEqual(endOfMessage(msg as PipelineMessage), end));
}

test('Retry-After may be a date', () => {
  const headers = { 'retry-after': new Date(Date.now() + 60_000).toUTCString() };
  const end = endOfMessage({ ...answered, statusCode: 429, headers } as unknown as PipelineMessage);
  assert.ok(end.kind === 'refused' && end.retryAfterMs > 30_000 && end.retryAfterMs <= 60_000, JSON.stringify(end));
});

test('only the refusals of a runtime are signs of load', () => {
  const codes = Object.keys(HTTP_STATUS) as (keyof typeof HTTP_STATUS)[];
  const refused = codes.filter((code) => endOfError({ code, retryAfterSeconds: undefined }).kind === 'refused');
  assert.deepEqual(refused.sort(), ['capacity_exceeded', 'engine_lost', 'gate_refused', 'stage_unavailable']);
  assert.deepEqual(endOfError({ code: 'cancelled', retryAfterSeconds: undefined }), { kind: 'cancelled' });
});

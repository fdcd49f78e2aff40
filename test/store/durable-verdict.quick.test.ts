/** The effect that the end of an attempt has on a stored item. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type ErrorCode, ModeletError } from '../../src/core/errors.ts';
import {
  type DeliveryVerdict,
  deliveryVerdictOn,
  verdictOnSilence,
} from '../../src/gate/node-red/durable/durable-verdict.ts';
import type { RequestEnd } from '../../src/gate/node-red/message-leases.ts';
import type { LeaseEnd } from '../../src/gate/source.ts';
import type { PipelineMessage } from '../../src/node-red/request/messages.ts';
import { decodePayload } from '../../src/wire/codec/codec.ts';

const FIRST = { attempt: 1, alone: false };

function on(how: RequestEnd, run = FIRST): DeliveryVerdict {
  return deliveryVerdictOn(how, run, 1000);
}

function onError(code: ErrorCode, run = FIRST, end: LeaseEnd = { kind: 'failed' }): DeliveryVerdict {
  return on({ end, error: new ModeletError(code, 'it is so') }, run);
}

function nackOf(verdict: DeliveryVerdict): { delayMs: number; countAttempt: boolean; alone: boolean; reason: string } {
  assert.equal(verdict.kind, 'nack');
  return (verdict as Extract<DeliveryVerdict, { kind: 'nack' }>).options;
}

function message(fields: object): PipelineMessage {
  return { _msgid: 'm', ...fields } as PipelineMessage;
}

describe('the end of an attempt', () => {
  test('a result ends the item, and a result that cannot be kept ends it as failed', () => {
    const done = on({ end: { kind: 'done' }, msg: message({ payload: { y: [1] } }) });
    assert.ok(done.kind === 'ack' && done.ok && done.result);
    assert.deepEqual(decodePayload(done.result), { y: [1] });
    for (const payload of [() => {}, 'x'.repeat(2000)]) {
      const failed = on({ end: { kind: 'done' }, msg: message({ payload }) });
      assert.ok(failed.kind === 'ack' && !failed.ok && failed.result);
      assert.equal((decodePayload(failed.result) as { code: string }).code, 'modelet_failed');
    }
    assert.equal(on({ end: { kind: 'done' }, msg: message({}) }).kind, 'ack', 'nothing is a result, too');
  });

  test('an error of the item itself ends it at once', () => {
    const codes = [
      'invalid_input',
      'bad_request',
      'payload_too_large',
      'unsupported_media',
      'deadline_exceeded',
    ] as const;
    for (const code of [...codes, 'dropped'] as const) {
      const verdict = onError(code);
      assert.ok(verdict.kind === 'ack' && !verdict.ok && verdict.result, code);
      assert.deepEqual(decodePayload(verdict.result), { code, message: 'it is so' });
    }
  });

  test('a failure counts, and each next attempt comes later', () => {
    const delays = [1, 2, 3, 20].map((attempt) => {
      const { countAttempt, alone, delayMs, reason } = nackOf(onError('modelet_failed', { attempt, alone: false }));
      assert.deepEqual([countAttempt, alone, reason], [true, false, 'modelet_failed: it is so']);
      return delayMs;
    });
    assert.deepEqual(delays, [500, 1000, 2000, 60_000]);
    assert.equal(
      nackOf(on({ end: { kind: 'failed' }, msg: message({ statusCode: 'ECONNREFUSED' }) })).countAttempt,
      true,
    );
  });

  test('overload does not count, and the item returns at the requested time', () => {
    const codes = [
      'capacity_exceeded',
      'gate_refused',
      'stage_unavailable',
      'config_invalid',
      'shutting_down',
    ] as const;
    for (const code of codes) assert.equal(nackOf(onError(code)).countAttempt, false, code);
    const refused = nackOf(on({ end: { kind: 'refused', retryAfterMs: 7000 }, msg: message({ statusCode: 429 }) }));
    assert.deepEqual([refused.countAttempt, refused.alone, refused.delayMs], [false, false, 7000]);
    assert.ok(nackOf(on({ end: { kind: 'refused', retryAfterMs: 0 } })).delayMs > 0, 'never in a circle');
    for (const kind of ['cancelled', 'lost'] as const) {
      const { countAttempt, alone } = nackOf(on({ end: { kind } }));
      assert.deepEqual([countAttempt, alone], [false, false], `${kind} by a deploy has no culprit`);
    }
  });

  test('a worker death makes the item run alone, and an engine death counts for an item that ran alone', () => {
    const lost = nackOf(onError('worker_lost'));
    assert.deepEqual([lost.countAttempt, lost.alone], [true, true]);
    const refused = { kind: 'refused', retryAfterMs: 0 } as const;
    const together = nackOf(onError('engine_lost', FIRST, refused));
    assert.deepEqual([together.countAttempt, together.alone], [false, true]);
    const alone = nackOf(onError('engine_lost', { attempt: 1, alone: true }, refused));
    assert.deepEqual([alone.countAttempt, alone.alone], [true, true]);
    const silent = nackOf(verdictOnSilence(100));
    assert.deepEqual([silent.countAttempt, silent.alone], [true, true]);
  });
});

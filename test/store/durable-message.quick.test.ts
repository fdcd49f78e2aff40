/** The stored fields of a message, and the message that comes back. */
import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { describe, test } from 'node:test';
import { decodeMessage, encodeMessage } from '../../src/gate/node-red/durable/durable-message.ts';
import type { PipelineMessage } from '../../src/node-red/request/messages.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';

const MOST = 10_000;

function roundTrip(fields: object): { readonly back: Record<string, unknown>; readonly dropped: readonly string[] } {
  const { payload, dropped } = encodeMessage({ _msgid: 'm', ...fields } as PipelineMessage, MOST);
  return { back: decodeMessage(payload).msg as unknown as Record<string, unknown>, dropped };
}

describe('a stored message', () => {
  test('keeps its fields of any data, but not its client or its history', () => {
    const fields = { payload: { a: [1, Buffer.from('b')] }, topic: 't', when: new Date(5), map: new Map([[1, 2]]) };
    const { back, dropped } = roundTrip({ ...fields, req: {}, res: { end() {} }, gate: 'x', error: { code: 'y' } });
    assert.deepEqual(back, { _msgid: 'm', ...fields });
    assert.deepEqual(dropped, []);
  });

  test('loses the values that no other process can use, and names them', () => {
    const { back, dropped } = roundTrip({ payload: 1, callback: () => {}, socket: new Socket(), kept: 'yes' });
    assert.deepEqual(back, { _msgid: 'm', payload: 1, kept: 'yes' });
    assert.deepEqual([...dropped].sort(), ['callback', 'socket']);
  });

  test('is refused if its payload cannot be stored', () => {
    assert.throws(() => roundTrip({ payload: () => {} }), { code: 'invalid_input' });
    assert.throws(() => roundTrip({ payload: 'x'.repeat(MOST) }), { code: 'payload_too_large' });
  });

  test('keeps hostile names as plain data', () => {
    const { back } = roundTrip({
      payload: JSON.parse('{"__proto__": {"polluted": 1}}'),
      ...JSON.parse('{"constructor": 1}'),
    });
    assert.equal(({} as { polluted?: number }).polluted, undefined);
    assert.ok(Object.hasOwn(back['payload'] as object, '__proto__'));
    assert.equal(back['constructor'], 1);
  });

  test('is an error if it cannot be read', () => {
    for (const text of ['', '{', '7', 'null', '{"requestId": null}', '{"fields": null}']) {
      const payload = { codec: CODEC.json, bytes: Buffer.from(text) };
      assert.throws(() => decodeMessage(payload), { code: 'protocol_error' }, text);
    }
  });
});

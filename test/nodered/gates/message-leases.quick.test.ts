/** The table of what admitted messages hold: each lease is ended once, by whichever of its messages ends first. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MessageLeases } from '../../../src/gate/node-red/message-leases.ts';
import type { PipelineMessage } from '../../../src/node-red/request/messages.ts';

/** A table, and a log of what it ends. */
function bed(): { leases: MessageLeases; ended: string[]; message: (...tokens: string[]) => PipelineMessage } {
  const leases = new MessageLeases();
  const ended: string[] = [];
  const message = (...tokens: string[]): PipelineMessage => {
    for (const token of tokens) {
      leases.hold(token, token[0] as string, ({ end }) => ended.push(`${token} ${end.kind}`));
    }
    return { modelet: { leases: tokens } } as unknown as PipelineMessage;
  };
  return { leases, ended, message };
}

test('clones of a message end its lease once', () => {
  const { leases, ended, message } = bed();
  const first = message('a1');
  const second = structuredClone(first);
  leases.end(first, { kind: 'done' });
  leases.end(second, { kind: 'failed' });
  assert.deepEqual(ended, ['a1 done']);
  assert.deepEqual([first.modelet?.leases, second.modelet?.leases], [undefined, undefined]);
});

test('a message that goes on keeps its leases, and only the first call on a hold counts', () => {
  const { leases, ended, message } = bed();
  const msg = message('a1', 'b1');
  const stay = leases.enter(msg);
  stay.leave();
  stay.end('done');
  assert.deepEqual([ended, msg.modelet?.leases], [[], ['a1', 'b1']]);
  leases.enter(msg).end('done');
  assert.deepEqual(ended, ['a1 done', 'b1 done']);
});

test('a message can end the lease of one gate and keep that of another', () => {
  const { leases, ended, message } = bed();
  const msg = message('a1', 'b1');
  leases.end(msg, { kind: 'done' }, { gate: 'a' });
  assert.deepEqual([ended, msg.modelet?.leases], [['a1 done'], ['b1']]);
});

test('a value that a flow has written in place of the leases does no harm', () => {
  const { leases, ended } = bed();
  for (const written of [undefined, null, 7, 'a1', ['no token'], [{}]]) {
    const msg = { modelet: { leases: written } } as unknown as PipelineMessage;
    leases.enter(msg).end('done');
  }
  leases.end({} as PipelineMessage, { kind: 'done' });
  assert.deepEqual(ended, []);
});

test('a lease that its gate has ended is forgotten, and its message ends nothing', () => {
  const leases = new MessageLeases();
  const ended: string[] = [];
  for (const token of ['a1', 'b1']) leases.hold(token, token, ({ end }) => ended.push(`${token} ${end.kind}`));
  const msg = { modelet: { leases: ['a1', 'b1'] } } as unknown as PipelineMessage;
  const stay = leases.enter(msg);
  leases.forget('a1');
  stay.end('done');
  leases.forget('b1');
  assert.deepEqual(ended, ['b1 done']);
});

/** HTTP clients in front of a paced split that refuses what they send: they are answered, whether or not a node handles the error. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Answer, CALLERS, post, read, TYPES, typeOf } from '../../fixtures/callers.ts';
import { arrived, feed } from '../../fixtures/drawn.ts';
import { catchNode, completeNode, httpIn, httpOut, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type Message, useNodeRed } from '../../fixtures/node-red.ts';

const red = useNodeRed({
  prepare: async (red) => {
    await red.deploy([
      TAB,
      runtime(),
      ...['/array', '/jsonl', '/invalid', '/caught'].flatMap((url) => httpIn(`in ${url}`, url, url)),
      feed('/array', 'stage', { from: 'array' }),
      feed('/jsonl', 'stage', { from: 'jsonl' }),
      feed('/invalid', 'stage', { window: 'wide' }),
      feed('/caught', 'stage', { from: 'array' }),
      stage('stage', 'return input;', 'out', { mediaTypes: '*/*' }),
      sink('out'),
      catchNode('catch', ['caught', 'answer'], { scope: ['/caught'] }),
      sink('caught'),
      httpOut('answer'),
      completeNode('complete', ['/array', '/invalid', '/caught'], 'done'),
      sink('done'),
    ]);
    await red.whenReady();
  },
});

function refusal(answer: Answer): readonly unknown[] {
  const form = typeOf(answer) === TYPES.msgpack ? 'msgpack' : 'json';
  const { error } = read(form, answer.bytes) as { error: { code: string; requestId: string } };
  return [answer.status, error.code, error.requestId];
}

const MINE = { 'X-Request-Id': 'mine' };

describe('a paced split without a Catch node answers its client', () => {
  test('422 for a value that is not an array, in the form of the caller', async () => {
    for (const form of ['json', 'msgpack'] as const) {
      const answer = await post(`${red.url}/array`, form, { no: 'array' }, MINE);
      assert.equal(typeOf(answer), TYPES[form]);
      assert.deepEqual(refusal(answer), [422, 'invalid_input', 'mine']);
    }
  });

  test('400 for a body that is not msgpack', async () => {
    const headers = { ...MINE, 'Content-Type': TYPES.msgpack };
    const answer = await CALLERS['node:http'](`${red.url}/array`, headers, Buffer.from([0xc1]));
    assert.deepEqual(refusal(answer), [400, 'bad_request', 'mine']);
  });

  test('400 for a line that is not JSON, and the other lines go on', async () => {
    const out = red.inputs('out');
    const headers = { ...MINE, 'Content-Type': 'text/plain' };
    const lines = Buffer.from('1\n{"n":\n3\nnonsense\n');
    const answer = await CALLERS['node:http'](`${red.url}/jsonl`, headers, lines);
    assert.deepEqual(refusal(answer), [400, 'bad_request', 'mine']);
    assert.deepEqual(
      (await arrived(out, 2)).map(({ payload }) => payload),
      [1, 3],
    );
  });

  test('503 if the split cannot be used', async () => {
    const answer = await post(`${red.url}/invalid`, 'json', [1], MINE);
    assert.deepEqual(refusal(answer), [503, 'config_invalid', 'mine']);
  });
});

test('a Catch node gets the error once, with its status and the refused value, and answers the client itself', async () => {
  const [caught, done] = [red.inputs('caught'), red.inputs('done')];
  const answer = await post(`${red.url}/caught`, 'json', { no: 'array' }, MINE);
  assert.deepEqual([answer.status, read('json', answer.bytes)], [422, { no: 'array' }]);
  const [first] = await arrived(caught, 1);
  const { error, _error } = first as Message & { _error?: Message['error'] };
  assert.match(error?.message ?? '', /must be an array/);
  assert.deepEqual([_error?.code, _error?.requestId], ['invalid_input', 'mine']);
  assert.deepEqual([caught.length, done.length], [1, 0]);
});

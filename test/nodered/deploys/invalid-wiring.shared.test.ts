/** Wirings that no request could go through are refused with a reason; a retry loop is allowed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { headline } from '../../../src/observe/views/words.ts';
import { arrived, junction, noting, whenIdle } from '../../fixtures/drawn.ts';
import {
  batcher,
  catchNode,
  collector,
  func,
  httpIn,
  httpOut,
  runtime,
  sink,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();

/** `config_invalid` on the node itself, and for every message that comes to it. */
async function assertRefused(id: string, reason: RegExp): Promise<void> {
  const { invalid } = await red.snapshot();
  assert.match(invalid[id] ?? `${id} is not invalid`, reason);
  await until(`${id} has its badge`, () => {
    const { fill, text = '' } = red.badges.get(id) ?? {};
    return fill === 'red' && text === headline(invalid[id] ?? '');
  });
  assert.ok(
    red.logs.some((line) => line.includes(`${invalid[id]}`)),
    'the log has it',
  );
  const errors = red.inputs('caught');
  red.send(id, { payload: [] });
  const [{ error, statusCode }] = (await arrived(errors, 1)) as [Message];
  assert.equal(statusCode, 503);
  assert.equal(error?.source.id, id);
}

describe('invalid wiring', () => {
  test('a circle of result wires between stages is refused at each of its nodes, and the rest works', async () => {
    await red.deploy([
      TAB,
      runtime(),
      httpIn('in', '/circle', 'a'),
      noting('a', 'q'),
      batcher('q', 'b'),
      noting('b', 'j'),
      junction('j', ['a', 'out']),
      noting('fine', 'out'),
      catchNode('catch', 'caught'),
      func('caught', 'return msg;', 'answer'),
      httpOut('answer'),
      sink('out'),
    ]);
    const response = await red.post('/circle', []);
    assert.equal(response.status, 503);
    for (const id of ['a', 'b']) await assertRefused(id, /lead back to itself/);
    await assertRefused('q', /lead back to itself/);
    const out = red.inputs('out');
    red.send('fine', { payload: [] });
    assert.deepEqual((await arrived(out, 1))[0]?.payload, ['fine']);
  });

  test('two batchers with different settings in front of one stage are refused', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      batcher('small', 'a', { maxBatchSize: '2' }),
      batcher('large', 'a', { maxBatchSize: '20' }),
      noting('a', 'out'),
      catchNode('catch', 'caught'),
      sink('caught'),
      sink('out'),
    ]);
    for (const id of ['small', 'large']) await assertRefused(id, /different settings/);
  });

  test('a retry from a catch output is valid, and its success clears error and statusCode', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      noting('a', 'flaky'),
      stage('flaky', `if (input.length < 4) throw new Error('too short'); return input;`, 'collect'),
      collector('collect', 'out', ['lengthen', 'failures'], { errorPayload: 'keep' }),
      func('lengthen', `msg.payload = [...msg.modelet.input, 'again']; return msg;`, 'a'),
      sink('failures'),
      sink('out'),
    ]);
    assert.equal((await red.snapshot()).routes.find(({ entry }) => entry === 'a')?.stages.join(' '), 'a flaky');
    const [out, failures] = [red.inputs('out'), red.inputs('failures')];
    red.send('a', { payload: [], mine: 7 });
    const [msg] = await arrived(out, 1);
    assert.deepEqual(
      msg?.payload,
      ['a', 'again', 'a', 'again', 'a'],
      'each retry begins with what the stage was given',
    );
    assert.equal(failures.length, 2);
    for (const failure of failures) assert.equal(failure.error?.code, 'modelet_failed');
    assert.equal(msg?.['mine'], 7);
    for (const key of ['error', 'statusCode', '_error']) assert.equal(key in (msg as Message), false, key);
    await whenIdle(red);
    assert.equal(out.length, 1);
  });
});

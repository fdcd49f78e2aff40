/**
 * A durable gate says what is wrong with its broker: at deploy if that can be known, else by its badge and the log.
 * Shows: node modelet-broker.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { collector, dispatchGate, httpIn, httpOut, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { Redis, WITHOUT_REDIS } from '../../fixtures/redis.ts';

const DURABLE = { store: 'durable' };

function broker(id: string, url: string): FlowNode {
  return { id, type: 'modelet-broker', name: '', url, prefix: 'modelet', tls: '' };
}

/** A gate of a separate runtime, with that broker. */
function gateOf(id: string, ofBroker: string): FlowNode[] {
  return [
    runtime(`${id} runtime`, { broker: ofBroker }),
    dispatchGate(id, 'work', `${id} out`, { ...DURABLE, runtime: `${id} runtime` }),
    httpIn(`${id} in`, `/${id}`, id),
    httpOut(`${id} out`),
  ];
}

describe('the broker of a durable gate', { skip: WITHOUT_REDIS }, () => {
  let redis: Redis;
  const red = useNodeRed();

  before(async () => {
    redis = await Redis.start();
    await red.deployReady([
      TAB,
      runtime(),
      broker('kept', redis.url),
      broker('wrong', 'http://127.0.0.1'),
      // No process listens at this port.
      broker('away', 'redis://127.0.0.1:1'),
      stage('work', 'return input;', 'done'),
      collector('done', 'results'),
      sink('results'),
      ...gateOf('risky', 'kept'),
      ...gateOf('misled', 'wrong'),
      ...gateOf('without', 'nowhere'),
      ...gateOf('cut', 'away'),
    ]);
  });
  after(() => redis?.kill());

  function badge(id: string): string {
    const { fill = '', text = '' } = red.badges.get(id) ?? {};
    return `${fill} ${text}`;
  }

  test('may lose items: the badge is yellow and the log says why, and the gate works', async () => {
    const results = red.inputs('results');
    red.send('risky', { payload: 1 });
    await until('it is through', () => results.length === 1);
    await until('the badge warns', () => badge('risky') === 'yellow the broker may lose items');
    assert.match(
      red.logs.join('\n'),
      /30 the broker may lose items: .*set appendonly yes\) \(redis:\/\/127\.0\.0\.1:\d+\)/,
    );
  });

  test('cannot be used or does not exist: the gate is not deployed, and says so', () => {
    assert.match(badge('misled'), /^red .*broker/);
    assert.match(badge('without'), /^red .*broker/);
    assert.match(red.logs.join('\n'), /Server: must begin with redis:\/\/ or rediss:\/\//);
  });

  test('does not answer: clients get 503 with the time to come back, and no address of the server', async () => {
    const answer = await red.post('/cut', { n: 1 });
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '2']);
    const { error } = (await answer.json()) as { error: { code: string; message: string } };
    assert.equal(error.code, 'store_unavailable');
    assert.doesNotMatch(error.message, /127\.0\.0\.1/);
    await until('the badge says so', () => /^red the broker/.test(badge('cut')));
  });
});

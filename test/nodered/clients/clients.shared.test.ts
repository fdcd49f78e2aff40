/** HTTP clients that go away: what they had asked for is not computed any more, and is counted. */
import assert from 'node:assert/strict';
import { type ClientRequest, request } from 'node:http';
import { describe, test } from 'node:test';
import { endpoint, func, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const gate = useGate();
const nodeRed = useNodeRed({
  flows: [
    TAB,
    runtime(),
    ...endpoint('/held', 'first'),
    stage('first', 'return input;', 'held'),
    stage('held', gate.code(), 'collector /held'),
    ...endpoint('/elsewhere', 'wait'),
    func('wait', 'msg.res._res.once("close", () => node.send(msg));', 'late'),
    stage('late', gate.code(), 'collector /elsewhere'),
  ],
});

/** Posts and does not wait for the answer; `destroy()` hangs up. */
function open(path: string, body: object): ClientRequest {
  const client = request(`${nodeRed.url}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    agent: false,
  });
  client.on('error', () => {});
  client.end(JSON.stringify(body));
  return client;
}

async function counts(): Promise<{ cancelled: number; ok: number; backlog: number; queue: number; late: number }> {
  const [found] = (await nodeRed.snapshot()).runtimes;
  const { requests = {}, backlog = 0, stages = [], lateOutcomes = 0 } = found ?? {};
  const queue = stages.find(({ name }) => name === 'held')?.queue ?? 0;
  return { cancelled: requests['cancelled'] ?? 0, ok: requests['ok'] ?? 0, backlog, queue, late: lateOutcomes };
}

describe('when its client goes away', () => {
  test('a request that waits is cancelled and never runs', async () => {
    const before = await counts();
    const first = nodeRed.post('/held', { number: 1 });
    await until('the first is at work', async () => (await gate.entered()).length === 1);
    const client = open('/held', { number: 2 });
    const third = nodeRed.post('/held', { number: 3 });
    await until('the others wait', async () => (await counts()).queue === 2);
    client.destroy();
    await until('one is cancelled', async () => (await counts()).cancelled === before.cancelled + 1);
    await gate.open();
    assert.deepEqual([(await first).status, (await third).status], [200, 200]);
    assert.deepEqual(await gate.entered(), [{ number: 1 }, { number: 3 }]);
    const afterwards = await counts();
    assert.equal(afterwards.ok, before.ok + 2);
    assert.equal(afterwards.backlog, 0);
  });

  test('a request that runs is cancelled, and its late result affects nothing', async () => {
    const before = await counts();
    const client = open('/held', { number: 1 });
    await until('it is at work', async () => (await gate.entered()).length === 1);
    client.destroy();
    await until('it is cancelled', async () => (await counts()).cancelled === before.cancelled + 1);
    const next = nodeRed.post('/held', { number: 2 });
    await gate.open();
    assert.deepEqual(await (await next).json(), { number: 2 });
    assert.deepEqual(await gate.entered(), [{ number: 1 }, { number: 2 }]);
    assert.equal((await counts()).backlog, 0);
  });

  test('a request that has not reached the pipeline is cancelled there', async () => {
    const before = await counts();
    const client = open('/elsewhere', { number: 1 });
    const waiting = nodeRed.inputs('wait');
    await until('it is at the function node', () => waiting.length === 1);
    client.destroy();
    await until('it is cancelled', async () => (await counts()).cancelled === before.cancelled + 1);
    assert.equal((await counts()).backlog, 0);
  });

  test('an answered request is not cancelled', async () => {
    const before = await counts();
    await gate.open();
    await new Promise<void>((resolve) => {
      open('/held', { number: 1 }).on('response', (response) => response.resume().on('close', resolve));
    });
    assert.equal((await counts()).cancelled, before.cancelled);
    assert.equal((await counts()).ok, before.ok + 1);
  });
});

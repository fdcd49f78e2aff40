/** Gates outlive deploys: what waits in them and what they have admitted stays; where one goes, no client hangs. */
import assert from 'node:assert/strict';
import { afterEach, before, describe, test } from 'node:test';
import { dispatchGate, endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useGatedRed } from '../../fixtures/gated-red.ts';
import type { DeployType, FlowNode } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const bed = useGatedRed();
const { red, held } = bed;
afterEach(() => held.close());

/** `more`: what is different from the last time. */
function flows(gateProperties: Readonly<Record<string, unknown>> = {}, more: readonly FlowNode[] = []): FlowNode[] {
  return [
    TAB,
    runtime(),
    ...endpoint('/gated', 'gate'),
    dispatchGate('gate', 'work', [], gateProperties),
    stage('work', held.code(), 'collector /gated'),
    // Keeps what it gets.
    httpIn('in /lost', '/lost', 'losing'),
    dispatchGate('losing', 'swallow'),
    func('swallow', '', 'lost out'),
    httpOut('lost out'),
    ...more,
  ];
}

describe('while flows are deployed', () => {
  before(() => red.deployReady(flows()));

  for (const type of ['full', 'flows', 'nodes', 'reload'] satisfies DeployType[]) {
    test(`${type}: the gate admits a waiting request in its turn, and admitted requests count`, async () => {
      const requests = [1, 2, 3].map((number) => red.post('/gated', { number }));
      await bed.entered(1);
      await bed.waiting('gate', 2);
      const { decisions } = await red.gate('gate');
      // Node-RED replaces what has changed.
      await red.deploy(flows({ leaseMs: 400_000 + decisions.admitted }), type);
      const { waiting: wait, inFlight } = await red.gate('gate');
      assert.deepEqual([wait, inFlight], [2, 1]);
      await held.open();
      assert.deepEqual(await Promise.all(requests.map(async (request) => (await request).status)), [200, 200, 200]);
      const { decisions: later } = await red.gate('gate');
      assert.equal(later.admitted + later.admitted_late, decisions.admitted + decisions.admitted_late + 2);
    });
  }

  test('other settings hold for waiting requests', async () => {
    await red.deploy(flows());
    const requests = [1, 2, 3].map((number) => red.post('/gated', { number }));
    await bed.entered(1);
    await bed.waiting('gate', 2);
    await red.deploy(flows({ maxSys: '3' }), 'nodes');
    await until('all are let in', async () => (await red.gate('gate')).inFlight === 3);
    await held.open();
    for (const request of requests) assert.equal((await request).status, 200);
  });

  test('a lease whose message was lost between other nodes ends', async () => {
    await red.deploy(flows());
    const headers = { 'Content-Type': 'application/json', timeout: '2000' };
    const lost = red.post('/lost', {}, { headers });
    await until('it is admitted', async () => (await red.gate('losing')).inFlight === 1);
    await red.deploy(flows({ leaseMs: 300_000 }), 'nodes');
    assert.equal((await red.gate('losing')).inFlight, 1, 'nothing was lost');
    await red.deploy(flows({ leaseMs: 200_000 }));
    assert.equal((await lost).status, 503);
    const { lost: count } = await until('the lease has ended', async () => {
      const gate = await red.gate('losing');
      return gate.inFlight === 0 && gate;
    });
    assert.equal(count, 1);
  });
});

describe('a gate that ends', () => {
  test('answers its waiting requests 503 when it is removed, and admitted requests as usual', async () => {
    await red.deployReady(flows());
    const [first, second] = await bed.beginTwo('/gated', 'gate');
    const without = flows().filter(({ id }) => id !== 'gate' && id !== 'in /gated');
    await red.deploy(without, 'nodes');
    assert.equal((await second).status, 503);
    await held.open();
    assert.equal((await first).status, 200);
    assert.deepEqual(
      (await red.snapshot()).gates.map(({ id }) => id),
      ['losing'],
    );
  });

  test('answers its waiting and new requests when its new settings cannot be used', async () => {
    await red.deploy(flows());
    const [first, second] = await bed.beginTwo('/gated', 'gate');
    await red.deploy(flows({ baseline: 'much' }), 'nodes');
    assert.equal((await second).status, 503);
    const third = await red.post('/gated', { number: 3 });
    assert.deepEqual(
      [third.status, ((await third.json()) as { error: { code: string } }).error.code],
      [503, 'config_invalid'],
    );
    await held.open();
    assert.equal((await first).status, 200);
    await until('the badge says why', () => red.badges.get('gate')?.text?.startsWith('Keep free: '));
  });

  test('answers its waiting requests 503 when flows stop for good', async () => {
    await red.deployReady(flows());
    const [first, second] = await bed.beginTwo('/gated', 'gate');
    const stopped = red.stop();
    assert.equal((await second).status, 503);
    await held.open();
    assert.equal((await first).status, 200);
    await stopped;
  });
});

/** An admitted message holds a lease of its gate, which ends with the request however that ends. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { gather } from '../../fixtures/drawn.ts';
import {
  batcher,
  catchNode,
  collector,
  dispatchGate,
  func,
  httpIn,
  httpOut,
  runtime,
  sink,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { useGatedRed } from '../../fixtures/gated-red.ts';
import { until } from '../../fixtures/polling.ts';

const BRANCHES = ['quick branch', 'slow branch'];
const KEEP = `if (!msg.release) context.set('kept', msg); else return context.get('kept');`;

const bed = useGatedRed({
  prepare: async (red) => {
    await red.deploy([
      TAB,
      runtime(),
      // A stage that refuses by itself, and a failing stage.
      dispatchGate('before failing', 'failing', 'failed', { maxSys: '9' }),
      stage('failing', `if (input === 'fail') throw new Error('told to'); ${held.code()}`, 'done', {
        capacity: 1,
        overflow: 'refuse',
      }),
      sink('done'),
      sink('failed'),
      // Nothing ends what it admits.
      dispatchGate('forgetful', 'nowhere', [], { leaseMs: 300 }),
      func('nowhere', '', []),
      // Another node fails, and its error leads past all collectors.
      httpIn('in /broken', '/broken', 'before broken'),
      dispatchGate('before broken', 'broken'),
      func('broken', 'node.error("told to", msg);', []),
      catchNode('catch', 'as 500', { scope: ['broken'] }),
      func('as 500', 'msg.statusCode = 500; return msg;', 'broken out'),
      httpOut('broken out'),
      // A node that keeps results until it gets a command to send them, with and without a collector behind.
      dispatchGate('collected', 'quick', [], { maxSys: '9' }),
      stage('quick', 'return input;', 'keep'),
      func('keep', KEEP, 'collected end'),
      collector('collected end', 'kept'),
      dispatchGate('uncollected', 'quick too', [], { maxSys: '9' }),
      stage('quick too', 'return input;', 'keep too'),
      func('keep too', KEEP, 'kept'),
      sink('kept'),
      // A loop back to the gate.
      dispatchGate('looped', 'again'),
      func('again', 'msg.payload += 1; return msg.payload < 5 ? [msg, null] : [null, msg];', 'looped', 'looped end'),
      collector('looped end', 'loop sink'),
      sink('loop sink'),
      // Branches, one of which takes its time.
      dispatchGate('before branches', 'fan'),
      func('fan', 'return msg;', ['quick branch', 'slow branch']),
      stage('quick branch', `if (input === 'fail') throw new Error('told to'); return input;`, 'gather'),
      stage('slow branch', held.code(), 'gather'),
      gather('gather', 'gathered end', [], { partial: 'keep' }),
      collector('gathered end', 'gathered'),
      sink('gathered'),
      // In bytes, behind a batcher's stage.
      dispatchGate('bytes', 'batch', [], { unit: 'bytes', maxSys: '100' }),
      batcher('batch', 'byte work', { maxBatchSize: 8 }),
      stage('byte work', held.code(), 'byte sink'),
      sink('byte sink'),
    ]);
    await red.whenReady();
  },
});
const { red, held } = bed;
afterEach(() => bed.settle());

describe('leases', () => {
  test('end with a request that fails', async () => {
    red.send('before failing', { payload: 'fail' });
    await until('it has failed', async () => (await red.snapshot()).runtimes[0]?.requests['modelet_failed'] === 1);
    const { inFlight, lastRefusal } = await red.gate('before failing');
    assert.deepEqual([inFlight, lastRefusal], [0, null]);
  });

  test('a refusal for load by the next stage closes the gate until the next sample', async () => {
    const caught = red.inputs('failed');
    for (const payload of [1, 2, 3, 4]) red.send('before failing', { payload });
    const { lastRefusal } = await until('the stage has refused', async () => {
      const gate = await red.gate('before failing');
      return gate.lastRefusal !== null && gate;
    });
    assert.ok(lastRefusal && lastRefusal.retryAfterMs > 0);
    assert.match((await red.gate('before failing')).why, /^closed: the system behind it refused/);
    // The error came from the stage, not from the gate.
    assert.deepEqual(caught, []);
    red.send('before failing', { gate: 'flush' });
  });

  test('end when a collector has the result, or without a collector when the last stage has sent it', async () => {
    const [kept, keptToo] = ['keep', 'keep too'].map((id) => red.inputs(id));
    red.send('collected', { payload: 1 });
    red.send('uncollected', { payload: 1 });
    await until('both results are kept', () => kept?.length === 1 && keptToo?.length === 1);
    assert.deepEqual([(await red.gate('collected')).inFlight, (await red.gate('uncollected')).inFlight], [1, 0]);
    red.send('keep', { release: true });
    await until('the collector has it', async () => (await red.gate('collected')).inFlight === 0);
  });

  test('end when a request gets an error, even if no collector learns of it', async () => {
    assert.equal((await red.post('/broken', {})).status, 500);
    const { lost } = await until('the lease has ended', async () => {
      const gate = await red.gate('before broken');
      return gate.inFlight === 0 && gate;
    });
    assert.equal(lost, 0);
  });

  test('end after leaseMs when a message disappears, and count as lost', async () => {
    red.send('forgetful', { payload: 1 });
    const { lost, inFlight } = await until('it is given up', async () => {
      const gate = await red.gate('forgetful');
      return gate.lost === 1 && gate;
    });
    assert.deepEqual([lost, inFlight], [1, 0]);
  });

  test('end before a returning message asks again', async () => {
    const results = red.inputs('loop sink');
    red.send('looped', { payload: 0 });
    const result = await until('it is through', () => results[0]);
    assert.deepEqual([result.payload, result.modelet?.leases], [5, undefined]);
    const { inFlight, lost } = await red.gate('looped');
    assert.deepEqual([inFlight, lost], [0, 0]);
  });

  for (const first of ['succeed', 'fail']) {
    test(`stay with the slow branch of a message when the others ${first}, and end when all are gathered`, async () => {
      const results = red.inputs('gathered');
      const failed = 'modelet_failed';
      const settled = async (): Promise<number> => {
        const { ok = 0, [failed]: errors = 0 } = (await red.snapshot()).runtimes[0]?.requests ?? {};
        return ok + errors;
      };
      const before = await settled();
      for (const payload of [first, 'second']) red.send('before branches', { payload });
      await bed.entered(1);
      await until('the quick branch is over', async () => (await settled()) === before + 1);
      await until('its outcome is in the gather', () => red.badges.get('gather')?.text?.startsWith('1 in progress'));
      await bed.waiting('before branches', 1);
      assert.deepEqual(await held.entered(), [first], 'only the first was admitted');
      await held.open();
      await until('both are gathered', () => results.length === 2);
      assert.deepEqual(Object.keys(results[0]?.payload as object), first === 'fail' ? ['slow branch'] : BRANCHES);
      assert.deepEqual(Object.keys(results[1]?.payload as object).sort(), BRANCHES);
      await until('both leases have ended', async () => (await red.gate('before branches')).inFlight === 0);
      assert.equal((await red.gate('before branches')).lost, 0);
    });
  }

  test('count bytes: a message that does not fit beside the others waits, and a message that never fits runs alone', async () => {
    const results = red.inputs('byte sink');
    for (const size of [60, 50, 500]) red.send('bytes', { payload: Buffer.alloc(size) });
    await bed.waiting('bytes', 2);
    assert.equal((await red.gate('bytes')).inFlightCost, 60);
    await held.open();
    await until('all are through', () => results.length === 3);
  });
});

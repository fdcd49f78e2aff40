/** Commands and settings in messages: flush and reset of a batcher, link calls, priority, a shorter time limit. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  arrived,
  linkCall,
  linkIn,
  linkReturn,
  noting,
  numbers,
  payloads,
  queueOf,
  sendAll,
  whenIdle,
} from '../../fixtures/drawn.ts';
import { batcher, catchNode, collector, completeNode, freshRuntime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();
const gate = useGate();

/** Deploys them with a separate engine for each test. */
async function deploy(...flows: FlowNode[]): Promise<Message[]> {
  await red.deploy([TAB, freshRuntime(), ...flows, sink('out')]);
  await red.whenReady();
  return red.inputs('out');
}

async function waitAt(stageId: string, count: number): Promise<void> {
  await until(`${count} wait at ${stageId}`, async () => (await queueOf(red, stageId)) === count);
}

/** Batches that would fill for a minute. */
const PATIENT = { policy: 'oldest', maxWaitMs: '60000', maxBatchSize: '100' };

describe('flush', () => {
  for (const policy of ['oldest', 'gap']) {
    test(`${policy}: the waiting items leave at once as one batch, and later ones wait again`, async () => {
      const out = await deploy(
        batcher('batch', 'a', { ...PATIENT, policy }),
        noting('a', 'out'),
        completeNode('complete', ['batch'], 'done'),
        sink('done'),
      );
      const done = red.inputs('done');
      sendAll(red, 'batch', [[1], [2], [3]]);
      await waitAt('a', 3);
      assert.equal(out.length, 0);
      red.send('batch', { flush: true });
      sendAll(red, 'batch', [[4]]);
      await arrived(out, 3);
      assert.deepEqual(payloads(out), [
        [1, 'a'],
        [2, 'a'],
        [3, 'a'],
      ]);
      assert.deepEqual(
        out.map(({ modelet }) => modelet?.stages[0]?.batchSize),
        [3, 3, 3],
      );
      await waitAt('a', 1);
      assert.equal(out.length, 3);
      red.send('batch', { flush: 'any value' });
      assert.deepEqual((await arrived(out, 4))[3]?.payload, [4, 'a']);
      // Four messages and two that asked to flush, which are done as well and go nowhere.
      await arrived(done, 6);
    });
  }

  test('reaches a batcher in the middle of a fused chain', async () => {
    const out = await deploy(noting('a', 'batch'), batcher('batch', 'b', PATIENT), noting('b', 'out'));
    assert.deepEqual((await red.snapshot()).routes.find(({ entry }) => entry === 'a')?.stages, ['a', 'b']);
    sendAll(red, 'a', [[], []]);
    await waitAt('b', 2);
    red.send('batch', { flush: true });
    assert.deepEqual(payloads(await arrived(out, 2)), [
      ['a', 'b'],
      ['a', 'b'],
    ]);
  });

  test('makes full batches and a rest of more items than one batch holds', async () => {
    const out = await deploy(
      batcher('batch', 'held', { ...PATIENT, maxBatchSize: '4' }),
      stage('held', gate.code(), 'out'),
    );
    sendAll(red, 'batch', numbers(4));
    await until('the first batch is at work', async () => (await gate.entered()).length > 0);
    sendAll(red, 'batch', numbers(7));
    await waitAt('held', 7);
    red.send('batch', { flush: true });
    await gate.open();
    await arrived(out, 11);
    assert.deepEqual(
      out.map(({ modelet }) => modelet?.stages[0]?.batchSize),
      [4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3],
    );
  });
});

describe('reset', () => {
  test('sends the waiting items to a wired catch output', async () => {
    const out = await deploy(
      batcher('batch', 'a', PATIENT),
      noting('a', 'collect'),
      collector('collect', 'out', 'dropped'),
      sink('dropped'),
    );
    const dropped = red.inputs('dropped');
    sendAll(red, 'batch', [[1], [2]]);
    await waitAt('a', 2);
    red.send('batch', { reset: true });
    for (const { error } of await arrived(dropped, 2)) assert.equal(error?.code, 'dropped');
    sendAll(red, 'batch', [[3]]);
    await waitAt('a', 1);
    red.send('batch', { flush: true });
    assert.deepEqual(payloads(await arrived(out, 1)), [[3, 'a']]);
    await whenIdle(red);
    assert.deepEqual([out.length, dropped.length], [1, 2]);
  });

  test('also drops messages that wait outside the engine, silently without a catch output, and reports them as done', async () => {
    const out = await deploy(
      batcher('batch', 'held', { ...PATIENT, maxBatchSize: '1' }),
      stage('held', gate.code(), 'out', { capacity: '2' }),
      catchNode('catch', 'caught'),
      completeNode('complete', ['batch'], 'done'),
      ...['caught', 'done'].map(sink),
    );
    const [caught, done] = [red.inputs('caught'), red.inputs('done')];
    sendAll(red, 'batch', numbers(50));
    await until('one is at work', async () => (await gate.entered()).length === 1);
    await until('the queue is full', async () => (await queueOf(red, 'held')) >= 2);
    red.send('batch', { reset: true });
    const { runtimes } = await until('the others are dropped', async () => {
      const snapshot = await red.snapshot();
      return (snapshot.runtimes[0]?.backlog ?? 50) <= 2 && snapshot;
    });
    assert.ok((runtimes[0]?.requests['dropped'] ?? 0) >= 48);
    await gate.open();
    await arrived(done, 51);
    assert.equal(out[0]?.payload, 0);
    assert.deepEqual([caught.length, out.length <= 2], [0, true]);
  });
});

describe('link call', () => {
  test('into a pipeline comes back to its caller, with the result or with the error', async () => {
    const out = await deploy(
      linkCall('call', 'li', 'out'),
      linkCall('other call', 'li', 'other'),
      linkIn('li', [], 'check'),
      stage(
        'check',
        `if (input < 0) throw Object.assign(new Error('negative'), { code: 'invalid_input' }); return input;`,
        'root',
      ),
      stage('root', 'return Math.sqrt(input);', 'collect'),
      collector('collect', 'back', 'back'),
      linkReturn('back'),
      sink('other'),
    );
    const other = red.inputs('other');
    const squares = numbers(20).map((n) => (n - 2) * Math.abs(n - 2));
    for (const [index, square] of squares.entries())
      red.send(index % 2 ? 'other call' : 'call', { payload: square, index });
    const answers = [...(await arrived(out, 10)), ...(await arrived(other, 10))];
    for (const msg of answers) {
      const index = msg['index'] as number;
      const square = squares[index] as number;
      if (square < 0) assert.equal(msg.error?.code, 'invalid_input');
      else assert.equal(msg.payload, Math.sqrt(square));
      assert.equal('_linkSource' in msg, false);
    }
    assert.deepEqual(
      out.map(({ index }) => (index as number) % 2),
      Array(10).fill(0),
    );
    assert.deepEqual(
      other.map(({ index }) => (index as number) % 2),
      Array(10).fill(1),
    );
  });
});

describe('priority and timeout', () => {
  test('a higher priority goes first among messages that wait outside the engine, too', async () => {
    const out = await deploy(stage('held', gate.code(), 'out', { capacity: '1', overflow: 'wait' }));
    red.send('held', { payload: 'first' });
    await until('it is at work', async () => (await gate.entered()).length === 1);
    sendAll(red, 'held', numbers(10));
    await until('the queue is full', async () => (await queueOf(red, 'held')) >= 1);
    red.send('held', { payload: 'low', priority: -1 });
    red.send('held', { payload: 'high', priority: '7' });
    red.send('held', { payload: 'no number', priority: 'urgent' });
    await gate.open();
    const order = payloads(await arrived(out, 14));
    assert.equal(order.at(-1), 'low');
    assert.equal(order.at(-2), 'no number');
    // Those that were in the engine by then it cannot overtake.
    assert.ok(order.indexOf('high') <= 4, JSON.stringify(order));
    assert.deepEqual(
      order.filter((payload) => typeof payload === 'number'),
      numbers(10),
    );
  });

  const TIMES: readonly [name: string, timeout: unknown, expires: boolean][] = [
    ['a number', 50, true],
    ['a number as text', '50', true],
    ['zero', 0, false],
    ['a negative number', -5, false],
    ['text', 'soon', false],
    ['true', true, false],
  ];
  for (const [name, timeout, expires] of TIMES) {
    test(`msg.timeout as ${name} ${expires ? 'ends the wait' : 'has no effect'}`, async () => {
      const out = await deploy(
        stage('held', gate.code(), 'collect'),
        collector('collect', 'out', 'failed'),
        sink('failed'),
      );
      const failed = red.inputs('failed');
      red.send('held', { payload: 1, timeout });
      if (expires) {
        assert.equal((await arrived(failed, 1))[0]?.error?.code, 'deadline_exceeded');
      } else {
        await until('it is at work', async () => (await gate.entered()).length === 1);
        const then = performance.now();
        await until('its time would be up', () => performance.now() - then > 80);
      }
      await gate.open();
      await whenIdle(red);
      assert.deepEqual([out.length, failed.length], expires ? [0, 1] : [1, 0]);
    });
  }
});

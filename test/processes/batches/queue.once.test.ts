/** Full queues, and the order of those that wait. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { callsIn, release, serve } from '../../fixtures/service.ts';
import { gated, hold, queued } from '../modelets/gated.ts';

describe('a full queue', () => {
  test('refuses at once with Retry-After, and answers the items that it holds', async (t) => {
    const gate = await gated(t, { capacity: 3 });
    const running = await hold(gate, 'held');
    const waiting = ['a', 'b', 'c'].map((name) => gate.service.ask(name));
    await queued(gate, 3);

    for (const name of ['d', 'e']) {
      const { code, error } = await gate.service.answer(name);
      assert.equal(code, 'capacity_exceeded');
      assert.equal(error?.stage, 'gate');
      assert.ok((error?.retryAfterSeconds ?? 0) >= 1);
      assert.match(error?.message ?? '', /full \(3 waiting\)/);
    }
    for (const { settled } of [running, ...waiting]) assert.equal(settled, null, 'the others wait on');

    release(gate.folder, 'held');
    for (const { answer } of [running, ...waiting]) assert.equal((await answer).code, 'ok');
    assert.equal((await gate.service.answer('f')).code, 'ok');
    assert.deepEqual(callsIn(gate.folder), ['held', 'a', 'b', 'c', 'f']);
  });

  test('inside a route holds back the stage before it, and loses nothing', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, {
      stages: [
        { id: 'first', file: 'echo', capacity: 4 },
        { id: 'gate', file: 'gate', init: { folder }, capacity: 2 },
      ],
    });
    const names = ['held', 'a', 'b', 'c', 'd', 'e'];
    const asked = [];
    for (const name of names) {
      asked.push(service.ask(name));
      const sent = asked.length;
      // One runs, then two fill the queue, then the stage before keeps them.
      await until(`${sent} sent`, () => service.stage('first').items === Math.min(sent, 3));
    }
    await until('three are held back', () => service.stage('first').queue === 3);
    assert.equal(service.stage('gate').queue, 2);
    release(folder, 'held');
    for (const { answer } of asked) assert.equal((await answer).code, 'ok');
    assert.deepEqual(callsIn(folder), names);
  });

  for (const isolation of ISOLATIONS) {
    test(`lets patient requests in as there is room, whatever their number (${isolation})`, async (t) => {
      const [capacity, maxBatchSize] = [16, 8];
      const gate = await gated(t, { isolation, predict: 'batch', capacity, batch: { maxBatchSize } });
      const running = await hold(gate, 'held');
      const names = Array.from({ length: 2000 }, (_, index) => `patient ${index}`);
      const asked = names.map((name) => gate.service.ask(name, { patient: true }));
      await until('the queue is full', () => gate.service.stage('gate').queue >= capacity);
      const { queue } = gate.service.stage('gate');
      assert.ok(queue <= capacity + 2 * maxBatchSize, `${queue} wait in the engine, the others before it`);

      release(gate.folder, 'held');
      for (const { answer } of [running, ...asked]) assert.equal((await answer).code, 'ok');
      assert.deepEqual(callsIn(gate.folder).flat(), ['held', ...names]);
    });
  }

  test('of the whole runtime limits the open requests', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, {
      config: { capacity: 2 },
      stages: [{ id: 'gate', file: 'gate', init: { folder } }],
    });
    const open = [service.ask('held'), service.ask('a')];
    assert.throws(() => service.ask('b'), { code: 'capacity_exceeded', retryAfterSeconds: 1 });
    assert.equal(service.service.snapshot().requests['capacity_exceeded'], 1);
    release(folder, 'held');
    for (const { answer } of open) assert.equal((await answer).code, 'ok');
    assert.equal((await service.answer('c')).code, 'ok');
    assert.deepEqual(callsIn(folder), ['held', 'a', 'c']);
  });
});

describe('order', () => {
  test('higher priority first, then first come', async (t) => {
    const gate = await gated(t);
    const running = await hold(gate, 'held');
    const priorities = { low: 0, high: 5, middle: 1, 'high too': 5, lowest: -3, 'low too': 0, highest: 2_000_000_000 };
    const asked = Object.entries(priorities).map(([name, priority]) => gate.service.ask(name, { priority }));
    await queued(gate, asked.length);
    release(gate.folder, 'held');
    for (const { answer } of [running, ...asked]) assert.equal((await answer).code, 'ok');
    const expected = ['held', 'highest', 'high', 'high too', 'middle', 'low', 'low too', 'lowest'];
    assert.deepEqual(callsIn(gate.folder), expected);
  });

  test('within a batch and over several', async (t) => {
    const gate = await gated(t, { predict: 'batch', batch: { maxBatchSize: 3 } });
    const running = await hold(gate, 'held');
    const asked = ['a', 'b', 'c', 'd'].map((name) => gate.service.ask(name));
    asked.push(gate.service.ask('urgent', { priority: 1 }));
    await queued(gate, 5);
    release(gate.folder, 'held');
    for (const { answer } of [running, ...asked]) assert.equal((await answer).code, 'ok');
    assert.deepEqual(callsIn(gate.folder), [['held'], ['urgent', 'a', 'b'], ['c', 'd']]);
  });
});

/** Batches as real workers get them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StageTiming } from '../../../src/core/model.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { callsIn, release, serve } from '../../fixtures/service.ts';

/** Timers may be a little early. */
const EARLY_MS = 2;

function batchMs(timings: readonly StageTiming[]): number {
  return timings[0]?.batchMs ?? Number.NaN;
}

describe('greedy', () => {
  test('a burst of 200 in one tick makes one batch of 200, not many small ones', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, {
      stages: [
        { id: 'gate', file: 'gate', predict: 'batch', init: { folder }, workers: 3, batch: { maxBatchSize: 200 } },
      ],
    });
    await service.ready();
    const names = Array.from({ length: 200 }, (_, index) => `item ${index}`);
    const answers = await Promise.all(names.map((name) => service.answer(name)));
    assert.deepEqual(callsIn(folder), [names]);
    for (const [index, { value, timings }] of answers.entries()) {
      assert.equal((value as { input: string }).input, names[index]);
      assert.equal(timings[0]?.batchSize, 200);
    }
    await until('the batch is shown', () => service.stage('gate').items === 200);
    assert.equal(service.stage('gate').batches, 1);
    assert.equal(service.stage('gate').meanBatchSize, 200);
  });

  test('takes the waiting items when a worker is free, and a single one at once', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, {
      stages: [{ id: 'gate', file: 'gate', predict: 'batch', init: { folder }, batch: { maxBatchSize: 4 } }],
    });
    const asked = [service.ask('held')];
    await until('a single one left at once', () => callsIn(folder).length === 1);
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) asked.push(service.ask(name));
    await until('six wait', () => service.stage('gate').queue === 6);
    release(folder, 'held');
    for (const { answer } of asked) assert.equal((await answer).code, 'ok');
    assert.deepEqual(callsIn(folder), [['held'], ['a', 'b', 'c', 'd'], ['e', 'f']]);
  });

  test('an item-wise predict gets one input at a time, whatever the batch size', async (t) => {
    const service = await serve(t, {
      stages: [{ id: 'model', inline: 'return Array.isArray(input);', batch: { maxBatchSize: 10 } }],
    });
    const answers = await Promise.all([1, 2, 3].map((n) => service.answer(n)));
    for (const { value, timings } of answers) {
      assert.equal(value, false);
      assert.equal(timings[0]?.batchSize, 3);
    }
  });

  test('a batch-wise predict without a batcher gets arrays of one', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [{ id: 'gate', file: 'gate', predict: 'batch', init: { folder } }] });
    await Promise.all(['a', 'b'].map((name) => service.answer(name)));
    assert.deepEqual(callsIn(folder), [['a'], ['b']]);
  });
});

describe('oldest', () => {
  test('leaves when its oldest item has waited long enough, if it is not full', async (t) => {
    const folder = folderFor(t);
    const batch = { maxBatchSize: 100, policy: 'oldest', maxWaitMs: 200 } as const;
    const service = await serve(t, {
      stages: [{ id: 'gate', file: 'gate', predict: 'batch', init: { folder }, batch, workers: 2 }],
    });
    await service.ready();
    const answers = await Promise.all(['a', 'b', 'c'].map((name) => service.answer(name)));
    assert.deepEqual(callsIn(folder), [['a', 'b', 'c']]);
    // The others may have come a little later.
    const longest = Math.max(...answers.map(({ timings }) => batchMs(timings)));
    assert.ok(longest >= batch.maxWaitMs - EARLY_MS, `waited ${longest} ms to be filled`);
  });

  test('leaves at once when it is full', async (t) => {
    const folder = folderFor(t);
    const batch = { maxBatchSize: 3, policy: 'oldest', maxWaitMs: 60_000 } as const;
    const service = await serve(t, {
      stages: [{ id: 'gate', file: 'gate', predict: 'batch', init: { folder }, batch, workers: 2 }],
    });
    await service.ready();
    const asked = ['a', 'b'].map((name) => service.ask(name));
    await until('two wait to be filled', () => service.stage('gate').queue === 2);
    assert.deepEqual(callsIn(folder), []);
    for (const name of ['c', 'd', 'e', 'f']) asked.push(service.ask(name));
    for (const { answer } of asked) assert.equal((await answer).timings[0]?.batchSize, 3);
    const calls = callsIn(folder) as string[][];
    assert.deepEqual(calls.toSorted(), [
      ['a', 'b', 'c'],
      ['d', 'e', 'f'],
    ]);
  });
});

describe('gap', () => {
  test('waits for each next item, and leaves when none came', async (t) => {
    const folder = folderFor(t);
    const batch = { maxBatchSize: 100, policy: 'gap', maxWaitMs: 400 } as const;
    const service = await serve(t, {
      stages: [{ id: 'gate', file: 'gate', predict: 'batch', init: { folder }, batch }],
    });
    // The worker has just become free when these come: it waits for more.
    const held = service.ask('held');
    await until('the worker is busy', () => callsIn(folder).length === 1);
    const asked = [service.ask('a')];
    await until('one waits', () => service.stage('gate').queue === 1);
    release(folder, 'held');
    await held.answer;
    asked.push(service.ask('b'));
    const answers = await Promise.all(asked.map(({ answer }) => answer));
    assert.deepEqual(callsIn(folder), [['held'], ['a', 'b']]);
    for (const { timings } of answers) {
      assert.ok(batchMs(timings) >= batch.maxWaitMs - EARLY_MS, `waited ${batchMs(timings)} ms to be filled`);
    }
  });

  test('lets a worker that was idle for longer take a first item at once', async (t) => {
    const folder = folderFor(t);
    const batch = { maxBatchSize: 100, policy: 'gap', maxWaitMs: 300 } as const;
    const service = await serve(t, {
      stages: [{ id: 'gate', file: 'gate', predict: 'batch', init: { folder }, batch }],
    });
    await service.answer('first');
    const answeredAt = performance.now();
    await until('the worker has been idle for long', () => performance.now() - answeredAt > 2 * batch.maxWaitMs);
    assert.ok(batchMs((await service.answer('second')).timings) < batch.maxWaitMs);
    assert.deepEqual(callsIn(folder), [['first'], ['second']]);
  });

  test('leaves at once when it is full', async (t) => {
    const folder = folderFor(t);
    const batch = { maxBatchSize: 2, policy: 'gap', maxWaitMs: 60_000 } as const;
    const service = await serve(t, {
      stages: [{ id: 'gate', file: 'gate', predict: 'batch', init: { folder }, batch }],
    });
    const answers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => service.answer(name)));
    for (const { timings } of answers) assert.equal(timings[0]?.batchSize, 2);
    assert.deepEqual(callsIn(folder), [
      ['a', 'b'],
      ['c', 'd'],
    ]);
  });
});

describe('whatever the policy', () => {
  for (const policy of ['greedy', 'oldest', 'gap'] as const) {
    test(`${policy}: no batch exceeds its limit, and each item is in one batch, in order of arrival`, async (t) => {
      const folder = folderFor(t);
      const batch = { maxBatchSize: 7, policy, maxWaitMs: 20 };
      const service = await serve(t, {
        stages: [{ id: 'gate', file: 'gate', predict: 'batch', init: { folder }, batch }],
      });
      const asked: Promise<unknown>[] = [];
      const names: string[] = [];
      for (const burst of [1, 30, 2, 7, 8, 15, 6, 1, 1, 50, 3]) {
        for (let n = 0; n < burst; n += 1) {
          names.push(`item ${names.length}`);
          asked.push(service.answer(names.at(-1)));
        }
        await asked.at(burst % 2 === 0 ? -1 : 0);
      }
      await Promise.all(asked);
      const calls = callsIn(folder) as string[][];
      assert.deepEqual(calls.flat(), names);
      assert.ok(calls.every(({ length }) => length <= 7));
      assert.ok(calls.some(({ length }) => length === 7));
      await until('all are counted', () => service.stage('gate').items === names.length);
      assert.equal(service.stage('gate').batches, calls.length);
    });
  }
});

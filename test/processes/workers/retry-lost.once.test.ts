/** An item that kills its worker: which of its batch fail, with and without `retryLost`. Real processes, real deaths. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { callsIn, release, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const BATCH = 8;
const POISONOUS = 3;

/** Runs item by item; one called by a way to die ends the worker in that way. */
const poison = (retryLost: boolean): StageSpec => ({
  id: 'model',
  file: 'die',
  batch: { policy: 'oldest', maxBatchSize: BATCH, maxWaitMs: 60_000 },
  retryLost,
});

/** One full batch with one poisonous item. */
async function poisoned(service: TestService, way: string): Promise<string[]> {
  await service.ready();
  const inputs = Array.from({ length: BATCH }, (_, n) => (n === POISONOUS ? way : `item ${n}`));
  const answers = await Promise.all(inputs.map((input) => service.answer(input)));
  return answers.map(({ code }) => code);
}

const but = (n: number, code: string): string[] => Array.from({ length: BATCH }, (_, at) => (at === n ? code : 'ok'));

describe('a batch of eight with an item that ends the process', () => {
  for (const way of ['exit', 'segv']) {
    test(`by ${way}, with retryLost: seven results, one worker_lost, and nothing else waits`, async (t) => {
      const service = await serve(t, { stages: [poison(true)] });
      assert.deepEqual(await poisoned(service, way), but(POISONOUS, 'worker_lost'));
      assert.deepEqual(await poisoned(service, way), but(POISONOUS, 'worker_lost'), 'the same again');
      assert.equal(service.service.snapshot().lateOutcomes, 0);
    });

    test(`by ${way}, without retryLost: all eight fail`, async (t) => {
      const service = await serve(t, { stages: [poison(false)] });
      assert.deepEqual(await poisoned(service, way), Array(BATCH).fill('worker_lost'));
      assert.deepEqual(await poisoned(service, 'harmless'), Array(BATCH).fill('ok'));
    });
  }
});

test('kill -9 from outside: with retryLost no request fails, and each item runs at most twice, the second time alone', async (t) => {
  const folder = folderFor(t);
  const service = await serve(t, {
    stages: [
      { id: 'gate', file: 'gate', init: { folder }, predict: 'batch', batch: { maxBatchSize: 4 }, retryLost: true },
    ],
  });
  const [pid] = (await service.ready())['gate'] as [number];
  const asked = ['held', 'a', 'b', 'c', 'd', 'e'].map((name) => service.ask(name));
  await until('the batch runs', () => callsIn(folder).length === 1);
  await until('two wait', () => service.stage('gate').queue === 2);
  kill9(pid);
  await until('the first of them runs again', () => callsIn(folder).length === 2);
  release(folder, 'held');
  const codes = await Promise.all(asked.map(async ({ answer }) => (await answer).code));
  assert.deepEqual(new Set(codes), new Set(['ok']));
  assert.deepEqual(callsIn(folder), [['held', 'a', 'b', 'c'], ['held'], ['a'], ['b'], ['c'], ['d', 'e']]);
});

/**
 * Many requests at once through a whole endpoint: each gets one answer, and it is its own.
 * Shows: promise "Requests are batched", node modelet-batcher, way compiled.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { batcher, endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const REQUESTS = 2000;
const IN_FLIGHT = 64;

const nodeRed = useNodeRed({
  flows: [
    TAB,
    runtime(),
    ...endpoint('/load', 'double'),
    stage('double', 'return { ...input, doubled: input.number * 2 };', 'batch', { workers: '2' }),
    batcher('batch', 'describe', { maxBatchSize: 16, policy: 'greedy' }),
    stage(
      'describe',
      `return input.map((item) =>
         item.number % 10 === 9 ? new Error('not ' + item.number) : { ...item, text: 'number ' + item.number });`,
      'collector /load',
      { predict: 'batch' },
    ),
  ],
});

describe('load', () => {
  test(`${REQUESTS} posts at ${IN_FLIGHT} in flight are each answered with their own result or error`, async () => {
    let next = 0;
    let results = 0;
    const client = async (): Promise<void> => {
      for (let number = next++; number < REQUESTS; number = next++) {
        const response = await nodeRed.post('/load', { number });
        const body = (await response.json()) as { error?: { message: string } };
        if (number % 10 === 9) {
          assert.equal(response.status, 500);
          assert.equal(body.error?.message, `not ${number}`);
        } else {
          assert.equal(response.status, 200);
          assert.deepEqual(body, { number, doubled: number * 2, text: `number ${number}` });
        }
        results += 1;
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, client));
    assert.equal(results, REQUESTS);
  });

  test('the metrics count all requests, none stays open, and the stages made batches', async () => {
    const { runtimes } = await nodeRed.snapshot();
    const counts = runtimes[0]?.requests;
    assert.equal(counts?.['ok'], REQUESTS * 0.9);
    assert.equal(counts?.['modelet_failed'], REQUESTS * 0.1);
    assert.equal(runtimes[0]?.backlog, 0);
    assert.equal(runtimes[0]?.lateOutcomes, 0);
    const described = await until('the engine has reported the last batch', async () => {
      const stages = (await nodeRed.snapshot()).runtimes[0]?.stages;
      const found = stages?.find(({ name }) => name === 'describe');
      return found?.items === REQUESTS && found;
    });
    assert.ok(described.batches < REQUESTS / 2, `${described.batches} batches`);
    assert.equal(described.queue, 0);
  });
});

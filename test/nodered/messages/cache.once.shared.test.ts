/** A stage that keeps results, in Node-RED: what messages, the snapshot, the metrics and the metrics node say of it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import type { RuntimeInterval } from '../../../src/observe/views/interval.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type Message, type Snapshot, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

/** Its runs end when the file is there. */
const RELEASE = join(mkdtempSync(join(tmpdir(), 'modelet-cache-')), 'release');
const SLOW = `const { existsSync } = require('node:fs');
while (!existsSync(${JSON.stringify(RELEASE)})) await new Promise((done) => setTimeout(done, 5));
return { of: input, by: Math.random() };`;

const nodeRed = useNodeRed({
  flows: [
    TAB,
    runtime(),
    stage('slow', SLOW, 'end', { cache: '10' }),
    stage('topics', 'return [msg.topic, input, Math.random()].join();', 'end', { cache: 10, cacheTtlMs: 0 }),
    sink('end'),
    node('numbers', 'modelet-metrics', [['all'], [], [], []], { intervalMs: 100 }),
    sink('all'),
  ],
});
after(() => rmSync(dirname(RELEASE), { recursive: true }));

/** Sends messages at the same time, and resolves with them as they come out, in the order they were sent. */
async function pass(entry: string, messages: readonly object[]): Promise<Message[]> {
  const results = nodeRed.inputs('end');
  for (const message of messages) nodeRed.send(entry, message);
  await until('all are through', () => results.length === messages.length);
  return messages as Message[];
}

const stageOf = async (id: string): Promise<Snapshot['runtimes'][number]['stages'][number]> => {
  const found = (await nodeRed.snapshot()).runtimes[0]?.stages.find((one) => one.id === id);
  return found ?? assert.fail();
};

test('messages with the same input share a run or a kept result, and all views of the stage show it', async () => {
  const told = nodeRed.inputs('all');
  const results = nodeRed.inputs('end');
  const together = [{ payload: { a: 1 } }, { payload: { a: 1 } }, { payload: { a: 1 }, topic: 'x' }] as Message[];
  nodeRed.send('slow', together[0] as Message);
  await until('a worker has it', async () => (await stageOf('slow')).busy === 1);
  for (const message of together.slice(1)) nodeRed.send('slow', message);
  await until('the others share its run', async () => (await stageOf('slow')).reading.cache.joined === 2);
  writeFileSync(RELEASE, '');
  await until('all are through', () => results.length === together.length);
  const [later] = await pass('slow', [{ payload: { a: 1 } }]);
  const entries = [...together, later].map(
    (message) => message?.modelet?.stages[0] as unknown as Record<string, number>,
  );
  assert.deepEqual(
    entries.map(({ cache, worker, batchSize }) => [cache, worker, batchSize]),
    [
      [undefined, 0, 1],
      ['joined', -1, 0],
      ['joined', -1, 0],
      ['hit', -1, 0],
    ],
  );
  const [, joined, , hit] = entries;
  assert.ok((joined?.['waitMs'] ?? 0) > 0 && joined?.['runMs'] === 0 && hit?.['runMs'] === 0);
  for (const message of [...together, later]) assert.deepEqual(message?.payload, together[0]?.payload);
  // Each has a separate value: a flow may change what it gets.
  (together[0]?.payload as { of: unknown }).of = 'changed';
  const [next] = await pass('slow', [{ payload: { a: 1 } }]);
  assert.deepEqual((next?.payload as { of: unknown } | undefined)?.of, { a: 1 });

  await until('the snapshot has it', async () => (await stageOf('slow')).reading.cache.hit === 2);
  const { reading, cache, items } = await stageOf('slow');
  assert.deepEqual([reading.cache, cache.entries, items], [{ hit: 2, miss: 1, joined: 2 }, 1, 1]);
  const scrape = new Scrape(await (await fetch(`${nodeRed.url}/admin/modelets/metrics`)).text());
  const count = (result: string): number => scrape.value('modelet_cache_requests_total', { stage: 'slow', result });
  assert.deepEqual(['hit', 'miss', 'joined'].map(count), [2, 1, 2]);
  assert.equal(scrape.value('modelet_cache_entries', { stage: 'slow' }), 1);
  assert.equal(scrape.value('modelet_cache_bytes', { stage: 'slow' }), cache.bytes);
  const part = (message: Message): number => (message.payload as RuntimeInterval).stages['slow']?.cached ?? 0;
  await until('the interval has it', () => told.some((message) => part(message) > 0));
});

test('inline code that reads the topic runs again for another topic', async () => {
  const [one] = await pass('topics', [{ payload: 1, topic: 'a' }]);
  const [same] = await pass('topics', [{ payload: 1, topic: 'a' }]);
  const [other] = await pass('topics', [{ payload: 1, topic: 'b' }]);
  assert.equal(same?.payload, one?.payload);
  assert.match(String(other?.payload), /^b,1,/);
});

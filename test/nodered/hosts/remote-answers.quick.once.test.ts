/**
 * A stage on a worker host answers as one on this machine does. remote-stages.once.test.ts kills hosts, server and engine.
 * Shows: worker remote.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { arrived, gather, numbers, payloads, sendAll } from '../../fixtures/drawn.ts';
import { batcher, stage } from '../../fixtures/flow.ts';
import { FakeHub } from '../../fixtures/hub.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../../fixtures/known-models.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_REDIS } from '../../fixtures/redis.ts';
import { REMOTE, useRemoteBed } from '../../fixtures/remote.ts';

const red = useNodeRed();

describe('a stage on worker hosts', { skip: WITHOUT_REDIS }, () => {
  const bed = useRemoteBed(red);

  test('answers as a local one, in batches, with an error for its item alone', async (t) => {
    const code =
      "return input.map((n) => { if (n === 7) return new Error('seven'); return { n, of: input.length }; });";
    const { out, failed } = await bed.deploy(
      batcher('batch', 'batched', { maxBatchSize: '8', batchCost: 'sum', maxBatchCost: '3', costBy: 'tokens' }),
      stage('batched', code, 'done', { ...REMOTE, predict: 'batch' }),
    );
    bed.host(t, '--workers', '2');
    await bed.ready('batched', 2);
    sendAll(red, 'batch', numbers(40), { tokens: 1 });
    const results = payloads(await arrived(out, 39)) as { n: number; of: number }[];
    assert.deepEqual(
      results.map(({ n }) => n).sort((a, b) => a - b),
      numbers(40).filter((n) => n !== 7),
    );
    assert.ok(
      results.some(({ of }) => of > 1),
      'items of one turn run in one batch',
    );
    assert.ok(
      results.every(({ of }) => of <= 3),
      'the host takes no two batches together that cost too much',
    );
    const [error] = await arrived(failed, 1);
    assert.equal(error?.error?.code, 'modelet_failed');
    assert.match(String(error?.error?.message), /seven/);
    // The host reports once a second.
    await until('the badge shows idle workers', () => red.badges.get('batched')?.text === 'idle, 2 workers');
  });

  test('makes lists, whose items pass stages on hosts and here, and come together in order', async (t) => {
    const lists = { ...REMOTE, emits: 'list' };
    const list = { mode: 'list', partial: 'keep' };
    const { out, failed } = await bed.deploy(
      stage('cut', 'return Array.from({ length: input }, (_, n) => new Float32Array(n + 1).fill(n));', 'again', lists),
      // A list in a list: the parts of each item.
      stage('again', 'return [...input].map((n) => ({ n }));', 'there', lists),
      stage('there', "if (input.n === 2) throw new Error('two'); return input.n;", 'here', REMOTE),
      stage('here', 'return input + 1;', 'inner'),
      gather('inner', 'outer', [], list),
      gather('outer', 'done', [], list),
    );
    bed.host(t);
    for (const id of ['cut', 'again', 'there']) await bed.ready(id, 1);
    sendAll(red, 'cut', [4, 0]);
    const results = payloads(await arrived(out, 2)) as unknown[][];
    assert.deepEqual(
      results.sort((a, b) => a.length - b.length),
      [[], [[1], [2, 2], null, [4, 4, 4, 4]]],
    );
    assert.deepEqual(failed, []);
  });

  test('with a known model is served when its host has downloaded the model', async (t) => {
    const model = writeKnownModel(join(bed.folder, 'model'), KNOWN['text-classification'] as KnownModel);
    const hub = await FakeHub.start({ 'tiny/mood': model });
    t.after(() => hub.close());
    const { out } = await bed.deploy(
      stage('mood', '', 'done', { ...REMOTE, source: 'task', task: 'text-classification', model: 'tiny/mood' }),
    );
    bed.host(t, '--code', 'local');
    await until('the badge says what the host lacks', () =>
      /^does not start: the host has no folder/.test(red.badges.get('mood')?.text ?? ''),
    );
    const variables = { MODELET_HUB: hub.address, MODELET_MODELS: join(bed.folder, 'models') };
    Object.assign(process.env, variables);
    t.after(() => Object.keys(variables).map((name) => delete process.env[name]));
    bed.host(t, '--install');
    await bed.ready('mood', 1);
    red.send('mood', { payload: 'good' });
    const [answer] = payloads(await arrived(out, 1)) as { label: string }[][];
    assert.equal(answer?.[0]?.label, 'POSITIVE');
  });
});

/** Remote stages in a row: a request passes them on one host, as one job. Also what else a host does for its runtime. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { arrived, numbers, payloads, sendAll, streamOut } from '../../fixtures/drawn.ts';
import { gateWithExamples } from '../../fixtures/examples.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { batcher, endpoint, stage } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_REDIS } from '../../fixtures/redis.ts';
import { REMOTE, useRemoteBed } from '../../fixtures/remote.ts';

const red = useNodeRed();

/** Adds the engine of the host that ran the item to a list. */
const note = (id: string): string => `return [...[input].flat(), ['${id}', process.ppid]];`;

type Visit = [stage: string, engine: number];
type Noted = [n: number, first: Visit, ...others: Visit[]];

describe('remote stages in a row', { skip: WITHOUT_REDIS }, () => {
  const bed = useRemoteBed(red);

  /** Jobs that a stage's queue has had. */
  async function jobsOf(stageId: string): Promise<number> {
    const keys = (await bed.redis.run('KEYS', `modelet:stage-${stageId}-*:completed`)) as string[];
    const counts = await Promise.all(keys.map((key) => bed.redis.run('ZCARD', key)));
    return counts.reduce<number>((sum, count) => sum + Number(count), 0);
  }

  test('run each request on one host, with one job, and all stages count', async (t) => {
    const { out, failed } = await bed.deploy(
      batcher('row-batch', 'row-a', { maxBatchSize: '4' }),
      stage('row-a', note('a'), 'row-b', REMOTE),
      stage('row-b', note('b'), 'row-c-batch', REMOTE),
      batcher('row-c-batch', 'row-c', { maxBatchSize: '8' }),
      stage(
        'row-c',
        `return input.map((one) => one[0] === 7 ? new Error('seven') : [...one, ['c', process.ppid]]);`,
        'done',
        {
          ...REMOTE,
          predict: 'batch',
        },
      ),
    );
    bed.host(t);
    bed.host(t);
    for (const id of ['row-a', 'row-b', 'row-c']) await bed.ready(id, 2);
    sendAll(red, 'row-batch', numbers(40));
    const results = payloads(await arrived(out, 39)) as Noted[];
    assert.deepEqual(
      results.map(([n]) => n).sort((a, b) => a - b),
      numbers(40).filter((n) => n !== 7),
    );
    for (const [, ...visits] of results) {
      assert.deepEqual(
        visits.map(([id]) => id),
        ['a', 'b', 'c'],
      );
      assert.equal(new Set(visits.map(([, engine]) => engine)).size, 1, 'one host ran all three');
    }
    assert.equal(new Set(results.map(([, [, engine]]) => engine)).size, 2, 'both hosts worked');
    const [error] = await arrived(failed, 1);
    assert.equal(error?.error?.stage, 'row-c');
    const input = error?.modelet?.input as Noted | undefined;
    assert.deepEqual([input?.[0], input?.length], [7, 3], 'the input of the failing stage');
    assert.ok((await jobsOf('row-a')) > 0);
    assert.deepEqual([await jobsOf('row-b'), await jobsOf('row-c')], [0, 0]);
    // The engine reports its counts a moment after the results.
    await until('each stage has counted 40 runs', async () => {
      const scrape = new Scrape(await (await fetch(`${red.url}/admin/modelets/metrics`)).text());
      return ['row-a', 'row-b', 'row-c'].every(
        (name) => scrape.value('modelet_run_seconds_count', { stage: name }) === 40,
      );
    });
  });

  test('send parts from the last, and take back a cancelled request', async (t) => {
    const notes = join(bed.folder, 'ended');
    const parts = `return (async function* () {
      try { for (let n = 0; ; n += 1) { yield { n, of: input }; await new Promise((done) => setTimeout(done, 5)); } }
      finally { require('node:fs').appendFileSync(${JSON.stringify(notes)}, 'closed '); }
    })();`;
    await bed.deploy(
      ...endpoint('/row-parts', 'parts-a'),
      stage('parts-a', 'return input.n * 2;', 'parts-b', REMOTE),
      stage('parts-b', parts, 'streamed', REMOTE),
      streamOut('streamed', { format: 'jsonl' }),
    );
    bed.host(t);
    for (const id of ['parts-a', 'parts-b']) await bed.ready(id, 1);
    writeFileSync(notes, '');
    const response = await red.post('/row-parts', { n: 21 });
    let text = '';
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      text += Buffer.from(chunk).toString();
      if (text.split('\n').length > 5) break;
    }
    const lines = text
      .split('\n')
      .slice(0, 5)
      .map((line) => (JSON.parse(line) as { part: unknown }).part);
    assert.deepEqual(
      lines,
      numbers(5).map((n) => ({ n, of: 42 })),
    );
    await until('the generator on the host is closed', () => readFileSync(notes, 'utf8') === 'closed ');
  });

  test('go stage by stage where a host serves only some of them', async (t) => {
    const { out } = await bed.deploy(
      stage('apart-a', note('a'), 'apart-b', REMOTE),
      stage('apart-b', note('b'), 'done', REMOTE),
    );
    bed.host(t, '--stage', 'apart-a');
    bed.host(t, '--stage', 'apart-b');
    for (const id of ['apart-a', 'apart-b']) await bed.ready(id, 1);
    sendAll(red, 'apart-a', numbers(5));
    const results = payloads(await arrived(out, 5)) as Noted[];
    for (const [, ...visits] of results) assert.equal(new Set(visits.map(([, engine]) => engine)).size, 2);
  });

  test('batch as drawn: a batch that was sent half full waits no second time, and new limits reach the host', async (t) => {
    const draw = (maxBatchSize: string): FlowNode[] => [
      batcher('half-batch', 'half', { maxBatchSize: '8', policy: 'oldest', maxWaitMs: '60000' }),
      stage('half', 'return input;', 'rest-batch', REMOTE),
      batcher('rest-batch', 'rest', { maxBatchSize, policy: 'oldest', maxWaitMs: '60000' }),
      stage('rest', 'return input.map((n) => ({ n, of: input.length }));', 'done', { ...REMOTE, predict: 'batch' }),
    ];
    const { out } = await bed.deploy(...draw('3'));
    bed.host(t);
    for (const id of ['half', 'rest']) await bed.ready(id, 1);
    sendAll(red, 'half-batch', numbers(3));
    await until('they wait', async () => {
      const { runtimes } = await red.snapshot();
      return runtimes[0]?.stages.some(({ id, queue }) => id === 'half' && queue === 3);
    });
    const flushed = await fetch(`${red.url}/admin/modelets/stages/half/flush`, { method: 'POST' });
    assert.ok(flushed.ok, `${flushed.status}`);
    assert.deepEqual(
      (payloads(await arrived(out, 3)) as { of: number }[]).map(({ of }) => of),
      [3, 3, 3],
    );
    const again = await bed.deploy(...draw('1'));
    await until('a single item leaves at once', async () => {
      sendAll(red, 'half-batch', numbers(8));
      await arrived(again.out, 8);
      return (payloads(again.out.splice(0)) as { of: number }[]).every(({ of }) => of === 1);
    });
  });

  test('run their examples on a host when health asks for them', async (t) => {
    const model = (id: string, examples: readonly string[]): FlowNode => ({
      ...stage(id, '', id === 'fit' ? 'sick' : 'done', REMOTE),
      ...{
        source: 'file',
        path: gateWithExamples(bed.folder, examples, id),
        init: JSON.stringify({ folder: bed.folder }),
      },
    });
    await bed.deploy(model('fit', ['one', 'two']), model('sick', ['one', 'throws']));
    bed.host(t);
    for (const id of ['fit', 'sick']) await bed.ready(id, 1);
    const response = await fetch(`${red.url}/admin/modelets/health/ready?deep=1`);
    const { checks } = (await response.json()) as {
      checks: { stage: string; ok: boolean; examples: number; error?: { message: string } }[];
    };
    assert.equal(response.status, 503);
    assert.deepEqual(checks.map(({ stage: name, ok, examples }) => [name, ok, examples]).sort(), [
      ['fit', true, 2],
      ['sick', false, 2],
    ]);
    assert.match(checks.find(({ ok }) => !ok)?.error?.message ?? '', /weights are broken/);
  });

  test('keep their workers when the password of the broker changes', async (t) => {
    const answer = 'return { of: input, worker: process.pid };';
    const { out } = await bed.deploy(stage('kept', answer, 'done', REMOTE));
    const host = bed.host(t);
    await bed.ready('kept', 1);
    sendAll(red, 'kept', [1]);
    const [first] = payloads(await arrived(out, 1)) as { worker: number }[];
    await bed.redis.run('ACL', 'SETUSER', 'another', 'on', '>word', '~*', '&*', '+@all');
    bed.credentials = { username: 'another', password: 'word' };
    t.after(() => {
      bed.credentials = {};
    });
    const renewed = await bed.deploy(stage('kept', answer, 'done', REMOTE));
    await until('the runtime comes with the new name', async () => {
      return String(await bed.redis.run('CLIENT', 'LIST')).includes('user=another');
    });
    sendAll(red, 'kept', [2]);
    const [second] = payloads(await arrived(renewed.out, 1)) as { worker: number }[];
    assert.equal(second?.worker, first?.worker);
    const started = host.log().filter(({ message }) => /^ready, pid/.test(String(message)));
    assert.equal(started.length, 1, 'no other worker was started');
  });
});

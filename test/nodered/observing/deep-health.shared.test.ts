/** Readiness asked for with `deep=1` runs the examples of the modelets, and says truthfully whether they work. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, describe, test } from 'node:test';
import { gateWithExamples } from '../../fixtures/examples.ts';
import { endpoint, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { engineUrl, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { callsIn, release } from '../../fixtures/service.ts';

interface Check {
  readonly runtime?: string;
  readonly stage: string;
  readonly ok: boolean;
  readonly answers?: boolean;
  readonly examples: number;
  readonly error?: { readonly code: string; readonly message?: string };
}

interface Answer {
  readonly status: number;
  readonly body: { readonly ready: boolean; readonly missing: readonly unknown[]; readonly checks?: readonly Check[] };
}

const INSIDE = '/admin/modelets/health/ready';
const OUTSIDE = '/health/ready';

const nodeRed = useNodeRed();
const folder = mkdtempSync(join(tmpdir(), 'modelet-deep-health-'));
let files = 0;
afterEach(() => writeFileSync(join(folder, 'calls'), ''));
after(() => rmSync(folder, { recursive: true, force: true }));

async function ask(path: string): Promise<Answer> {
  const response = await fetch(`${nodeRed.url}${path}`);
  return { status: response.status, body: (await response.json()) as Answer['body'] };
}

/** An endpoint /work through a stage `gate` with these examples and a stage `plain` with none; resolves when it is ready. */
async function deploy(examples: readonly string[], properties: object = {}): Promise<void> {
  files += 1;
  // A new stage each time: none serves with the code of the one before.
  const id = `gate-${files}`;
  const gate: FlowNode = node(id, 'modelet-stage', ['plain'], {
    name: 'gate',
    runtime: 'runtime',
    source: 'file',
    path: gateWithExamples(folder, examples, `model-${files}`),
    init: JSON.stringify({ folder }),
    input: 'payload.input',
    output: 'payload.input',
    ...properties,
  });
  await nodeRed.deployReady([
    TAB,
    runtime('runtime', { name: 'shown', publicPath: '/' }),
    runtime('private', { name: 'not shown' }),
    ...endpoint('/work', id),
    gate,
    stage('plain', 'return input;', 'collector /work', { input: 'payload.input' }),
    ...endpoint('/other', 'other'),
    stage('other', 'return input;', 'collector /other', { runtime: 'private' }),
  ]);
}

const passed = (name: string, examples: number): Check => ({ stage: name, ok: true, examples });

describe('health/ready?deep=1', () => {
  test('runs the examples and answers 200 if they work', async () => {
    await deploy(['one', 'two']);
    const inside = await ask(`${INSIDE}?deep=1`);
    assert.equal(inside.status, 200);
    assert.equal(inside.body.ready, true);
    assert.deepEqual(inside.body.checks, [
      { runtime: 'shown', ...passed('gate', 2) },
      { runtime: 'shown', ...passed('plain', 0) },
      { runtime: 'not shown', ...passed('other', 0) },
    ]);
    const outside = await ask(`${OUTSIDE}?deep=1`);
    assert.deepEqual([outside.status, outside.body.checks], [200, [passed('gate', 2), passed('plain', 0)]]);
    assert.equal((await ask(INSIDE)).body.checks, undefined, 'nothing runs unless asked for');
  });

  test('answers 503 if one fails: with its message on the admin side, and only its code in public', async () => {
    await deploy(['throws']);
    assert.equal((await ask(INSIDE)).status, 200, 'the workers are there');
    const inside = await ask(`${INSIDE}?deep=1`);
    assert.deepEqual([inside.status, inside.body.ready, inside.body.missing], [503, false, []]);
    const error = { code: 'modelet_failed', message: 'weights are broken' };
    assert.deepEqual(inside.body.checks?.[0], { runtime: 'shown', stage: 'gate', ok: false, examples: 1, error });
    const outside = await ask(`${OUTSIDE}?deep=1`);
    assert.equal(outside.status, 503);
    assert.deepEqual(outside.body.checks, [
      { stage: 'gate', ok: false, examples: 1, error: { code: 'modelet_failed' } },
      passed('plain', 0),
    ]);
    assert.equal((await nodeRed.post('/work', { input: 'x' })).status, 200);
  });

  test('answers although a check hangs, while requests are served', async () => {
    await deploy(['held'], { workers: '2' });
    const asked = [ask(`${INSIDE}?deep=1`), ask(`${OUTSIDE}?deep=1`)];
    await until('it hangs', () => callsIn(folder).includes('held'));
    for (let n = 0; n < 10; n += 1) assert.equal((await nodeRed.post('/work', { input: `x${n}` })).status, 200);
    for (const { status, body } of await Promise.all(asked)) {
      assert.equal(status, 503);
      assert.equal(body.checks?.find((one) => one.stage === 'gate')?.error?.code, 'deadline_exceeded');
    }
    assert.equal(callsIn(folder).filter((name) => name === 'held').length, 1, 'both asked for the same check');
    release(folder, 'held');
    await until('it works', async () => (await ask(`${INSIDE}?deep=1`)).status === 200);
  });

  test('answers at once if the engine is killed, and is healthy with the next one', async () => {
    await deploy(['held until the engine dies']);
    const asked = ask(`${INSIDE}?deep=1`);
    await until('it runs', () => callsIn(folder).length > 0);
    kill9((await nodeRed.snapshot()).runtimes.find(({ id }) => id === 'runtime')?.engine.pid);
    const { status, body } = await asked;
    assert.equal(status, 503);
    assert.deepEqual(
      body.checks?.map((one) => [one.stage, one.ok, one.error?.code]),
      [
        ['gate', false, 'engine_lost'],
        ['plain', false, 'engine_lost'],
        ['other', true, undefined],
      ],
    );
    release(folder, 'held until the engine dies');
    await until('it works', async () => (await ask(`${INSIDE}?deep=1`)).status === 200);
  });

  test('runs the examples of a version, which count only while the version answers requests', async () => {
    const broken = gateWithExamples(folder, ['throws'], 'broken');
    const version = node('version', 'modelet-stage', [], {
      ...{ name: 'version', runtime: 'runtime', source: 'file', path: broken, init: JSON.stringify({ folder }) },
    });
    for (const [share, mode, counts] of [
      ['0', 'answer', false],
      ['100', 'shadow', false],
      ['50', 'answer', true],
    ] as const) {
      const shares = { versions: ['version'], shares: [{ share, mode }] };
      await nodeRed.deployReady([
        TAB,
        runtime('runtime', { name: 'shown', publicPath: '/', listen: '127.0.0.1:0' }),
        ...endpoint('/work', 'base'),
        stage('base', 'return input;', 'collector /work', shares),
        version,
      ]);
      const at = await engineUrl(nodeRed);
      const places = [`${nodeRed.url}${INSIDE}`, `${nodeRed.url}${OUTSIDE}`, `${at}${OUTSIDE}`];
      for (const place of places) {
        const response = await fetch(`${place}?deep=1`);
        const { ready, checks } = (await response.json()) as Answer['body'];
        assert.deepEqual([response.status, ready], counts ? [503, false] : [200, true]);
        const { ok, answers, error } = checks?.find((check) => check.stage === 'version') ?? {};
        assert.deepEqual([ok, answers, error?.code], [false, counts ? undefined : false, 'modelet_failed']);
      }
    }
  });

  test('reports a stage without a worker as missing', async () => {
    await deploy(['one']);
    const worker = (await nodeRed.snapshot()).runtimes
      .flatMap(({ stages }) => stages)
      .find(({ name }) => name === 'gate');
    rmSync(join(folder, `model-${files}.mjs`));
    kill9(worker?.workers[0]?.pid);
    const { body } = await until('it is missed', async () => {
      const answer = await ask(`${INSIDE}?deep=1`);
      return answer.body.checks?.[0]?.error?.code === 'stage_unavailable' && answer;
    });
    assert.equal(body.ready, false);
  });
});

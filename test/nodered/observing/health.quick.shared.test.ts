/**
 * Live and ready say how it is, also while something is dead, starting or failing; and tell the public no more than it needs.
 * Shows: promise "You see why".
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { endpoint, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

interface Readiness {
  readonly ready: boolean;
  readonly flows: string;
  readonly missing: readonly { runtime?: string; stage: string; reason: string; error?: string | null }[];
}

const folder = mkdtempSync(join(tmpdir(), 'modelet-health-'));

/** How a stage's workers start from now on. */
function starts(stageId: string, how: 'fine' | 'throws' | 'never'): void {
  writeFileSync(join(folder, stageId), how);
}

/** Its workers end at the input `die`. */
function fragile(id: string, to: string, properties: object = {}): FlowNode {
  return node(id, 'modelet-stage', [to], {
    name: id,
    runtime: 'runtime',
    source: 'file',
    path: join(repositoryRoot, 'test', 'fixtures', 'modelets', 'start.js'),
    init: JSON.stringify({ how: join(folder, id) }),
    input: 'payload.input',
    ...properties,
  });
}

const nodeRed = useNodeRed({
  prepare: async (nodeRed) => {
    for (const id of ['one', 'two', 'other']) starts(id, 'fine');
    await nodeRed.deploy([
      TAB,
      runtime('runtime', { name: 'shown', publicPath: '/' }),
      runtime('private', { name: 'not shown' }),
      ...endpoint('/work', 'one'),
      fragile('one', 'two', { output: 'payload.input' }),
      fragile('two', 'collector /work'),
      ...endpoint('/other', 'other'),
      fragile('other', 'collector /other', { runtime: 'private' }),
      ...endpoint('/doze', 'dozes'),
      stage('dozes', 'return input;', 'collector /doze', { workers: '0-1', idleMs: '1' }),
      stage('on no route', 'return input;', [], { d: true }),
    ]);
  },
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
});

async function ask(path: string): Promise<{ status: number; body: Readiness }> {
  const response = await fetch(`${nodeRed.url}${path}`);
  return { status: response.status, body: (await response.json()) as Readiness };
}

/** Resolves when the admin side misses exactly this. */
function missing(...expected: readonly string[]): Promise<Readiness> {
  return until(`missing is ${expected.join() || 'nothing'}`, async () => {
    const { status, body } = await ask('/admin/modelets/health/ready');
    assert.equal(status, body.missing.length === 0 ? 200 : 503);
    assert.equal(body.ready, status === 200);
    const found = body.missing.map(({ stage: name, reason }) => `${name} ${reason}`);
    return JSON.stringify(found) === JSON.stringify(expected) && body;
  });
}

const workerOf = async (id: string): Promise<number | null | undefined> =>
  (await nodeRed.snapshot()).runtimes.flatMap(({ stages }) => stages).find(({ name }) => name === id)?.workers[0]?.pid;

describe('health', () => {
  test('is ready when each stage of each route has a ready worker', async () => {
    assert.deepEqual(await missing(), { ready: true, flows: 'running', missing: [] });
    assert.deepEqual(await ask('/health/ready'), { status: 200, body: { ready: true, flows: 'running', missing: [] } });
  });

  test('names the stage whose worker died and does not start, and is ready when it has', async () => {
    starts('two', 'throws');
    kill9(await workerOf('two'));
    const inside = await missing('two failing');
    assert.equal(inside.missing[0]?.runtime, 'shown');
    await until('the error of the failing start is told', async () => {
      const { body } = await ask('/admin/modelets/health/ready');
      return /weights are missing/.test(body.missing[0]?.error ?? '');
    });
    const outside = await ask('/health/ready');
    assert.equal(outside.status, 503);
    assert.deepEqual(outside.body.missing, [{ stage: 'two', reason: 'failing' }]);
    starts('two', 'fine');
    await missing();
    assert.equal((await nodeRed.post('/work', { input: 'x' })).status, 200);
  });

  test('ignores runtimes that the request does not name', async () => {
    starts('other', 'throws');
    kill9(await workerOf('other'));
    await missing('other failing');
    assert.equal((await ask('/health/ready')).status, 200);
    starts('other', 'fine');
    await missing();
  });

  test('names every stage while the engine is dead, and those that have not started after it', async () => {
    starts('one', 'never');
    const { engine } = (await nodeRed.snapshot()).runtimes.find(({ id }) => id === 'runtime') ?? {};
    kill9(engine?.pid);
    await missing('one starting');
    assert.deepEqual((await ask('/health/ready')).body.missing, [{ stage: 'one', reason: 'starting' }]);
    starts('one', 'fine');
    kill9(await workerOf('one'));
    await missing();
  });

  test('distinguishes an open circuit from a worker that is starting', async () => {
    starts('one', 'fine');
    const die = async (): Promise<number> => (await nodeRed.post('/work', { input: 'die' })).status;
    for (let deaths = 0; deaths < 5; deaths += 1) assert.equal(await die(), 503);
    starts('one', 'throws');
    await missing('one circuit_open');
    starts('one', 'fine');
    await until('it serves again', async () => (await nodeRed.post('/work', { input: 'x' })).status === 200);
    await missing();
  });

  test('is ready while a stage sleeps, which its badge says, and a request wakes it', async () => {
    for (const n of [1, 2]) {
      await until('the badge says that it sleeps', () => nodeRed.badges.get('dozes')?.text === 'asleep');
      assert.equal(nodeRed.badges.get('dozes')?.fill, 'green', JSON.stringify(nodeRed.badges.get('dozes')));
      await missing();
      assert.deepEqual(await (await nodeRed.post('/doze', { n })).json(), { n });
    }
  });

  test('is live all the time, on both sides', async () => {
    for (const path of ['/admin/modelets/health/live', '/health/live']) {
      const response = await fetch(`${nodeRed.url}${path}`);
      assert.deepEqual([response.status, await response.json()], [200, { live: true }]);
    }
    assert.equal((await fetch(`${nodeRed.url}/health`)).status, 404);
  });
});

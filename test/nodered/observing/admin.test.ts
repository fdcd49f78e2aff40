/** The admin routes of the pipeline are for those who may read, and say what a dialog asks. */
import assert from 'node:assert/strict';
import fs, { copyFileSync, symlinkSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join, relative } from 'node:path';
import { describe, test } from 'node:test';
import type { View } from '../../../src/observe/views/view.ts';
import { instance, on, subflow } from '../../fixtures/drawn.ts';
import { batcher, endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { type FlowNode, type Snapshot, tokensOf, useNodeRed } from '../../fixtures/node-red.ts';
import { digitsModel } from '../../fixtures/onnx.ts';
import { until } from '../../fixtures/polling.ts';

const ROUTES = [
  '/admin/modelets/snapshot',
  '/admin/modelets/view',
  '/admin/modelets/metrics',
  '/admin/modelets/openapi.json',
  '/admin/modelets/openapi',
  '/admin/modelets/health/live',
  '/admin/modelets/health/ready',
  '/admin/modelets/cpus',
  '/admin/modelets/pictures?seen={}',
  '/admin/modelets/resolve?path=package.json',
  '/admin/modelets/nodes/one',
];
/** By token: an account may do what its name says. */
const PERMISSIONS: Readonly<Record<string, string>> = {
  reader: 'read',
  injector: 'inject.write',
  operator: 'modelets.write',
  developer: 'flows.write',
  owner: '*',
};

const DIGITS = {
  inputs: [{ name: 'image', type: 'float32', shape: ['batch', 8, 8] }],
  outputs: [{ name: 'scores', type: 'float32', shape: ['batch', 10] }],
  single: false,
};

const nodeRed = useNodeRed({
  settings: { adminAuth: tokensOf(PERMISSIONS) },
  prepare: async () => {
    await deploy(FLOWS);
    await until('it is ready', async () => (await get('/admin/modelets/health/ready', 'reader')).status === 200);
  },
});

function get(path: string, token?: string): Promise<Response> {
  return fetch(`${nodeRed.url}${path}`, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
}

function post(path: string, token?: string): Promise<Response> {
  const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
  return fetch(`${nodeRed.url}${path}`, { method: 'POST', headers });
}

function act(id: string, action: string, token?: string): Promise<Response> {
  return post(`/admin/modelets/stages/${encodeURIComponent(id)}/${action}`, token);
}

function restart(id: string, token?: string): Promise<Response> {
  return act(id, 'restart', token);
}

async function pidsOfStage(name: string): Promise<(number | null)[]> {
  const { runtimes } = await read<Snapshot>('/admin/modelets/snapshot');
  const stages = runtimes.flatMap(({ stages }) => stages);
  return stages.find((stage) => stage.name === name)?.workers.map(({ pid }) => pid) ?? [];
}

async function read<T>(path: string): Promise<T> {
  const response = await get(path, 'reader');
  assert.equal(response.status, 200);
  return (await response.json()) as T;
}

async function onnx(path: string): Promise<{ readonly status: number; readonly error?: string }> {
  const response = await get(`/admin/modelets/onnx?path=${encodeURIComponent(path)}`, 'operator');
  return { status: response.status, ...((await response.json()) as object) };
}

const FLOWS: readonly FlowNode[] = [
  TAB,
  runtime(),
  ...endpoint('/open', 'batch'),
  batcher('batch', 'one'),
  stage('one', 'return input;', 'two'),
  stage('two', 'return input;', 'collector /open'),
  stage('drawn', 'return input;', [], { versions: ['canary'], shares: [{ share: '5' }] }),
  stage('canary', 'return input;', []),
  subflow('inside', 'within', 'within'),
  ...on({ z: 'inside' }, stage('within', 'return input;', [])),
  instance('instance', 'inside', []),
];

async function deploy(flows: readonly FlowNode[]): Promise<void> {
  const started = new Promise<void>((resolve) => nodeRed.red.events.once('flows:started', resolve));
  const headers = {
    'Content-Type': 'application/json',
    'Node-RED-API-Version': 'v2',
    Authorization: 'Bearer owner',
  };
  const response = await nodeRed.post('/admin/flows', { flows }, { headers });
  assert.equal(response.status, 200);
  await started;
}

test('the dashboard has the labels of the dialogs in its language, with which faults of settings begin', async (t) => {
  const said = await (await get('/admin/modelets/dashboard/said/zh-CN.json')).json();
  const { 'HTTP timeout': label, ...sentences } = said as Record<string, string>;
  assert.equal(label, 'HTTP 时限');
  assert.ok(Object.keys(sentences).length > 300);
  const reads = t.mock.method(fs, 'readFileSync');
  syncBuiltinESMExports();
  for (const file of ['zh-CN.json', 'en-US.json', 'zz-ZZ.json', '..%2F..%2Fpackage.json'])
    assert.equal((await get(`/admin/modelets/dashboard/said/${file}`)).status, file === 'zh-CN.json' ? 200 : 404, file);
  assert.ok(!reads.mock.calls.some(({ arguments: [file] }) => String(file).endsWith('zh-CN.json')), 'read once');
});

describe('admin routes: permissions', () => {
  for (const route of ROUTES) {
    test(`${route} needs the permission to read`, async () => {
      assert.equal((await get(route)).status, 401);
      assert.equal((await get(route, 'made-up')).status, 401);
      assert.equal((await get(route, 'injector')).status, 401);
      assert.equal((await get(route, 'reader')).status, 200);
      assert.equal((await get(route, 'owner')).status, 200);
    });
  }

  test('a restart of a stage needs the permission to write', async () => {
    for (const token of [undefined, 'made-up', 'injector', 'reader']) {
      assert.equal((await restart('one', token)).status, 401, token);
    }
    assert.equal((await restart('one', 'operator')).status, 204);
    assert.equal((await restart('one', 'owner')).status, 204);
  });

  test('the packages of a known model are those of its task', async () => {
    const packagesOf = async (task: string): Promise<string> => {
      const answer = await get(`/admin/modelets/packages?source=task&task=${task}`, 'owner');
      return ((await answer.json()) as { found: string }).found.replaceAll(/ \d[\d.]*/g, '');
    };
    assert.equal(await packagesOf('text-classification'), '@huggingface/transformers');
    assert.equal(await packagesOf('audio-classification'), '@huggingface/transformers, audio-decode');
  });

  for (const [what, path] of [
    ['reading a model', '/admin/modelets/onnx?path=package.json'],
    ['looking for files', '/admin/modelets/files?source=file'],
    ['looking for packages', '/admin/modelets/packages?source=onnx'],
    ['following an installation', '/admin/modelets/packages/installation'],
  ] as const) {
    test(`${what} needs the permission to write`, async () => {
      for (const token of [undefined, 'made-up', 'injector', 'reader']) {
        assert.equal((await get(path, token)).status, 401, token);
      }
      assert.equal((await get(path, 'operator')).status, 200);
      assert.equal((await get(path, 'owner')).status, 200);
    });
  }

  test('installing packages needs the permission to write', async () => {
    assert.equal((await post('/admin/modelets/packages', 'reader')).status, 401);
    // There is nothing to install for no source.
    assert.equal((await post('/admin/modelets/packages', 'operator')).status, 400);
  });

  test('creating a file, which is code, needs the permission to deploy', async () => {
    for (const token of [undefined, 'made-up', 'injector', 'reader', 'operator']) {
      assert.equal((await post('/admin/modelets/files', token)).status, 401, token);
    }
    // Without a path, there is nothing to create.
    assert.equal((await post('/admin/modelets/files', 'developer')).status, 400);
    assert.equal((await post('/admin/modelets/files', 'owner')).status, 400);
  });

  test('testing a stage, which runs code, needs the permission to deploy', async () => {
    const test = '/admin/modelets/stages/test';
    const measure = '/admin/modelets/stages/measure';
    for (const token of [undefined, 'made-up', 'injector', 'reader', 'operator']) {
      assert.equal((await post(test, token)).status, 401, token);
      assert.equal((await post(measure, token)).status, 401, token);
    }
    assert.equal((await post(measure, 'developer')).status, 400);
    assert.equal((await get('/admin/modelets/stages/one/input', 'operator')).status, 401);
    assert.equal((await get('/admin/modelets/stages/one/input', 'developer')).status, 404);
    // Users with the permission learn that the stage is missing.
    assert.equal((await post(test, 'owner')).status, 400);
    assert.equal((await post(test, 'developer')).status, 400);
  });

  test('judging flows before a deploy needs the permission to deploy', async () => {
    const judge = async (token: string, body: object = { flows: [TAB, runtime(), batcher('alone', 'gone')] }) => {
      const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
      return nodeRed.post('/admin/modelets/wiring', body, { headers });
    };
    for (const token of ['made-up', 'injector', 'reader', 'operator'])
      assert.equal((await judge(token)).status, 401, token);
    const { faults } = (await (await judge('owner')).json()) as { faults: Record<string, string> };
    assert.match(faults['alone'] ?? '', /^a batcher must be wired to exactly one modelet stage/);
    for (const body of [{}, { flows: [null] }, { flows: [{ id: 1 }] }, { flows: 'all' }]) {
      assert.equal((await judge('owner', body)).status, 400, JSON.stringify(body));
    }
  });

  test('draining the queue of a stage needs the permission to write', async () => {
    assert.equal((await act('one', 'flush', 'reader')).status, 401);
    assert.equal((await act('one', 'flush', 'operator')).status, 204);
    assert.equal((await act('unknown', 'flush', 'operator')).status, 404);
  });

  test('changing the share of a version needs the permission to write', async () => {
    for (const action of ['promote', 'rollback', 'restore'] as const) {
      for (const token of [undefined, 'made-up', 'injector', 'reader']) {
        assert.equal((await act('canary', action, token)).status, 401, token);
      }
      assert.equal((await act('canary', action, 'operator')).status, 204);
      assert.equal((await act('drawn', action, 'operator')).status, 404);
    }
  });

  test('an endpoint of the user needs no permission', async () => {
    assert.equal((await nodeRed.post('/open', {})).status, 200);
  });
});

describe('admin routes: answers', () => {
  test('snapshot has the slowest requests, and how busy Node-RED itself is', async () => {
    assert.equal((await nodeRed.post('/open', {})).status, 200);
    const { slowest, loop } = await until('the event loop has been measured', async () => {
      const { runtimes, loop: measured } = await read<Snapshot>('/admin/modelets/snapshot');
      return measured !== null && { slowest: runtimes.flatMap((one) => one.slowest), loop: measured };
    });
    const [request] = slowest;
    assert.ok(request?.code === 'ok' && request.requestId.length > 0 && request.totalMs > 0);
    assert.deepEqual(
      request.stages.map(({ name }) => name),
      ['one', 'two'],
    );
    assert.ok(loop.intervalMs > 0 && loop.utilization > 0 && loop.p99Ms <= loop.maxMs);
  });

  test('snapshot has the runtime, its stages and the routes', async () => {
    const { runtimes, routes, invalid } = await read<Snapshot>('/admin/modelets/snapshot');
    assert.deepEqual(
      runtimes.map(({ id, stages }) => [id, stages.map(({ name }) => name)]),
      [['runtime', ['one', 'two', 'drawn', 'canary', 'instance-within']]],
    );
    assert.deepEqual(routes.find(({ entry }) => entry === 'batch')?.stages, ['one', 'two']);
    assert.deepEqual(invalid, {});
  });

  test('view has the runtime, its stages and its chains', async () => {
    const { runtimes } = await read<View>('/admin/modelets/view');
    assert.deepEqual(
      runtimes.map(({ id, stages }) => [id, stages.map(({ name }) => name)]),
      [['runtime', ['one', 'two', 'drawn', 'canary', 'instance-within']]],
    );
    assert.deepEqual(runtimes[0]?.chains[0]?.stages, ['one', 'two']);
  });

  test('cpus has the cores that this machine grants', async () => {
    type Answer = { allowed: number[]; engine: unknown; workers: unknown; memoryMb: number | null };
    const { allowed, engine, workers, memoryMb } = await read<Answer>('/admin/modelets/cpus');
    assert.ok(allowed.length > 0);
    assert.ok(allowed.every(Number.isInteger));
    assert.equal(engine, null);
    assert.deepEqual(workers, [], 'no worker of these flows is kept to a core');
    assert.ok(memoryMb === null || memoryMb > 0, 'the limit of a container, if the tests run in one');
  });

  test('onnx returns the inputs and outputs of a model, or the reason why not', async () => {
    assert.deepEqual(await onnx('@modelet/node-red-pipeline/assets/models/digits.onnx'), { status: 200, ...DIGITS });
    assert.match((await onnx('no/such.onnx')).error ?? '', /^no file /);
    assert.match((await onnx('package.json')).error ?? '', /package\.json/);
  });

  test('onnx reads only files of flows, in any spelling of their path, and refuses others', async (t) => {
    const elsewhere = folderFor(t);
    const { userDir } = nodeRed;
    copyFileSync(digitsModel, join(elsewhere, 'digits.onnx'));
    copyFileSync(digitsModel, join(userDir, 'own.onnx'));
    symlinkSync(elsewhere, join(userDir, 'link'));
    symlinkSync(join(userDir, 'own.onnx'), join(elsewhere, 'link.onnx'));
    const outside = [
      join(elsewhere, 'digits.onnx'),
      relative(userDir, join(elsewhere, 'digits.onnx')),
      `node_modules/../${relative(userDir, join(elsewhere, 'digits.onnx'))}`,
      'link/digits.onnx',
      join(userDir, 'link', 'digits.onnx'),
      '/etc/hostname',
    ];
    for (const path of outside) {
      const { status, error } = await onnx(path);
      assert.equal(status, 403, path);
      assert.match(error ?? '', / is not looked into before it is deployed: it lies outside fileWorkingDirectory, /);
    }
    for (const path of ['own.onnx', './own.onnx', join(userDir, 'own.onnx'), join(elsewhere, 'link.onnx')]) {
      assert.deepEqual(await onnx(path), { status: 200, ...DIGITS }, path);
    }
  });

  test('onnx reads the model of a deployed stage, wherever it is', async (t) => {
    const model = join(folderFor(t), 'digits.onnx');
    copyFileSync(digitsModel, model);
    assert.equal((await onnx(model)).status, 403);
    const digits = { ...stage('digits', '', []), source: 'onnx', path: model };
    await deploy([...FLOWS, digits]);
    assert.deepEqual(await onnx(model), { status: 200, ...DIGITS });
    await deploy(FLOWS);
    assert.equal((await onnx(model)).status, 403);
  });

  test('resolve says where a relative path leads, and why it leads nowhere', async () => {
    type Answer = { path: string; exists: boolean; error?: string };
    const found = await read<Answer>('/admin/modelets/resolve?path=package.json');
    assert.deepEqual(found, { path: `${nodeRed.userDir}/package.json`, exists: true });
    const missing = await read<Answer>('/admin/modelets/resolve?path=no/such.js');
    assert.equal(missing.exists, false);
    assert.match(missing.error ?? '', /no file .*no\/such\.js/);
  });

  test('resolve says where relative paths start, and whether a missing file can be created', async () => {
    type Answer = { base: string; isCreatable: boolean };
    const ask = (path: string, source: string) =>
      read<Answer>(`/admin/modelets/resolve?path=${encodeURIComponent(path)}&source=${source}`);
    for (const [path, source, isCreatable] of [
      ['', 'file', false],
      ['no/such.js', 'file', true],
      ['no/such.js', 'python', false],
      ['../no/such.js', 'file', false],
    ] as const) {
      const answer = await ask(path, source);
      assert.deepEqual([answer.base, answer.isCreatable], [nodeRed.userDir, isCreatable], path);
    }
  });

  test('files lists a folder and creates a file, and answers a refusal with its reason', async () => {
    const headers = { Authorization: 'Bearer owner', 'Content-Type': 'application/json' };
    const create = (path: string) =>
      nodeRed.post('/admin/modelets/files', { path, source: 'python', predict: 'item' }, { headers });
    const list = (folder: string) => get(`/admin/modelets/files?source=python&folder=${folder}`, 'operator');
    assert.equal((await list('..')).status, 403);
    const created = await create('made/model.py');
    assert.deepEqual(
      [created.status, await created.json()],
      [201, { path: join(nodeRed.userDir, 'made', 'model.py') }],
    );
    const again = await create('made/model.py');
    assert.deepEqual([again.status, ((await again.json()) as { code: string }).code], [409, 'exists']);
    assert.equal((await create('../model.py')).status, 403);
    const { entries } = (await (await list('made')).json()) as { entries: readonly object[] };
    assert.deepEqual(entries, [{ name: 'model.py', kind: 'file', path: 'made/model.py' }]);
  });

  test('nodes names the handler of the errors of a stage and the end of its route', async () => {
    const answer = await read<{ handler: object; route: { text: string } }>('/admin/modelets/nodes/one');
    assert.deepEqual(answer.handler, { kind: 'collector', id: 'collector /open' });
    assert.match(answer.route.text, /^one \u2192 two; ends there because /);
    assert.equal((await get('/admin/modelets/nodes/unknown', 'reader')).status, 404);
  });
});

describe('admin routes: restart', () => {
  async function assertRestarts(id: string, name: string): Promise<void> {
    const pids = (): Promise<(number | null)[]> => pidsOfStage(name);
    const old = await until(`${name} has its worker`, async () => {
      const found = await pids();
      return found.length > 0 && found.every((pid) => pid !== null) && found;
    });
    assert.equal((await restart(id, 'operator')).status, 204);
    await until(`the worker of ${name} is a new one`, async () => {
      const found = await pids();
      return found.length === old.length && found.every((pid) => pid !== null && !old.includes(pid));
    });
  }

  test('gives a stage new workers', async () => {
    await assertRestarts('two', 'two');
    assert.equal((await nodeRed.post('/open', {})).status, 200);
  });

  test('reaches a stage in a subflow by the id that it has in the instance', async () => {
    const { runtimes } = await read<Snapshot>('/admin/modelets/snapshot');
    const within = runtimes.flatMap(({ stages }) => stages).find(({ id }) => id.endsWith('within'));
    assert.ok(within);
    assert.equal((await restart('within', 'operator')).status, 404);
    await assertRestarts(within.id, within.name);
  });

  test('answers 404 for a node that is not a stage', async () => {
    for (const id of ['unknown', 'batch', 'collector /open', 'runtime', '../nodes/one']) {
      assert.equal((await restart(id, 'operator')).status, 404, id);
    }
  });
});

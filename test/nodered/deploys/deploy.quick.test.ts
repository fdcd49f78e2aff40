/**
 * A deploy does not cost what did not change, and no request is lost in one.
 * Shows: promise "Deploys are warm".
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CLOSE_MS } from '../../../src/runtime/service/service.ts';
import { isAlive } from '../../fixtures/alive.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { batcher, collector, endpoint, func, httpIn, httpOut, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import {
  type DeployType,
  engineUrl,
  type FlowNode,
  pidsOf,
  type Snapshot,
  useNodeRed,
} from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const DEPLOYS: readonly DeployType[] = ['full', 'flows', 'nodes'];

const nodeRed = useNodeRed();
const gate = useGate();

/** Two stages, the first of which waits at the gate, behind an endpoint. */
function pipeline(): FlowNode[] {
  return [
    TAB,
    runtime(),
    ...endpoint('/run', 'batch'),
    batcher('batch', 'first', { maxBatchSize: '8' }),
    stage('first', gate.code('[...input.path, "first"]'), 'second', { workers: '2' }),
    stage('second', 'return [...input, "second"];', 'collector /run'),
  ];
}

/** The same flows with some properties of some nodes changed. */
function changed(flows: readonly FlowNode[], changes: Readonly<Record<string, object>>): FlowNode[] {
  return flows.map((node) => ({ ...node, ...changes[node.id] }));
}

/** Starts the flows with new processes: a stage that changed would be served by its old workers at first. */
async function startAnew(flows: readonly FlowNode[]): Promise<Snapshot> {
  await nodeRed.deploy([TAB]);
  return nodeRed.deployReady(flows);
}

function workers({ runtimes }: Snapshot, name: string): (number | null)[] {
  const stages = runtimes.flatMap((found) => found.stages);
  return stages.find((found) => found.name === name)?.workers.map(({ pid }) => pid) ?? [];
}

function run(): Promise<unknown> {
  return runAt(nodeRed.url);
}

function post(url: string): Promise<Response> {
  const body = JSON.stringify({ path: [] });
  return fetch(`${url}/run`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
}

async function runAt(url: string): Promise<unknown> {
  const response = await post(url);
  assert.equal(response.status, 200, await response.clone().text());
  return response.json();
}

/** Resolves when a stage's workers are others than before, and ready. */
function whenReplaced(name: string, old: readonly (number | null)[]): Promise<Snapshot> {
  return until(`stage ${name} has new workers`, async () => {
    const snapshot = await nodeRed.whenReady();
    return workers(snapshot, name).every((pid) => !old.includes(pid)) && snapshot;
  });
}

/** The stages whose code does not serve yet. */
async function renewing(): Promise<string[]> {
  const stages = (await nodeRed.snapshot()).runtimes.flatMap((runtime) => runtime.stages);
  return stages.flatMap((stage) => (stage.renewing ? [stage.id] : []));
}

describe('deploy: nothing changed', () => {
  for (const type of [...DEPLOYS, 'reload'] as const) {
    test(`a ${type} deploy keeps all processes`, async () => {
      const before = pidsOf(await startAnew(pipeline()));
      assert.equal(before.length, 4);
      await nodeRed.deploy(pipeline(), type);
      assert.deepEqual(pidsOf(await nodeRed.whenReady()), before);
      await gate.open();
      assert.deepEqual(await run(), ['first', 'second']);
    });
  }

  for (const type of DEPLOYS) {
    test(`requests in flight through a ${type} deploy get their results`, async () => {
      await startAnew(pipeline());
      const answers = Array.from({ length: 12 }, () => run());
      await until('some are at work', async () => (await gate.entered()).length >= 2);
      await nodeRed.deploy(pipeline(), type);
      await gate.open();
      assert.deepEqual(await Promise.all(answers), new Array(12).fill(['first', 'second']));
      const [found] = (await nodeRed.snapshot()).runtimes;
      assert.equal(found?.backlog, 0);
    });
  }

  test('two deploys at once have the effect of one', async () => {
    const before = pidsOf(await startAnew(pipeline()));
    const answer = run();
    await until('it is at work', async () => (await gate.entered()).length === 1);
    await Promise.all([nodeRed.sendFlows(pipeline()), nodeRed.sendFlows(pipeline())]);
    await gate.open();
    assert.deepEqual(await answer, ['first', 'second']);
    assert.deepEqual(pidsOf(await nodeRed.whenReady()), before);
  });
});

describe('deploy: something changed', () => {
  for (const type of DEPLOYS) {
    test(`new code of one stage takes over after a ${type} deploy, the other keeps its workers`, async () => {
      await gate.open();
      const before = await startAnew(pipeline());
      const flows = changed(pipeline(), { second: { code: 'return [...input, "new"];' } });
      await nodeRed.deploy(flows, type);
      const afterwards = await whenReplaced('second', workers(before, 'second'));
      assert.deepEqual(await run(), ['first', 'new']);
      assert.deepEqual(workers(afterwards, 'first'), workers(before, 'first'));
      assert.equal(afterwards.runtimes[0]?.engine.pid, before.runtimes[0]?.engine.pid);
      await until('the old worker is gone', () => !workers(before, 'second').some((pid) => isAlive(pid as number)));
    });
  }

  test('requests that wait before a full stage go on to the nodes that a deploy has put behind it', async () => {
    const batch = { maxBatchSize: '1' };
    const first = { workers: '1', capacity: '1', overflow: 'wait' };
    // A function node in front, because a compiled endpoint would answer them as they began.
    const flow = [...changed(pipeline(), { 'in /run': { wires: [['pass']] } }), func('pass', 'return msg;', 'batch')];
    const longer = changed(flow, { batch, first });
    await startAnew(changed(longer, { first: { wires: [['collector /run'], []] } }));
    const answers = Array.from({ length: 6 }, () => run());
    await until('all are there', async () => (await nodeRed.snapshot()).runtimes[0]?.backlog === 6);
    await nodeRed.deploy(longer);
    await gate.open();
    assert.deepEqual(await Promise.all(answers), new Array(6).fill(['first', 'second']));
  });

  test('a request that runs old code finishes with it; the next has the new', async () => {
    const before = await startAnew(pipeline());
    const old = run();
    await until('it is at work', async () => (await gate.entered()).length === 1);
    await nodeRed.deploy(changed(pipeline(), { first: { code: 'return [...input.path, "new"];' } }), 'nodes');
    await whenReplaced('first', workers(before, 'first'));
    assert.deepEqual(await run(), ['new', 'second']);
    await gate.open();
    assert.deepEqual(await old, ['first', 'second']);
    await until('the old workers are gone', () => !workers(before, 'first').some((pid) => isAlive(pid as number)));
  });

  test('the old code serves on if the new code does not start, and the badge says so', async () => {
    await gate.open();
    await startAnew(pipeline());
    const broken = { setup: 'throw new Error("cannot start");' };
    await nodeRed.deploy(changed(pipeline(), { second: broken }), 'nodes');
    assert.deepEqual(await run(), ['first', 'second']);
    const badge = () => nodeRed.badges.get('second');
    await until('the badge says so', () => /^new code fails: cannot start$/.test(badge()?.text ?? ''));
    assert.equal(badge()?.fill, 'yellow');
    assert.deepEqual(await renewing(), ['second']);
    assert.deepEqual(await run(), ['first', 'second']);
    await nodeRed.deploy(pipeline(), 'nodes');
    assert.deepEqual(await run(), ['first', 'second']);
    await until('the badge is green again', () => badge()?.fill === 'green');
    assert.deepEqual(await renewing(), []);
  });

  test('a name, a batch size and a wire change without a new process', async () => {
    await gate.open();
    const before = pidsOf(await startAnew(pipeline()));
    const flows = changed(pipeline(), { batch: { maxBatchSize: '2' }, 'out /run': { name: 'answer' } });
    const snapshot = await nodeRed.deployReady([...flows, stage('lonely', 'return input;', [])], 'nodes');
    assert.deepEqual(
      pidsOf(snapshot).filter((pid) => before.includes(pid)),
      before,
    );
    const first = snapshot.runtimes[0]?.stages.find(({ name }) => name === 'first');
    assert.equal(first?.batching.maxBatchSize, 2);
    assert.deepEqual(await run(), ['first', 'second']);
  });

  test('name, limits and log level of a runtime change without a new process, and open requests keep their time', async () => {
    const settings = { listen: '127.0.0.1:0', timeoutMs: '600000' };
    const flows = changed(pipeline(), { runtime: settings });
    const before = await startAnew(flows);
    const engine = await engineUrl(nodeRed);
    const old = [run(), runAt(engine)];
    await until('both are there', async () => (await nodeRed.snapshot()).runtimes[0]?.backlog === 2);
    const deploy = (more: object): Promise<Snapshot> =>
      nodeRed.deployReady(changed(flows, { runtime: { ...settings, logLevel: 'debug', name: 'renamed', ...more } }));
    const refused = (): Promise<string[]> =>
      Promise.all(
        [nodeRed.url, engine].map(async (url) => {
          const { error } = (await (await post(url)).json()) as { error: { code: string } };
          return error.code;
        }),
      );
    const full = await deploy({ capacity: '1' });
    assert.deepEqual(pidsOf(full), pidsOf(before));
    assert.equal(full.runtimes[0]?.name, 'renamed');
    assert.deepEqual(await refused(), new Array(2).fill('capacity_exceeded'));
    await deploy({ timeoutMs: '50' });
    assert.deepEqual(await refused(), new Array(2).fill('deadline_exceeded'));
    await gate.open();
    assert.deepEqual(await Promise.all(old), new Array(2).fill(['first', 'second']));
    const metrics = async (url: string): Promise<number | undefined> => {
      const scrape = new Scrape(await (await fetch(`${url}/metrics`)).text());
      return scrape.find('modelet_requests_total', { runtime: 'renamed', code: 'ok' })[0]?.value;
    };
    await until('Node-RED counts both', async () => (await metrics(`${nodeRed.url}/admin/modelets`)) === 2);
    assert.equal(await metrics(engine), 1);
  });

  test('a runtime with another limit of memory gets a new engine, and the old one answers what it has, however long it runs', async () => {
    const limits = { listen: '127.0.0.1:0', timeoutMs: '600000' };
    const flows = changed(pipeline(), { runtime: limits });
    const before = await startAnew(flows);
    const old = [run(), runAt(await engineUrl(nodeRed))];
    await until('both are there', async () => (await nodeRed.snapshot()).runtimes[0]?.backlog === 2);
    await until('they are at work', async () => (await gate.entered()).length > 0);
    const afterwards = await nodeRed.deployReady(changed(flows, { runtime: { ...limits, maxQueueMb: '256' } }));
    const readyAt = performance.now();
    assert.notEqual(afterwards.runtimes[0]?.engine.pid, before.runtimes[0]?.engine.pid);
    await until(
      'they have run for longer than processes may take to end',
      () => performance.now() > readyAt + CLOSE_MS,
    );
    await gate.open();
    assert.deepEqual(await Promise.all(old), new Array(2).fill(['first', 'second']));
    assert.deepEqual(await run(), ['first', 'second']);
    await until('the old processes are gone', () => !pidsOf(before).some(isAlive));
  });

  test('two stages that change places between two deploys answer every client', async () => {
    await gate.open();
    await startAnew(pipeline());
    const ends = [collector('swapped', 'out'), httpIn('in', '/swapped', 'second'), httpOut('out')];
    const flows = changed(pipeline(), { second: { wires: [['first']] }, first: { wires: [['swapped']] } });
    await nodeRed.deploy([
      ...changed(flows, { first: { code: 'return [...input, "first"];', wires: [['swapped']] } }),
      ...ends,
    ]);
    await until('the new code serves', async () => {
      const response = await nodeRed.post('/swapped', []);
      return response.status === 200 && String(await response.json()) === 'second,first';
    });
  });
});

describe('deploy: removal', () => {
  test('the client of a removed pipeline is answered at once, and the processes end', async () => {
    const before = await startAnew(pipeline());
    const answer = nodeRed.post('/run', { path: [] });
    await until('it is at work', async () => (await gate.entered()).length === 1);
    await nodeRed.deploy([TAB, sink('left over')]);
    const response = await answer;
    await gate.open();
    assert.equal(response.status, 503);
    assert.equal(((await response.json()) as { error: { code: string } }).error.code, 'shutting_down');
    await until('all processes are gone', () => !pidsOf(before).some(isAlive));
    assert.deepEqual((await nodeRed.snapshot()).runtimes, []);
  });

  test('without a node type that the flows need, the client is answered and the processes end, and they return with the type', async () => {
    const before = await startAnew(pipeline());
    const answer = nodeRed.post('/run', { path: [] });
    await until('it is at work', async () => (await gate.entered()).length === 1);
    await nodeRed.sendFlows([...pipeline(), { id: 'unknown', type: 'no such type', z: TAB.id, wires: [] }]);
    assert.equal((await answer).status, 503);
    await gate.open();
    await until('all processes are gone', () => !pidsOf(before).some(isAlive));
    await nodeRed.deploy(pipeline());
    assert.deepEqual(await run(), ['first', 'second']);
  });

  test('the worker of a removed stage ends, and the others stay', async () => {
    await gate.open();
    const before = await startAnew(pipeline());
    const flows = changed(pipeline(), { first: { wires: [['collector /run']] } });
    await nodeRed.deploy(flows.filter(({ id }) => id !== 'second'));
    assert.deepEqual(await run(), ['first']);
    await until('its worker is gone', () => !workers(before, 'second').some((pid) => isAlive(pid as number)));
    assert.deepEqual(workers(await nodeRed.whenReady(), 'first'), workers(before, 'first'));
  });

  test('the processes of a disabled tab end, and return with it', async () => {
    await gate.open();
    const before = await startAnew(pipeline());
    await nodeRed.deploy(changed(pipeline(), { tab: { disabled: true } }));
    await until('all processes are gone', () => !pidsOf(before).some(isAlive));
    await nodeRed.deploy(pipeline());
    assert.deepEqual(await run(), ['first', 'second']);
  });
});

describe('deploy: under load', () => {
  test('every request gets its result through ten deploys, one right after the other', async () => {
    await gate.open();
    await startAnew(pipeline());
    let deploying = true;
    let answers = 0;
    const client = async (): Promise<void> => {
      while (deploying) {
        const response = await nodeRed.post('/run', { path: [] });
        const text = await response.text();
        assert.equal(response.status, 200, text);
        assert.equal(text, '["first","second"]');
        answers += 1;
      }
    };
    const clients = Array.from({ length: 8 }, client);
    for (let count = 0; count < 10; count += 1) await nodeRed.deploy(pipeline(), DEPLOYS[count % 3]);
    deploying = false;
    await Promise.all(clients);
    assert.ok(answers > 0);
    assert.equal((await nodeRed.snapshot()).runtimes[0]?.backlog, 0);
  });
});

/**
 * Deploys while clients post: each gets exactly one answer, none hangs, none is lost; what did not change keeps its
 * workers; changed code takes over from one answer to the next.
 */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { after, describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { gather } from '../../fixtures/drawn.ts';
import { batcher, collector, dispatchGate, httpIn, httpOut, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type DeployType, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { PATIENCE_MS, until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';

const CLIENTS = 64;
const GATED = 12;
const KEYS = 4;
/** The long form of this test is what the product promises; the short one finds what breaks it. */
const LONG = process.env['TEST_FULL'] === '1';
const DEPLOYS = LONG ? 20 : 4;
const PAUSE_MS = 500;

/** `version` shows in every answer; `unrelated` is a node that has nothing to do with the pipeline. */
function flows(version: number, unrelated: number): FlowNode[] {
  return [
    TAB,
    { id: 'other', type: 'tab', label: 'other' },
    runtime(),
    httpIn('in', '/double/:client', 'double'),
    // A third of the clients come through a gate that lets in fewer than there are.
    httpIn('gated in', '/gated/:client', 'gate'),
    dispatchGate('gate', 'double', 'failed', { maxSys: String(GATED) }),
    stage(
      'double',
      `await new Promise((resolve) => setTimeout(resolve, 5 * Math.random()));
       return { n: input.n * 2, version: ${version} };`,
      'batch',
      { workers: '2' },
    ),
    batcher('batch', 'add', { maxBatchSize: 16 }),
    stage('add', 'return input.map((item) => ({ ...item, n: item.n + 1 }));', 'gather', { predict: 'batch' }),
    collector('gather', 'out', 'failed'),
    // Those of the last third have lists made, and a state for each of a few keys.
    httpIn('listed in', '/listed/:client', 'apart'),
    stage('apart', `return [input.n, input.n, 1].map((n) => ({ n, version: ${version} }));`, 'each', { emits: 'list' }),
    stage('each', 'return input;', 'list', { workers: '2', retryLost: true }),
    gather('list', 'sum', 'failed', { mode: 'list' }),
    stage(
      'sum',
      `ctx.state.count = (ctx.state.count ?? 0) + 1;
       return { n: input.reduce((sum, { n }) => sum + n, 0), version: input[0].version, count: ctx.state.count };`,
      'out',
      { keyBy: 'req.params.client' },
    ),
    httpOut('out'),
    httpOut('failed'),
    { ...node('comment', 'comment', []), z: 'other', info: String(unrelated) },
  ];
}

interface Answers {
  readonly total: number;
  /** Anything that is not the right result, in words. */
  readonly wrong: string[];
  readonly versions: Set<number>;
}

describe('deploys under load', () => {
  const red = useNodeRed();
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });

  after(() => agent.destroy());

  /** Counts of each key's state, over all tests: nothing here ends the worker that has it. */
  const counted = new Map<string, number[]>();

  function assertEachCounted(): void {
    for (const [key, counts] of counted) {
      const each = Array.from({ length: counts.length }, (_, at) => at + 1);
      assert.deepEqual(
        [...counts].sort((a, b) => a - b),
        each,
        `key ${key}`,
      );
    }
  }

  function post(n: number): Promise<{ status: number | string; body: string }> {
    return new Promise((resolve) => {
      const sent = request(
        `${red.url}/${['gated', 'double', 'listed'][n % 3]}/${n % KEYS}`,
        { agent, method: 'POST', headers: { 'Content-Type': 'application/json' }, timeout: PATIENCE_MS },
        (response) => {
          let body = '';
          response.on('data', (chunk) => {
            body += chunk;
          });
          response.on('end', () => {
            const { count } = (response.statusCode === 200 ? JSON.parse(body) : {}) as { count?: number };
            const key = String(n % KEYS);
            if (count !== undefined) counted.set(key, [...(counted.get(key) ?? []), count]);
            resolve({ status: response.statusCode ?? 0, body });
          });
        },
      );
      sent.on('timeout', () => sent.destroy(new Error('no answer')));
      sent.on('error', (error) => resolve({ status: error.message, body: '' }));
      sent.end(JSON.stringify({ n }));
    });
  }

  /** Posts from all clients until `work` is done. */
  async function underLoad(work: () => Promise<void>): Promise<Answers> {
    const answers = { total: 0, wrong: [] as string[], versions: new Set<number>() };
    let next = 0;
    let working = true;
    const client = async (): Promise<void> => {
      while (working) {
        next += 1;
        const n = next;
        const { status, body } = await post(n);
        answers.total += 1;
        if (status !== 200) {
          answers.wrong.push(`${status} ${body}`);
          continue;
        }
        const result = JSON.parse(body) as { n: number; version: number };
        if (result.n !== n * 2 + 1) answers.wrong.push(`${n} gave ${body}`);
        answers.versions.add(result.version);
      }
    };
    const clients = Array.from({ length: CLIENTS }, client);
    await work();
    working = false;
    await Promise.all(clients);
    return answers;
  }

  /** Every lease has ended with its request, and in time. */
  async function assertGateIsFree(): Promise<void> {
    const { inFlight, waiting, lost, decisions } = await red.gate('gate');
    assert.deepEqual([inFlight, waiting, lost], [0, 0, 0]);
    assert.ok(decisions.admitted_late > 0, JSON.stringify(decisions));
  }

  async function serving(version: number): Promise<void> {
    await until(`version ${version} answers`, async () => (await post(2)).body.includes(`"version":${version}`));
  }

  /** @param of a stage; all if absent */
  async function workerPids(of?: string): Promise<number[]> {
    const { runtimes } = await red.whenReady();
    const stages = runtimes.flatMap((each) => each.stages).filter(({ id }) => id === (of ?? id));
    return stages.flatMap(({ workers }) => workers.map(({ pid }) => pid as number));
  }

  async function deployRepeatedly(type: DeployType, make: (round: number) => FlowNode[]): Promise<void> {
    for (let round = 1; round <= DEPLOYS; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      await red.deploy(make(round), type);
    }
  }

  for (const type of ['full', 'flows', 'nodes', 'reload'] as const) {
    test(`${type}: an unchanged pipeline answers every request with 200, from the same workers`, async () => {
      await red.deploy(flows(0, 0));
      await serving(0);
      const before = await workerPids();
      const answers = await underLoad(() => deployRepeatedly(type, (round) => flows(0, round)));
      assert.deepEqual(answers.wrong, []);
      assert.ok(answers.total > CLIENTS, `only ${answers.total} answers`);
      assert.deepEqual(await workerPids(), before);
      assertEachCounted();
      await assertGateIsFree();
    });
  }

  for (const type of ['full', 'flows', 'nodes'] as const) {
    test(`${type}: a changed stage answers every request with its old or its new code`, async () => {
      await red.deploy(flows(0, 0));
      await serving(0);
      const answers = await underLoad(async () => {
        for (let version = 1; version <= DEPLOYS; version += 1) {
          await red.deploy(flows(version, 0), type);
          await serving(version);
          // More deaths in a short time would stop the stage.
          if (version === 1) kill9((await workerPids('each'))[0] as number);
        }
      });
      assert.deepEqual(answers.wrong, []);
      assert.deepEqual(
        [...answers.versions].sort((a, b) => a - b),
        Array.from({ length: DEPLOYS + 1 }, (_, version) => version),
      );
      assertEachCounted();
      await assertGateIsFree();
    });
  }

  test('the clients of a removed pipeline get an answer at once, and its processes end', async () => {
    await red.deploy(flows(0, 0));
    const pids = await workerPids();
    const answers = await underLoad(async () => {
      await red.deploy([TAB, { id: 'other', type: 'tab', label: 'other' }]);
    });
    const unexpected = answers.wrong.filter((answer) => !/^(503|404) /.test(answer));
    assert.deepEqual(unexpected, []);
    await until('the processes have ended', () => !pids.some(isAlive));
  });
});

/**
 * The headless runner beside Node-RED: the same flows expand to the same endpoints, and the same requests get the same answers.
 * Shows: promise "Ship it without Node-RED", way headless.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { compileFlows } from '../../../src/headless/compile-flows.ts';
import { readFlows } from '../../../src/headless/flow-file.ts';
import { pipelineOf } from '../../../src/node-red/pipeline.ts';
import { FILE_FLOWS, PROCESS_VARIABLE } from '../../fixtures/file-flows.ts';
import { modelet, QUICK_START_FILE, serveFlows } from '../../fixtures/headless.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const nodeRed = useNodeRed();
let folder: string;

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'modelet-beside-'));
  const [name, value] = PROCESS_VARIABLE;
  process.env[name] = value;
});
after(() => {
  rmSync(folder, { recursive: true, force: true });
  delete process.env[PROCESS_VARIABLE[0]];
});

describe('headless: a flow file and the same flows in Node-RED', () => {
  for (const { title, flow } of FILE_FLOWS) {
    test(title, async () => {
      await nodeRed.deploy(structuredClone(flow) as unknown as FlowNode[]);
      const { deployment, live } = pipelineOf(nodeRed.red as never);
      const file = join(folder, 'flows.json');
      writeFileSync(file, JSON.stringify(flow));
      const { compiled, plan, nodes } = compileFlows(readFlows(file));
      assert.deepEqual(compiled, deployment.compiled);
      const told = (of: 'invalid' | 'name'): Map<string, string> =>
        new Map([...deployment.nodes].flatMap(([id, { [of]: value }]) => (value === null ? [] : [[id, value]])));
      assert.deepEqual(new Map(plan.invalid), told('invalid'));
      assert.deepEqual(plan.stageNames, told('name'));
      const configs = (all: Iterable<{ node: { id: string }; config: unknown }>): unknown[] =>
        [...all].map(({ node, config }) => [node.id, config instanceof Error ? config.message : config]).sort();
      assert.deepEqual(configs(nodes), configs(live));
    });
  }
});

describe('headless: the quick start', () => {
  test('gives the same answers and errors as in Node-RED', async (t) => {
    await nodeRed.deployReady(JSON.parse(readFileSync(QUICK_START_FILE, 'utf8')) as FlowNode[]);
    const { url } = await serveFlows(t, QUICK_START_FILE);
    const { images } = JSON.parse(readFileSync(join(repositoryRoot, 'assets/data/digits-test.json'), 'utf8')) as {
      images: { image: number[] }[];
    };
    const bodies = [...images.slice(0, 5).map((image) => JSON.stringify(image)), '{"image":[1]}', '{', '', '7'];
    for (const body of bodies) {
      for (const type of ['application/json', 'text/plain']) {
        const ask = async (at: string): Promise<unknown> => {
          const headers = { 'Content-Type': type, 'X-Request-Id': 'asked' };
          const answer = await fetch(new URL('/predict/digits', at), { method: 'POST', headers, body });
          return [answer.status, answer.headers.get('content-type'), await answer.text()];
        };
        assert.deepEqual(await ask(url), await ask(nodeRed.url), `${type}: ${body}`);
      }
    }
  });
});

/** `/crops`: a stage emits a list, and another takes each of its items. */
function listFlow(): string {
  const file = join(folder, 'lists.json');
  const at = { z: 'tab', x: 1, y: 1 };
  const stage = { ...at, type: 'modelet-stage', runtime: 'r', workers: '1' };
  const detect = { id: 's1', name: 'detect', emits: 'list', code: 'return input.boxes;', wires: [['s2']] };
  const code = "if (input === 'fail') throw new Error('told to fail'); return { read: input };";
  const flow = [
    { id: 'tab', type: 'tab', label: 'lists' },
    { id: 'r', type: 'modelet-runtime', name: 'lists' },
    { id: 'in', type: 'http in', ...at, method: 'post', url: '/crops', wires: [['s1']] },
    { ...stage, ...detect },
    { ...stage, id: 's2', name: 'read', code, wires: [['j']] },
    { id: 'j', type: 'modelet-join', ...at, name: 'crops', mode: 'list', form: 'pairs', wires: [['out'], ['out']] },
    { id: 'out', type: 'http response', ...at, wires: [] },
  ];
  writeFileSync(file, JSON.stringify(flow));
  return file;
}

describe('headless: routes that fork', () => {
  const EXAMPLES = [
    {
      title: 'Ensemble of two models',
      path: '/examples/ensemble',
      bodies: ['{"number":4}', '{"number":-4}', '{"number":'],
      way: /\(line \| curve\) > both/,
    },
    {
      title: 'One of two models',
      path: '/examples/either',
      bodies: ['{"model":"small","number":17}', '{"number":17}', '{"model":"small"}', '{"model":', 'null'],
      way: /one of \(small \| large\)/,
    },
  ];
  const LISTS = {
    title: 'The items of a list',
    path: '/crops',
    bodies: ['{"boxes":[1,"two",[3]]}', '{"boxes":[]}', '{"boxes":[1,"fail"]}', '{"boxes":1}', '{"boxes":'],
    way: /detect > each \(read\) > crops/,
  };
  for (const { title, path, bodies, way } of [...EXAMPLES, LISTS]) {
    test(`${title}: the same answers and errors as in Node-RED, and the way in the report`, async (t) => {
      const file = path === LISTS.path ? listFlow() : join(repositoryRoot, 'examples', `${title}.json`);
      await nodeRed.deployReady(JSON.parse(readFileSync(file, 'utf8')) as FlowNode[]);
      const { url } = await serveFlows(t, file);
      for (const body of bodies) {
        const ask = async (at: string): Promise<unknown> => {
          const headers = { 'Content-Type': 'application/json', 'X-Request-Id': 'asked' };
          const answer = await fetch(new URL(path, at), { method: 'POST', headers, body });
          return [answer.status, await answer.text()];
        };
        assert.deepEqual(await ask(url), await ask(nodeRed.url), body);
      }
      const { output } = await modelet('check', file);
      assert.match(output, way);
      assert.doesNotMatch(output, /undefined/);
    });
  }
});

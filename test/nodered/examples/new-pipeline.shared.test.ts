/**
 * The flows of *New pipeline*, for everything that a user may have and every way to call it: they deploy, those whose parts
 * are there answer, and the others say what they lack.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { TAB } from '../../fixtures/flow.ts';
import { KNOWN, writeKnownModel } from '../../fixtures/known-models.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { doubling, writeModel } from '../../fixtures/onnx.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

type Say = (key: string, values?: Readonly<Record<string, unknown>>) => string;
type Tools = Readonly<Record<string, unknown>>;

const require = createRequire(import.meta.url);
const { pipelineFlow } = require(join(repositoryRoot, 'resources', 'new-pipeline', 'flow.js')) as {
  pipelineFlow(answers: object, tools: Tools): FlowNode[];
};
const catalog = JSON.parse(
  readFileSync(join(repositoryRoot, 'nodes', 'locales', 'en-US', 'modelet-sidebar.json'), 'utf8'),
) as { 'modelet-sidebar': { new: object } };

const SOURCES = ['inline', 'file', 'python-code', 'python', 'onnx', 'module', 'task', 'remote'];
const CALLS = ['http', 'mqtt', 'button', 'file', 'camera'];
/** A pipeline that lacks its file is not ready; a few workers show the same as all. */
const COMPLETE = new Set([
  ...SOURCES.map((source) => `${source} http`),
  ...CALLS.map((call) => `inline ${call}`),
  'task file',
]);
const WORDS = { text: 'a walk in the woods' };

const say: Say = (key, values = {}) => {
  const found = key
    .split('.')
    .reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], catalog['modelet-sidebar'].new);
  assert.equal(typeof found, 'string', key);
  return String(found).replace(/__(\w+)__/g, (_all, name: string) => String(values[name]));
};

/** A camera, and a model that says what it was asked. */
const outside = createServer((request, response) => {
  request.resume().on('end', () => {
    const isModel = request.url === '/model';
    response.setHeader('Content-Type', isModel ? 'application/json' : 'image/jpeg');
    response.end(isModel ? '{"answer": "Hello"}' : Buffer.alloc(1234));
  });
});
after(() => outside.close());

let ids = 0;
const flows = new Map<string, FlowNode[]>();

function draw(source: string, call: string, address: string): FlowNode[] {
  const name = `${source} ${call}`;
  const isComplete = COMPLETE.has(name);
  const paths: Readonly<Record<string, string>> = { file: 'model.js', python: 'model.py', onnx: 'double.onnx' };
  const answers = {
    ...{ source, call, name, path: isComplete ? paths[source] : 'missing', module: isComplete ? 'tiny-modelet' : '' },
    ...{ task: 'image-classification', model: isComplete ? 'known' : 'missing', url: `${address}/model` },
    ...{ endpoint: `/${source}-${call}`, topic: `${source}/${call}`, camera: `${address}/picture.jpg` },
    file: join(repositoryRoot, source === 'task' ? 'assets/images/digit-7.jpg' : 'assets/models/README.md'),
    ...(source === 'onnx' ? { sample: [1, 2] } : {}),
  };
  const newId = (): string => {
    ids += 1;
    return `made-${ids}`;
  };
  const tools = { newId, widthOf: (label: string) => 7 * label.length, say, tab: TAB.id, left: 34, top: 25, admin: '' };
  const configs = ids === 0 ? {} : { runtime: 'made-1', broker: 'made-2' };
  return pipelineFlow(answers, { ...tools, ...configs });
}

const red = useNodeRed({
  prepare: async ({ userDir }) => {
    await new Promise<void>((resolve) => outside.listen(0, '127.0.0.1', resolve));
    const start = join(repositoryRoot, 'resources', 'start');
    for (const ending of ['js', 'py'])
      writeFileSync(join(userDir, `model.${ending}`), readFileSync(join(start, `item.${ending}`)));
    writeModel(userDir, 'double', doubling(['batch', 2]));
    writeKnownModel(join(userDir, 'known'), KNOWN['image-classification'] ?? assert.fail());
    const own = join(userDir, 'node_modules', 'tiny-modelet');
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, 'index.js'), 'module.exports = (input) => ({ from: input.text });');
    writeFileSync(join(userDir, 'package.json'), JSON.stringify({ dependencies: { 'tiny-modelet': '*' } }));
  },
});

async function deployAll(): Promise<void> {
  const address = `http://127.0.0.1:${(outside.address() as AddressInfo).port}`;
  for (const call of ['mqtt', ...CALLS.filter((one) => one !== 'mqtt')])
    for (const source of SOURCES) flows.set(`${source} ${call}`, draw(source, call, address));
  await red.deploy([TAB, ...[...flows.values()].flat()]);
  const badge = (name: string): string => red.badges.get(find(name, 'modelet-stage').id)?.text ?? '';
  for (const name of COMPLETE) await until(`${name} is ready`, () => READY.test(badge(name)));
}

const find = (name: string, type: string, label?: string): FlowNode =>
  (flows.get(name) ?? []).find((node) => node.type === type && (!label || node['name'] === label)) ?? assert.fail(name);

/** Presses the button of a pipeline; resolves with what its first debug node gets. */
async function press(name: string): Promise<unknown> {
  const messages = red.inputs(find(name, 'debug').id);
  await red.press(find(name, 'inject').id);
  await until(`${name} answers`, () => messages.length > 0);
  return structuredClone(messages[0]?.payload);
}

describe('new pipelines', () => {
  test('all deploy, with one runtime and one broker; those that lack a part say so', async () => {
    await deployAll();
    const all = [...flows.values()].flat();
    assert.deepEqual(
      all.filter(({ x }) => x === undefined).map(({ type }) => type),
      ['modelet-runtime', 'mqtt-broker'],
    );
    const { invalid } = await red.snapshot();
    for (const name of flows.keys()) {
      const lacks = !COMPLETE.has(name) && !/^(inline|python-code|remote) /.test(name);
      const { id } = find(name, 'modelet-stage');
      assert.equal(
        lacks,
        id in invalid || /missing|no module/.test(String(red.badges.get(id)?.text)),
        `${name}: ${invalid[id]}`,
      );
    }
    const answered = (await red.snapshot()).endpoints.filter(({ reason }) => reason === null).map(({ path }) => path);
    assert.deepEqual(answered.toSorted(), SOURCES.map((source) => `/${source}-http`).toSorted());
  });

  for (const [name, answer] of [
    ['inline http', WORDS],
    ['file http', WORDS],
    ['python http', WORDS],
    ['python-code http', WORDS],
    ['python-code camera', { bytes: 1234 }],
    ['onnx http', [2, 4]],
    ['module http', { from: WORDS.text }],
    ['remote http', { answer: 'Hello' }],
    ['inline mqtt', WORDS],
    ['inline button', WORDS],
    ['inline camera', { bytes: 1234 }],
  ] as const) {
    test(`the button of ${name} shows what comes`, { skip: name.startsWith('python') && WITHOUT_PYTHON }, async () => {
      assert.deepEqual(await press(name), answer);
    });
  }

  test('a known model names a picture over HTTP and one from a file', async () => {
    const [first] = (await press('task http')) as { label: string }[];
    assert.equal(first?.label, 'red');
    assert.equal(((await press('task file')) as unknown[]).length, 3);
  });

  test('each line of a file is run, in its order', async () => {
    const results = red.inputs(find('inline file', 'debug', 'result').id);
    const lines = readFileSync(join(repositoryRoot, 'assets/models/README.md'), 'utf8').trimEnd().split('\n');
    await red.press(find('inline file', 'inject').id);
    await until('all lines are through', () => results.length === lines.length);
    const words = lines.map((line) => ({ words: line.trim().split(/\s+/).length }));
    assert.deepEqual(
      results.map(({ payload }) => structuredClone(payload)),
      words,
    );
  });
});

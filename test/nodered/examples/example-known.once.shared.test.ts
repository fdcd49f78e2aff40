/**
 * The examples of known models, deployed together: as they are shipped they name what their stages lack, and with tiny
 * models in the place of those from the hub they do what their comments say. The machine's model comes with its example.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { KNOWN, writeKnownModel } from '../../fixtures/known-models.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const PICTURE = 'What is in this picture';
const TEXTS = 'Find similar texts';
const CAMERA = 'Count objects of a camera';
const SPEECH = 'Speech to text';
const MACHINE = 'Anomaly of a machine';
const read = (title: string): FlowNode[] =>
  JSON.parse(readFileSync(join(repositoryRoot, 'examples', `${title}.json`), 'utf8')) as FlowNode[];
const flows = new Map([PICTURE, TEXTS, CAMERA, SPEECH, MACHINE].map((title) => [title, read(title)]));

const red = useNodeRed();

/** Returns the id of the only node of a type, or of a type and a name. */
function idOf(title: string, type: string, name?: string): string {
  const nodes = flows.get(title) ?? [];
  const found = nodes.filter((node) => node.type === type && (name === undefined || node['name'] === name));
  assert.equal(found.length, 1, `${type} ${name}`);
  return (found[0] as FlowNode).id;
}

const known = [...flows].flatMap(([title, flow]) =>
  flow.filter(({ source }) => source === 'task').map((node) => ({ title, node })),
);

test('the badge of each stage says that its model is not downloaded', async () => {
  await red.deploy([...flows.values()].flat());
  assert.equal(known.length, 4);
  for (const { title, node } of known) {
    await until(`${title} says it`, () => /not downloaded: Xenova\//.test(red.badges.get(node.id)?.text ?? ''));
  }
  const { invalid } = await red.snapshot();
  assert.deepEqual(invalid, {});
});

describe('with a model', () => {
  before(async () => {
    for (const { node } of known) {
      const task = String(node['task']);
      // The frames of the camera are mostly grey, in which the tiny model is sure of little.
      const init = {
        ...(JSON.parse(String(node['init'])) as object),
        ...(task === 'object-detection' && { threshold: 0.1 }),
      };
      writeKnownModel(join(red.userDir, task), KNOWN[task] ?? assert.fail(task));
      Object.assign(node, { model: task, init: JSON.stringify(init) });
    }
    await red.deploy([...flows.values()].flat());
    for (const { title, node } of known)
      await until(`${title} is ready`, () => READY.test(red.badges.get(node.id)?.text ?? ''));
  });

  for (const [title, path] of [
    [PICTURE, '/picture'],
    [SPEECH, '/speech'],
  ] as const) {
    test(`the page of "${title}" is small and needs nothing from elsewhere`, async () => {
      const response = await fetch(`${red.url}${path}`);
      assert.match(String(response.headers.get('content-type')), /^text\/html/);
      const page = await response.text();
      assert.ok(page.length < 8_000, `${page.length} characters`);
      assert.doesNotMatch(page, /https?:/);
    });
  }

  test('the objects in a picture are found', async () => {
    const { endpoints } = await red.snapshot();
    assert.equal(endpoints.find(({ path }) => path === '/predict/objects')?.reason, null);
    const { encode } = createRequire(import.meta.url)('jpeg-js') as {
      encode(picture: object, quality: number): { readonly data: Buffer };
    };
    const white = { data: Buffer.alloc(40 * 30 * 4, 255), width: 40, height: 30 };
    const body = new Uint8Array(encode(white, 90).data);
    const headers = { 'Content-Type': 'image/jpeg' };
    const response = await fetch(`${red.url}/predict/objects`, { method: 'POST', headers, body });
    const [first] = (await response.json()) as { label: string; box: object }[];
    assert.match(String(first?.label), /^(?:red|green|blue)$/);
    assert.deepEqual(Object.keys(first?.box ?? {}), ['xmin', 'ymin', 'xmax', 'ymax']);
  });

  test('the newest frames of a camera are counted, and the others are dropped', async () => {
    const counted = red.inputs(idOf(CAMERA, 'debug', 'objects'));
    const shown = red.inputs(idOf(CAMERA, 'modelet-view'));
    red.send(idOf(CAMERA, 'function', 'camera'), { payload: 0.5 });
    await until('a frame is counted', () => counted.length > 0);
    assert.ok(Object.values(counted[0]?.payload as object).every((count) => count >= 1 && count <= 4));
    const { payload, objects } = await until('it is shown', () => shown[0]);
    assert.ok(Array.isArray(objects));
    assert.equal((payload as { width: number }).width, 320);
  });

  test('similar texts are found by what was remembered', async () => {
    const found = red.inputs(idOf(TEXTS, 'debug', 'similar'));
    const ask = async (text: string): Promise<{ text: string; cosine: number }[]> => {
      const response = await red.post('/texts/similar', { text });
      assert.equal(response.status, 200);
      return (await response.json()) as { text: string; cosine: number }[];
    };
    assert.deepEqual(await ask('good'), []);
    await red.press(idOf(TEXTS, 'inject', 'eight sentences'));
    await until('all are there', () => red.badges.get(idOf(TEXTS, 'function', 'index'))?.text === '8 texts');
    red.send(idOf(TEXTS, 'modelet-feed'), {
      topic: 'remember',
      payload: ['good', 'good bad', 'red'],
    });
    await until('the others are, too', () => red.badges.get(idOf(TEXTS, 'function', 'index'))?.text === '11 texts');
    assert.deepEqual((await ask('good')).slice(0, 2), [
      { text: 'good', cosine: 1 },
      { text: 'good bad', cosine: 0.6 },
    ]);
    await red.press(idOf(TEXTS, 'inject', 'a question'));
    assert.equal(((await until('it is shown', () => found[0])).payload as object[]).length, 3);
    const wrong = await red.post('/texts/similar', { words: 1 });
    assert.equal(wrong.status, 422);
  });

  test('speech becomes text', async () => {
    const response = await fetch(`${red.url}/predict/speech`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        data: Array.from({ length: 1200 }, (_, at) => [0.2, 0.3, 0.4][Math.floor(at / 400)]),
        sampleRate: 16_000,
      }),
    });
    assert.deepEqual(await response.json(), { text: 'abc' });
  });
});

describe('the machine', () => {
  test('has three unusual readings a day, and each says which number does not fit', async () => {
    const unusual = red.inputs(idOf(MACHINE, 'debug', 'unusual'));
    await red.press(idOf(MACHINE, 'inject', 'a day of readings'));
    const { payload } = await until('the day is over', () => unusual[0]);
    assert.deepEqual(
      structuredClone(payload as { time: string; because: string }[]).map(({ time, because }) => [time, because]),
      [
        ['05:00', 'current'],
        ['14:10', 'temperature'],
        ['15:50', 'vibration'],
      ],
    );
    const answers = [
      [57.5, 2.25, 10, 1480],
      [57.5, 2.25, 14, 1480],
    ].map(async (reading) => (await red.post('/predict/machine', { reading })).json());
    const [usual, other] = (await Promise.all(answers)) as { distance: number }[];
    assert.ok(usual && usual.distance < 2 && other && other.distance > 10, JSON.stringify([usual, other]));
  });

  test('has a model that its script writes, which takes a table of another machine as well', () => {
    const folder = join(repositoryRoot, 'assets', 'models');
    const make = (...given: string[]): Buffer => {
      execFileSync(process.execPath, [join(folder, 'machine-to-onnx.mjs'), ...given], { stdio: 'pipe' });
      return readFileSync(given.at(-1) ?? join(folder, 'machine.onnx'));
    };
    const shipped = readFileSync(join(folder, 'machine.onnx'));
    assert.ok(make().equals(shipped));
    const table = join(red.userDir, 'readings.csv');
    const rows = Array.from({ length: 20 }, (_, at) => `${at},${(at * 7) % 5}`);
    writeFileSync(table, ['heat,noise', ...rows].join('\n'));
    assert.ok(make(table, join(red.userDir, 'own.onnx')).includes('reading'));
    writeFileSync(table, 'heat,noise\n1,2\n1,x\n');
    assert.throws(
      () => make(table, join(red.userDir, 'bad.onnx')),
      /line 3 of .*readings.csv has something other than 2 numbers/,
    );
  });
});

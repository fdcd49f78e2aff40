/** The network of the quick start by other means: each such example, deployed as it is shipped, tells the same digits. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { pipelineOf } from '../../../src/node-red/pipeline.ts';
import type { RuntimeSnapshot } from '../../../src/observe/views/snapshot.ts';
import { linkModule } from '../../fixtures/link-module.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { pythonWith, WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const [NUMPY, WITHOUT_NUMPY] = pythonWith('numpy');

const folder = join(repositoryRoot, 'examples');
const assets = join(repositoryRoot, 'assets');
const { images } = JSON.parse(readFileSync(join(assets, 'data', 'digits-test.json'), 'utf8')) as {
  images: { image: number[]; label: number }[];
};

const nodeRed = useNodeRed();

/** Deploys an example, its stages changed; the only node of a type is then found by `find`. */
async function deployExample(title: string, changes: object = {}): Promise<(type: string) => string> {
  const shipped = JSON.parse(await readFile(join(folder, `${title}.json`), 'utf8')) as FlowNode[];
  const flow = shipped.map((node) => (node.type === 'modelet-stage' ? { ...node, ...changes } : node));
  await nodeRed.deployReady(flow);
  assert.deepEqual(pipelineOf(nodeRed.red as never).deployment.compiled.uncompiled, []);
  return (type) => {
    const found = flow.filter((node) => node.type === type);
    assert.equal(found.length, 1, type);
    return (found[0] as FlowNode).id;
  };
}

describe('examples: digits by ONNX', () => {
  test('classifies as many images correctly as the model in JavaScript, posted at the same time', async () => {
    const find = await deployExample('Digits by ONNX');
    const answers = images.map(async ({ image, label }) => {
      const response = await nodeRed.post('/predict/digits-onnx', { image });
      assert.equal(response.status, 200);
      const { label: digit, scores } = (await response.json()) as { label: string; scores: number[] };
      assert.equal(scores.length, 10);
      return digit === String(label);
    });
    assert.equal((await Promise.all(answers)).filter((right) => right).length, 98);

    const wrong = await nodeRed.post('/predict/digits-onnx', { image: [1, 2, 3] });
    assert.equal(wrong.status, 422);
    const { error } = (await wrong.json()) as { error: Record<string, unknown> };
    assert.match(
      String(error['message']),
      /^input "image": must be of shape \[batch, 8, 8\], or \[8, 8\] for one row, found 3 elements$/,
    );

    const results = nodeRed.inputs(find('debug'));
    await nodeRed.press(find('inject'));
    await until(
      'the badge shows the digit',
      () => results.length > 0 && nodeRed.badges.get(find('debug'))?.text === '7',
    );
  });
});

describe('examples: images by ONNX', () => {
  const pictures = new Map<string, Buffer>();
  before(async () => {
    await linkModule(nodeRed.userDir, 'jpeg-js');
    for (const name of await readdir(join(assets, 'images'))) {
      pictures.set(String(/^digit-(\d)\.jpg$/.exec(name)?.[1]), await readFile(join(assets, 'images', name)));
    }
  });

  function post(body: Buffer): Promise<Response> {
    const headers = { 'Content-Type': 'image/jpeg' };
    return fetch(`${nodeRed.url}/predict/images`, { method: 'POST', headers, body: new Uint8Array(body) });
  }

  async function assertRight(digit: string, response: Response): Promise<void> {
    assert.equal(response.status, 200);
    const { label, score } = (await response.json()) as { label: string; score: number };
    assert.equal(label, digit);
    assert.ok(score > 0.9, `${digit}: ${score}`);
  }

  function postAll(): Promise<unknown> {
    return Promise.all([...pictures].map(async ([digit, picture]) => assertRight(digit, await post(picture))));
  }

  test('each picture gets its correct label, and two workers decode them', async () => {
    const find = await deployExample('Images by ONNX');
    assert.deepEqual([...pictures.keys()].sort(), [...'0123456789']);
    const workersOf = async (stage: string): Promise<Set<number>> => {
      const { slowest } = (await nodeRed.snapshot()).runtimes[0] as RuntimeSnapshot;
      return new Set(
        slowest.flatMap(({ stages }) => stages.filter(({ name }) => name === stage).map(({ worker }) => worker)),
      );
    };
    await until('both have taken part', async () => {
      await postAll();
      return (await workersOf('decode')).size === 2;
    });
    assert.deepEqual(await workersOf('decode'), new Set([0, 1]));
    assert.deepEqual(await workersOf('digits'), new Set([0]));

    const results = nodeRed.inputs(find('debug'));
    await nodeRed.press(find('inject'));
    await until('the badge shows it', () => results.length > 0 && nodeRed.badges.get(find('debug'))?.text === '7');
  });

  test('a JPEG that is broken, or claims to be huge, is refused alone, and the worker goes on', async () => {
    await deployExample('Images by ONNX');
    const picture = pictures.get('3') as Buffer;
    const huge = Buffer.from(picture);
    // Height and width are behind the marker of the frame, a length and a precision.
    const frame = huge.indexOf(Buffer.from([0xff, 0xc0]));
    for (const side of [frame + 5, frame + 7]) huge.writeUInt16BE(60_000, side);
    const hostile: readonly (readonly [Buffer, RegExp])[] = [
      [huge, /^not a JPEG that can be read: maxResolutionInMP limit exceeded by 3596MP$/],
      [picture.subarray(0, picture.length / 2), /^not a JPEG that can be read: /],
      [Buffer.from('GIF89a, or so'), /^not a JPEG that can be read: /],
    ];
    const workers = (await nodeRed.snapshot()).runtimes[0]?.stages.flatMap((stage) => stage.workers);
    const [refusals] = await Promise.all([Promise.all(hostile.map(([body]) => post(body))), postAll()]);
    for (const [index, [, reason]] of hostile.entries()) {
      const response = refusals[index] as Response;
      assert.equal(response.status, 422);
      const { error } = (await response.json()) as { error: { code: string; message: string; stage: string } };
      assert.deepEqual([error.code, error.stage], ['invalid_input', 'decode']);
      assert.match(error.message, reason);
    }
    const after = (await nodeRed.snapshot()).runtimes[0]?.stages.flatMap((stage) => stage.workers);
    assert.deepEqual(
      after?.map(({ pid }) => pid),
      workers?.map(({ pid }) => pid),
    );
  });
});

describe('examples: digits in Python', { skip: WITHOUT_PYTHON }, () => {
  const interpreters: readonly (readonly [string, string, string | false])[] = [
    ['with numpy', NUMPY, WITHOUT_NUMPY],
    ['as it is shipped', '', false],
  ];
  for (const [how, python, skip] of interpreters) {
    test(`classifies as many images correctly as the model in JavaScript, ${how}`, { skip }, async () => {
      const find = await deployExample('Digits in Python', { python });
      const answers = images.map(async ({ image, label }) => {
        const response = await nodeRed.post('/predict/digits-python', { image });
        assert.equal(response.status, 200);
        const { digit, probabilities } = (await response.json()) as { digit: number; probabilities: number[] };
        assert.equal(probabilities.length, 10);
        return digit === label;
      });
      assert.equal((await Promise.all(answers)).filter((right) => right).length, 98);

      const wrong = await nodeRed.post('/predict/digits-python', { image: [1, 2, 3] });
      assert.equal(wrong.status, 422);
      const { error } = (await wrong.json()) as { error: Record<string, unknown> };
      assert.equal(error['message'], 'image must be 64 numbers from 0 to 16');

      const results = nodeRed.inputs(find('debug'));
      await nodeRed.press(find('inject'));
      await until(
        'the badge shows the digit',
        () => results.length > 0 && nodeRed.badges.get(find('debug'))?.text === '7',
      );
    });
  }
});

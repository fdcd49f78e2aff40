/** The network of the quick start by other means: each such example, deployed as it is shipped, tells the same digits. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type FlowNode, NodeRed, until } from '../fixtures/node-red.ts';
import { NUMPY, WITHOUT_NUMPY, WITHOUT_PYTHON } from '../fixtures/python.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const folder = join(repositoryRoot, 'examples');
const { images } = JSON.parse(await readFile(join(folder, 'data', 'digits-test.json'), 'utf8')) as {
  images: { image: number[]; label: number }[];
};

let nodeRed: NodeRed;
before(async () => {
  nodeRed = await NodeRed.start();
});
after(() => nodeRed.stop());

/** Deploys an example, its stages changed; the only node of a type is then found by `find`. */
async function deployExample(title: string, changes: object = {}): Promise<(type: string) => string> {
  const shipped = JSON.parse(await readFile(join(folder, `${title}.json`), 'utf8')) as FlowNode[];
  const flow = shipped.map((node) => (node.type === 'modelet-stage' ? { ...node, ...changes } : node));
  await nodeRed.deploy(flow);
  await nodeRed.whenReady();
  return (type) => {
    const found = flow.filter((node) => node.type === type);
    assert.equal(found.length, 1, type);
    return (found[0] as FlowNode).id;
  };
}

describe('examples: digits by ONNX', () => {
  test('gets as many images right as the model in JavaScript, posted at the same time', async () => {
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
    assert.match(String(error['message']), /^input "image": must be of shape \[8, 8\], found 3 elements$/);

    const results = nodeRed.inputs(find('debug'));
    await nodeRed.press(find('inject'));
    await until(
      'the badge shows the digit',
      () => results.length > 0 && nodeRed.badges.get(find('debug'))?.text === '7',
    );
  });
});

describe('examples: digits in Python', { skip: WITHOUT_PYTHON }, () => {
  const interpreters: readonly (readonly [string, string, string | false])[] = [
    ['with numpy', NUMPY, WITHOUT_NUMPY],
    ['as it is shipped', '', false],
  ];
  for (const [how, python, skip] of interpreters) {
    test(`gets as many images right as the model in JavaScript, ${how}`, { skip }, async () => {
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

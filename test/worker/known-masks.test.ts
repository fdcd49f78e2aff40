/** Known models that outline things: their masks are PNG files of the size of the picture. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { LoadedModelet } from '../../src/runtime/worker/modelet/modelet.ts';
import type { OpenSharp } from '../../src/runtime/worker/tasks/library.ts';
import { SEGFORMER } from '../fixtures/known-models.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { inputs, run, taskLoader } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-masks-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = taskLoader(folder);

describe('masks', () => {
  interface Found {
    readonly label: string | null;
    readonly score: number | null;
    readonly mask: string;
  }
  const sharp = createRequire(join(repositoryRoot, 'package.json'))('sharp') as OpenSharp;
  /** Red on the left, blue on the right. */
  const halves = (width: number, height: number): object => ({
    data: Uint8Array.from({ length: width * height * 3 }, (_, at) => {
      const isLeft = Math.floor(at / 3) % width < width / 2;
      return at % 3 === (isLeft ? 0 : 2) ? 255 : 0;
    }),
    ...{ width, height, channels: 3 },
  });
  /** The sides of the white part of a mask, and its size. */
  const sides = async ({ mask }: Found): Promise<readonly number[]> => {
    const file = Buffer.from(mask.replace(/^data:image\/png;base64,/, ''), 'base64');
    const { data, info } = await sharp(file, {}).toColourspace('b-w').raw().toBuffer({ resolveWithObject: true });
    const white = [...data.keys()].filter((at) => data[at] === 255);
    const [columns, rows] = [white.map((at) => at % info.width), white.map((at) => Math.floor(at / info.width))];
    const [left, top] = [Math.min(...columns), Math.min(...rows)];
    const [right, bottom] = [Math.max(...columns) + 1, Math.max(...rows) + 1];
    assert.equal(white.length, (right - left) * (bottom - top), 'the white part is a rectangle');
    return [left, top, right, bottom, info.width, info.height];
  };
  const found = async (model: LoadedModelet, ...given: readonly unknown[]): Promise<(readonly Found[])[]> =>
    (await run(model, inputs(...given))).map((one) => {
      assert.ok('value' in one, JSON.stringify(one));
      return one.value as readonly Found[];
    });

  test('have the size of their picture, a label and a score, in a batch and alone', async () => {
    const model = await load('image-segmentation');
    const given = [halves(40, 20), { input: halves(16, 16), options: { threshold: 0.9 } }];
    const together = await found(model, ...given);
    assert.deepEqual(await found(model, given[1]), [together[1]]);
    const [first, second] = together;
    assert.deepEqual(first?.map(({ label }) => label).toSorted(), ['blue', 'blue', 'red', 'red']);
    assert.ok(first.every(({ score }) => Number(score) > 0.9 && Number(score) <= 1));
    const lefts = first.filter(({ label }) => label === 'red');
    assert.deepEqual((await Promise.all(lefts.map(sides))).toSorted(), [
      [0, 0, 20, 10, 40, 20],
      [0, 10, 20, 20, 40, 20],
    ]);
    assert.deepEqual(await sides(second?.[0] as Found), [0, 0, 8, 8, 16, 16]);
    for (const options of [{ threshold: 1 }, { leastVisible: 1 }])
      assert.deepEqual(await found(model, { input: halves(16, 16), options }), [[]]);
    assert.ok((await run(model, inputs(...model.examples))).every((one) => 'value' in one));
  });

  test('of a model that gives each pixel a class have no score', async () => {
    const model = await load('image-segmentation', {}, SEGFORMER);
    const [classes] = await found(model, halves(32, 8));
    assert.deepEqual(await Promise.all((classes ?? []).map(async (one) => [one.label, one.score, await sides(one)])), [
      ['red', null, [0, 0, 16, 8, 32, 8]],
      ['blue', null, [16, 0, 32, 8, 32, 8]],
    ]);
  });
});

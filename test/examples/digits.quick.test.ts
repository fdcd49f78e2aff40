/** The quick-start model does what its files say: right digits, unseen test images, strict input. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { compilePayloadSchema } from '../../src/config/payload-schema.ts';
import type { PayloadSchema } from '../../src/core/model.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

interface Prediction {
  digit: number;
  probabilities: number[];
}

interface Classifier {
  setup(): Promise<void>;
  predict(batch: Float32Array[]): Prediction[];
}

interface ClassifierClass {
  readonly batch: boolean;
  new (init: unknown, ctx: unknown): Classifier;
}

interface Normalise {
  (input: { image: number[] }): Float32Array;
  readonly inputSchema: PayloadSchema;
  readonly examples: readonly { image: number[] }[];
}

interface LabelledImage {
  image: number[];
  label: number;
}

interface Layer {
  weights: number[][];
  bias: number[];
  activation: string;
}

interface Model {
  layers: Layer[];
  accuracy: number;
  trainingRows: number;
  testAccuracy: number;
}

interface TrainingHashes {
  sample: number[];
  hashes: string[];
}

const assets = pathToFileURL(join(repositoryRoot, 'assets/'));
const normalise = await importDefault<Normalise>('modelets/normalise.js');
const Classify = await importDefault<ClassifierClass>('modelets/classify.js');
const model = await readJson<Model>('models/digits.json');
const { images } = await readJson<{ images: LabelledImage[] }>('data/digits-test.json');
const training = await readJson<TrainingHashes>('data/digits-train-hashes.json');

async function importDefault<T>(path: string): Promise<T> {
  const module: { default: T } = await import(new URL(path, assets).href);
  return module.default;
}

async function readJson<T>(path: string): Promise<T> {
  return JSON.parse(await readFile(new URL(path, assets), 'utf8')) as T;
}

async function classifier(init: unknown): Promise<Classifier> {
  const instance = new Classify(init, {});
  await instance.setup();
  return instance;
}

function inBatches(instance: Classifier, size: number): Prediction[] {
  const rows = images.map((input) => normalise(input));
  const predictions: Prediction[] = [];
  for (let at = 0; at < rows.length; at += size) predictions.push(...instance.predict(rows.slice(at, at + size)));
  return predictions;
}

function accuracy(predictions: Prediction[]): number {
  return images.filter(({ label }, at) => predictions[at]?.digit === label).length / images.length;
}

function pixelHash(image: number[]): string {
  return createHash('sha256').update(image.join(',')).digest('hex').slice(0, 16);
}

/** A small seeded generator (mulberry32), so that the shuffle is the same in every run. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled<T>(values: readonly T[], random: () => number): T[] {
  return values
    .map((value) => ({ value, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ value }) => value);
}

/** The same numbers in the same shape, each at another place. */
function shuffleWeights(layer: Layer, random: () => number): Layer {
  const values = shuffled(layer.weights.flat(), random);
  const weights = layer.weights.map((row, at) => values.slice(at * row.length, (at + 1) * row.length));
  return { ...layer, weights };
}

describe('digits: the model', () => {
  test('classifies at least 95 of the 100 test images correctly, and as many as its file says', async () => {
    const reached = accuracy(inBatches(await classifier({}), 32));
    assert.equal(images.length, 100);
    assert.ok(reached >= 0.95, `accuracy ${reached}`);
    assert.equal(reached, model.testAccuracy);
    assert.ok(model.accuracy >= 0.97, `held-out accuracy ${model.accuracy}`);
  });

  test('answers the same for an image alone and in a batch', async () => {
    assert.equal(Classify.batch, true);
    const instance = await classifier(undefined);
    const alone = inBatches(instance, 1);
    for (const size of [7, 32, images.length]) assert.deepEqual(inBatches(instance, size), alone, `batches of ${size}`);
    assert.deepEqual(instance.predict([]), []);
  });

  test('gives ten probabilities that sum to 1, the largest at the digit', async () => {
    for (const { digit, probabilities } of inBatches(await classifier({}), 32)) {
      assert.equal(probabilities.length, 10);
      assert.ok(probabilities.every((probability) => probability >= 0 && probability <= 1));
      const sum = probabilities.reduce((total, probability) => total + probability, 0);
      assert.ok(Math.abs(sum - 1) < 1e-9, `sum ${sum}`);
      assert.equal(probabilities[digit], Math.max(...probabilities));
    }
  });

  test('classifies no better than chance with shuffled weights', async () => {
    const random = seededRandom(1);
    const folder = await mkdtemp(join(tmpdir(), 'digits-'));
    try {
      const weights = join(folder, 'shuffled.json');
      const layers = model.layers.map((layer) => shuffleWeights(layer, random));
      await writeFile(weights, JSON.stringify({ ...model, layers }));
      const reached = accuracy(inBatches(await classifier({ weights }), 32));
      assert.ok(reached < 0.5, `accuracy ${reached}`);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('takes a path of weights relative to its own file', async () => {
    const named = inBatches(await classifier({ weights: '../models/digits.json' }), 32);
    assert.deepEqual(named, inBatches(await classifier({}), 32));
  });

  test('refuses a row of the wrong length', async () => {
    const instance = await classifier({});
    assert.throws(() => instance.predict([new Float32Array(64), new Float32Array(63)]), /row 1 .* got 63/);
  });
});

describe('digits: the data', () => {
  test('has no test image among the training rows', () => {
    // First that this file hashes the way the training script does: otherwise nothing could ever be found.
    assert.equal(pixelHash(training.sample), training.hashes[0]);
    const seen = new Set(training.hashes);
    assert.equal(seen.size, training.hashes.length);
    assert.equal(seen.size, model.trainingRows);
    assert.deepEqual(
      images.filter(({ image }) => seen.has(pixelHash(image))),
      [],
    );
    assert.equal(new Set(images.map(({ image }) => pixelHash(image))).size, images.length);
  });

  test('has ten test images of each digit', () => {
    for (let digit = 0; digit < 10; digit += 1) {
      assert.equal(images.filter(({ label }) => label === digit).length, 10, `digit ${digit}`);
    }
  });
});

describe('digits: normalise', () => {
  const blank = new Array<number>(64).fill(0);

  test('scales pixels to 0..1 and leaves its input unchanged', () => {
    const input = { image: blank.with(0, 16).with(1, 4) };
    const scaled = normalise(input);
    assert.ok(scaled instanceof Float32Array);
    assert.deepEqual([...scaled.subarray(0, 3)], [1, 0.25, 0]);
    assert.equal(scaled.length, 64);
    assert.equal(input.image[0], 16);
  });

  const refused: readonly (readonly [name: string, input: unknown, path: string, message: RegExp])[] = [
    ['63 numbers', { image: blank.slice(1) }, '/image', /fewer than 64 items$/],
    ['65 numbers', { image: [...blank, 0] }, '/image', /more than 64 items$/],
    ['an empty array', { image: [] }, '/image', /fewer than 64 items$/],
    ['one string', { image: blank.with(5, '7' as unknown as number) }, '/image/5', /must be number$/],
    ['a hole', { image: new Array(64) }, '/image/0', /must be number$/],
    ['NaN', { image: blank.with(63, Number.NaN) }, '/image/63', /must be number$/],
    ['Infinity', { image: blank.with(2, Number.POSITIVE_INFINITY) }, '/image/2', /must be number$/],
    ['17', { image: blank.with(9, 17) }, '/image/9', /must be <= 16$/],
    ['-1', { image: blank.with(0, -1) }, '/image/0', /must be >= 0$/],
    ['a string for an image', { image: '0'.repeat(64) }, '/image', /must be array$/],
    ['no image', {}, '', /must have required property 'image'$/],
    ['null', null, '', /must be object$/],
    ['nothing', undefined, '', /must be object$/],
    ['a string', 'image', '', /must be object$/],
  ];
  const check = compilePayloadSchema(normalise.inputSchema);
  for (const [name, input, path, message] of refused) {
    test(`refuses ${name}`, () => {
      const [problem] = check(input, false) ?? [];
      assert.equal(problem?.path, path);
      assert.match(problem?.message ?? '', message);
    });
  }

  test('accepts its example and every test image', () => {
    for (const input of [...normalise.examples, ...images]) assert.equal(check(input, true), null);
  });
});

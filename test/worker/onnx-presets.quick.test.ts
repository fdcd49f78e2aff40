/**
 * The presets of ONNX stages, by tiny models: pictures against the pixels of Pillow, OpenCV and torchvision, boxes against
 * a plain reading of the same outputs, and embeddings.
 */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { LoadedModelet } from '../../src/runtime/worker/modelet/modelet.ts';
import { loadSharp } from '../../src/runtime/worker/tasks/library.ts';
import { type Drawing, writeModel } from '../fixtures/onnx.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { inputs, onnxLoader, type Read, run } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-presets-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = onnxLoader(folder);
const sharp = loadSharp(repositoryRoot);

type Shape = readonly (number | string)[];
type Value = { readonly data: ArrayLike<number>; readonly dims: readonly number[] };

const resultOf = (read: Read | undefined): unknown =>
  read && 'value' in read ? read.value : assert.fail(JSON.stringify(read));

/** Gives the pixels as it gets them. */
function same(shape: Shape, type = 'float32'): Drawing {
  return {
    inputs: [{ name: 'images', type, shape }],
    outputs: [{ name: 'y', type, shape }],
    nodes: [{ operator: 'Identity', inputs: ['images'], output: 'y' }],
  };
}

function picture(width: number, height: number): { data: Uint8Array; width: number; height: number; channels: number } {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, at) => {
    const [x, y] = [Math.floor(at / 3) % width, Math.floor(at / 3 / width)];
    return [x * 3 + y, y * 5, 255 - Math.floor((x * y) / 12)][at % 3] as number;
  });
  return { data, width, height, channels: 3 };
}

/** `picture(61, 47)` as the libraries resize it, pixel by pixel: made with Pillow 13 and OpenCV 5. */
const BY_PILLOW =
  'EBX+JRX8PBX5UxX2aRX0gBXxlxXurBXsFzj8LDj1QzjuWjjncDjghzjZnjjSszjLH1/5NF/uS1/iYl/WeF/Kj1+9pl+xu1+mJ4f2PIfnU4fWaofFgIezl4eiroeRw4eCL670RK7gW67Jcq6ziK6dn66Htq5xy65dNtHxS9HZYtG/edGkj9GJptFvvdFU0tE8';
const BY_PILLOW_BICUBIC =
  'DhL+JBL8PBL6UxL4aRL1gBLzmBLxrhLuFTf8Kzf1QzfuWjfncDfghzfZnzfStTfLHV/6M1/uS1/iYl/WeF/Kj1+9p1+xvV+lJYf4O4fnU4fWaofFgIezl4eir4eRxYeBLa/1Q6/gW6/Jcq+ziK+dn6+Ht69wza9bNNTzStTZYtS+edSjj9SIptRtvtRR1NQ4';
const BY_OPENCV =
  'cnJycnJycnJycnJycnJycnJycnJycnJyDRH+JBH8OxH6UhH4aRH2gBHzlhHxrRHvFTj8LDj1QzjuWjjncTjfhzjYnjjRtTjKHV/6NF/uS1/iYV/VeF/Kj1++pl+yvV+lJYb4PIbnU4bWaYbFgIazl4airoaRxYaALK72Q67fWq7Jca60iK6dn66Htq5yza5bNNX0S9XYYtW9edWikNWHp9VsvtVR1dU2cnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJy';
const BY_TORCHVISION =
  'LCH4OyH2SiHzWSHwaSHteCHrhyHoliHlMDj0PzjvTjjqXTjmbTjhfDjcizjXmjjTNVDvRFDoU1DhYlDbclDUgVDNkFDHn1DAOmfqSWfhWGfZZ2fQd2fHhme/lWe2pGetPn/mTX/bXH/Qa3/Fe3+7in+wmX+lqH+bQ5bhUpbUYZbHcJa7gJauj5ahnpaUrZaISK7cV67NZq6/da6wha6hlK6So66Esq51TMXXW8XHasW2ecWlicWUmMWEp8VztsVi';

const at = (values: readonly number[], index: number): number => values[index] as number;

/** Compares the pixels of a tensor with those of another library, which shrinks pictures almost in the same way. */
function assertPixels(
  { data, dims }: Value,
  reference: string,
  byteOf: (value: number, colour: number) => number,
): void {
  const bytes = Buffer.from(reference, 'base64');
  const [, , height = 0, width = 0] = dims.length === 4 ? dims : [1, ...dims];
  assert.equal(data.length, bytes.length);
  const most = reference === BY_OPENCV ? 1.01 : 6;
  let sum = 0;
  for (const [index, byte] of bytes.entries()) {
    const [pixel, colour] = [Math.floor(index / 3), index % 3];
    const difference = Math.abs(byteOf(data[colour * width * height + pixel] as number, colour) - byte);
    assert.ok(difference <= most, `pixel ${pixel}, colour ${colour}: by ${difference} other than ${byte}`);
    sum += difference;
  }
  assert.ok(sum / bytes.length < 1, `by ${sum / bytes.length} on average`);
}

describe('a picture', () => {
  const fraction = (value: number): number => value * 255;
  const CASES: readonly (readonly [string, Shape, object, string, (value: number, colour: number) => number])[] = [
    ['is stretched as Pillow does', ['batch', 3, 6, 8], {}, BY_PILLOW, fraction],
    ['may be resized with another filter', ['n', 3, 6, 8], { resample: 'bicubic' }, BY_PILLOW_BICUBIC, fraction],
    ['gets bars as those who made YOLO do', ['n', 3, 9, 8], { resize: 'letterbox' }, BY_OPENCV, fraction],
    ['is cropped as torchvision does', ['n', 3, 8, 8], { resize: 'crop', cropShare: 0.8 }, BY_TORCHVISION, fraction],
    ['may have its size from the stage', ['n', 3, 'h', 'w'], { size: '8x6' }, BY_PILLOW, fraction],
    ['may be bytes', ['n', 3, 6, 8], { values: 'bytes' }, BY_PILLOW, (value) => value],
    ['may be from -1 to 1', ['n', 3, 6, 8], { values: 'signed' }, BY_PILLOW, (value) => (value + 1) * 127.5],
    [
      'may be as models of ImageNet take it',
      ['n', 3, 6, 8],
      { values: 'imagenet' },
      BY_PILLOW,
      (value, colour) => 255 * (value * at([0.229, 0.224, 0.225], colour) + at([0.485, 0.456, 0.406], colour)),
    ],
    [
      'may have a mean and a deviation of its own',
      ['n', 3, 6, 8],
      { mean: [0.1, 0.2, 0.3], std: [2, 4, 8] },
      BY_PILLOW,
      (value, colour) => 255 * (value * 2 ** (colour + 1) + 0.1 * (colour + 1)),
    ],
  ];
  for (const [name, shape, options, reference, byteOf] of CASES) {
    test(name, async () => {
      const model = await load(same(shape), { takes: 'picture', tensors: true, ...options });
      const [read] = await run(model, inputs(picture(61, 47)));
      assertPixels(resultOf(read) as Value, reference, byteOf);
    });
  }

  test('is of the order and the type that the model says', async () => {
    const dot = { data: Uint8Array.of(10, 20, 30), width: 1, height: 1 };
    const of = async (shape: Shape, type: string, more: object = {}): Promise<number[]> => {
      const model = await load(same(shape, type), { takes: 'picture', tensors: true, values: 'bytes', ...more });
      const { data } = resultOf((await run(model, inputs(dot)))[0]) as Value;
      return Array.from(data, Number);
    };
    assert.deepEqual(await of(['n', 3, 1, 2], 'uint8'), [10, 10, 20, 20, 30, 30]);
    assert.deepEqual(await of(['n', 1, 2, 3], 'uint8'), [10, 20, 30, 10, 20, 30]);
    assert.deepEqual(await of(['n', 3, 1, 2], 'float16', { colours: 'bgr' }), [30, 30, 20, 20, 10, 10]);
    assert.deepEqual(await of(['n', 1, 1, 1], 'float32'), [18], 'grey');
    assert.deepEqual(await of(['n', 'height', 'width', 'channels'], 'int64', { size: '1' }), [10, 20, 30]);
  });

  test('may be a file, turned as its EXIF data say, and those of different sizes run together', async () => {
    const model = await load(same(['batch', 3, 2, 2]), { takes: 'picture', values: 'bytes', tensors: true });
    assert.equal(model.batching, null);
    const two = sharp(Buffer.from([255, 0, 0, 0, 0, 255]), {
      raw: { width: 2, height: 1, channels: 3 },
    }) as unknown as {
      png(): { withMetadata(of: object): { toBuffer(): Promise<Buffer> } };
    };
    const turned = await two.png().withMetadata({ orientation: 6 }).toBuffer();
    const all = await run(model, inputs(turned, picture(9, 5), 'no picture', { ...picture(2, 2), width: 3 }));
    const { data } = resultOf(all[0]) as Value;
    assert.deepEqual(Array.from(data).slice(0, 4).map(Math.round), [255, 255, 0, 0], 'red is above');
    assert.equal((resultOf(all[1]) as Value).data.length, 12);
    assert.deepEqual(
      all.slice(2).map((one) => 'code' in one && one.code),
      ['invalid_input', 'invalid_input'],
    );
  });

  const WRONG: readonly (readonly [Drawing, object, RegExp])[] = [
    [same(['n', 3, 'h', 'w']), {}, /"size" is missing: the input images float32 \[n, 3, h, w\]/],
    [same(['n', 3, 6, 8]), { size: '640x480' }, /"size" is 640x480, and the model takes 8x6/],
    [same(['n', 3]), {}, /no input has four dimensions; the inputs are images float32 \[n, 3\]/],
    [same(['n', 7, 6, 8]), { layout: 'nchw' }, /would have 7 colours/],
  ];
  test('that the model does not take keeps the stage from starting, with the reason', async () => {
    for (const [drawing, options, reason] of WRONG)
      await assert.rejects(load(drawing, { takes: 'picture', ...options }), reason);
  });
});

/** Gives the constant rows, but for the last number, so that two pictures have two answers. */
function detector(outputs: readonly { name: string; dims: readonly number[]; values: readonly number[] }[]): Drawing {
  return {
    inputs: [{ name: 'images', shape: ['batch', 3, 64, 64] }],
    outputs: outputs.map(({ name, dims }) => ({ name, shape: ['batch', ...dims] })),
    nodes: [
      { operator: 'ReduceMean', inputs: ['images'], output: 'mean', attributes: { axes: [1, 2, 3], keepdims: 1 } },
      { operator: 'Reshape', inputs: ['mean', 'shape'], output: 'light' },
      ...outputs.flatMap(({ name }) => [
        { operator: 'Mul', inputs: ['light', `last-${name}`], output: `more-${name}` },
        { operator: 'Add', inputs: [`more-${name}`, `all-${name}`], output: name },
      ]),
    ],
    constants: [
      { name: 'shape', type: 'int64', dims: [3], values: [0n, 1n, 1n] },
      ...outputs.flatMap(({ name, dims, values }) => [
        { name: `all-${name}`, dims: [1, ...dims], values },
        {
          name: `last-${name}`,
          dims: [1, ...dims],
          values: values.map((_, index) => (index < values.length - 1 ? 0 : 0.2)),
        },
      ]),
    ],
  };
}

interface Found {
  readonly label: string;
  readonly score: number;
  readonly box: Readonly<Record<'xmin' | 'ymin' | 'xmax' | 'ymax', number>>;
}

async function find(model: LoadedModelet, ...given: unknown[]): Promise<Found[][]> {
  return (await run(model, inputs(...given))).map((read) => resultOf(read) as Found[]);
}

function assertFound(found: readonly Found[], wanted: readonly (readonly [string, number, readonly number[]])[]): void {
  assert.deepEqual(
    found.map(({ label }) => label),
    wanted.map(([label]) => label),
  );
  for (const [at, { score, box }] of found.entries()) {
    const [, wantedScore, corners] = wanted[at] as (typeof wanted)[number];
    assert.ok(Math.abs(score - wantedScore) < 1e-3, `${score} is not ${wantedScore}`);
    const own = [box.xmin, box.ymin, box.xmax, box.ymax];
    assert.ok(
      own.every((value, side) => Math.abs(value - (corners[side] as number)) <= 1),
      `${own} is not ${corners}`,
    );
  }
}

describe('boxes', () => {
  const LABELS = { labels: ['cat', 'dog'] };
  /** Twice as wide as high: 64 x 32 with bars of 16 above and below, at half its size. */
  const WIDE = picture(128, 64);

  test('of YOLO are in pixels of the picture, without those that overlap a better one of their class', async () => {
    // x, y, width, height, cat, dog of five boxes, row by row.
    const boxes = [
      [32, 32, 20, 10, 0.9, 0.1],
      [33, 32, 20, 10, 0.8, 0.1],
      [32, 33, 20, 10, 0.2, 0.7],
      [50, 40, 8, 30, 0.1, 0.2],
      [2, 20, 20, 10, 0.6, 0.5],
    ];
    const values = [0, 1, 2, 3, 4, 5].flatMap((row) =>
      [...boxes, ...boxes.map(() => Array(6).fill(0))].map((box) => box[row] as number),
    );
    const drawing = detector([{ name: 'output0', dims: [6, 10], values }]);
    const model = await load(drawing, { takes: 'picture', gives: 'boxes', resize: 'letterbox', ...LABELS });
    assert.equal(model.batching, null);
    const kept = [
      ['cat', 0.9, [44, 22, 84, 42]],
      ['dog', 0.7, [44, 24, 84, 44]],
      ['cat', 0.6, [0, 0, 24, 18]],
    ] as const;
    const [found = [], some = [], all = []] = await find(
      model,
      WIDE,
      { input: WIDE, options: { threshold: 0.65 } },
      { input: picture(64, 64), options: { iou: 1, topK: 2 } },
    );
    assertFound(found, kept);
    assertFound(some, kept.slice(0, 2));
    assertFound(all, [
      ['cat', 0.9, [22, 27, 42, 37]],
      ['cat', 0.8, [23, 27, 43, 37]],
    ]);
    const [wrong] = await run(model, inputs({ input: WIDE, options: { threshold: 2 } }));
    assert.equal((wrong as { code: string }).code, 'invalid_input');
  });

  test('of YOLO with NMS inside are taken as they are, and cropped pictures lead back', async () => {
    const values = [10, 20, 30, 40, 0.9, 1, 11, 20, 30, 40, 0.8, 1, 0, 0, 0, 0, 0, 0];
    const drawing = detector([{ name: 'output0', dims: [3, 6], values }]);
    const model = await load(drawing, { takes: 'picture', gives: 'boxes', resize: 'crop', boxes: 'yoloNms' });
    const [found = []] = await find(model, WIDE);
    assertFound(found, [
      ['1', 0.9, [42, 20, 62, 40]],
      ['1', 0.8, [43, 20, 62, 40]],
    ]);
  });

  test('of YOLOv5 have a score beside the box, which counts', async () => {
    const rows = [[32, 32, 20, 10, 0.8, 0.5, 0.9], [10, 10, 4, 4, 0.2, 1, 1], ...Array(8).fill(Array(7).fill(0))];
    const drawing = detector([{ name: 'output0', dims: [10, 7], values: rows.flat() }]);
    const model = await load(drawing, { takes: 'picture', gives: 'boxes', ...LABELS });
    assertFound((await find(model, picture(64, 64)))[0] ?? [], [['dog', 0.72, [22, 27, 42, 37]]]);
  });

  test('of DETR come from logits and shares of the picture, with a class for no object or without', async () => {
    const boxes = {
      name: 'pred_boxes',
      dims: [3, 4],
      values: [0.5, 0.5, 0.5, 0.25, 0.1, 0.1, 0.2, 0.2, 0.5, 0.5, 1, 1],
    };
    const softmax = [5, 0, 0, 0, 6, 0, 0, 0, 9];
    const model = await load(detector([{ name: 'logits', dims: [3, 3], values: softmax }, boxes]), {
      ...{ takes: 'picture', gives: 'boxes' },
      ...LABELS,
    });
    const share = (score: number): number => Math.exp(score) / (Math.exp(score) + 2);
    assertFound((await find(model, picture(200, 100)))[0] ?? [], [
      ['dog', share(6), [0, 0, 40, 20]],
      ['cat', share(5), [50, 38, 150, 63]],
    ]);
    const each = await load(detector([{ name: 'logits', dims: [3, 2], values: [2, -9, 1, 3, -9, -9] }, boxes]), {
      ...{ takes: 'picture', gives: 'boxes', threshold: 0.5 },
      ...LABELS,
    });
    assertFound((await find(each, picture(200, 100)))[0] ?? [], [
      ['dog', 0.9526, [0, 0, 40, 20]],
      ['cat', 0.8808, [50, 38, 150, 63]],
      ['cat', 0.7311, [0, 0, 40, 20]],
    ]);
  });
});

/** The mean of each colour, with or without softmax. */
function classifier(last: 'Identity' | 'Softmax'): Drawing {
  return {
    inputs: [{ name: 'images', shape: ['batch', 3, 'height', 'width'] }],
    outputs: [{ name: 'logits', shape: ['batch', 3] }],
    nodes: [
      { operator: 'ReduceMean', inputs: ['images'], output: 'means', attributes: { axes: [2, 3], keepdims: 0 } },
      { operator: last, inputs: ['means'], output: 'soft' },
      { operator: 'Identity', inputs: ['soft'], output: 'logits' },
    ],
  };
}

describe('classes', () => {
  const RED = { data: Uint8Array.of(255, 0, 102), width: 1, height: 1 };
  const sum = Math.exp(1) + Math.exp(0) + Math.exp(0.4);
  const scores = [Math.exp(1) / sum, Math.exp(0.4) / sum, 1 / sum];

  test('have probabilities, whether the model ends with them or not, and labels from its metadata', async () => {
    for (const last of ['Identity', 'Softmax'] as const) {
      const path = writeModel(folder, last, classifier(last));
      const entry = (field: number, text: string): Buffer =>
        Buffer.concat([Buffer.of(field * 8 + 2, text.length), Buffer.from(text)]);
      for (const [key, value] of [
        ['names', `{0: 'red', 1: "it's green", 2: 'blue'}`],
        ['imgsz', '[8, 8]'],
      ] as const) {
        const content = Buffer.concat([entry(1, key), entry(2, value)]);
        appendFileSync(path, Buffer.concat([Buffer.of(14 * 8 + 2, content.length), content]));
      }
      const model = await load(path, { takes: 'picture', gives: 'classes' });
      const [all, best, likely] = await run(
        model,
        inputs(RED, { input: RED, options: { topK: 1 } }, { input: RED, options: { threshold: 0.25 } }),
      );
      const found = resultOf(all) as Found[];
      assert.deepEqual(
        found.map(({ label }) => label),
        ['red', 'blue', "it's green"],
      );
      for (const [at, { score }] of found.entries())
        assert.ok(Math.abs(score - (scores[at] as number)) < 1e-4, String(score));
      assert.deepEqual(
        [best, likely].map((one) => (resultOf(one) as Found[]).length),
        [1, 2],
      );
    }
  });

  test('take labels from a list of lines, and from the configuration of a model', async () => {
    writeFileSync(join(folder, 'classes.txt'), 'a\nb\nc\n');
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ id2label: { 0: 'x', 1: 'y', 2: 'z' } }));
    for (const [labels, first] of [
      ['classes.txt', 'a'],
      ['config.json', 'x'],
    ]) {
      const model = await load(classifier('Identity'), {
        takes: 'picture',
        gives: 'classes',
        size: '4',
        scores: 'none',
        labels,
      });
      const [found] = (await run(model, inputs(RED))).map((read) => resultOf(read) as Found[]);
      assert.deepEqual(found?.[0], { label: first, score: 1 });
    }
  });
});

describe('an embedding', () => {
  const words: Drawing = {
    inputs: [
      { name: 'x', shape: ['batch', 'length', 2] },
      { name: 'attention_mask', type: 'int64', shape: ['batch', 'length'] },
    ],
    outputs: [
      { name: 'scores', shape: ['batch', 'length', 2] },
      { name: 'token_embeddings', shape: ['batch', 'length', 2] },
    ],
    nodes: [
      { operator: 'Add', inputs: ['x', 'x'], output: 'token_embeddings' },
      { operator: 'Identity', inputs: ['x'], output: 'scores' },
    ],
  };

  test('is the mean of those tokens that the mask counts, or the first, of the length 1', async () => {
    const model = await load(words, { gives: 'embedding' });
    const item = {
      x: [
        [3, 0],
        [3, 8],
        [100, 100],
      ],
      attention_mask: [1, 1, 0],
    };
    const [mean, first] = await run(
      model,
      inputs(item, { input: item, options: { pooling: 'cls', normalize: false } }),
    );
    assert.deepEqual(resultOf(mean), Float32Array.of(0.6, 0.8));
    assert.deepEqual(resultOf(first), Float32Array.of(6, 0));
    const named = await load(words, { gives: 'embedding', output: 'scores', normalize: false, pooling: 'cls' });
    assert.deepEqual(resultOf((await run(named, inputs(item)))[0]), Float32Array.of(3, 0));
    await assert.rejects(
      load(words, { gives: 'embedding', output: 'y' }),
      /no output "y"; its outputs are "scores", "token/,
    );
  });
});

/**
 * Known models by the real library, each a tiny one: what each task takes and gives, its options, and what one bad item,
 * a file that cannot be read and a folder that lacks a file do.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { TaskName } from '../../src/config/stage-source.ts';
import { lookIntoFolder } from '../../src/config/tasks/model-folder.ts';
import { encodePng } from '../../src/core/pictures/png.ts';
import { differenceOf } from '../../src/runtime/worker/batch/alike.ts';
import { PartsOut } from '../../src/runtime/worker/batch/stream.ts';
import type { LoadedModelet } from '../../src/runtime/worker/modelet/modelet.ts';
import type { OpenSharp } from '../../src/runtime/worker/tasks/library.ts';
import { decodePayload } from '../../src/wire/codec/codec.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../fixtures/known-models.ts';
import type { Drawing } from '../fixtures/onnx.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { input, inputs, onnxLoader, type Read, run, taskLoader } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-known-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = taskLoader(folder);

/** Models that several tests use. */
const loaded: Map<TaskName, Promise<LoadedModelet>> = new Map();
function known(task: TaskName): Promise<LoadedModelet> {
  const model = loaded.get(task) ?? load(task);
  loaded.set(task, model);
  return model;
}

/** A picture of one colour, as pixels. */
function picture(colour: readonly number[], width = 16, height = 12): object {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, at) => colour[at % 3] as number);
  return { data, width, height, channels: 3 };
}
/** Its columns are red and black in turn: a smaller picture is about half red. */
const STRIPES = {
  data: Uint8Array.from({ length: 16 * 16 * 3 }, (_, at) => (at % 6 === 0 ? 255 : 0)),
  ...{ width: 16, height: 16, channels: 3 },
};
const RED = picture([255, 0, 0]);
const BLUE = picture([0, 0, 255], 20, 20);

interface Case {
  readonly task: TaskName;
  readonly given: readonly unknown[];
  readonly results: readonly unknown[];
}

const scores = (...of: readonly (readonly [string, number])[]): object[] =>
  of.map(([label, score]) => ({ label, score }));
const letters = (...levels: readonly number[]): Float32Array =>
  Float32Array.from({ length: 400 * levels.length }, (_, at) => levels[Math.floor(at / 400)] as number);

/** The boxes that the detector finds in a picture of one colour. */
const quarters = (label: string, width: number, height: number): object[] =>
  [0, height / 2].flatMap((ymin) =>
    [0, width / 2].map((xmin) => ({
      ...{ label, score: 0.999954 },
      box: { xmin, ymin, xmax: xmin + width / 2, ymax: ymin + height / 2 },
    })),
  );

const CASES: readonly Case[] = [
  {
    task: 'image-classification',
    given: [RED, { input: BLUE, options: { topK: 1 } }],
    results: [scores(['red', 0.999894], ['blue', 0.0000554], ['green', 0.0000502]), scores(['blue', 0.999922])],
  },
  {
    task: 'object-detection',
    given: [
      { input: picture([255, 0, 0], 200, 100), options: { threshold: 0.9 } },
      { input: picture([0, 0, 255], 20, 40), options: { threshold: 0.9 } },
      picture([127, 127, 127]),
    ],
    results: [quarters('red', 200, 100), quarters('blue', 20, 40), []],
  },
  {
    task: 'zero-shot-image-classification',
    given: [RED, BLUE].map((input) => ({ input, options: { labels: ['red', 'blue'] } })),
    results: [scores(['red', 0.999877], ['blue', 0.000123]), scores(['blue', 0.999877], ['red', 0.000123])],
  },
  {
    task: 'depth-estimation',
    given: [picture([255, 0, 0], 8, 8), picture([255, 255, 0], 8, 8)],
    results: [1 / 3, 2 / 3].map((depth) => ({ width: 8, height: 8, depth: new Float32Array(64).fill(depth) })),
  },
  {
    task: 'image-feature-extraction',
    given: [
      RED,
      { input: picture([0, 255, 255]), options: { pooling: 'mean', normalize: false } },
      { input: STRIPES, options: { pooling: 'mean', normalize: false } },
    ],
    results: [Float32Array.of(1, 0, 0), Float32Array.of(0, 1, 1), Float32Array.of(0.501471, 0, 0)],
  },
  {
    task: 'text-classification',
    given: ['good good a', { input: 'bad', options: { topK: 1 } }],
    results: [scores(['POSITIVE', 0.997527], ['NEGATIVE', 0.002473]), scores(['NEGATIVE', 0.952574])],
  },
  {
    task: 'zero-shot-classification',
    given: [{ input: 'good', options: { labels: ['food', 'sport'] } }],
    results: [scores(['sport', 0.880797], ['food', 0.119203])],
  },
  {
    task: 'token-classification',
    given: ['Anna lives in Paris', 'the one', '\u{1F600} Anna in anna'],
    results: [
      [
        { label: 'PER', score: 0.992942, word: 'anna', start: 0, end: 4 },
        { label: 'LOC', score: 0.992942, word: 'paris', start: 14, end: 19 },
      ],
      [],
      [
        { label: 'PER', score: 0.992942, word: 'anna', start: 3, end: 7 },
        { label: 'PER', score: 0.992942, word: 'anna', start: 11, end: 15 },
      ],
    ],
  },
  {
    task: 'question-answering',
    given: [
      { question: 'where is anna', context: 'anna lives in paris' },
      { input: 'who', options: { context: 'Anna is good' } },
      { question: 'who', context: 'is anna Anna' },
    ],
    results: [
      [{ answer: 'paris', score: 0.96365, start: 14, end: 19 }],
      // As the context writes it.
      [{ answer: 'Anna', score: 0.960766, start: 0, end: 4 }],
      [{ answer: 'anna', score: 0.246665, start: 3, end: 7 }],
    ],
  },
  {
    task: 'feature-extraction',
    given: ['good red', 'bad', { input: 'bad', options: { normalize: false } }],
    results: [Float32Array.of(0.948683, 0, 0.316228), Float32Array.of(0, 1, 0), Float32Array.of(0, 4 / 3, 0)],
  },
  {
    task: 'automatic-speech-recognition',
    given: [letters(0.2, 0.3, 0.3, 0, 0.4, 0.1, 0.2)],
    results: [{ text: 'abc a' }],
  },
  {
    task: 'audio-classification',
    given: [letters(0.5, 0.5), { input: { data: letters(0, 0), sampleRate: 16_000 }, options: { topK: 1 } }],
    results: [scores(['loud', 0.999665], ['quiet', 0.000335]), scores(['quiet', 0.880797])],
  },
];

function assertAlike(read: readonly Read[], wanted: readonly unknown[]): void {
  const found = read.map((one) => ('value' in one ? one.value : one));
  assert.equal(differenceOf(found, [...wanted]), null, JSON.stringify(found));
}

describe('a known model', () => {
  for (const { task, given, results } of CASES) {
    test(`answers for ${task}, in a batch and alone`, async () => {
      const model = await known(task);
      assert.equal(model.batching ?? null, null);
      assertAlike(await run(model, inputs(...given)), results);
      for (const [at, one] of given.entries()) assertAlike(await run(model, inputs(one)), [results[at]]);
      // Its own examples work, too: they are the warm-up.
      assert.ok((await run(model, inputs(...model.examples))).every((read) => 'value' in read));
    });
  }

  test('runs texts of a batch apart where it would compute much padding, and together where it would not', async () => {
    const model = await known('feature-extraction');
    const texts = ['good', 'bad red '.repeat(25), 'red', 'green '.repeat(35), 'bad'];
    const before = model.runs?.() ?? 0;
    const together = await run(model, inputs(...texts));
    assert.equal((model.runs?.() ?? 0) - before, 2);
    for (const [at, text] of texts.entries()) assert.deepEqual(await run(model, inputs(text)), [together[at]]);
  });

  test('gives no answer of more than 15 words, as in Python', async () => {
    const given = { input: { question: 'who', context: 'is '.repeat(20) }, options: { topK: 1000 } };
    const [read] = await run(await known('question-answering'), inputs(given));
    const found = (read as { readonly value: readonly { readonly answer: string }[] }).value;
    const lengths = found.map(({ answer }) => answer.split(' ').length);
    assert.deepEqual([found.length, Math.max(...lengths)], [6 * 15 + (14 * 15) / 2, 15]);
  });

  test('answers as the presets of an ONNX stage do with its file', async () => {
    const colours = [200, 0, 0, 0, 180, 0, 0, 0, 255, 90, 80, 70];
    const squares = Uint8Array.from({ length: 8 * 8 * 3 }, (_, at) => {
      const [x, y] = [Math.floor(at / 3) % 8, Math.floor(at / 24)];
      return colours[3 * (2 * Number(y >= 4) + Number(x >= 4)) + (at % 3)] as number;
    });
    // The library resizes in another way: these pixels stay as they are.
    const given = { data: squares, width: 8, height: 8, channels: 3 };
    const byPresets = onnxLoader(folder);
    for (const [task, preset] of [
      ['image-classification', { gives: 'classes' }],
      ['object-detection', { gives: 'boxes', threshold: 0.5 }],
      ['image-feature-extraction', { gives: 'embedding', pooling: 'cls' }],
    ] as const) {
      const { graphs, config } = KNOWN[task] as KnownModel;
      const labels = config['id2label'] ? { labels: Object.values(config['id2label']) } : {};
      const init = { takes: 'picture', size: '8', ...preset, ...labels };
      const found = await run(await byPresets(graphs['model'] as Drawing, init), inputs(given));
      const [wanted] = await run(await known(task), inputs(given));
      const { value } = wanted as { value: readonly { score: number }[] | Float32Array };
      // The library has boxes in the order of the model's outputs.
      assertAlike(found, [Array.isArray(value) ? value.toSorted((a, b) => b.score - a.score) : value]);
    }
  });

  test('generates text in parts, with the whole text and its figures behind them', async () => {
    const model = await known('text-generation');
    const end = (text: string, finish_reason: string, prompt_tokens: number, completion_tokens: number): object => ({
      ...{ text, finish_reason },
      usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    });
    assertAlike(await run(model, inputs({ input: 'good', options: { maxTokens: 3 } }, 'sport')), [
      // The tokenizer puts a token in front of a text, as in Python.
      end('bad a red', 'length', 2, 3),
      end('', 'stop', 2, 1),
    ]);
    const sent: unknown[] = [];
    const parts = new PartsOut((part) => sent.push(decodePayload(part.payload)));
    const streamed = input({ input: 'good', options: { maxTokens: 3 } }, { streams: true });
    assertAlike(await run(model, [streamed], { parts }), [end('bad a red', 'length', 2, 3)]);
    assert.equal(sent.join(''), 'bad a red');
    const chat = { messages: [{ role: 'user', content: 'red' }], max_tokens: 2, model: 'any' };
    assertAlike(await run(model, inputs(chat)), [end('green blue', 'length', 1, 2)]);
  });

  test('runs items one by one if a batch answers otherwise, and says why', async () => {
    const graphs = KNOWN['feature-extraction']?.graphs ?? {};
    const { model: drawing } = graphs;
    assert.ok(drawing);
    // The mean of the words with padding: the library's mask is no help where the model mixes words itself.
    const leaking = {
      ...drawing,
      nodes: [
        { operator: 'Gather', inputs: ['table', 'input_ids'], output: 'rows', attributes: { axis: 0 } },
        { operator: 'ReduceMean', inputs: ['rows'], output: 'mean', attributes: { axes: [1], keepdims: 1 } },
        { operator: 'Add', inputs: ['rows', 'mean'], output: 'last_hidden_state' },
      ],
    };
    const model = await load('feature-extraction', {}, { graphs: { model: leaking } });
    assert.match(model.batching?.text ?? '', /^items run one by one: results depend on other inputs of the batch/);
    const alone = await run(model, inputs('good'));
    assertAlike((await run(model, inputs('good', 'bad bad bad bad'))).slice(0, 1), [
      (alone[0] as { value: unknown }).value,
    ]);
    const forced = await load('feature-extraction', { batch: true }, { graphs: { model: leaking } });
    assert.equal(forced.batching, null);
  });
});

describe('pictures', () => {
  const sharp = createRequire(join(repositoryRoot, 'package.json'))('sharp') as OpenSharp;
  /** A JPEG that is red above and blue below, turned by its EXIF data: a person sees red on the right. */
  const turned = async (): Promise<Buffer> => {
    const data = Buffer.from(Array.from({ length: 8 * 4 }, (_, at) => (at < 16 ? [255, 0, 0] : [0, 0, 255])).flat());
    const raw = { width: 4, height: 8, channels: 3 };
    const file = sharp(data, { raw }) as unknown as {
      withMetadata(o: object): { jpeg(o: object): { toBuffer(): Promise<Buffer> } };
    };
    return file.withMetadata({ orientation: 6 }).jpeg({ quality: 100 }).toBuffer();
  };
  const label = (read: Read | undefined): unknown =>
    read && 'value' in read ? (read.value as { label: string }[])[0]?.label : read;

  test('come in every usual form, and a bad one fails alone', async () => {
    const model = await known('image-classification');
    const { data, width, height } = RED as { data: Uint8Array; width: number; height: number };
    const rgba = Uint8Array.from({ length: 64 }, (_, at) => [0, 0, 255, 9][at % 4] as number);
    const png = await encodePng({ data, width, height, channels: 3 });
    const base64 = png.toString('base64');
    const given: readonly (readonly [unknown, unknown])[] = [
      [png, 'red'],
      [base64, 'red'],
      [`data:image/png;base64,${base64}`, 'red'],
      [{ fieldname: 'file', mimetype: 'image/png', buffer: png }, 'red'],
      [{ type: 'Buffer', data: [...png] }, 'red'],
      [{ data: [...data], width, height }, 'red'],
      [{ data, info: { width, height, channels: 3 } }, 'red'],
      [{ bitmap: { data: rgba, width: 4, height: 4 } }, 'blue'],
      [{ data, dims: [height, width, 3], type: 'uint8' }, 'red'],
      [png.subarray(0, 60), /^the picture cannot be read: /],
      [Buffer.from('not a picture'), /^the picture cannot be read: /],
      [Buffer.alloc(0), /^the picture cannot be read: /],
      ['what is this?', /^the text is not base64: a picture is the bytes of a file/],
      [7, /^a picture is the bytes of a file/],
      [{ data, width: 5, height }, /^576 bytes are not 5 x 12 pixels/],
      [{ data: [256], width: 1, height: 1 }, /^the pixels must be whole numbers/],
    ];
    const read = await run(model, inputs(...given.map(([value]) => value)));
    for (const [at, [, wanted]] of given.entries()) {
      const one = read[at] as Read;
      if (!(wanted instanceof RegExp)) assert.equal(label(one), wanted, String(at));
      else {
        assert.ok('code' in one, String(at));
        assert.equal(one.code, 'invalid_input');
        assert.match(one.message, wanted);
      }
    }
  });

  test('are turned by their EXIF data, and limited', async () => {
    const detector = await known('object-detection');
    const [found] = await run(detector, inputs({ input: await turned(), options: { threshold: 0 } }));
    assert.ok(found && 'value' in found, JSON.stringify(found));
    const boxes = found.value as { label: string; box: { xmin: number; xmax: number; ymax: number } }[];
    assert.deepEqual(
      boxes.filter(({ label }) => label === 'red').map(({ box }) => [box.xmin, box.xmax]),
      [
        [4, 8],
        [4, 8],
      ],
    );
    const small = await load('image-classification', { maxMegapixels: 0.001 });
    const large = await encodePng({ data: Buffer.alloc(3 * 100 * 100), width: 100, height: 100, channels: 3 });
    for (const one of await run(small, inputs(large, picture([1, 2, 3], 100, 100)))) {
      assert.ok('code' in one);
      assert.equal(one.code, 'payload_too_large');
      assert.match(one.message, /^the picture has 100 x 100 pixels; the limit is 0.001 million/);
    }
  });
});

describe('a folder', () => {
  test('says all that it lacks', async () => {
    const model = KNOWN['zero-shot-image-classification'] as KnownModel;
    const omit = ['tokenizer.json', 'preprocessor_config.json', 'model'];
    const path = writeKnownModel(join(folder, 'lacking'), model, { omit });
    const look = (precision: string): unknown => lookIntoFolder(path, 'zero-shot-image-classification', precision);
    assert.throws(
      () => look('auto'),
      /lacking lacks preprocessor_config.json, tokenizer.json, onnx\/\*.onnx, the weights$/,
    );
    writeKnownModel(path, model, { suffix: '_fp16' });
    assert.deepEqual(look('auto'), { path, subfolder: 'onnx', precision: 'fp16' });
    assert.throws(() => look('q8'), /lacks weights of the precision q8 \(it has fp16\)$/);
    // Only the library knows how the weights of this kind of model are called.
    await assert.rejects(
      load('text-classification', {}, { graphs: { decoder: Object.values(model.graphs)[0] as Drawing } }),
      /the folder .* lacks onnx\/model.onnx$/,
    );
  });

  test('has no other options than those of its task', async () => {
    await assert.rejects(
      async () => load('text-classification', { topk: 1 }),
      /^ModeletError: init: must NOT have additional properties: "topk"; there are topK, /,
    );
    await assert.rejects(
      async () => load('text-classification', { topK: 0 }),
      /^ModeletError: init\/topK: must be >= 1/,
    );
    const model = await known('zero-shot-image-classification');
    assert.deepEqual(await run(model, inputs(RED)), [
      { code: 'invalid_input', message: 'the option labels is missing: the stage or the request must set it' },
    ]);
  });
});

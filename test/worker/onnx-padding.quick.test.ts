/** Items of different lengths in one run of an ONNX model: filled up, answered as alone, and cut back to their length. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { SessionTensor } from '../../src/runtime/worker/onnx/elements.ts';
import { Padding } from '../../src/runtime/worker/onnx/padding.ts';
import type { Ports } from '../../src/runtime/worker/onnx/ports.ts';
import { readItem } from '../../src/runtime/worker/onnx/read-item.ts';
import { type ItemOutputs, type RunSession, runItems } from '../../src/runtime/worker/onnx/run-items.ts';
import { normalized } from '../../src/runtime/worker/presets/vectors.ts';
import type { Drawing } from '../fixtures/onnx.ts';
import { inputs, type Logged, onnxLoader, run } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-padding-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = onnxLoader(folder);

type Feeds = Parameters<RunSession>[0];

const AXIS = { name: 'axis', type: 'int64', dims: [1], values: [1n] } as const;
const KEEPS_NONE = { keepdims: 0 };
const SEQUENCE = ['batch', 'sequence'];

/** The mean of the values where the mask is 1, and the doubled values: as a text model pools the vectors of its tokens. */
const MASKED_MEAN: Drawing = {
  inputs: [
    { name: 'x', shape: SEQUENCE },
    { name: 'mask', shape: SEQUENCE },
  ],
  outputs: [
    { name: 'mean', shape: ['batch'] },
    { name: 'doubled', shape: SEQUENCE },
  ],
  nodes: [
    { operator: 'Mul', inputs: ['x', 'mask'], output: 'seen' },
    { operator: 'ReduceSum', inputs: ['seen', 'axis'], output: 'sum', attributes: KEEPS_NONE },
    { operator: 'ReduceSum', inputs: ['mask', 'axis'], output: 'count', attributes: KEEPS_NONE },
    { operator: 'Div', inputs: ['sum', 'count'], output: 'mean' },
    { operator: 'Add', inputs: ['x', 'x'], output: 'doubled' },
  ],
  constants: [AXIS],
  operators: 13,
};

/** The number of values: filling changes it. */
const LENGTH: Drawing = {
  inputs: [{ name: 'x', shape: SEQUENCE }],
  outputs: [{ name: 'sum', shape: ['batch'] }],
  nodes: [
    { operator: 'Exp', inputs: ['x'], output: 'exp' },
    { operator: 'ReduceSum', inputs: ['exp', 'axis'], output: 'sum', attributes: KEEPS_NONE },
  ],
  constants: [AXIS],
  operators: 13,
};

const text = (...values: number[]): object => ({ x: values, mask: values.map(() => 1) });
const TEXTS = [text(1, 2, 3), text(5), text(2, 4), text(1, 1, 1, 1, 6)];
const OF_TEXTS = [
  { mean: 2, doubled: [2, 4, 6] },
  { mean: 5, doubled: [10] },
  { mean: 3, doubled: [4, 8] },
  { mean: 2, doubled: [2, 2, 2, 2, 12] },
].map((value) => ({ value }));

const PORTS: Ports = {
  inputs: [
    { name: 'ids', type: 'int64', shape: ['batch', 'sequence'] },
    { name: 'picture', type: 'float32', shape: ['batch', 3, 'height', 'width'] },
  ],
  outputs: [{ name: 'y', type: 'float32', shape: ['batch', 'height', 'sequence'] }],
};

describe('items of different lengths', () => {
  test('run together, are answered as alone, and get outputs as long as they are', async () => {
    const logged: Logged[] = [];
    const model = await load(MASKED_MEAN, { pad: { x: 0, mask: 0 } }, logged);
    assert.equal(model.batching, null);
    assert.deepEqual(
      logged.filter(({ level }) => level === 'warn'),
      [],
    );
    const runs = model.runs?.() ?? Number.NaN;
    assert.deepEqual(await run(model, inputs(...TEXTS)), OF_TEXTS);
    assert.equal(model.runs?.(), runs + 2, 'the longest of a run is at most twice as long as the shortest');
    for (const [at, one] of TEXTS.entries()) assert.deepEqual(await run(model, inputs(one)), [OF_TEXTS[at]]);
  });

  test('run one length after the other without padding, with the same answers', async () => {
    const model = await load(MASKED_MEAN);
    const runs = model.runs?.() ?? Number.NaN;
    assert.deepEqual(await run(model, inputs(...TEXTS)), OF_TEXTS);
    assert.equal(model.runs?.(), runs + TEXTS.length);
  });

  test('are not padded if that would change answers, and the log says why', async () => {
    const logged: Logged[] = [];
    const model = await load(LENGTH, { pad: { x: 0 } }, logged);
    const [{ message }] = logged.filter(({ level }) => level === 'warn') as [Logged];
    assert.match(String(message), /^"pad" is left out: results depend on other inputs of the batch: "sum" is /);
    assert.equal(model.batching, null, 'items of one length still run together');
    assert.deepEqual(await run(model, inputs([0, 0], [0, 0, 0], [0])), [{ value: 2 }, { value: 3 }, { value: 1 }]);
  });

  for (const [pad, message] of [
    [{ y: 0 }, /pad: the model has no input "y"; its inputs are "x"/],
    [{ x: 'a' }, /pad: "a" is no float32 for input "x"/],
  ] as const) {
    test(`do not start a stage whose "pad" is ${JSON.stringify(pad)}`, async () => {
      await assert.rejects(load(LENGTH, { pad }), message);
    });
  }

  test('do not start a stage that pads an input without an open dimension', async () => {
    const drawing = { ...LENGTH, inputs: [{ name: 'x', shape: ['batch', 4] }] };
    await assert.rejects(load(drawing, { pad: { x: 0 } }), /pad: input "x" has no open dimension beside the first/);
  });

  for (const pad of [{}, [0], 'x', { x: null }]) {
    test(`refuse a "pad" that is ${JSON.stringify(pad)}`, async () => {
      await assert.rejects(async () => load(LENGTH, { pad }), /init: "pad" must be an object from names of inputs to/);
    });
  }
});

describe('a run', () => {
  const stacking = { tag: 'stacked', size: null } as const;
  const item = (ids: number, height: number, width: number): unknown => ({
    ids: Array.from({ length: ids }, (_, index) => index + 1),
    picture: { data: Float32Array.from({ length: 3 * height * width }, (_, at) => at), dims: [3, height, width] },
  });

  /** Runs items of a model that numbers the elements of its output. Returns what its runs were given, and the outputs. */
  async function runs(...items: readonly unknown[]): Promise<{ feeds: Feeds[]; outputs: (ItemOutputs | Error)[] }> {
    const feeds: Feeds[] = [];
    const session: RunSession = async (fed) => {
      feeds.push(fed);
      const [count = 0, , height = 0] = fed['picture']?.dims ?? [];
      const length = fed['ids']?.dims[1] ?? 0;
      const data = Float32Array.from({ length: count * height * length }, (_, at) => at);
      return [{ type: 'float32', dims: [count, height, length], data }];
    };
    const padding = new Padding(PORTS, { ids: -1, picture: 0.5 });
    const read = items.map((one) => readItem(one, PORTS.inputs, stacking));
    return { outputs: await runItems(read, { ports: PORTS, stacking, padding, run: session }), feeds };
  }

  test('is as long in each open dimension as the longest of its items, and outputs are as long as their items', async () => {
    const { feeds, outputs } = await runs(item(2, 1, 2), item(1, 2, 1));
    const [{ ids, picture }] = feeds as [Record<'ids' | 'picture', SessionTensor>];
    assert.equal(feeds.length, 1);
    // The smaller item is first.
    assert.deepEqual(
      [ids.dims, [...ids.data]],
      [
        [2, 2],
        [1n, -1n, 1n, 2n],
      ],
    );
    assert.deepEqual(picture.dims, [2, 3, 2, 2]);
    const channels = (...rows: number[][]): number[] => rows.flat();
    assert.deepEqual(
      [...picture.data],
      [
        ...channels([0, 0.5, 1, 0.5], [2, 0.5, 3, 0.5], [4, 0.5, 5, 0.5]),
        ...channels([0, 1, 0.5, 0.5], [2, 3, 0.5, 0.5], [4, 5, 0.5, 0.5]),
      ],
    );
    const [wide, high] = outputs as [ItemOutputs, ItemOutputs];
    assert.deepEqual(wide, [{ type: 'float32', dims: [1, 2], data: Float32Array.of(4, 5) }]);
    assert.deepEqual(high, [{ type: 'float32', dims: [2, 1], data: Float32Array.of(0, 2) }]);
  });

  test('has no item that is more than twice as large as its smallest', async () => {
    const { feeds, outputs } = await runs(...[9, 1, 4, 2, 3, 30, 5].map((length) => item(length, 1, 1)));
    // Each item has three more elements, those of its picture.
    assert.deepEqual(
      feeds.map((fed) => fed['ids']?.dims),
      [
        [5, 5],
        [1, 9],
        [1, 30],
      ],
    );
    assert.deepEqual(
      outputs.map((one) => (one as ItemOutputs)[0]?.dims[1]),
      [9, 1, 4, 2, 3, 30, 5],
    );
  });
});

test('a vector of any length is made as long as 1', () => {
  const length = 1_000_000;
  assert.deepEqual(normalized(new Float32Array(length).fill(3)), new Float32Array(length).fill(0.001));
  assert.deepEqual(normalized(new Float32Array(2)), new Float32Array(2));
});

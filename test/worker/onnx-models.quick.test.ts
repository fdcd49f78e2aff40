/** ONNX models as other programs export them: whose first dimension has no name, with maps, of half floats. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { portsOf } from '../../src/runtime/worker/onnx/ports.ts';
import { classifier, type Drawing, doubling } from '../fixtures/onnx.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { inputs, onnxLoader, type Read, run, values } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-onnx-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = onnxLoader(folder);

describe('the batch of a model', () => {
  const UNNAMED: readonly (readonly [string, Drawing])[] = [
    ['has another name in the output', doubling(['n', 2], { output: ['found', 2] })],
    ['has no name', doubling(['', 2])],
    ['is one in the output, as some exporters have it', doubling(['n', 2], { output: [1, 2] })],
  ];
  for (const [name, drawing] of UNNAMED) {
    test(`is found by trial if the first dimension ${name}`, async () => {
      const model = await load(drawing);
      assert.deepEqual(await run(model, inputs([1, 2], [3, 4])), values([2, 4], [6, 8]));
      assert.equal(model.batching, null);
    });
  }

  test('may include items with the first dimension: one of several rows runs alone, and gets as many results', async () => {
    const several = [
      [1, 2],
      [3, 4],
    ];
    const one = { data: new Float32Array([7, 8]), dims: [1, 2] };
    for (const name of ['', 'batch']) {
      assert.deepEqual(
        await run(await load(doubling([name, 2])), inputs([5, 6], several, one, [9, 9])),
        values(
          [10, 12],
          [
            [2, 4],
            [6, 8],
          ],
          [[14, 16]],
          [18, 18],
        ),
      );
    }
  });

  const rows = { inputs: [{ name: 'x', shape: ['', 2] }], outputs: [{ name: 'y', shape: ['', 2] }] };
  const axis = { name: 'axis', type: 'int64', dims: [], values: [0n] };
  const ALONE: readonly (readonly [string, Drawing, RegExp])[] = [
    [
      'rows are added to those after them',
      { ...rows, nodes: [{ operator: 'CumSum', inputs: ['x', 'axis'], output: 'y' }], constants: [axis] },
      /results depend on other inputs of the batch: "y" is \[.*\] alone, and \[.*\] together( \(\d inputs take .* ms one by one, .* ms together\))?$/,
    ],
    [
      'all rows have one result',
      { ...rows, nodes: [{ operator: 'Sub', inputs: ['x', 'x'], output: 'y' }] },
      /the inputs that were tried have the same result: give examples whose results differ, or set "batch": true/,
    ],
    [
      'rows become one',
      {
        ...rows,
        nodes: [{ operator: 'ReduceSum', inputs: ['x', 'axis'], output: 'y', attributes: { keepdims: 0 } }],
        constants: [{ ...axis, dims: [1] }],
      },
      /output "y" of shape \[2\] cannot be split into 1 item:/,
    ],
    ['the first dimension is 1', doubling([1, 2]), /its first dimension is 1: export the model with an open/],
  ];
  for (const [name, drawing, message] of ALONE) {
    test(`has one item if ${name}, and a warning says why`, async () => {
      const model = await load(drawing);
      const [read] = await run(model, inputs([1, 2], [3, 4]));
      assert.ok(read && 'value' in read);
      assert.equal(model.batching?.items, 'singly');
      assert.match(model.batching.text, message);
    });
  }

  test('is tried with the examples if generated rows do not fit the model', async () => {
    const drawing: Drawing = {
      inputs: [{ name: 'x', shape: ['', ''] }],
      outputs: [{ name: 'y', shape: ['', 2] }],
      nodes: [{ operator: 'MatMul', inputs: ['x', 'weights'], output: 'y' }],
      constants: [{ name: 'weights', dims: [2, 2], values: [1, 0, 0, 2] }],
    };
    assert.match((await load(drawing)).batching?.text ?? '', /no two inputs could be tried \(.*\): give examples/);
    const model = await load(drawing, { examples: [[1, 2]] });
    assert.equal(model.batching, null);
    assert.deepEqual(await run(model, inputs([1, 2], [3, 4])), values([1, 4], [3, 8]));
  });
});

describe('a classifier of scikit-learn', () => {
  const rounded = (read: Read): unknown =>
    JSON.parse(JSON.stringify(read), (_key, value: unknown) =>
      typeof value === 'number' ? Number(value.toFixed(3)) : value,
    );

  test('exported without ZipMap runs in batches and returns label and probabilities', async () => {
    const model = await load(classifier({ zipmap: false }));
    assert.equal(model.batching, null);
    const read = await run(model, inputs([3, 0], [0, 3]));
    assert.deepEqual(
      read.map(rounded),
      values({ label: 'first', probabilities: [0.953, 0.047] }, { label: 'second', probabilities: [0.047, 0.953] }),
    );
  });

  test('applies labels and softmax to the output with the scores, which is not the first', async () => {
    const model = await load(classifier({ zipmap: false }), { labels: ['dog', 'cat'] });
    const cat = { label: 'cat', index: 1, score: 0.953, scores: [0.047, 0.953] };
    assert.deepEqual((await run(model, inputs([0, 3]))).map(rounded), values({ label: 'second', probabilities: cat }));
    const softened = await load(classifier({ zipmap: false }), { softmax: true });
    const [read] = (await run(softened, inputs([0, 3]))).map(rounded);
    assert.deepEqual(read, { value: { label: 'second', probabilities: [0.288, 0.712] } });
    assert.match(
      JSON.stringify(model.documented?.outputSchema),
      /"label":\{"type":"string"\}.*"probabilities":\{"type":"object","required":\["label"/,
    );
    await assert.rejects(
      load(classifier({ zipmap: false }), { labels: ['a', 'b', 'c'] }),
      /labels: the list has 3 labels, and the output "probabilities" has 2 scores/,
    );
  });

  test('exported with ZipMap does not start, and the error says how to export it', async () => {
    await assert.rejects(
      load(classifier({ zipmap: true })),
      /output "output_probability" of the model is a sequence, a map or optional, .*to_onnx\(model, X, options=\{"zipmap": False\}\)/,
    );
  });
});

describe('a model of half floats', () => {
  const half = doubling(['batch', 2], { type: 'float16' });

  test('takes and returns numbers, rounded to the nearest half float', async () => {
    const read = await run(await load(half), inputs([1, -2.5], new Float32Array([0.1, 60_000]), [2 ** -24, 0]));
    assert.deepEqual(read, values([2, -5], [0.199951171875, Number.POSITIVE_INFINITY], [2 ** -23, 0]));
  });

  test('may have labels and softmax', async () => {
    const [read] = await run(await load(half, { labels: ['a', 'b'], softmax: true }), inputs([0, 9]));
    assert.equal((read as { value: { label: string } }).value.label, 'b');
  });

  test('returns tensors that it accepts as input', async () => {
    const model = await load(half, { tensors: true });
    const [first] = await run(model, inputs([1, 2]));
    const { value } = first as { value: { data: ArrayLike<number>; dims: number[]; type: string } };
    assert.deepEqual([[...Array.from(value.data)], value.dims, value.type], [[2, 4], [2], 'float16']);
    const [second] = await run(model, inputs(value));
    assert.deepEqual(Array.from((second as { value: { data: ArrayLike<number> } }).value.data), [4, 8]);
    const bits = { data: new Uint16Array([0x3c00, 0xc000]), dims: [2], type: 'float16' };
    const [third] = await run(model, inputs(bits));
    assert.deepEqual(Array.from((third as { value: { data: ArrayLike<number> } }).value.data), [2, -4]);
  });
});

test('the peer range of onnxruntime-node starts at the version that stages need', () => {
  const [, needed] = /older than (\d+\.\d+)/.exec(String(thrownBy(() => portsOf({})))) ?? [];
  for (const file of ['package.json', 'package-lock.json']) {
    const read = JSON.parse(readFileSync(join(repositoryRoot, file), 'utf8')) as Manifest & {
      packages?: Record<string, Manifest>;
    };
    const { peerDependencies } = read.packages?.[''] ?? read;
    assert.equal(peerDependencies['onnxruntime-node'], `^${needed}.0`, file);
  }
});

interface Manifest {
  readonly peerDependencies: Readonly<Record<string, string>>;
}

function thrownBy(call: () => unknown): unknown {
  try {
    return call();
  } catch (thrown) {
    return thrown;
  }
}

describe('a model that its runtime cannot load or serve', () => {
  const ROWS: readonly (readonly [string, Drawing, RegExp])[] = [
    ['bfloat16', castTo('bfloat16', 16), /the type bfloat16, which is not supported: cast it inside/],
    ['int4', castTo('int4', 22), /the type int4, which is not supported: cast it inside/],
    [
      'operators that are too new',
      { ...doubling([2]), operators: 99 },
      /the model needs opset 99 of ai\.onnx, of which \d+ is the newest that runs: install a newer onnxruntime-node/,
    ],
  ];
  for (const [name, drawing, message] of ROWS) {
    test(`names ${name}`, async () => {
      await assert.rejects(load(drawing), message);
    });
  }
});

test('a model whose first dimension is 0 takes its own shape', async () => {
  const nothing = { data: [], dims: [0], type: 'float32' };
  assert.deepEqual(await run(await load(doubling([0])), inputs(nothing)), values([]));
});

function castTo(type: string, code: number): Drawing {
  return {
    ...{ inputs: [{ name: 'x', shape: [2] }], outputs: [{ name: 'y', type, shape: [2] }], operators: 21 },
    nodes: [{ operator: 'Cast', inputs: ['x'], output: 'y', attributes: { to: code } }],
  };
}

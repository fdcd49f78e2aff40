/** ONNX models as modelets: what an item may look like, how items are stacked and split, what comes out. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { type Drawing, doubling, TABLE } from '../fixtures/onnx.ts';
import { inputs, onnxLoader, run, values } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-onnx-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = onnxLoader(folder);

describe('an item of a model with one input', () => {
  const SHAPED: readonly (readonly [string, unknown])[] = [
    [
      'nested arrays',
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ['a flat array', [1, 2, 3, 4]],
    ['a typed array', new Float32Array([1, 2, 3, 4])],
    ['a typed array of another type', new Uint8Array([1, 2, 3, 4])],
    ['a Buffer', Buffer.from([1, 2, 3, 4])],
    ['rows that are typed arrays', [new Float32Array([1, 2]), new Float32Array([3, 4])]],
    ['a tensor', { data: [1, 2, 3, 4], dims: [2, 2], type: 'float32' }],
    ['a tensor without dims', { data: [1, 2, 3, 4] }],
    [
      'an object by the name of the input',
      {
        x: [
          [1, 2],
          [3, 4],
        ],
      },
    ],
    ['a tensor by the name of the input', { x: { data: [1, 2, 3, 4], dims: [2, 2] } }],
  ];
  for (const [name, item] of SHAPED) {
    test(`may be ${name}`, async () => {
      const model = await load(doubling(['batch', 2, 2]));
      assert.deepEqual(
        await run(model, inputs(item)),
        values([
          [2, 4],
          [6, 8],
        ]),
      );
    });
  }

  test('may be a single value if the model takes one per item', async () => {
    const model = await load(doubling(['batch']));
    assert.deepEqual(
      await run(model, inputs(1, [2], new Float32Array([3]), { data: [4], dims: [] })),
      values(2, [4], [6], 8),
    );
  });

  test('has its own shape if the model leaves it open', async () => {
    const model = await load(doubling(['batch', 'height', 'width']));
    const tall = { data: [1, 2, 3, 4, 5, 6], dims: [3, 2] };
    assert.deepEqual(
      await run(model, inputs([[1, 2, 3]], tall, [[4, 5, 6]])),
      values(
        [[2, 4, 6]],
        [
          [2, 4],
          [6, 8],
          [10, 12],
        ],
        [[8, 10, 12]],
      ),
    );
  });

  const circle: unknown[] = [];
  circle.push(circle);
  const WRONG: readonly (readonly [string, unknown, RegExp])[] = [
    ['an array that contains itself', circle, /has more than 100 dimensions/],
    [
      'too few elements',
      [1, 2, 3],
      /^input "x": must be of shape \[batch, 2, 2\], or \[2, 2\] for one row, found 3 elements$/,
    ],
    ['another shape', [[1, 2, 3, 4]], /^input "x": must be of shape .*, or \[2, 2\] for one row, found \[1, 4\]$/],
    ['a number', 7, /or \[2, 2\] for one row, found \[\]/],
    ['ragged rows', [[1, 2], [3]], /the arrays at depth 1 are not of one length/],
    ['rows and numbers', [[1, 2], 3], /not nested to the same depth/],
    [
      'a row of rows',
      [
        [1, 2],
        [3, [4]],
      ],
      /not nested to the same depth/,
    ],
    ['text', ['a', 'b', 'c', 'd'], /element 0 is no float32/],
    ['null in it', [1, 2, null, 4], /element 2 is no float32/],
    ['beyond its type', [1, 1e39, 3, 4], /element 1 is 1e\+39, which is infinite as a float32/],
    ['named beside another', { x: [1, 2, 3, 4], y: 1 }, /the model has no input "y"; its inputs are "x"/],
    ['null', null, /must be an array, a typed array or \{data, dims, type\}, found null/],
    ['another object', { y: 1 }, /found an object with y/],
    ['dims that do not fit its data', { data: [1, 2], dims: [2, 2] }, /dims \[2, 2\] are 4 elements, data has 2/],
    ['invalid dims', { data: [1, 2], dims: [-1, 2] }, /dims must be an array of whole numbers/],
    ['another type', { data: [1, 2, 3, 4], dims: [2, 2], type: 'int64' }, /must be of type float32, found int64/],
  ];
  for (const [name, item, message] of WRONG) {
    test(`fails alone if it is ${name}`, async () => {
      const model = await load(doubling(['batch', 2, 2]));
      const [first, wrong, last] = await run(model, inputs([1, 2, 3, 4], item, [5, 6, 7, 8]));
      assert.deepEqual(
        [first, last],
        values(
          [
            [2, 4],
            [6, 8],
          ],
          [
            [10, 12],
            [14, 16],
          ],
        ),
      );
      const { code, message: text } = wrong as { code: string; message: string };
      assert.equal(code, 'invalid_input');
      assert.match(text, message);
    });
  }
});

describe('elements', () => {
  test('are not rounded or wrapped as integers', async () => {
    const model = await load(doubling(['batch'], { type: 'int32' }));
    const read = await run(model, inputs(3, 1.5, 2 ** 31, '4', 5n));
    assert.deepEqual(read[0], { value: 6 });
    for (const wrong of read.slice(1)) assert.match((wrong as { message: string }).message, /element 0 is no int32/);
  });

  test('are numbers if these can hold the 64 bits, else BigInt', async () => {
    const model = await load(doubling(['batch'], { type: 'int64' }));
    const read = await run(model, inputs(3, -4n, 2n ** 60n, 1.5, 2n ** 63n));
    assert.deepEqual(read.slice(0, 3), values(6, -8, 2n ** 61n));
    for (const wrong of read.slice(3)) assert.match((wrong as { message: string }).message, /element 0 is no int64/);
  });

  test('are no half floats from 65520 on', async () => {
    const model = await load(doubling(['batch'], { type: 'float16' }));
    const [fits, tooLarge] = await run(model, inputs(32_000, -65_520));
    assert.deepEqual(fits, { value: 64_000 });
    assert.match((tooLarge as { message: string }).message, /element 0 is -65520, which is infinite as a float16/);
  });

  test('may be strings and booleans', async () => {
    const not: Drawing = {
      inputs: [{ name: 'x', type: 'bool', shape: ['batch', 2] }],
      outputs: [{ name: 'y', type: 'bool', shape: ['batch', 2] }],
      nodes: [{ operator: 'Not', inputs: ['x'], output: 'y' }],
    };
    assert.deepEqual(await run(await load(not), inputs([true, false], [1, 0])), values([false, true], [false, true]));
    const same: Drawing = {
      inputs: [{ name: 'x', type: 'string', shape: ['batch', 2] }],
      outputs: [{ name: 'y', type: 'string', shape: ['batch', 2] }],
      nodes: [{ operator: 'Identity', inputs: ['x'], output: 'y' }],
    };
    const texts = await load(same);
    assert.deepEqual(await run(texts, inputs(['a', 'b'], ['c', ''])), values(['a', 'b'], ['c', '']));
    const [cut] = await run(texts, inputs(['a', 'b\0c']));
    assert.match((cut as { message: string }).message, /element 1 has a NUL character, at which the text would be cut/);
  });
});

describe('a model with several inputs and outputs', () => {
  const BOTH: Drawing = {
    inputs: [
      { name: 'a', shape: ['batch', 2] },
      { name: 'b', shape: ['batch', 1] },
    ],
    outputs: [
      { name: 'sum', shape: ['batch', 2] },
      { name: 'product', shape: ['batch', 2] },
    ],
    nodes: [
      { operator: 'Add', inputs: ['a', 'b'], output: 'sum' },
      { operator: 'Mul', inputs: ['a', 'b'], output: 'product' },
    ],
  };

  test('takes objects and returns objects, by name', async () => {
    const read = await run(await load(BOTH), inputs({ a: [1, 2], b: 10 }, { a: [3, 4], b: [100] }));
    assert.deepEqual(read, values({ sum: [11, 12], product: [10, 20] }, { sum: [103, 104], product: [300, 400] }));
  });

  test('fails the item that lacks an input', async () => {
    const read = await run(await load(BOTH), inputs({ a: [1, 2] }, [1, 2], { a: [1, 2], b: 1 }));
    assert.deepEqual(
      read.map((one) => ('code' in one ? [one.code, one.message] : 'ok')),
      [
        ['invalid_input', 'input must be an object with "a", "b"; "b" is missing'],
        ['invalid_input', 'input must be an object with "a", "b"; "a" is missing'],
        'ok',
      ],
    );
  });
});

describe('the batch', () => {
  test('fails together if its run fails; an item that fails alone is to blame if it does not fit the model', async () => {
    const model = await load(TABLE);
    for (const one of await run(model, inputs(0, 7, 2))) assert.equal((one as { code: string }).code, 'modelet_failed');
    assert.deepEqual(await run(model, inputs(2, 0, 1)), values(30, 10, 20));
    const [alone] = await run(model, inputs(7));
    const { code, message } = alone as { code: string; message: string };
    assert.equal(code, 'invalid_input');
    assert.match(message, /^the model cannot take the input: an index is out of range \(.*idx=7/);
  });

  test('is filled up to a fixed size, and larger ones run in pieces', async () => {
    const model = await load(doubling([4, 2]));
    const items = Array.from({ length: 10 }, (_, n) => [n, -n]);
    assert.deepEqual(await run(model, inputs(...items)), values(...items.map(([a = 0, b = 0]) => [a * 2, b * 2])));
    assert.deepEqual(await run(await load(doubling([1, 2])), inputs([1, 2], [3, 4])), values([2, 4], [6, 8]));
  });

  test('fails with an error, not a wrong answer, when it cannot be split', async () => {
    const summing: Drawing = {
      inputs: [{ name: 'x', shape: ['batch', 2] }],
      outputs: [{ name: 'y', shape: [1, 1] }],
      nodes: [{ operator: 'ReduceSum', inputs: ['x'], output: 'y', attributes: { keepdims: 1 } }],
    };
    const forced = await load(summing, { batch: true });
    for (const one of await run(forced, inputs([1, 2], [3, 4])))
      assert.match((one as { message: string }).message, /cannot be split into 2 items/);
    assert.match(forced.batching?.text ?? '', /output "y" of shape \[1, 1\] cannot be split into \d items/);
    assert.deepEqual(await run(await load(summing), inputs([1, 2], [3, 4])), values([3], [7]));
  });
});

describe('results', () => {
  const scores = doubling(['batch', 3]);

  test('may be probabilities, labels, or both', async () => {
    const [soft] = await run(await load(scores, { softmax: true }), inputs([0, 0, 500]));
    assert.deepEqual(soft, { value: [0, 0, 1] });
    const labels = ['cat', 'dog', 'bird'];
    assert.deepEqual(
      await run(await load(scores, { labels }), inputs([1, 3, 2])),
      values({ label: 'dog', index: 1, score: 6, scores: [2, 6, 4] }),
    );
    const [both] = await run(await load(scores, { labels, softmax: true }), inputs([0, 0, 0]));
    assert.deepEqual(both, values({ label: 'cat', index: 0, score: 1 / 3, scores: [1 / 3, 1 / 3, 1 / 3] })[0]);
  });

  test('take labels from a file beside the model', async () => {
    writeFileSync(join(folder, 'labels.json'), '["a", "b", "c"]');
    const [read] = await run(await load(scores, { labels: 'labels.json' }), inputs([1, 2, 3]));
    assert.equal((read as { value: { label: string } }).value.label, 'c');
    await assert.rejects(load(scores, { labels: 'none.json' }), /labels: .*none\.json/);
    writeFileSync(join(folder, 'numbers.json'), '[1, 2]');
    await assert.rejects(load(scores, { labels: 'numbers.json' }), /must have a JSON array of texts/);
  });

  test('cause an error if their number differs from that of the scores, at the start if the model declares it', async () => {
    await assert.rejects(
      load(scores, { labels: ['a'] }),
      /labels: the list has 1 label, and the output "y" has 3 scores/,
    );
    const [read] = await run(await load(doubling(['batch', 'n']), { labels: ['a'] }), inputs([1, 2, 3]));
    assert.deepEqual(read, { code: 'modelet_failed', message: 'the list has 1 label for 3 scores' });
    const rows = [
      [1, 2, 3],
      [9, 5, 4],
    ];
    const [labelled] = await run(await load(doubling(['batch', 3]), { labels: ['a', 'b', 'c'] }), inputs(rows));
    const labels = (labelled as { value: { label: string }[] }).value.map(({ label }) => label);
    assert.deepEqual(labels, ['c', 'a'], 'one for each row of an item');
  });

  test('may be tensors, which another model accepts unchanged', async () => {
    const model = await load(doubling(['batch', 1, 2]), { tensors: true });
    const [first] = await run(model, inputs([1, 2]));
    const tensor = { data: new Float32Array([2, 4]), dims: [1, 2], type: 'float32' };
    assert.deepEqual(first, { value: tensor });
    assert.deepEqual(await run(model, inputs(tensor)), values({ ...tensor, data: new Float32Array([4, 8]) }));
  });
});

describe('a file that is not a model', () => {
  test('is an error that names the problem', async () => {
    const path = join(folder, 'no-model.onnx');
    writeFileSync(path, 'no model at all');
    await assert.rejects(load(path), /no-model\.onnx/);
  });
});

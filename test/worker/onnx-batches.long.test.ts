/** No batch changes an answer: models of many kinds give the same results alone and in mixed batches. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { differenceOf } from '../../src/runtime/worker/batch/alike.ts';
import type { LoadedModelet } from '../../src/runtime/worker/modelet/modelet.ts';
import { INDEPENDENT, type Kind, MIXED, STATEFUL } from './onnx-kinds.ts';
import { inputs, onnxLoader, type Read, run } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-onnx-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = onnxLoader(folder);

const BATCHES = process.env['TEST_FULL'] === '1' ? 1000 : 25;
const ITEMS = 24;
const LARGEST_BATCH = 8;

/** A generator that gives the same numbers from -1 to 1 in each run. */
function generator(): () => number {
  let seed = 1;
  return () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return (2 * seed) / 2_147_483_647 - 1;
  };
}

async function assertSameInBatches(model: LoadedModelet, { item }: Kind): Promise<void> {
  const random = generator();
  const items = Array.from({ length: ITEMS }, (_, index) => item(() => random() * (index % 3 === 0 ? 50 : 1)));
  const alone: Read[] = [];
  for (const one of items) alone.push(...(await run(model, inputs(one))));
  for (let batch = 0; batch < BATCHES; batch += 1) {
    const size = 2 + Math.floor(Math.abs(random()) * (LARGEST_BATCH - 1));
    const chosen = Array.from({ length: size }, () => Math.floor(Math.abs(random()) * ITEMS));
    const together = await run(model, inputs(...chosen.map((index) => items[index])));
    for (const [at, index] of chosen.entries()) {
      assert.equal(differenceOf(alone[index], together[at]), null, `item ${index} in batch ${batch}`);
    }
  }
}

describe('the answers of a model alone and in batches are the same, items run one by one, and it says why:', () => {
  for (const [name, kind] of Object.entries(MIXED)) {
    test(name, async () => {
      const model = await load(kind.drawing);
      await assertSameInBatches(model, kind);
      assert.equal(model.batching?.items, 'singly');
      assert.match(model.batching.text, /^items run one by one: ./);
    });
  }
});

test('items of a model with a state that its runs change run one by one, and it says so', async () => {
  const { batching } = await load(STATEFUL);
  assert.equal(batching?.text, 'items run one by one: the same input has another result each time');
});

describe('the answers of a model alone and in batches are the same, and it batches:', () => {
  for (const [name, kind] of Object.entries(INDEPENDENT)) {
    test(name, async () => {
      const model = await load(kind.drawing);
      await assertSameInBatches(model, kind);
      assert.equal(model.batching, null);
    });
  }
});

describe('a batch that the user wants although it changes answers', () => {
  test('runs together, with a warning that shows the difference', async () => {
    const { 'softmax over the first axis': kind } = MIXED as { 'softmax over the first axis': Kind };
    const model = await load(kind.drawing, { batch: true });
    assert.deepEqual(await run(model, inputs([0, 0, 0, 0], [0, 0, 0, 0])), [
      { value: [0.5, 0.5, 0.5, 0.5] },
      { value: [0.5, 0.5, 0.5, 0.5] },
    ]);
    assert.equal(model.batching?.items, 'mixed');
    assert.match(
      model.batching.text,
      /^"batch": true runs items together, but results depend on other inputs .*: "y" is \[1, 1, 1, 1\] alone, and \[0\.\d+, .*\] together/,
    );
  });

  test('has no warning if it changes none', async () => {
    const { doubling: kind } = INDEPENDENT as { doubling: Kind };
    assert.equal((await load(kind.drawing, { batch: true })).batching, null);
  });
});

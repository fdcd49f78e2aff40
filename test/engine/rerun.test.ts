/** The items of a batch whose call failed run once more each, one by one, if the stage has `rerun`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { ModeletError } from '../../src/core/errors.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { encodeError } from '../../src/wire/codec/error-codec.ts';
import { ask, caching } from './caching.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, stage, upTo } from './rig.ts';

const batching = { policy: 'greedy', maxBatchSize: 8, maxWaitMs: 0 } as const;
const on: Partial<StageDefinition> = { rerun: 'on', batching };
const BAD = { codec: CODEC.none, bytes: encodeError(new ModeletError('modelet_failed', 'bad batch')) };

async function failTogether(rig: Rig, pool: FakePool): Promise<void> {
  pool.answerWith(BAD, 0, true);
  await rig.turn();
}

/** Answers what the worker holds, one batch after the other. Returns the batches. */
async function runAll(rig: Rig, pool: FakePool, failing: (id: number) => boolean = () => false): Promise<number[][]> {
  const runs: number[][] = [];
  while (pool.held().length > 0) {
    runs.push(...pool.held());
    pool.answer(0, 10, ({ id }) => failing(id));
    await rig.turn();
  }
  return runs;
}

describe('a batch whose call failed', () => {
  test('runs again one by one, before all others, and only the item at fault fails', async () => {
    const rig = new Rig();
    const pool = await rig.single(on);
    await rig.submit(upTo(3));
    await rig.submit([4, 5], { priority: 1 });
    await failTogether(rig, pool);
    assert.deepEqual(rig.answers(), []);
    assert.deepEqual(await runAll(rig, pool, (id) => id === 2), [[1], [2], [3], [4, 5]]);
    assert.deepEqual(rig.answers(), ['1', '2 invalid_input', '3', '4', '5']);
  });

  test('counts what ran and how each item ended, once', async () => {
    const rig = new Rig();
    const pool = await rig.single(on);
    await rig.submit(upTo(3));
    await failTogether(rig, pool);
    await runAll(rig, pool, (id) => id === 2);
    const { reasons, batches, failed, unserved, busyMs, queueWait } = rig.engine.status().stages[0]?.reading ?? {};
    assert.deepEqual([batches, reasons?.retry, busyMs], [4, 3, 40]);
    assert.deepEqual(
      [failed, unserved, queueWait?.counts.reduce((sum, count) => sum + count, 0)],
      [{ invalid_input: 1 }, {}, 3],
    );
  });

  test('does not run a cancelled or expired item again, nor any item a third time', async () => {
    const rig = new Rig();
    const pool = await rig.single(on);
    const deadline = rig.clock.now() + 10;
    await rig.submit([1, 2]);
    await rig.submit([3], { deadline });
    pool.answer();
    await rig.turn();
    assert.deepEqual(rig.answers(), ['1', '2']);
    await rig.submit([4, 5, 6]);
    pool.answer();
    await rig.turn();
    rig.answers();
    rig.engine.cancel([5]);
    await failTogether(rig, pool);
    assert.deepEqual(pool.held(), [[4]]);
    rig.engine.cancel([4]);
    await failTogether(rig, pool);
    assert.deepEqual(pool.held(), [[6]]);
    await failTogether(rig, pool);
    assert.deepEqual([rig.answers(), pool.held()], [['6 modelet_failed'], []]);
    await rig.submit([7, 8], { deadline: rig.clock.now() + 10 });
    rig.clock.advance(10);
    await failTogether(rig, pool);
    assert.deepEqual([rig.answers(), pool.held()], [['7 deadline_exceeded', '8 deadline_exceeded'], []]);
  });

  test('runs again for all requests that share one of its runs', async () => {
    const rig = new Rig();
    const pool = await rig.single({ ...on, ...caching() });
    await ask(rig, [1], 'same');
    await ask(rig, [2], 'first');
    await ask(rig, [3], 'second');
    pool.answer();
    await rig.turn();
    rig.answers();
    await ask(rig, [4], 'first');
    assert.deepEqual(pool.held(), [[2, 3]]);
    await failTogether(rig, pool);
    assert.deepEqual(await runAll(rig, pool, (id) => id === 2), [[2], [3]]);
    assert.deepEqual(
      rig.outcomes.map(({ id, ok }) => [id, ok]),
      [
        [2, false],
        [4, false],
        [3, true],
      ],
    );
  });

  test('fails as a whole with a single item, with errors of single items, and with rerun off', async () => {
    for (const [definition, ids, together] of [
      [on, [1], true],
      [on, [1, 2], false],
      [{ ...on, rerun: 'off' }, [1, 2], true],
      [{ ...on, rerun: 'auto' }, [1, 2], true],
    ] as const) {
      const rig = new Rig();
      const pool = await rig.single(definition);
      await rig.submit([...ids]);
      pool.answerWith(BAD, 0, together);
      await rig.turn();
      assert.deepEqual([rig.answers(), pool.held()], [ids.map((id) => `${id} modelet_failed`), []]);
    }
  });

  test('of an ONNX model runs again by default', async () => {
    const rig = new Rig();
    const { modelet } = stage(1);
    const source = { kind: 'onnx', path: '/m.onnx', soleWorker: true } as never;
    const pool = await rig.single({ rerun: 'auto', batching, modelet: { ...modelet, source } });
    await rig.submit([1, 2]);
    await failTogether(rig, pool);
    assert.deepEqual(pool.held(), [[1]]);
  });
});

/** When and to whom batches go: bursts, policies with their timers, idle workers first, sending ahead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Batching } from '../../src/core/model.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { Rig, upTo } from './rig.ts';

const greedy = (maxBatchSize: number): Batching => ({ policy: 'greedy', maxBatchSize, maxWaitMs: 0 });

test('items that arrive in one turn form one batch', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: greedy(32) }, 4);
  const burst = rig.submit(upTo(5));
  const more = rig.submit(upTo(10, 6));
  await Promise.all([burst, more]);
  assert.deepEqual(pool.held(0), [upTo(10)]);
  assert.deepEqual(pool.held(1), []);
});

test('a large burst goes to as many workers as it fills, and the rest waits', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: greedy(4) }, 2);
  await rig.submit(upTo(11));
  assert.deepEqual([pool.held(0), pool.held(1), rig.queueOf(1)], [[upTo(4)], [upTo(8, 5)], 3]);
  pool.answer(1);
  await rig.turn();
  assert.deepEqual(pool.held(1), [upTo(11, 9)]);
});

test('an item of higher priority goes first, whenever it arrived', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: greedy(2) });
  await rig.submit([1]);
  await rig.submit([2, 3]);
  await rig.submit([4], { priority: 1 });
  pool.answer();
  await rig.turn();
  assert.deepEqual(pool.held(), [[4, 2]]);
});

test('oldest: a batch waits with one timer and leaves when its time is over', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 10, maxWaitMs: 20 } });
  await rig.submit([1]);
  await rig.advance(15);
  await rig.submit([2]);
  assert.equal(rig.clock.pending, 1);
  await rig.advance(4);
  assert.deepEqual(pool.held(), []);
  await rig.advance(1);
  assert.deepEqual(pool.held(), [[1, 2]]);
  assert.equal(rig.clock.pending, 0);
});

test('oldest: a full batch does not wait, and the remaining items have their own time', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 20 } }, 2);
  await rig.submit(upTo(4));
  assert.deepEqual([pool.held(0), pool.held(1)], [[upTo(3)], []]);
  await rig.advance(20);
  assert.deepEqual(pool.held(1), [[4]]);
});

test('gap: each item restarts the wait', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'gap', maxBatchSize: 10, maxWaitMs: 10 } });
  for (const id of [1, 2, 3]) {
    await rig.submit([id]);
    await rig.advance(9);
    assert.deepEqual(pool.held(), []);
  }
  await rig.advance(1);
  assert.deepEqual(pool.held(), [[1, 2, 3]]);
});

test('gap: a worker that was free for longer than the wait takes the first item at once', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'gap', maxBatchSize: 10, maxWaitMs: 10 } });
  await rig.advance(11);
  await rig.submit([1]);
  assert.deepEqual(pool.held(), [[1]]);
});

test('only one worker at a time waits for its batch to fill', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 10, maxWaitMs: 20 } }, 3);
  for (const id of upTo(6)) await rig.submit([id]);
  await rig.advance(20);
  assert.deepEqual([pool.held(0), pool.held(1), pool.held(2)], [[upTo(6)], [], []]);
});

test('no item leaves before a worker is ready, then all waiting items do', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: greedy(8) });
  pool.health = { tag: 'starting' };
  await rig.submit(upTo(3));
  assert.deepEqual(pool.held(), []);
  pool.becomeReady();
  await rig.turn();
  assert.deepEqual(pool.held(), [upTo(3)]);
});

/** A stage whose runs are known to take `runMs`. */
async function running(
  runMs: number,
  workers = 1,
  overflow: 'refuse' | 'drop-oldest' = 'refuse',
  batching = greedy(1),
): Promise<Rig> {
  const rig = new Rig();
  const pool = await rig.single({ overflow, batching }, workers);
  await rig.submit([1]);
  pool.answer(0, runMs);
  await rig.turn();
  rig.answers();
  return rig;
}

test('the stage sends a second batch ahead if runs are short, but no third', async () => {
  const rig = await running(1);
  await rig.submit([2, 3, 4]);
  assert.deepEqual(rig.pool(1).held(), [[2], [3]]);
  assert.equal(rig.queueOf(1), 1);
});

test('of runs much shorter than a millisecond, the stage sends single items ahead for a millisecond of work, 8 at most', async () => {
  for (const [runMs, ahead] of [
    [0.4, 2],
    [0.2, 5],
    [0.001, 8],
    [0, 8],
  ] as const) {
    const rig = await running(runMs);
    await rig.submit(upTo(20, 2));
    assert.equal(rig.pool(1).held().length, 1 + ahead, `${runMs} ms`);
    rig.pool(1).answer(0, runMs);
    await rig.turn();
    assert.equal(rig.pool(1).held().length, 1 + ahead, 'the next item follows');
  }
});

test('the stage sends short single items ahead only as long as they are small, and one batch if batches are larger', async () => {
  const rig = await running(0.01);
  rig.pool(1).makes = () => ({ codec: CODEC.json, bytes: Buffer.alloc(30_000, '0') });
  await rig.submit([2]);
  rig.pool(1).answer(0, 0.01);
  await rig.submit(upTo(20, 3));
  assert.deepEqual(rig.pool(1).held(), [[3], [4], [5]]);
  const batched = await running(0.01, 1, 'refuse', greedy(2));
  await batched.submit(upTo(20, 2));
  assert.deepEqual(batched.pool(1).held(), [
    [2, 3],
    [4, 5],
  ]);
});

test('the stage fills all workers before it sends short single items ahead, and then in turns', async () => {
  const rig = await running(0.5, 2);
  await rig.submit(upTo(7, 2));
  assert.deepEqual(
    [rig.pool(1).held(0), rig.pool(1).held(1)],
    [
      [[2], [4], [6]],
      [[3], [5], [7]],
    ],
  );
});

test('the stage sends only full batches ahead, so items that arrive during a run join the next batch', async () => {
  const rig = await running(1, 1, 'refuse', greedy(3));
  await rig.submit([2]);
  await rig.submit([3]);
  await rig.submit([4]);
  assert.deepEqual(rig.pool(1).held(), [[2]]);
  await rig.submit([5]);
  assert.deepEqual(rig.pool(1).held(), [[2], [3, 4, 5]]);
});

test('the stage sends no item ahead while a worker is idle', async () => {
  const rig = await running(1, 2);
  await rig.submit([2, 3]);
  assert.deepEqual([rig.pool(1).held(0), rig.pool(1).held(1)], [[[2]], [[3]]]);
  await rig.submit([4]);
  assert.deepEqual([rig.pool(1).held(0), rig.pool(1).held(1)], [[[2], [4]], [[3]]]);
});

test('the stage sends no item ahead if runs take long or no run time is known', async () => {
  const rig = await running(10);
  await rig.submit([2, 3]);
  assert.deepEqual(rig.pool(1).held(), [[2]]);
  const fresh = new Rig();
  await fresh.single();
  await fresh.submit([1, 2]);
  assert.deepEqual(fresh.pool(1).held(), [[1]]);
});

test('one long run stops sending ahead, and short runs resume it', async () => {
  const rig = await running(1);
  const step = async (id: number, runMs: number): Promise<number> => {
    await rig.submit([id, id + 1]);
    const ahead = rig.pool(1).held().length - 1;
    while (rig.pool(1).held().length > 0) {
      rig.pool(1).answer(0, runMs);
      await rig.turn();
    }
    return ahead;
  };
  assert.equal(await step(10, 30), 1);
  assert.equal(await step(20, 1), 0);
  let again = 0;
  for (let id = 30; id < 200 && again === 0; id += 10) again = await step(id, 1);
  assert.equal(again, 1);
});

test('drop-oldest: the stage sends no item ahead, because it could not take it back', async () => {
  const rig = await running(1, 1, 'drop-oldest');
  await rig.submit([2, 3]);
  assert.deepEqual(rig.pool(1).held(), [[2]]);
});

test('flush lets waiting items leave at once, but no later ones', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 2, maxWaitMs: 60_000 } });
  pool.health = { tag: 'starting' };
  await rig.submit([1, 2, 3]);
  rig.engine.act(1, 'flush');
  pool.becomeReady();
  await rig.turn();
  assert.deepEqual(pool.held(), [[1, 2]]);
  pool.answer();
  await rig.turn();
  assert.deepEqual(pool.held(), [[3]]);
  pool.answer();
  await rig.submit([4]);
  assert.deepEqual(pool.held(), []);
});

test('flush does not let later items take the places of cancelled ones', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 10, maxWaitMs: 60_000 } });
  pool.health = { tag: 'starting' };
  await rig.submit([1, 2]);
  rig.engine.act(1, 'flush');
  rig.engine.cancel([1, 2]);
  pool.becomeReady();
  await rig.turn();
  await rig.submit([3]);
  assert.deepEqual(pool.held(), []);
});

test('reset drops waiting items but no running ones, and ignores an unknown stage', async () => {
  const rig = new Rig();
  await rig.single();
  await rig.submit([1, 2, 3]);
  rig.engine.act(1, 'reset');
  rig.engine.act(99, 'reset');
  rig.engine.act(99, 'flush');
  assert.deepEqual(rig.answers(), ['2 dropped', '3 dropped']);
  rig.pool(1).answer();
  assert.deepEqual(rig.answers(), ['1']);
});

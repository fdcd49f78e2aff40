/** Batches by the cost of their items: what holds for any queue, and how a stage forms them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import type { BatchCosts, Batching } from '../../src/core/model.ts';
import { chooseByCost, MOST_PASSED_BY } from '../../src/runtime/engine/stage/batch-costs.ts';
import { decodeFailure } from '../../src/wire/frames/failures.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, route, stage } from './rig.ts';

interface Waiting {
  readonly id: number;
  readonly cost: number;
  readonly priority: number;
  readonly payload: { readonly bytes: Uint8Array };
  passedBy: number;
}

const NO_BYTES = { bytes: new Uint8Array() };
const waiting = (id: number, cost: number, priority = 0): Waiting => {
  return { id, cost, priority, payload: NO_BYTES, passedBy: 0 };
};

/** Takes the next batch out of a queue. */
function takeBatch(queue: Waiting[], count: number, costs: BatchCosts, isFree = (_: Waiting) => true): Waiting[] {
  const batch: Waiting[] = [];
  chooseByCost([...queue], count, costs, (item) => {
    if (!isFree(item)) return false;
    queue.splice(queue.indexOf(item), 1);
    batch.push(item);
    return true;
  });
  return batch;
}

const weightOf = (batch: readonly Waiting[], { padded }: BatchCosts): number => {
  const costs = batch.map(({ cost }) => cost);
  return padded ? batch.length * Math.max(...costs) : costs.reduce((sum, cost) => sum + cost, 0);
};

const anyCosts: fc.Arbitrary<BatchCosts> = fc.record({
  by: fc.constant('tokens'),
  most: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 400 })),
  padded: fc.boolean(),
});

const anyQueue: fc.Arbitrary<Waiting[]> = fc
  .array(fc.tuple(fc.nat({ max: 120 }), fc.nat({ max: 2 })), { minLength: 1, maxLength: 80 })
  .map((items) =>
    items.map(([cost, priority], id) => waiting(id, cost, priority)).sort((a, b) => b.priority - a.priority),
  );

test('every batch has the first item, keeps to both limits and to priorities, and all items leave once', () => {
  fc.assert(
    fc.property(anyQueue, anyCosts, fc.integer({ min: 1, max: 12 }), (items, costs, count) => {
      const queue = [...items];
      const left: number[] = [];
      while (queue.length > 0) {
        const [first] = queue;
        const batch = takeBatch(queue, count, costs);
        assert.ok(batch.length <= count && first && batch.includes(first));
        if (costs.most > 0 && batch.length > 1) assert.ok(weightOf(batch, costs) <= costs.most);
        const least = Math.min(...batch.map(({ priority }) => priority));
        assert.ok(queue.every(({ priority }) => priority <= least));
        if (!costs.padded) assert.ok(batch.every(({ id }, at) => id === items[left.length + at]?.id));
        left.push(...batch.map(({ id }) => id));
      }
      assert.deepEqual(
        left.sort((a, b) => a - b),
        items.map(({ id }) => id).sort((a, b) => a - b),
      );
    }),
  );
});

test('items that cannot leave now hold nothing back', () => {
  fc.assert(
    fc.property(anyQueue, anyCosts, fc.integer({ min: 2, max: 5 }), (items, costs, every) => {
      const isFree = ({ id }: Waiting): boolean => id % every !== 0;
      const queue = [...items];
      while (queue.some(isFree)) assert.ok(takeBatch(queue, 4, costs, isFree).length > 0);
      assert.ok(!queue.some(isFree));
    }),
  );
});

test('no item starves: behind n others it leaves in at most n + 1 batches after those that may pass it by', () => {
  const arrivals = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(
      anyQueue,
      fc.integer({ min: 1, max: 8 }),
      arrivals,
      fc.nat({ max: 300 }),
      (items, count, costs, most) => {
        const queue = items.map(({ id, cost }) => waiting(id, cost));
        const last = queue.at(-1) as Waiting;
        const ahead = queue.length - 1;
        for (let batches = 0; queue.includes(last); batches += 1) {
          assert.ok(batches <= ahead + MOST_PASSED_BY, `it still waits after ${batches} batches`);
          takeBatch(queue, count, { by: 'tokens', most, padded: true });
          // More come than leave.
          for (let more = 0; more <= count; more += 1) {
            queue.push(waiting(1000 + batches, costs[(batches + more) % costs.length] as number));
          }
        }
      },
    ),
  );
});

test('a long item among short ones that keep coming is passed by a few times, not more', () => {
  const queue = [waiting(0, 10), waiting(1, 500), ...Array.from({ length: 8 }, (_, at) => waiting(2 + at, 10))];
  const costs = { by: 'tokens', most: 520, padded: true };
  const batches = Array.from({ length: 3 }, (_, turn) => {
    for (let at = 0; at < 4; at += 1) queue.push(waiting(100 + 4 * turn + at, 10));
    return takeBatch(queue, 4, costs).map(({ id }) => id);
  });
  assert.deepEqual(batches, [[0, 2, 3, 4], [1], [5, 6, 7, 8]]);
});

test('an item that several batches have passed by joins the next, although others are nearer in cost', () => {
  const sizes = Array.from({ length: 12 }, (_, at) => 4 ** at);
  const queue = sizes.map((cost, id) => waiting(id, cost));
  for (let turn = 0; turn <= MOST_PASSED_BY; turn += 1) {
    const lead = queue[0] as Waiting;
    for (let at = 0; at < 3; at += 1) queue.push(waiting(100 + turn, lead.cost));
    const batch = takeBatch(queue, 4, { by: 'tokens', most: 0, padded: true }).map(({ id }) => id);
    const expected = turn < MOST_PASSED_BY ? [turn, 100 + turn, 100 + turn, 100 + turn] : [8, 9, 10, 11];
    assert.deepEqual(batch, expected);
  }
});

test('behind an item that several batches have passed by no younger item joins, if it costs too much itself', () => {
  const due = { ...waiting(2, 90), passedBy: MOST_PASSED_BY };
  const queue = [waiting(0, 10), waiting(1, 20), due, waiting(3, 10), waiting(4, 10)];
  const costs = { by: 'tokens', most: 100, padded: true };
  const batches = Array.from({ length: 3 }, () => takeBatch(queue, 4, costs).map(({ id }) => id));
  assert.deepEqual(batches, [[0, 1], [2], [3, 4]]);
});

test('a padded batch prefers items of similar cost, and reaches no further than its look-ahead', () => {
  const queue = [10, 90, 12, 80, 9, 11].map((cost, id) => waiting(id, cost));
  const costs = { by: 'tokens', most: 0, padded: true };
  assert.deepEqual(
    takeBatch(queue, 4, costs).map(({ cost }) => cost),
    [10, 11, 9, 12],
  );
  assert.deepEqual(
    queue.map(({ passedBy }) => passedBy),
    [1, 1],
  );
  const far = [waiting(0, 10), ...Array.from({ length: 64 }, (_, at) => waiting(1 + at, 90)), waiting(65, 10)];
  assert.ok(!takeBatch(far, 2, costs).some(({ id }) => id === 65));
});

const costs = (most: number, by = 'tokens', padded = false): BatchCosts => ({ by, most, padded });
const batching = (of: BatchCosts, overrides: Partial<Batching> = {}): Batching => {
  return { policy: 'greedy', maxBatchSize: 8, maxWaitMs: 100, costs: of, ...overrides };
};

async function started(overrides: Partial<StageDefinition>): Promise<[Rig, FakePool]> {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1, overrides)], routes: [route(1, [1])] });
  return [rig, rig.pool(1)];
}

/** Keeps the worker busy with item 0, and submits items by their costs. */
async function queueUp(rig: Rig, items: Readonly<Record<number, number>>): Promise<void> {
  await rig.submit([0], { cost: 1 });
  for (const [id, cost] of Object.entries(items)) await rig.submit([Number(id)], { cost });
}

async function batchesOf(rig: Rig, pool: FakePool): Promise<number[][]> {
  const batches: number[][] = [];
  for (let held = pool.held(); held.length > 0; held = pool.held()) {
    batches.push(...held);
    pool.answer();
    await rig.turn();
  }
  return batches;
}

test('a batch takes items in order up to its cost, and an item that costs more runs alone', async () => {
  const [rig, pool] = await started({ batching: batching(costs(100)) });
  await queueUp(rig, { 1: 60, 2: 40, 3: 50, 4: 150, 5: 0, 6: 100, 7: 1 });
  assert.deepEqual(await batchesOf(rig, pool), [[0], [1, 2], [3], [4], [5, 6], [7]]);
});

test('a padded batch costs its length times its longest item', async () => {
  const [rig, pool] = await started({ batching: batching(costs(100, 'tokens', true)) });
  await queueUp(rig, { 1: 30, 2: 50, 3: 31, 4: 20, 5: 33 });
  assert.deepEqual(await batchesOf(rig, pool), [[0], [1, 3, 5], [2, 4]]);
});

test('the bytes of its payload are the cost of an item without a message property', async () => {
  const [rig, pool] = await started({ batching: batching(costs(6, 'bytes')) });
  await rig.submit([0]);
  await rig.submit([100, 101, 1000, 2]);
  assert.deepEqual(await batchesOf(rig, pool), [[0], [100, 101], [1000, 2]]);
});

test('an item without a cost is refused alone', async () => {
  const [rig, pool] = await started({ batching: batching(costs(10)) });
  await rig.submit([1]);
  await rig.submit([2], { cost: 3 });
  assert.deepEqual(pool.held(), [[2]]);
  const [refused] = rig.outcomes;
  assert.ok(refused && !refused.ok);
  const { error } = decodeFailure(refused.payload);
  assert.deepEqual(
    [error.code, error.message],
    ['invalid_input', 'stage stage1 needs a cost: msg.tokens must be a number of at least 0'],
  );
});

test('a batch that costs as much as it may leaves at once under every policy', async () => {
  for (const policy of ['oldest', 'gap'] as const) {
    const [rig, pool] = await started({ batching: batching(costs(10), { policy }) });
    await rig.submit([1], { cost: 6 });
    assert.deepEqual(pool.held(), []);
    await rig.submit([2], { cost: 4 });
    assert.deepEqual(pool.held(), [[1, 2]]);
    pool.answer();
    await rig.submit([3], { cost: 6 });
    await rig.submit([4], { cost: 7 });
    assert.deepEqual(pool.held(), [[3]]);
    assert.equal(rig.engine.status().stages[0]?.reading.reasons.full, 2);
    pool.answer();
    await rig.turn();
    await rig.advance(100);
    assert.deepEqual(pool.held(), [[4]]);
  }
});

test('costs, keys and a queue that drops its oldest item go together', async () => {
  const plain = stage(1, { batching: batching(costs(10)), overflow: 'drop-oldest', capacity: 3 });
  const rig = new Rig();
  await rig.apply({
    stages: [{ ...plain, modelet: { ...plain.modelet, keyBy: 'topic' } }],
    routes: [route(1, [1])],
  });
  const pool = rig.pool(1);
  await rig.submit([0], { key: 9, cost: 1 });
  await rig.submit([1], { key: 7, cost: 4 });
  await rig.submit([2], { key: 7, cost: 4 });
  await rig.submit([3], { key: 8, cost: 7 });
  await rig.submit([4], { key: 9, cost: 2 });
  assert.deepEqual(await batchesOf(rig, pool), [[0], [3], [2, 4]]);
});

/** The items of a dead worker run once more each, one by one, if the stage has `retryLost`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { ModeletError } from '../../src/core/errors.ts';
import type { Batching } from '../../src/core/model.ts';
import { RunTimeout } from '../../src/runtime/engine/pools/pool.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, route, stage, upTo } from './rig.ts';

const greedy = (maxBatchSize: number): Batching => ({ policy: 'greedy', maxBatchSize, maxWaitMs: 0 });
const retrying: Partial<StageDefinition> = { retryLost: true, batching: greedy(8) };

async function lose(rig: Rig, pool: FakePool, worker = 0): Promise<void> {
  pool.lose(worker);
  await rig.turn();
}

async function answer(rig: Rig, pool: FakePool, worker = 0): Promise<void> {
  pool.answer(worker);
  await rig.turn();
}

describe('with retryLost', () => {
  test('the items of a dead worker run again, one by one, in order and before all others', async () => {
    const rig = new Rig();
    const pool = await rig.single(retrying);
    await rig.submit(upTo(3));
    await rig.submit([4, 5], { priority: 1 });
    await lose(rig, pool);
    const runs: number[][] = [];
    while (pool.held().length > 0) {
      runs.push(...pool.held());
      await answer(rig, pool);
    }
    assert.deepEqual(runs, [[1], [2], [3], [4, 5]]);
    assert.deepEqual(rig.answers(), ['1', '2', '3', '4', '5']);
  });

  test('an item that is lost twice fails with worker_lost, and the others get their results', async () => {
    const rig = new Rig();
    const pool = await rig.single(retrying);
    await rig.submit(upTo(3));
    await lose(rig, pool);
    await answer(rig, pool);
    await lose(rig, pool);
    await answer(rig, pool);
    assert.deepEqual(rig.answers(), ['1', '2 worker_lost', '3']);
    assert.equal(rig.queueOf(1), 0);
  });

  for (const policy of ['oldest', 'gap'] as const) {
    test(`${policy}: items that must run alone leave at once to all free workers`, async () => {
      const rig = new Rig();
      const pool = await rig.single({ ...retrying, batching: { policy, maxBatchSize: 2, maxWaitMs: 50 } }, 3);
      await rig.submit([1, 2]);
      await rig.submit([3]);
      await lose(rig, pool);
      assert.deepEqual([pool.held(0), pool.held(1), pool.held(2)], [[[1]], [[2]], []]);
      await rig.advance(50);
      assert.deepEqual(pool.held(2), [[3]]);
    });
  }

  test('the stage sends nothing ahead while an item waits to run alone', async () => {
    const rig = new Rig();
    const pool = await rig.single({ ...retrying, batching: greedy(2) });
    await rig.submit([1]);
    pool.answer(0, 1);
    await rig.submit(upTo(7, 2));
    assert.equal(pool.held().length, 2, 'sent ahead as long as all is well');
    await lose(rig, pool);
    assert.deepEqual(pool.held(), [[2]]);
    await answer(rig, pool);
    assert.deepEqual(pool.held(), [[3], [4, 5]]);
  });

  test('items that were sent ahead and not begun run normally, behind those that had begun', async () => {
    const rig = new Rig();
    const pool = await rig.single({ ...retrying, batching: greedy(2) });
    await rig.submit([1, 2]);
    pool.answer(0, 1);
    await rig.submit(upTo(7, 3));
    assert.deepEqual(pool.held(), [
      [3, 4],
      [5, 6],
    ]);
    await lose(rig, pool);
    const runs: number[][] = [];
    while (pool.held().length > 0) {
      runs.push(pool.held()[0] as number[]);
      await answer(rig, pool);
    }
    assert.deepEqual(runs, [[3], [4], [5, 6], [7]]);
  });

  test('a cancelled or expired item does not run again', async () => {
    const rig = new Rig();
    const pool = await rig.single(retrying);
    await rig.submit([1, 2, 3]);
    await rig.submit([4], { deadline: rig.clock.now() + 10 });
    pool.answer();
    await rig.submit([5], { deadline: rig.clock.now() + 10 });
    await rig.turn();
    rig.answers();
    assert.deepEqual(pool.held(), [[4, 5]]);
    rig.engine.cancel([4]);
    await lose(rig, pool);
    assert.deepEqual(pool.held(), [[5]]);
    await lose(rig, pool);
    await rig.submit([6, 7], { deadline: rig.clock.now() + 10 });
    rig.clock.advance(10);
    await lose(rig, pool);
    assert.deepEqual(pool.held(), []);
    assert.deepEqual(rig.answers(), ['5 worker_lost', '6 deadline_exceeded', '7 deadline_exceeded']);
  });

  test('the items of a worker killed by the run timeout fail at once with deadline_exceeded', async () => {
    const rig = new Rig();
    const pool = await rig.single(retrying);
    await rig.submit([1, 2]);
    pool.lose(0, new RunTimeout(50));
    await rig.turn();
    assert.deepEqual([rig.answers(), pool.held()], [['1 deadline_exceeded', '2 deadline_exceeded'], []]);
  });

  test('each stage of a route gives a separate second run', async () => {
    const rig = new Rig();
    const both = { ...retrying, batching: greedy(2) };
    await rig.apply({ stages: [stage(1, both), stage(2, both)], routes: [route(1, [1, 2])] });
    await rig.submit([1]);
    await lose(rig, rig.pool(1));
    await answer(rig, rig.pool(1));
    await lose(rig, rig.pool(2));
    assert.deepEqual(rig.pool(2).held(), [[1]]);
    await answer(rig, rig.pool(2));
    assert.deepEqual(rig.answers(), ['1']);
  });

  test('a stage whose workers do not start again answers with stage_unavailable', async () => {
    const rig = new Rig();
    const pool = await rig.single(retrying);
    await rig.submit([1, 2]);
    pool.lose();
    pool.fail('does not start');
    await rig.turn();
    assert.deepEqual(rig.answers(), ['1 stage_unavailable', '2 stage_unavailable']);
  });
});

describe('without retryLost', () => {
  test('all items that a dead worker may have begun fail at once', async () => {
    const rig = new Rig();
    const pool = await rig.single({ batching: greedy(8) });
    await rig.submit(upTo(8));
    await lose(rig, pool);
    assert.deepEqual(
      rig.answers(),
      upTo(8).map((id) => `${id} worker_lost`),
    );
    assert.deepEqual(pool.held(), []);
  });

  test('the stage distinguishes run timeouts from deaths', async () => {
    const rig = new Rig();
    const pool = await rig.single({ batching: greedy(8) });
    await rig.submit([1]);
    pool.lose(0, new RunTimeout(50));
    await rig.submit([2]);
    pool.lose(0, new ModeletError('protocol_error', 'garbage'));
    assert.deepEqual(rig.answers(), ['1 deadline_exceeded', '2 worker_lost']);
  });
});

type Step =
  | { readonly do: 'submit'; readonly count: number; readonly priority: number }
  | { readonly do: 'answer' | 'lose' | 'overrun'; readonly worker: number }
  | { readonly do: 'cancel'; readonly which: number }
  | { readonly do: 'advance'; readonly ms: number };

const WORKERS = 3;
const worker = fc.nat({ max: WORKERS - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('submit' as const),
      count: fc.integer({ min: 1, max: 6 }),
      priority: fc.nat({ max: 2 }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('answer' as const), worker }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('lose' as const), worker }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('overrun' as const), worker }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), which: fc.nat({ max: 40 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat({ max: 20 }) }) },
);

/** Follows which items each worker runs; how often each ran, and with how many others. */
class Observer {
  readonly runs: Map<number, number[]> = new Map();
  readonly #pool: FakePool;
  /** First batch of each worker, as last seen: the running one. */
  readonly #seen: (number[] | undefined)[] = [];

  constructor(pool: FakePool) {
    this.#pool = pool;
  }

  look(): void {
    for (let index = 0; index < WORKERS; index += 1) {
      const running = this.#pool.held(index)[0];
      if (running && running.join() !== this.#seen[index]?.join()) {
        for (const id of running) this.runs.set(id, [...(this.runs.get(id) ?? []), running.length]);
      }
      this.#seen[index] = running;
    }
  }

  /** The worker's batch is over: the next may be of the same items. */
  over(index: number): void {
    this.#seen[index] = undefined;
  }
}

test('no item runs more than twice or a second time with others, and each has one outcome', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60, size: 'max' }),
      fc.constantFrom('greedy' as const, 'oldest' as const, 'gap' as const),
      async (steps, policy) => {
        const rig = new Rig();
        const batching = { policy, maxBatchSize: 4, maxWaitMs: 10 };
        const pool = await rig.single({ retryLost: true, batching }, WORKERS);
        const observer = new Observer(pool);
        const cancelled = new Set<number>();
        let submitted = 0;
        const act = async (what: Step): Promise<void> => {
          if (what.do === 'submit') {
            const ids = upTo(submitted + what.count, submitted + 1);
            submitted += what.count;
            await rig.submit(ids, { priority: what.priority });
          } else if (what.do === 'cancel') {
            const id = what.which + 1;
            if (id <= submitted && !rig.outcomes.some((one) => one.id === id)) cancelled.add(id);
            rig.engine.cancel([id]);
          } else if (what.do === 'advance') {
            rig.clock.advance(what.ms);
          } else if (pool.held(what.worker).length > 0) {
            observer.over(what.worker);
            if (what.do === 'answer') pool.answer(what.worker, 1);
            else if (what.do === 'lose') pool.lose(what.worker);
            else pool.lose(what.worker, new RunTimeout(50));
          }
          await rig.turn();
          observer.look();
        };
        for (const what of steps) await act(what);
        for (let round = 0; round <= 2 * submitted; round += 1) {
          await act({ do: 'advance', ms: 20 });
          for (let index = 0; index < WORKERS; index += 1) await act({ do: 'answer', worker: index });
        }

        for (const [id, sizes] of observer.runs) {
          assert.ok(sizes.length <= 2, `item ${id} ran ${sizes.length} times`);
          if (sizes.length === 2) assert.equal(sizes[1], 1, `item ${id} ran again in company`);
        }
        assert.deepEqual(
          rig.outcomes.map(({ id }) => id).sort((a, b) => a - b),
          upTo(submitted).filter((id) => !cancelled.has(id)),
        );
      },
    ),
    { numRuns: 200 },
  );
});

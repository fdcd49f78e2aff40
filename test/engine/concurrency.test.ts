/** Stages whose workers run several batches at a time. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { RunTimeout } from '../../src/runtime/engine/pools/pool.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, stage, upTo } from './rig.ts';

/** One stage whose workers have this many places. */
async function single(
  rig: Rig,
  concurrency: number,
  workers = 1,
  more: Partial<StageDefinition> = {},
): Promise<FakePool> {
  const { modelet } = stage(1, {}, workers);
  return rig.single({ ...more, modelet: { ...modelet, concurrency } });
}

describe('a stage with several places per worker', () => {
  test('fills the workers evenly, and the others wait', async () => {
    const rig = new Rig();
    const pool = await single(rig, 2, 2);
    await rig.submit(upTo(5));
    assert.deepEqual(
      [pool.held(0), pool.held(1)],
      [
        [[1], [3]],
        [[2], [4]],
      ],
    );
    assert.equal(rig.queueOf(1), 1);
  });

  test('gives a place to the next item at once, whichever batch has ended', async () => {
    const rig = new Rig();
    const pool = await single(rig, 3);
    await rig.submit(upTo(4));
    pool.answer(0, 10, () => false, 1);
    await rig.turn();
    assert.deepEqual(pool.held(), [[1], [3], [4]]);
    assert.deepEqual(rig.answers(), ['2']);
  });

  test('sends one short batch ahead of the places', async () => {
    const rig = new Rig();
    const pool = await single(rig, 2);
    await rig.submit([1]);
    pool.answer(0, 1);
    await rig.submit(upTo(6, 2));
    assert.deepEqual(pool.held(), [[2], [3], [4]]);
  });

  test('blames only the batch that ran too long', async () => {
    const rig = new Rig();
    const pool = await single(rig, 3);
    await rig.submit(upTo(3));
    pool.lose(0, new RunTimeout(50));
    await rig.turn();
    assert.deepEqual(rig.answers(), ['1 deadline_exceeded', '2 worker_lost', '3 worker_lost']);
  });

  test('with retryLost, runs the items of a dead worker alone, each in an empty worker, and then as before', async () => {
    const rig = new Rig();
    const pool = await single(rig, 3, 1, { retryLost: true });
    await rig.submit(upTo(5));
    pool.lose(0, new RunTimeout(50));
    await rig.turn();
    const runs: number[][][] = [];
    while (pool.held().length > 0) {
      runs.push(pool.held());
      pool.answer();
      await rig.turn();
    }
    assert.deepEqual(runs, [[[2]], [[3]], [[4], [5]], [[5]]]);
    assert.deepEqual(rig.answers(), ['1 deadline_exceeded', '2', '3', '4', '5']);
  });

  test('takes no more work into a worker while an item waits that must run alone', async () => {
    const rig = new Rig();
    const pool = await single(rig, 2, 2, { retryLost: true });
    await rig.submit(upTo(6));
    pool.lose(0);
    await rig.turn();
    assert.deepEqual([pool.held(0), pool.held(1)], [[[1]], [[2], [4]]]);
    pool.answer(1);
    await rig.turn();
    assert.deepEqual([pool.held(0), pool.held(1)], [[[1]], [[4]]]);
    pool.answer(1);
    await rig.turn();
    assert.deepEqual([pool.held(0), pool.held(1)], [[[1]], [[3]]]);
    pool.answer(0);
    await rig.turn();
    assert.deepEqual([pool.held(0), pool.held(1)], [[[5], [6]], [[3]]]);
  });
});

type Step =
  | { readonly do: 'submit'; readonly count: number }
  | { readonly do: 'answer'; readonly worker: number; readonly which: number; readonly runMs: number }
  | { readonly do: 'lose' | 'overrun'; readonly worker: number }
  | { readonly do: 'cancel'; readonly which: number };

const WORKERS = 2;
const worker = fc.nat({ max: WORKERS - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('submit' as const), count: fc.integer({ min: 1, max: 9 }) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('answer' as const),
      worker,
      which: fc.nat({ max: 7 }),
      runMs: fc.constantFrom(1, 20),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('lose' as const, 'overrun' as const), worker }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), which: fc.nat({ max: 60 }) }) },
);

/** Follows how often each item began; a batch begins when it is among the first `places` of its worker. */
class Observer {
  readonly begun: Map<number, number> = new Map();
  readonly #running: Set<number>[] = Array.from({ length: WORKERS }, () => new Set());

  readonly #pool: FakePool;
  readonly #places: number;

  constructor(pool: FakePool, places: number) {
    this.#pool = pool;
    this.#places = places;
  }

  look(): void {
    for (const [index, before] of this.#running.entries()) {
      const now = new Set(this.#pool.held(index).slice(0, this.#places).flat());
      for (const id of now) if (!before.has(id)) this.begun.set(id, (this.begun.get(id) ?? 0) + 1);
      this.#running[index] = now;
    }
  }

  lost(index: number): void {
    this.#running[index] = new Set();
  }
}

test('for any events each item has one outcome, and begins once, or twice if its worker died (the pool checks who is alone)', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60, size: 'max' }),
      fc.constantFrom(1, 2, 3, 8),
      fc.constantFrom(1, 3),
      async (steps, places, maxBatchSize) => {
        const rig = new Rig();
        const batching = { policy: 'greedy', maxBatchSize, maxWaitMs: 0 } as const;
        const pool = await single(rig, places, WORKERS, { retryLost: true, batching });
        const observer = new Observer(pool, places);
        const cancelled = new Set<number>();
        let submitted = 0;
        const act = async (what: Step): Promise<void> => {
          if (what.do === 'submit') {
            const ids = upTo(submitted + what.count, submitted + 1);
            submitted += what.count;
            await rig.submit(ids);
          } else if (what.do === 'cancel') {
            const id = what.which + 1;
            if (id <= submitted && !rig.outcomes.some((one) => one.id === id)) cancelled.add(id);
            rig.engine.cancel([id]);
          } else if (pool.held(what.worker).length > 0) {
            const running = Math.min(pool.held(what.worker).length, places);
            if (what.do === 'answer') pool.answer(what.worker, what.runMs, () => false, what.which % running);
            else {
              observer.lost(what.worker);
              pool.lose(what.worker, what.do === 'lose' ? new Error('killed') : new RunTimeout(50));
            }
          }
          await rig.turn();
          observer.look();
        };
        for (const what of steps) await act(what);
        for (let round = 0; round <= 2 * submitted; round += 1) {
          for (let index = 0; index < WORKERS; index += 1) {
            await act({ do: 'answer', worker: index, which: 0, runMs: 1 });
          }
        }
        for (const [id, times] of observer.begun) assert.ok(times <= 2, `item ${id} began ${times} times`);
        assert.deepEqual(
          rig.outcomes.map(({ id }) => id).sort((a, b) => a - b),
          upTo(submitted).filter((id) => !cancelled.has(id)),
        );
      },
    ),
    { numRuns: 150 },
  );
});

/** What a stage's runs cost by the measured ones, and which batches and workers are proposed for a rate. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { predict } from '../../src/core/queues/queue-model.ts';
import { RunCosts } from '../../src/core/queues/run-costs.ts';
import {
  fittedCost,
  memoryPerWorker,
  proposed,
  type StageRuns,
  sizingsFor,
  usualRate,
} from '../../src/core/queues/sizing.ts';
import { poisson, Simulation } from '../engine/batching-stage.ts';

const SIZES = [1, 2, 4, 8, 16, 32];

function stageOf(
  fixedMs: number,
  itemMs: number,
  slowdowns: readonly number[] = [1, 1, 1, 1],
  concurrency = 1,
): StageRuns {
  const runs = SIZES.flatMap((items) => Array(8).fill({ items, ms: fixedMs + itemMs * items }));
  return { runs, concurrency, slowdowns };
}

test('the cost is fitted to runs of several sizes', () => {
  const { fixedMs, itemMs } = fittedCost(stageOf(5, 0.1).runs);
  assert.ok(Math.abs(fixedMs - 5) < 1e-9 && Math.abs(itemMs - 0.1) < 1e-9);
});

test('runs of one size do not drive out what is known of others, and too few say nothing', () => {
  const costs = new RunCosts();
  for (let run = 0; run < 7; run += 1) costs.note(1, 5.1);
  const fixedMs = (): number | null => costs.fit?.fixedMs ?? null;
  assert.equal(fixedMs(), null);
  for (const { items, ms } of stageOf(5, 0.1).runs) costs.note(items, ms);
  for (let run = 0; run < 1000; run += 1) costs.note(32, 8.2);
  assert.ok(Math.abs((fixedMs() ?? 0) - 5) < 0.1);
  assert.equal(costs.largest, 32);
});

test('a cost is never below zero', () => {
  const costs = new RunCosts();
  for (let run = 0; run < 10; run += 1)
    for (const [items, ms] of [
      [1, 9],
      [32, 3],
    ] as const)
      costs.note(items, ms);
  assert.deepEqual([costs.fit?.itemMs, (costs.fit?.fixedMs ?? 0) > 0], [0, true]);
});

test('a replay has the times of a queue that can be counted by hand', () => {
  const batching = { policy: 'greedy', maxBatchSize: 2, maxWaitMs: 0 } as const;
  const at = [0, 1, 2, 3];
  const one = predict(at, { batching, places: 1, runMs: () => 10 });
  // The first runs alone until 10, the next two until 20, the last one until 30.
  assert.deepEqual([one.p50Ms, one.p99Ms, one.largestBatch, one.busy], [18, 27, 2, 1]);
  const two = predict(at, { batching, places: 2, runMs: () => 10 });
  assert.deepEqual([two.p99Ms, two.busy], [18, 30 / 40]);
  const wait = { ...batching, policy: 'oldest', maxBatchSize: 4, maxWaitMs: 5 } as const;
  assert.deepEqual(predict([0, 1, 2], { batching: wait, places: 1, runMs: () => 10 }).p99Ms, 15);
});

test('batches are proposed where they help, and workers where one cannot keep up', () => {
  const steep = proposed(sizingsFor(stageOf(5, 0.1), 1000, 32));
  assert.ok(steep.batching.maxBatchSize > 1 && steep.prediction.itemsPerSecond > 900);
  const calm = proposed(sizingsFor(stageOf(1, 2), 20, 32));
  assert.equal(calm.workers, 1);
  const busy = proposed(sizingsFor(stageOf(1, 2), 800, 32));
  assert.ok(busy.workers >= 2, `${busy.workers}`);
});

test('workers that slow each other down are not proposed', () => {
  const { workers } = proposed(sizingsFor(stageOf(5, 0.1, [1, 2, 3, 4]), 1000, 32));
  assert.equal(workers, 1);
});

test('a worker with several runs at a time takes the place of several workers, unless they slow each other down', () => {
  const needed = (slowdown: number, concurrency: number): number => {
    const stage = stageOf(100, 0, Array(8).fill(slowdown), concurrency);
    return proposed(sizingsFor(stage, 40, 1)).workers;
  };
  assert.ok(needed(1, 1) > 4, 'runs of 100 ms, 40 times a second');
  assert.equal(needed(1, 8), 1);
  assert.ok(needed(8, 8) > 4, 'eight at a time, each eight times as long');
  const [alone, together] = [usualRate(stageOf(100, 0), 1), usualRate(stageOf(100, 0, [2], 8), 1)];
  assert.ok(Math.abs(together / alone - 4) < 1e-9);
});

test('with a goal, the fewest workers that meet it are proposed, and the fastest if none do', () => {
  const sizings = sizingsFor(stageOf(20, 2), 60, 1);
  const p99 = (workers: number): number => sizings[workers - 1]?.prediction.p99Ms ?? 0;
  assert.ok(p99(2) > p99(3) && p99(3) > p99(4));
  assert.deepEqual(
    [p99(2), p99(3), 1].map((goal) => proposed(sizings, goal).workers),
    [2, 3, 4],
  );
});

test('the predicted p99 of a proposal is within 25 % of that of the real queue, with other arrivals', () => {
  for (const [fixedMs, itemMs, rate] of [
    [5, 0.1, 100],
    [5, 0.1, 1000],
    [5, 0.1, 3000],
    [20, 2, 100],
    [1, 2, 300],
    [1, 2, 600],
  ] as const) {
    const { workers, batching, prediction } = proposed(sizingsFor(stageOf(fixedMs, itemMs), rate, 32));
    const cost = { fixedMs, itemMs };
    const stage = new Simulation({ batching, cost, places: workers, pause: poisson(rate, 11) });
    const { p99 } = stage.run((10_000 * 1000) / rate);
    const told = JSON.stringify({ cost, rate, workers, batching, predicted: prediction.p99Ms, p99 });
    assert.ok(Math.abs(prediction.p99Ms / p99 - 1) <= 0.25, told);
  }
});

test('the usual rate leaves one worker some rest', () => {
  assert.ok(Math.abs(usualRate(stageOf(5, 0.1), 32) - 0.6 * (32_000 / 8.2)) < 1e-3);
});

test('the workers of a container share what Node-RED and the engine leave, and a replacement has room', () => {
  assert.equal(memoryPerWorker(2000, 3), 400);
  assert.equal(memoryPerWorker(1000, 1), 300);
  assert.equal(memoryPerWorker(300, 1), 0);
});

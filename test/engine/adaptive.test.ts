/** The policy `adaptive` beside the others: a stage's real queue and batches, with arrivals and workers on a clock of the test. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Batching, BatchPolicy } from '../../src/core/model.ts';
import type { RunCost } from '../../src/core/queues/run-costs.ts';
import { type Figures, poisson, type SimulatedStage, Simulation } from './batching-stage.ts';

/** A model that gains much by batches, and a model that gains little. */
const STEEP: RunCost = { fixedMs: 5, itemMs: 0.1 };
const FLAT: RunCost = { fixedMs: 1, itemMs: 2 };
const WAIT_MS = 10;
/** Nothing meets it: the policy looks for the least p99. */
const OUT_OF_REACH_MS = 1;
const WIDE_MS = 100;

const batching = (policy: BatchPolicy, maxWaitMs: number): Batching => ({ policy, maxBatchSize: 32, maxWaitMs });

/** The rates of the research page, and for the slower model such as leave it as busy. */
const LOADS: readonly (readonly [RunCost, number, readonly number[]])[] = [
  [STEEP, 1, [50, 500, 2000, 5000]],
  [STEEP, 2, [500, 2000]],
  [FLAT, 1, [20, 150, 300, 430]],
  [FLAT, 2, [300, 600, 800]],
];

/** Figures after the time in which the policy finds its settings. */
function figuresOf(stage: Omit<SimulatedStage, 'pause'>, rate: number): Figures {
  const simulation = new Simulation({ ...stage, pause: poisson(rate, 7) });
  simulation.run(Math.max(4000, (100 * 1000) / rate));
  return simulation.run(Math.max(2000, (500 * 1000) / rate));
}

for (const [cost, places, rates] of LOADS) {
  const { fixedMs, itemMs } = cost;
  test(`adaptive is no worse than greedy and oldest: ${fixedMs} + ${itemMs} n ms, ${places} at a time`, () => {
    for (const rate of rates) {
      const [greedy, oldest, adaptive, wide] = [
        batching('greedy', 0),
        batching('oldest', WAIT_MS),
        batching('adaptive', OUT_OF_REACH_MS),
        batching('adaptive', WIDE_MS),
      ].map((one) => figuresOf({ batching: one, cost, places }, rate)) as [Figures, Figures, Figures, Figures];
      const better = Math.min(greedy.p99, oldest.p99);
      const most = Math.max(greedy.perSecond, oldest.perSecond);
      const told = JSON.stringify({ rate, greedy, oldest, adaptive, wide });
      assert.ok(adaptive.p99 <= 1.1 * better, `the least p99: ${told}`);
      assert.ok(wide.p99 <= 1.1 * Math.max(better, WIDE_MS), `the goal: ${told}`);
      for (const { perSecond } of [adaptive, wide]) assert.ok(perSecond >= 0.9 * most, `items per second: ${told}`);
    }
  });
}

test('with a goal that leaves room, batches wait and the workers have less to do', () => {
  const of = (one: Batching): Figures => figuresOf({ batching: one, cost: STEEP, places: 1 }, 500);
  const [greedy, adaptive] = [of(batching('greedy', 0)), of(batching('adaptive', WIDE_MS))];
  assert.ok(adaptive.busy < greedy.busy / 2, `${adaptive.busy} and ${greedy.busy}`);
});

test('with several workers, a short wait keeps their batches apart and lowers the p99', () => {
  const of = (one: Batching): Figures => figuresOf({ batching: one, cost: STEEP, places: 2 }, 2000);
  const [greedy, adaptive] = [of(batching('greedy', 0)), of(batching('adaptive', OUT_OF_REACH_MS))];
  assert.ok(adaptive.p99 < 0.9 * greedy.p99, `${adaptive.p99} and ${greedy.p99}`);
});

test('it says what it does and why, and logs a change', () => {
  const rule = batching('adaptive', WIDE_MS);
  const simulation = new Simulation({ batching: rule, cost: STEEP, places: 1, pause: poisson(500, 7) });
  simulation.run(20);
  assert.match(simulation.former.statusFor(rule).adaptive?.reason ?? '', /^does not wait, .*; too few requests/);
  simulation.run(5000);
  const { reason, maxWaitMs, p99Ms, targetMs } = simulation.former.statusFor(rule).adaptive ?? assert.fail();
  assert.ok(maxWaitMs > 0 && p99Ms !== null && p99Ms < targetMs);
  assert.match(
    reason,
    /^waits up to \d+ ms, batches of up to 32; \d+ items\/s; a run takes 5 ms and 0.1 ms per item; expected p99 \d+ ms, \d+ % busy$/,
  );
  assert.match(simulation.said.join(), /^batches: waits up to \d+ ms/);
  assert.deepEqual(simulation.former.statusFor(batching('oldest', WAIT_MS)), {});
});

test('it follows a load that changes, and rests on greedy when few items come', () => {
  const rule = batching('adaptive', WIDE_MS);
  let pause = poisson(500, 7);
  const simulation = new Simulation({ batching: rule, cost: STEEP, places: 1, pause: () => pause() });
  const chosen = (): number | undefined => simulation.former.statusFor(rule).adaptive?.maxWaitMs;
  simulation.run(5000);
  assert.ok((chosen() ?? 0) > 0);
  pause = () => 2000;
  simulation.run(60_000);
  assert.equal(chosen(), 0);
});

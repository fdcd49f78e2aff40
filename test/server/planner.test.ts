/** The plan of a deploy: numbers and revisions by which the engine knows what did not change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlannedStage } from '../../src/config/stage-definition.ts';
import { Planner } from '../../src/runtime/service/planner.ts';
import { stage } from '../engine/rig.ts';

function planned(id: string, overrides: Partial<PlannedStage> = {}): PlannedStage {
  const { ref: _, revision: __, ...rest } = stage(0, { id, name: `name of ${id}` });
  return { ...rest, ...overrides };
}

const refs = (plan: { stages: readonly { ref: number }[] }): number[] => plan.stages.map(({ ref }) => ref);

test('stages and routes keep their numbers over deploys, even after an absence', () => {
  const planner = new Planner();
  const chain = [{ entry: 'a', stages: ['a', 'b'] }];
  const first = planner.compile([planned('a'), planned('b')], chain);
  planner.compile([planned('b')], [{ entry: 'b', stages: ['b'] }]);
  const again = planner.compile([planned('b'), planned('a')], chain);
  assert.deepEqual(refs(again), refs(first).toReversed());
  assert.deepEqual(again.routes, first.routes);
});

test('no two stages or routes have the same number', () => {
  const planner = new Planner();
  const ids = ['a', 'b', 'c'];
  const plan = planner.compile(
    ids.map((id) => planned(id)),
    ids.map((id) => ({ entry: id, stages: [id] })),
  );
  const numbers = [...refs(plan), ...plan.routes.map(({ ref }) => ref)];
  assert.equal(new Set(numbers).size, 6);
});

test('the revision changes only with the code and settings that a worker runs', () => {
  const planner = new Planner();
  const revision = (overrides: Partial<PlannedStage>): string | undefined =>
    planner.compile([planned('a', overrides)], []).stages[0]?.revision;
  const { modelet } = planned('a');
  const before = revision({});
  assert.equal(revision({ name: 'other', capacity: 1, maxAgeMs: 5, overflow: 'drop-oldest' }), before);
  assert.equal(revision({ batching: { policy: 'gap', maxBatchSize: 7, maxWaitMs: 3 } }), before);
  const changes = [
    { init: { a: 1 } },
    { predict: 'batch' as const },
    { source: { kind: 'file' as const, path: '/m.js' } },
    { workers: [...modelet.workers, { cpus: [1], env: {} }] },
    { workers: [{ cpus: null, env: { A: '1' } }] },
  ];
  const revisions = changes.map((change) => revision({ modelet: { ...modelet, ...change } }));
  assert.equal(new Set([before, ...revisions]).size, changes.length + 1);
});

test('nodes that lead into the same route share it, and other taps make another route', () => {
  const planner = new Planner();
  const stages = [planned('a'), planned('b')];
  const plan = planner.compile(stages, [
    { entry: 'a', stages: ['a', 'b'] },
    { entry: 'batcher', stages: ['a', 'b'] },
  ]);
  assert.equal(plan.routes.length, 1);
  assert.equal(planner.entries.get('a')?.route.ref, planner.entries.get('batcher')?.route.ref);
  const tapped = planner.compile(stages, [{ entry: 'a', stages: ['a', 'b'], taps: new Map([['a', ['debug']]]) }]);
  assert.notEqual(tapped.routes[0]?.ref, plan.routes[0]?.ref);
  assert.deepEqual(tapped.routes[0]?.taps, [tapped.stages[0]?.ref]);
});

test('an entry leads to its route and first stage, and a node of an earlier deploy leads nowhere', () => {
  const planner = new Planner();
  const plan = planner.compile([planned('a'), planned('b')], [{ entry: 'q', stages: ['b', 'a'] }]);
  assert.equal(planner.entries.get('q')?.stage, plan.stages[1]?.ref);
  assert.deepEqual(planner.entries.get('q')?.route, plan.routes[0]);
  planner.compile([planned('a')], []);
  assert.equal(planner.entries.get('q'), undefined);
  assert.equal(planner.plan.routes.length, 0);
});

test('a stage keeps its name by number after a deploy has removed it', () => {
  const planner = new Planner();
  const ref = planner.compile([planned('a')], []).stages[0]?.ref as number;
  planner.compile([], []);
  const { id, name } = planner.stages.get(ref) ?? {};
  assert.deepEqual([id, name], ['a', 'name of a']);
  assert.equal(planner.stages.get(999), undefined);
});

test('a check reaches the stages on routes and their versions, each once', () => {
  const planner = new Planner();
  const versions = { list: [{ stage: 'b', share: 50, mode: 'answer' }], rollbackAbove: null } as const;
  const stages = [planned('a', { versions }), planned('b'), planned('c'), planned('d', { versions })];
  const plan = planner.compile(stages, [{ entry: 'a', stages: ['a', 'c'] }]);
  const [a, b, c] = refs(plan);
  assert.deepEqual(planner.reached, [a, c, b]);
});

test('the capacity of a stage is its queue and the items that its workers hold', () => {
  const planner = new Planner();
  const { modelet } = planned('a');
  const two = { ...modelet, workers: [...modelet.workers, ...modelet.workers] };
  const batching = { policy: 'greedy', maxBatchSize: 8, maxWaitMs: 0 } as const;
  const [definition] = planner.compile([planned('a', { capacity: 100, batching, modelet: two })], []).stages;
  assert.equal(planner.roomAt(definition?.ref as number), 100 + 2 * 2 * 8);
});

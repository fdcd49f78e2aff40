/** Newest-first holds for a whole route: which queues drop their oldest items, and which settings have no effect. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FlowPlan } from '../../src/flow/plan.ts';
import { compileDefinitions } from '../../src/flow/read/compile-definitions.ts';

type Node = { readonly id: string } & Readonly<Record<string, unknown>>;

const stage = (id: string, to: readonly string[], settings: object = {}): Node => ({
  ...{ id, type: 'modelet-stage', z: 'tab', runtime: 'r', code: 'return input;', wires: [to] },
  ...settings,
});
const other = (id: string, to: readonly string[], type = 'function'): Node => ({ id, type, z: 'tab', wires: [to] });
const DROPS = { overflow: 'drop-oldest', capacity: 4, dropKey: 'camera' };

function planned(...nodes: Node[]): FlowPlan {
  const shared = [
    { id: 'tab', type: 'tab' },
    { id: 'r', type: 'modelet-runtime' },
  ];
  return compileDefinitions([...shared, ...nodes] as never, {} as never).plan;
}

/** The queue of each stage, as `overflow capacity`. */
function queues(plan: FlowPlan): Record<string, string> {
  return Object.fromEntries(plan.of('r').stages.map(({ id, overflow, capacity }) => [id, `${overflow} ${capacity}`]));
}

describe('a stage behind a stage that drops its oldest items', () => {
  test('drops its oldest, too, with the same key and as few of them', () => {
    const plan = planned(stage('a', ['b'], DROPS), stage('b', ['c']), stage('c', []));
    assert.deepEqual(queues(plan), { a: 'drop-oldest 4', b: 'drop-oldest 4', c: 'drop-oldest 4' });
    assert.equal(plan.routes.get('a')?.dropKey, 'camera');
    assert.deepEqual(plan.idle, []);
  });

  test('keeps room for a batch, and never more than its own capacity', () => {
    const batcher = { id: 'q', type: 'modelet-batcher', z: 'tab', maxBatchSize: 8, wires: [['b']] };
    const plan = planned(stage('a', ['q'], DROPS), batcher, stage('b', ['c']), stage('c', [], { capacity: 2 }));
    assert.deepEqual(queues(plan), { a: 'drop-oldest 4', b: 'drop-oldest 8', c: 'drop-oldest 2' });
  });

  test('keeps its own policy', () => {
    const plan = planned(stage('a', ['b'], DROPS), stage('b', [], { overflow: 'refuse' }));
    assert.equal(queues(plan)['b'], 'refuse 1024');
  });

  test('refuses as before if requests enter there, or come from a stage that does not drop', () => {
    const entered = planned(stage('a', ['b'], DROPS), stage('b', []), other('f', ['b']));
    assert.equal(queues(entered)['b'], 'refuse 1024');
    const merged = planned(stage('a', ['c'], DROPS), stage('b', ['c']), stage('c', []));
    assert.equal(queues(merged)['c'], 'refuse 1024');
    const both = planned(stage('a', ['c'], DROPS), stage('b', ['c'], DROPS), stage('c', []));
    assert.equal(queues(both)['c'], 'drop-oldest 8');
  });

  test('as a version, takes over from its base', () => {
    const versions = { versions: ['v'], shares: [{ share: '10', mode: 'answer' }] };
    const plan = planned(stage('a', ['b'], DROPS), stage('b', [], versions), stage('v', []));
    assert.deepEqual(queues(plan), { a: 'drop-oldest 4', b: 'drop-oldest 4', v: 'drop-oldest 4' });
  });
});

test('drop-oldest on a later stage of a route counts, with its key', () => {
  const plan = planned(stage('a', ['b']), stage('b', [], DROPS));
  assert.deepEqual(queues(plan), { a: 'refuse 1024', b: 'drop-oldest 4' });
  assert.equal(plan.routes.get('a')?.dropKey, 'camera');
});

test('settings without effect are named', () => {
  const plan = planned(
    stage('a', ['b'], { dropKey: 'topic' }),
    stage('b', ['c'], { overflow: 'wait' }),
    stage('c', ['d'], DROPS),
    stage('d', ['e'], { ...DROPS, dropKey: 'site' }),
    other('e', []),
  );
  assert.deepEqual(
    plan.idle.map(({ id, text }) => `${id}: ${text}`),
    [
      'a: Drop key topic has no effect: When full does not drop the oldest items',
      'b: When full: wait has no effect: only stages send to this one, and they wait while it is full',
      'd: Drop key site has no effect on requests that an earlier stage divides by camera',
    ],
  );
});

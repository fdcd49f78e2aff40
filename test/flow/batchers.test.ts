/** A batcher belongs to the one stage behind it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SINGLE_ITEMS } from '../../src/core/model.ts';
import type { GraphNode } from '../../src/flow/graph.ts';

import { batcher, collector, compile, drawing, junction, other, stage, TEN } from './drawing.ts';

const FIVE = { ...TEN, maxBatchSize: 5 };

test('a stage has the settings of the batcher in front, or runs single items', () => {
  const { batching, invalid } = compile(drawing(batcher('q', ['a']), stage('a', ['b']), stage('b')));
  assert.deepEqual(batching.get('a'), TEN);
  assert.deepEqual(batching.get('b'), SINGLE_ITEMS);
  assert.equal(invalid.size, 0);
});

test('a batcher may be in front of a stage through a junction', () => {
  const graph = drawing(batcher('q', ['j']), junction('j', ['a']), stage('a'));
  assert.deepEqual(compile(graph).batching.get('a'), TEN);
  assert.deepEqual(compile(graph).routes.get('q')?.stages, ['a']);
});

const MISPLACED: readonly (readonly [string, readonly string[], readonly GraphNode[]])[] = [
  ['two stages', ['a', 'b'], [stage('a'), stage('b')]],
  ['nothing', [], []],
  ['a node that is not there', ['gone'], []],
  ['a function node', ['f'], [other('f', ['a']), stage('a')]],
  ['a stage and a debug node', ['a', 'd'], [stage('a'), other('d', [], 'debug')]],
  ['another batcher', ['p'], [batcher('p', ['a']), stage('a')]],
  ['a collector', ['c'], [collector('c', [], [])]],
];

for (const [name, wires, nodes] of MISPLACED) {
  test(`a batcher in front of ${name} cannot be used`, () => {
    const compiled = compile(drawing(batcher('q', wires), ...nodes));
    assert.match(compiled.invalid.get('q') ?? '', /must be wired to exactly one modelet stage and nothing else/);
    assert.equal(compiled.routes.has('q'), false);
    assert.deepEqual(compiled.batching.get('a') ?? SINGLE_ITEMS, name === 'another batcher' ? TEN : SINGLE_ITEMS);
  });
}

test('batchers with the same settings share a stage', () => {
  const graph = drawing(batcher('p', ['a']), batcher('q', ['a'], { batching: { ...TEN } }), stage('a'));
  const { batching, invalid, routes } = compile(graph);
  assert.equal(invalid.size, 0);
  assert.deepEqual(batching.get('a'), TEN);
  assert.deepEqual([routes.get('p')?.stages, routes.get('q')?.stages], [['a'], ['a']]);
});

const DIFFERENT: readonly (readonly [string, object])[] = [
  ['size', { maxBatchSize: 5 }],
  ['policy', { policy: 'gap' }],
  ['wait', { maxWaitMs: 6 }],
];

for (const [name, change] of DIFFERENT) {
  test(`batchers that differ in ${name} cannot share a stage; the stage itself can be used`, () => {
    const graph = drawing(batcher('p', ['a']), batcher('q', ['a'], { batching: { ...TEN, ...change } }), stage('a'));
    const { batching, invalid, routes } = compile(graph);
    assert.deepEqual([...invalid.keys()].sort(), ['p', 'q']);
    for (const reason of invalid.values()) assert.match(reason, /different settings feed stage A/);
    assert.deepEqual(batching.get('a'), SINGLE_ITEMS);
    assert.deepEqual([...routes.keys()], ['a']);
  });
}

test('three batchers with two settings cannot be used, in whatever order they come', () => {
  for (const settings of [
    [TEN, FIVE, TEN],
    [TEN, TEN, FIVE],
    [FIVE, TEN, TEN],
  ]) {
    const nodes = settings.map((batching, index) => batcher(`q${index}`, ['a'], { batching }));
    const { batching, invalid } = compile(drawing(...nodes, stage('a')));
    assert.deepEqual([...invalid.keys()].sort(), ['q0', 'q1', 'q2']);
    assert.deepEqual(batching.get('a'), SINGLE_ITEMS);
  }
});

test('an invalid batcher keeps its own reason and does not affect a valid one', () => {
  const graph = drawing(batcher('p', ['a'], { batching: FIVE, invalid: 'bad size' }), batcher('q', ['a']), stage('a'));
  const { batching, invalid } = compile(graph);
  assert.deepEqual([...invalid], [['p', 'bad size']]);
  assert.deepEqual(batching.get('a'), TEN);
});

test('a batcher in front of an invalid stage is not an entry', () => {
  const { routes, invalid } = compile(drawing(batcher('q', ['a']), stage('a', [], { invalid: 'no code' })));
  assert.equal(routes.size, 0);
  assert.equal(invalid.get('a'), 'no code');
});

/** A batcher belongs to the one stage behind it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Batching, SINGLE_ITEMS } from '../../src/core/model.ts';
import type { GraphNode, StageNode } from '../../src/flow/graph.ts';

import {
  batcher,
  collector,
  compile,
  drawing,
  endpointsOf,
  httpIn,
  httpOut,
  junction,
  other,
  stage,
  TEN,
} from './drawing.ts';

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
  ['cost', { costs: { by: 'bytes', most: 9, padded: false } }],
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

const byCost = (by: string): Batching => ({ ...TEN, costs: { by, most: 100, padded: true } });

test('a route has one property that has the costs, and no stage before writes it', () => {
  const endOf = (by: string, first: Partial<StageNode> = {}, before = TEN): string => {
    const second = [batcher('q', ['b'], { batching: byCost(by) }), stage('b')];
    const graph = drawing(batcher('p', ['a'], { batching: before }), stage('a', ['q'], first), ...second);
    const route = compile(graph).routes.get('p');
    return `${route?.stages.join('>')} by ${route?.costBy}: ${route?.end}`;
  };
  assert.match(endOf('tokens'), /^a>b by tokens: /);
  assert.match(endOf('bytes'), /^a>b by : /);
  assert.match(endOf('bytes', {}, byCost('payload.length')), /^a>b by payload\.length: /);
  assert.match(endOf('tokens', {}, byCost('tokens')), /^a>b by tokens: /);
  assert.equal(
    endOf('tokens', {}, byCost('words')),
    'a by words: stage B has the costs msg.tokens, a stage before it msg.words',
  );
  assert.equal(
    endOf('payload.length'),
    'a by : stage B has the costs msg.payload.length, which a stage before it writes',
  );
  assert.equal(
    endOf('tokens', { emits: 'list' }),
    'a by : stage B has the costs msg.tokens, which the items of a list do not have: bytes would do',
  );
});

test('a version has the costs of its base, or bytes', () => {
  const invalidBy = (by: string, ofBase: string): string | undefined => {
    const versions = [{ stage: 'b', mode: 'answer', share: 10 } as const];
    const nodes = [stage('a', [], { versions }), batcher('q', ['b'], { batching: byCost(by) }), stage('b')];
    return compile(drawing(batcher('p', ['a'], { batching: byCost(ofBase) }), ...nodes)).invalid.get('a');
  };
  assert.equal(invalidBy('tokens', 'tokens'), undefined);
  assert.equal(invalidBy('bytes', 'tokens'), undefined);
  assert.equal(
    invalidBy('tokens', 'bytes'),
    'Versions: the batcher of a version has the costs msg.tokens, that of this stage none',
  );
});

test('an endpoint is compiled if a header has the costs', () => {
  const compiledBy = (by: string): string | null | undefined => {
    const nodes = [batcher('q', ['a'], { batching: byCost(by) }), stage('a', ['out']), httpOut('out')];
    const { endpoints, uncompiled } = endpointsOf([httpIn('in', ['q']), ...nodes]);
    return uncompiled[0]?.reason ?? endpoints[0]?.cost;
  };
  assert.equal(compiledBy('bytes'), null);
  assert.equal(compiledBy('req.headers["X-Tokens"]'), 'x-tokens');
  assert.equal(compiledBy('payload.length'), 'its costs are msg.payload.length, which is no header');
});

/** Stages that emit lists: whose items pass the next stages by themselves, and why others do not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GraphNode } from '../../src/flow/graph.ts';
import { batcher, choice, compile, drawing, type Fused, fusedRoute, join, other, routeOf, stage } from './drawing.ts';

const EMITS = { emits: 'list' } as const;
const LIST = { mode: 'list' } as const;
const DEBUG = other('debug', [], 'debug');
const OUT = other('out', [], 'http response');

const FUSED: readonly Fused[] = [
  {
    name: 'the items of a list, and a stage behind the node that gathers them',
    nodes: [
      stage('a', ['q'], EMITS),
      batcher('q', ['b']),
      stage('b', ['j', 'debug']),
      join('j', ['c'], [], LIST),
      stage('c'),
      DEBUG,
    ],
    leg: 'a [b] j c',
    exit: 'c',
    taps: { b: ['debug'] },
  },
  {
    name: 'a switch node, and branches, on the way of an item',
    nodes: [
      stage('a', ['s'], EMITS),
      choice('s', ['x'], [['b'], ['c']]),
      stage('b', ['d']),
      stage('c', ['d']),
      stage('d', ['e', 'f']),
      stage('e', ['k']),
      stage('f', ['k']),
      join('k', ['j']),
      join('j', [], [], LIST),
    ],
    leg: 'a [<b d {e | f} k | c d {e | f} k>] j',
    exit: 'j',
  },
  {
    name: 'a list in a list',
    nodes: [
      stage('a', ['b'], EMITS),
      stage('b', ['c'], EMITS),
      stage('c', ['i']),
      join('i', ['d'], [], LIST),
      stage('d', ['j']),
      join('j', [], [], LIST),
    ],
    leg: 'a [b [c] i d] j',
    exit: 'j',
  },
  {
    name: 'a list in a branch, whose gathering node is as near as that of the branches',
    nodes: [
      stage('a', ['b', 'd']),
      stage('b', ['c'], EMITS),
      stage('c', ['i']),
      join('i', ['e'], [], LIST),
      stage('e', ['j']),
      stage('d', ['f']),
      stage('f', ['j']),
      join('j', ['out']),
      OUT,
    ],
    leg: 'a {b [c] i e | d f} j',
    exit: 'j',
  },
  {
    name: 'lists in all branches, nearer than the node that gathers these',
    nodes: [
      stage('a', ['b', 'd']),
      ...[stage('b', ['c'], EMITS), stage('c', ['i']), join('i', ['e'], [], LIST), stage('e', ['j'])],
      ...[stage('d', ['f'], EMITS), stage('f', ['k']), join('k', ['g'], [], LIST), stage('g', ['j'])],
      join('j', ['out']),
      OUT,
    ],
    leg: 'a {b [c] i e | d [f] k g} j',
    exit: 'j',
  },
  {
    name: 'a list that no node takes apart',
    nodes: [stage('a', ['b'], EMITS), stage('b', ['out']), OUT],
    leg: 'a b',
    exit: 'b',
  },
];

for (const fused of FUSED) {
  test(`the engine takes lists: ${fused.name}`, () => void fusedRoute(fused));
}

const UNFUSED: readonly (readonly [name: string, nodes: readonly GraphNode[], reason: RegExp])[] = [
  [
    'a list whose results are gathered with others',
    [stage('a', ['b'], EMITS), stage('b', ['j']), other('x', ['j']), join('j', ['out'], [], LIST), OUT],
    /items of its lists: the node that gathers them also gathers messages from elsewhere/,
  ],
  [
    'a list whose items go through a node of Node-RED',
    [stage('a', ['b'], EMITS), stage('b', ['x', 'j']), other('x', ['j']), join('j', ['out'], [], LIST), OUT],
    /also gathers messages from elsewhere/,
  ],
  [
    'branches that a node for lists gathers',
    [stage('a', ['b', 'c']), stage('b', ['j']), stage('c', ['j']), join('j', ['out'], [], LIST), OUT],
    /gathers the items of lists, and no branches/,
  ],
  [
    'lists in lists in lists in lists',
    [
      ...[0, 1, 2, 3].map((n) => stage(`${'abcd'[n]}`, [n === 3 ? 'z' : `${'bcd'[n]}`], EMITS)),
      stage('z', ['j0']),
      ...[0, 1, 2, 3].map((n) => join(`j${n}`, n === 3 ? ['out'] : [`j${n + 1}`], [], LIST)),
      OUT,
    ],
    /lists in lists are at most 3 deep/,
  ],
];

for (const [name, nodes, reason] of UNFUSED) {
  test(`the route ends before ${name}, and says why`, () => {
    assert.match(routeOf('a', nodes).end, reason);
  });
}

test('a node that waits for the items of lists says why none come to it', () => {
  const reasonAt = (...nodes: readonly GraphNode[]): string | undefined => compile(drawing(...nodes)).unlisted.get('j');
  assert.match(reasonAt(stage('a', ['j']), join('j', [], [], LIST)) ?? '', /no stage that emits lists leads to it/);
  const also = [stage('b', ['j']), other('x', ['j']), join('j', [], [], LIST)];
  assert.match(reasonAt(stage('a', ['b'], EMITS), ...also) ?? '', /also gathers messages from elsewhere/);
  assert.equal(reasonAt(stage('a', ['b'], EMITS), stage('b', ['j']), join('j', [], [], LIST)), undefined);
});

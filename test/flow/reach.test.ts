/** A walk downstream from a node finds the nearest nodes of each kind. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Graph } from '../../src/flow/graph.ts';
import { nearest } from '../../src/flow/walk.ts';
import { batcher, collector, drawing, gate, junction, other, stage } from './drawing.ts';

/** Each graph, and the stages that are nearest behind gate `g`. */
const STAGES: readonly (readonly [string, Graph, string[]])[] = [
  ['none', drawing(gate('g', ['f']), other('f')), []],
  ['one', drawing(gate('g', ['a']), stage('a', ['b']), stage('b')), ['a']],
  [
    'one through a batcher, a junction and a function',
    drawing(gate('g', ['j']), junction('j', ['f']), other('f', ['q']), batcher('q', ['a']), stage('a')),
    ['a'],
  ],
  ['two equally near, in the order of the wires', drawing(gate('g', ['b', 'a']), stage('a'), stage('b')), ['b', 'a']],
  ['not what only its catch output leads to', drawing(gate('g', ['f'], ['a']), other('f'), stage('a')), []],
  [
    'what the second output of another node leads to',
    drawing(gate('g', ['f']), other('f', [[], ['a']]), stage('a')),
    ['a'],
  ],
  ['a circle ends', drawing(gate('g', ['f']), other('f', ['g', 'gone'])), []],
];

for (const [name, graph, expected] of STAGES) {
  test(name, () => assert.deepEqual(nearest(graph, 'g', 'stage'), expected));
}

test('a walk reaches a collector behind another, and does not count its own start', () => {
  const graph = drawing(collector('c', ['d'], []), collector('d', ['c'], []));
  assert.deepEqual(nearest(graph, 'c', 'collector'), ['d']);
});

test('an unknown node leads nowhere', () => assert.deepEqual(nearest(drawing(), 'g', 'stage'), []));

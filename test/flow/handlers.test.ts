/** Exactly one handler gets a stage's errors. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Graph } from '../../src/flow/graph.ts';
import { findHandler } from '../../src/flow/walk.ts';
import { batcher, collector, drawing, gate, junction, other, stage } from './drawing.ts';

const near = collector('near', ['far'], ['out']);
const far = collector('far', [], ['out']);

/** Each graph, and the collector that handles stage `a`; `tie ...` or nothing for Catch nodes. */
const HANDLERS: readonly (readonly [string, Graph, string])[] = [
  ['no collector', drawing(stage('a', ['f']), other('f')), ''],
  ['a collector behind the stage', drawing(stage('a', ['near']), near), 'near'],
  ['the nearest of two', drawing(stage('a', ['near']), near, far), 'near'],
  ['through other stages', drawing(stage('a', ['b']), stage('b', ['near']), near), 'near'],
  ['through a batcher', drawing(stage('a', ['q']), batcher('q', ['b']), stage('b', ['near']), near), 'near'],
  ['through function nodes', drawing(stage('a', ['f']), other('f', ['g']), other('g', [[], ['near']]), near), 'near'],
  ['a nearer one on another branch', drawing(stage('a', ['f', 'near']), other('f', ['far']), far, near), 'near'],
  ['two equally near', drawing(stage('a', ['near', 'far']), near, far), 'tie near far'],
  [
    'two equally near through functions',
    drawing(stage('a', ['f', 'g']), other('f', ['near']), other('g', ['far']), near, far),
    'tie near far',
  ],
  [
    'one reached by two ways is no tie',
    drawing(stage('a', ['f', 'g']), other('f', ['near']), other('g', ['near']), near),
    'near',
  ],
  ['catch off is passed over', drawing(stage('a', ['off']), collector('off', ['far'], ['out'], false), far), 'far'],
  ['an unwired catch output is passed over', drawing(stage('a', ['un']), collector('un', ['far'], []), far), 'far'],
  [
    'off, and none behind',
    drawing(stage('a', ['off']), collector('off', ['x'], ['y'], false), other('x'), other('y')),
    '',
  ],
  [
    'off beside one equally near',
    drawing(stage('a', ['off', 'near']), collector('off', [], ['out'], false), near),
    'near',
  ],
  ['upstream does not count', drawing(collector('near', ['a'], ['out']), stage('a', ['f']), other('f')), ''],
  ['a circle ends', drawing(stage('a', ['f']), other('f', ['g']), other('g', ['f', 'a'])), ''],
  [
    'a circle with a collector in it',
    drawing(stage('a', ['f']), other('f', ['near']), collector('near', ['a'], ['f'])),
    'near',
  ],
  [
    'junctions are no hop',
    drawing(stage('a', ['j', 'f']), junction('j', ['k']), junction('k', ['near']), other('f', ['far']), near, far),
    'near',
  ],
  [
    'a junction makes no tie of two collectors',
    drawing(stage('a', ['j', 'f']), junction('j', ['near']), other('f', ['far']), near, far),
    'near',
  ],
  ['through a gate', drawing(stage('a', ['g']), gate('g', ['near'], ['far']), near, collector('far', [], [])), 'near'],
  ['behind a gate that has no catch output', drawing(gate('a', ['b']), stage('b', ['near']), near), 'near'],
  ['wires to nodes that are not there', drawing(stage('a', ['gone', 'near']), near), 'near'],
  ['a stage that is not there', drawing(near), ''],
];

for (const [name, graph, expected] of HANDLERS) {
  test(`${name}: ${expected || 'Catch nodes'}`, () => {
    const handler = findHandler(graph, 'a');
    const tied = expected.startsWith('tie') ? expected.split(' ').slice(1) : [];
    const wanted =
      expected === '' || tied.length > 0 ? { kind: 'catch', tie: tied } : { kind: 'collector', id: expected };
    assert.deepEqual(handler, wanted);
  });
}

test("a gate's own catch output goes before any collector", () => {
  const graph = drawing(gate('a', ['near'], ['x']), near, other('x'));
  assert.deepEqual(findHandler(graph, 'a'), { kind: 'output' });
});

/** The triangles of the editor: what is wrong with flows as they are drawn, and all that must raise no false alarm. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileDefinitions } from '../../src/flow/read/compile-definitions.ts';
import { wiringFaults } from '../../src/flow/wiring-faults.ts';
import { instance, junction, linkIn, linkOut, on, subflow } from '../fixtures/drawn.ts';
import { batcher, completeNode, dispatchGate, func, node, runtime, sink, stage, TAB } from '../fixtures/flow.ts';
import type { FlowNode } from '../fixtures/node-red.ts';

const ECHO = 'return input;';
const inject = (to: string | readonly string[]): FlowNode => node('inject', 'inject', [to]);

function faultsOf(flows: readonly FlowNode[], at: readonly FlowNode[] = [runtime()]): Record<string, string> {
  return Object.fromEntries(wiringFaults(compileDefinitions([TAB, ...at, ...flows], { userDir: process.cwd() })));
}

const FAULTY: readonly (readonly [string, readonly FlowNode[], Readonly<Record<string, RegExp>>])[] = [
  [
    'a batcher without a stage',
    [inject('q'), batcher('q', 'd'), sink('d')],
    { q: /wired to exactly one modelet stage/ },
  ],
  [
    'two batchers with different settings on a stage',
    [
      batcher('p', 'a', { maxBatchSize: '2' }),
      batcher('q', 'a', { maxBatchSize: '3' }),
      stage('a', ECHO, 'd'),
      sink('d'),
    ],
    { p: /different settings feed stage a: give them equal settings/, q: /different settings feed stage a/ },
  ],
  [
    'a loop of results',
    [stage('a', ECHO, 'b'), stage('b', ECHO, 'j'), junction('j', ['a', 'd']), sink('d')],
    { a: /back to itself .* Take a wire out of the loop/, b: /back to itself/ },
  ],
  [
    'a missing file',
    [stage('a', ECHO, 'd', { source: 'file', path: 'none/such.js' }), sink('d')],
    { a: /File: no file .*such\.js/ },
  ],
  [
    'a stage with a runtime that is not there',
    [stage('a', ECHO, 'd', { runtime: 'x' }), sink('d')],
    { a: /no runtime is selected/ },
  ],
  ['a result that goes nowhere', [inject('a'), stage('a', ECHO, [])], { a: /goes nowhere: wire its output/ }],
  [
    'a setting without effect',
    [
      inject('a'),
      stage('a', ECHO, 'b', { dropKey: 'topic' }),
      stage('b', ECHO, 'c', { overflow: 'wait' }),
      ...[stage('c', ECHO, 'd', { overflow: 'drop-oldest' }), sink('d')],
    ],
    { a: /^Drop key topic has no effect: When full does not/, b: /^When full: wait has no effect: only stages send/ },
  ],
  [
    'a fault in every instance of a subflow',
    [subflow('s', 'q', 'q'), ...on({ z: 's' }, batcher('q', [])), instance('i', 's', 'd'), inject('i'), sink('d')],
    { q: /wired to exactly one modelet stage/ },
  ],
];

const RIGHT: readonly (readonly [string, readonly FlowNode[]])[] = [
  ['nodes that have only just been put there', [batcher('q', []), stage('a', ECHO, [], { dropKey: 'topic' })]],
  [
    'a key of a later stage that drops its oldest items',
    [
      inject('a'),
      stage('a', ECHO, 'b'),
      stage('b', ECHO, 'd', { overflow: 'drop-oldest', dropKey: 'topic' }),
      sink('d'),
    ],
  ],
  [
    'a result that a Complete node waits for',
    [inject('a'), stage('a', ECHO, []), completeNode('c', ['a'], 'd'), sink('d')],
  ],
  [
    'a result that goes to a node that is switched off',
    [inject('a'), stage('a', ECHO, 'd'), { ...sink('d'), d: true }],
  ],
  ['a loop through another node', [stage('a', ECHO, 'f'), func('f', 'return msg;', 'a')]],
  [
    'a batcher that reaches its stage by links',
    [batcher('q', 'o'), linkOut('o', 'l'), linkIn('l', 'o', 'a'), stage('a', ECHO, 'd'), sink('d')],
  ],
  ['two batchers with the same settings', [batcher('p', 'a'), batcher('q', 'a'), stage('a', ECHO, 'd'), sink('d')]],
  ['a fault of a node that is switched off', [inject('a'), { ...stage('a', ECHO, [], { runtime: 'x' }), d: true }]],
  ['a subflow without an instance', [subflow('s', 'q', 'q'), ...on({ z: 's' }, batcher('q', []))]],
  [
    'a subflow that is right in one of its instances',
    [
      subflow('s', 'q', 'q'),
      ...on({ z: 's' }, batcher('q', [])),
      ...[instance('i', 's', 'a'), instance('k', 's', 'd')],
      ...[stage('a', ECHO, 'd'), sink('d')],
    ],
  ],
  [
    'a stage inside a subflow whose output leads on',
    [subflow('s', 'a', 'a'), ...on({ z: 's' }, stage('a', ECHO, [])), instance('i', 's', []), inject('i')],
  ],
  [
    'work that a durable gate has already acknowledged',
    [inject('g'), dispatchGate('g', 'a', [], { store: 'durable' }), stage('a', ECHO, [])],
  ],
];

describe('wiring faults', () => {
  for (const [name, flows, expected] of FAULTY) {
    test(`${name} is a fault`, () => {
      const faults = faultsOf(flows);
      assert.deepEqual(Object.keys(faults).sort(), Object.keys(expected));
      for (const [id, reason] of Object.entries(expected)) assert.match(faults[id] ?? '', reason);
    });
  }

  for (const [name, flows] of RIGHT) {
    test(`${name}: no alarm`, () => assert.deepEqual(faultsOf(flows), {}));
  }

  test('nodes on a disabled tab raise no alarm', () => {
    const compiled = compileDefinitions([{ ...TAB, disabled: true }, inject('a'), stage('a', ECHO, [])], {});
    assert.deepEqual([...wiringFaults(compiled)], []);
  });

  test('a value that only a running Node-RED can read raises no alarm, also not on the batcher in front', () => {
    const env = [{ name: 'CORES', type: 'jsonata', value: '$count([1])' }];
    const flows = [batcher('q', 'a'), stage('a', ECHO, 'd', { workers: '$(CORES)' }), sink('d')];
    const compiled = compileDefinitions([{ ...TAB, env }, runtime(), ...flows], {});
    assert.equal(compiled.plan.invalid.size, 2);
    assert.deepEqual([...wiringFaults(compiled)], []);
  });
});

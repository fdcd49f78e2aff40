/** Fan-outs that a node gathers, and switch nodes: which of them run in the engine, and why others do not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GraphNode } from '../../src/flow/graph.ts';
import {
  batcher,
  choice,
  collector,
  compile,
  drawing,
  type Fused,
  fusedRoute,
  httpIn,
  join,
  junction,
  other,
  routeOf,
  stage,
} from './drawing.ts';

const DEBUG = other('debug', [], 'debug');
const OUT = other('out', [], 'http response');

const FUSED: readonly Fused[] = [
  {
    name: 'two branches, and a stage behind the node that gathers them',
    nodes: [stage('a', ['b', 'c']), stage('b', ['j']), stage('c', ['j']), join('j', ['d']), stage('d', ['out']), OUT],
    leg: 'a {b | c} j d',
    exit: 'd',
  },
  {
    name: 'a branch of two stages, a batcher and a junction',
    nodes: [
      stage('a', ['x']),
      junction('x', ['b', 'q']),
      stage('b', ['b2']),
      stage('b2', ['j']),
      batcher('q', ['c']),
      stage('c', ['j']),
      join('j', ['out']),
      OUT,
    ],
    leg: 'a {b b2 | c} j',
    exit: 'j',
  },
  {
    name: 'a result that is also a branch itself',
    nodes: [stage('a', ['j', 'b']), stage('b', ['j']), join('j', [])],
    leg: 'a {- | b} j',
    exit: 'j',
  },
  {
    name: 'a gathering in a branch of another one, and one behind another',
    nodes: [
      stage('a', ['b', 'c']),
      stage('b', ['d', 'e']),
      stage('d', ['i']),
      stage('e', ['i']),
      join('i', ['j'], [], { mode: 'first' }),
      stage('c', ['j']),
      join('j', ['f', 'g']),
      stage('f', ['k']),
      stage('g', ['k']),
      join('k', []),
    ],
    leg: 'a {b {d | e} i | c} j {f | g} k',
    exit: 'k',
  },
  {
    name: 'debug nodes beside the fan-out, a branch and the gathered result',
    nodes: [
      stage('a', ['b', 'debug', 'c']),
      stage('b', ['j', 'debug']),
      stage('c', ['j']),
      join('j', ['d', 'debug']),
      stage('d'),
      DEBUG,
    ],
    leg: 'a {b | c} j d',
    exit: 'd',
    taps: { a: ['debug'], b: ['debug'], j: ['debug'] },
  },
  {
    name: 'a switch node whose ways end at the same node',
    nodes: [stage('a', ['s']), choice('s', ['x'], [['b'], ['c']]), stage('b', ['out']), stage('c', ['out']), OUT],
    leg: 'a <b | c>',
    exit: 'b',
  },
  {
    name: 'a switch node whose ways go on with the same stage, one of them at once',
    nodes: [stage('a', ['s']), choice('s', ['x'], [['b'], ['q']]), stage('b', ['q']), batcher('q', ['c']), stage('c')],
    leg: 'a <b c | c>',
    exit: 'c',
  },
  {
    name: 'a switch node with a way past all stages',
    nodes: [stage('a', ['s']), choice('s', ['x'], [['out'], ['b']]), stage('b', ['out']), OUT],
    leg: 'a <- | b>',
    exit: 'b',
  },
  {
    name: 'a switch node in a branch, and one behind the gathered result',
    nodes: [
      stage('a', ['b', 'c']),
      stage('b', ['s']),
      choice('s', ['x'], [['d'], ['e']]),
      stage('d', ['e']),
      stage('e', ['j']),
      stage('c', ['j']),
      join('j', ['t']),
      choice('t', ['y'], [['f'], ['g']]),
      stage('f', ['out']),
      stage('g', ['out']),
      OUT,
    ],
    leg: 'a {b <d e | e> | c} j <f | g>',
    exit: 'f',
  },
  {
    name: 'a fan-out right behind an HTTP-in node',
    nodes: [httpIn('in', ['b', 'c']), stage('b', ['j']), stage('c', ['j']), join('j', ['out']), OUT],
    entry: 'in',
    leg: '{b | c} j',
    exit: 'j',
  },
  {
    name: 'a switch node right behind an HTTP-in node',
    nodes: [httpIn('in', ['s']), choice('s', ['x'], [['b'], ['c']]), stage('b', ['out']), stage('c', ['out']), OUT],
    entry: 'in',
    leg: '<b | c>',
    exit: 'b',
  },
];

for (const fused of FUSED) {
  test(`the engine runs ${fused.name}`, () => {
    const route = fusedRoute(fused);
    assert.equal(route.unfused, false, route.end);
  });
}

const BRANCHES: readonly GraphNode[] = [stage('b', ['j']), stage('c', ['j'])];
const FAN = stage('a', ['b', 'c']);

const UNFUSED: readonly (readonly [name: string, nodes: readonly GraphNode[], reason: RegExp])[] = [
  ['branches that nothing gathers', [FAN, stage('b'), stage('c')], /2 stages: no single node gathers/],
  [
    'branches that two nodes gather',
    [FAN, stage('b', ['j']), stage('c', ['k']), join('j', []), join('k', [])],
    /no single/,
  ],
  ['names from the message', [FAN, ...BRANCHES, join('j', [], [], { key: 'x' })], /takes their names from msg\.x/],
  [
    'a Complete node at the gather',
    [FAN, ...BRANCHES, join('j', [], [], {}, { watched: true })],
    /Complete node watches/,
  ],
  ['a gather that cannot be used', [FAN, ...BRANCHES, join('j', [], [], {}, { invalid: 'x' })], /cannot be used/],
  [
    'messages from elsewhere',
    [FAN, ...BRANCHES, join('j', []), other('f', ['j'])],
    /also gathers messages from elsewhere/,
  ],
  [
    'another branch',
    [FAN, ...BRANCHES, stage('e', ['j']), other('f', ['e']), join('j', [])],
    /also gathers messages from elsewhere/,
  ],
  [
    'a branch in another runtime',
    [FAN, stage('b', ['j']), stage('c', ['j'], { runtime: 'r2' }), join('j', [])],
    /another runtime/,
  ],
  [
    'a branch that writes another property',
    [FAN, stage('b', ['j'], { output: 'x' }), stage('c', ['j']), join('j', [])],
    /stage B writes msg\.x/,
  ],
  [
    'a branch that reads another property',
    [FAN, stage('b', ['j'], { input: 'x' }), stage('c', ['j']), join('j', [])],
    /stage B reads msg\.x/,
  ],
  [
    'a function node in a branch',
    [FAN, stage('b', ['f']), other('f', ['j']), stage('c', ['j']), join('j', [])],
    /does not lead straight to the node that gathers them: its output goes to a function node/,
  ],
  [
    'a collector with a catch output in a branch',
    [FAN, stage('b', ['k']), collector('k', ['j'], ['out']), stage('c', ['j']), join('j', []), OUT],
    /does not lead straight to the node that gathers them: its output goes to a result collector/,
  ],
  [
    'a gather in a branch with a separate catch output',
    [
      stage('a', ['b', 'e']),
      stage('b', ['c', 'd']),
      stage('c', ['i']),
      stage('d', ['i']),
      join('i', ['j'], ['out']),
      stage('e', ['j']),
      join('j', []),
      OUT,
    ],
    /errors of a node that gathers branches do not go to/,
  ],
  [
    'a branch that ends at one of two stages',
    [
      FAN,
      stage('b', ['s']),
      choice('s', ['x'], [['d'], ['e']]),
      stage('d', ['j']),
      stage('e', ['j']),
      stage('c', ['j']),
      join('j', []),
    ],
    /ends at one of several stages/,
  ],
  [
    'a loop through the gather',
    [FAN, ...BRANCHES, join('j', ['s']), choice('s', ['again'], [['a'], ['out']]), OUT],
    /a switch node: its results lead back to stage A/,
  ],
  [
    'a switch node with rules of Node-RED alone',
    [stage('a', ['s']), choice('s', [], [['b']], { fault: 'it renumbers sequences' }), stage('b')],
    /goes to a switch node: it renumbers sequences/,
  ],
  [
    'a switch node whose ways part for good',
    [stage('a', ['s']), choice('s', ['x'], [['b'], ['c']]), stage('b', ['out']), stage('c', ['f']), other('f'), OUT],
    /its ways end at different nodes/,
  ],
  [
    'a switch node with an output that leads nowhere',
    [stage('a', ['s']), choice('s', ['x'], [['b'], []]), stage('b')],
    /output 2 leads nowhere/,
  ],
  [
    'a switch node with a debug node at an output',
    [
      stage('a', ['s']),
      choice('s', ['x'], [['b', 'debug'], ['c']]),
      stage('b', ['out']),
      stage('c', ['out']),
      OUT,
      DEBUG,
    ],
    /output 1 goes to a modelet stage and a debug node/,
  ],
  [
    'a switch node that a Complete node watches',
    [
      stage('a', ['s']),
      choice('s', ['x'], [['b'], ['c']], { watched: true }),
      stage('b', ['out']),
      stage('c', ['out']),
      OUT,
    ],
    /Complete node watches/,
  ],
  [
    'a switch node behind a stage that writes another property',
    [
      stage('a', ['s'], { output: 'x' }),
      choice('s', ['x'], [['b'], ['c']]),
      stage('b', ['out']),
      stage('c', ['out']),
      OUT,
    ],
    /looks at msg\.payload, and the result is msg\.x/,
  ],
];

for (const [name, nodes, reason] of UNFUSED) {
  test(`the route ends before ${name}, and says why`, () => {
    const route = routeOf('a', nodes);
    const whole = nodes.some(({ id }) => id === 'j' || id === 's')
      ? [route, ...compile(drawing(...nodes)).routes.values()]
      : [route];
    const ends = whole.map(({ end }) => end);
    assert.ok(
      ends.some((end) => reason.test(end)),
      `${reason} is none of: ${ends.join('; ')}`,
    );
  });
}

test('a switch node without stages behind it is the end of a route, as any other node', () => {
  const route = routeOf('a', [stage('a', ['s']), choice('s', ['x'], [['out'], ['out']]), OUT]);
  assert.equal(route.end, 'its output goes to a switch node');
  assert.equal(route.unfused, false);
});

test('branches of one runtime that cannot be gathered cost no more time the more of them follow one another', () => {
  const diamonds = Array.from({ length: 40 }, (_, n) => [
    stage(`a${n}`, [`b${n}`, `c${n}`]),
    stage(`b${n}`, [`a${n + 1}`]),
    stage(`c${n}`, [`a${n + 1}`]),
  ]).flat();
  assert.match(routeOf('a0', [...diamonds, stage('a40')]).end, /2 stages/);
});

test('switch nodes one behind the other run in the engine as long as the route has not too many ways', () => {
  const row = (count: number): GraphNode[] => [
    ...Array.from({ length: count }, (_, n) => [
      stage(`a${n}`, [`s${n}`]),
      choice(`s${n}`, ['x'], [[`b${n}`], [`a${n + 1}`]]),
      stage(`b${n}`, [`a${n + 1}`]),
    ]).flat(),
    stage(`a${count}`),
  ];
  assert.equal(routeOf('a0', row(3)).unfused, false);
  assert.match(routeOf('a0', row(12)).end, /more than 64 ways/);
});

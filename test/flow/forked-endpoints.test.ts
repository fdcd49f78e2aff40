/** Endpoints whose requests fork or are divided between stages: which are compiled, and why others are not. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EndpointSpec } from '../../src/core/endpoints.ts';
import type { GraphNode } from '../../src/flow/graph.ts';
import { choice, collector, endpointsOf, httpIn, httpOut, join, other, stage, streamOut } from './drawing.ts';

const IN = httpIn('in', ['a']);
const OUT = httpOut('out');
const BAD = httpOut('bad');
const STREAM = streamOut('out');
const FAILURE = { statusCode: null, headers: {} };
const debug = other('d', [], 'debug');
const fan = [httpIn('in', ['a', 'b']), stage('a', ['j']), stage('b', ['j'])];

type Compiled = readonly [name: string, nodes: readonly GraphNode[], spec: Partial<EndpointSpec>];

const COMPILED: readonly Compiled[] = [
  [
    'branches behind the HTTP-in node, and errors at the catch output of the node that gathers them',
    [httpIn('in', ['a', 'b']), stage('a', ['j']), stage('b', ['j']), join('j', ['out'], ['bad']), OUT, BAD],
    { entry: 'in', describedBy: { first: null, last: null }, failure: FAILURE },
  ],
  [
    'branches behind a stage, and a collector behind a stage that gets the gathered results',
    [
      IN,
      stage('a', ['b', 'd']),
      stage('b', ['j']),
      stage('d', ['j']),
      join('j', ['e']),
      stage('e', ['c']),
      collector('c', ['out'], ['bad'], true, { errorPayload: 'keep' }),
      OUT,
      BAD,
    ],
    { describedBy: { first: 'a', last: 'e' }, failure: FAILURE, errorPayload: 'keep' },
  ],
  [
    'a collector and a debug node behind gathered results, which have no parts',
    [
      httpIn('in', ['a', 'b']),
      stage('a', ['j']),
      stage('b', ['j']),
      join('j', ['c', 'd']),
      collector('c', ['out'], [], true, { inParts: true }),
      OUT,
      other('d', [], 'debug'),
    ],
    { entry: 'in', describedBy: { first: null, last: null }, copies: ['d'] },
  ],
  [
    'a switch node behind the HTTP-in node',
    [httpIn('in', ['s']), choice('s', ['x'], [['a'], ['b']]), stage('a', ['out']), stage('b', ['out']), OUT],
    { entry: 'in', describedBy: { first: null, last: null } },
  ],
  [
    'a switch node behind a stage, with a way past the other stages',
    [IN, stage('a', ['s']), choice('s', ['x'], [['b'], ['out']]), stage('b', ['out']), OUT],
    { describedBy: { first: 'a', last: null } },
  ],
];

for (const [name, nodes, spec] of COMPILED) {
  test(`an endpoint is compiled with ${name}`, () => {
    const { endpoints, uncompiled } = endpointsOf(nodes);
    assert.deepEqual(uncompiled, []);
    assert.equal(endpoints.length, 1);
    const usual = { entry: 'a', failure: null, errorPayload: 'body', copies: [], parts: null };
    const kept = Object.keys({ ...usual, describedBy: 0 }) as (keyof EndpointSpec)[];
    assert.deepEqual(Object.fromEntries(kept.map((key) => [key, endpoints[0]?.[key]])), { ...usual, ...spec });
  });
}

const REFUSED: readonly (readonly [reason: RegExp, nodes: readonly GraphNode[]])[] = [
  [
    /^a debug node gets the whole message in front of the first stage$/,
    [httpIn('in', ['a', 'b', 'd']), ...fan.slice(1), join('j', ['out']), OUT, debug],
  ],
  [
    /^the HTTP-in node's requests also go to another node in front of the first stage$/,
    [httpIn('in', ['a', 'b', 'f']), ...fan.slice(1), join('j', ['out']), OUT, other('f', [])],
  ],
  [
    /^a function node stands behind the node that gathers branches$/,
    [...fan, join('j', ['f']), other('f', ['out']), OUT],
  ],
  [/^a stream response node stands behind the node that gathers branches$/, [...fan, join('j', ['out']), STREAM]],
  [
    /^a Catch node handles the errors of the node that gathers/,
    [...fan, join('j', ['out'], [], {}, { caught: true }), OUT],
  ],
  [
    /^errors: no HTTP response node is wired behind the node that gathers/,
    [...fan, join('j', ['out'], ['d']), OUT, debug],
  ],
  [
    /^the errors of its nodes are answered in different ways$/,
    [...fan, join('j', ['e'], ['bad']), stage('e', ['out']), OUT, BAD],
  ],
  [
    /^stage A and stage B take different media types$/,
    [
      httpIn('in', ['a', 'b']),
      stage('a', ['j'], { mediaTypes: ['image/*'] }),
      stage('b', ['j']),
      join('j', ['out']),
      OUT,
    ],
  ],
  [
    /^stage B lets requests wait in front of a full queue$/,
    [httpIn('in', ['a', 'b']), stage('a', ['j']), stage('b', ['j'], { patient: true }), join('j', ['out']), OUT],
  ],
  [
    /^the HTTP-in node's output goes to a switch node: it renumbers sequences$/,
    [
      httpIn('in', ['s']),
      choice('s', ['x'], [['a'], ['b']], { fault: 'it renumbers sequences' }),
      stage('a', ['out']),
      stage('b', ['out']),
      OUT,
    ],
  ],
  [
    /^the HTTP-in node's output goes to a switch node: one of its outputs leads past all stages$/,
    [httpIn('in', ['s']), choice('s', ['x'], [['a'], ['out']]), stage('a', ['out']), OUT],
  ],
  [
    /^the output of stage A also goes to a debug node$/,
    [...fan.slice(0, 1), stage('a', ['j', 'd']), stage('b', ['j']), join('j', ['out']), OUT, debug],
  ],
];

describe('an endpoint that forks goes through the flow because', () => {
  for (const [reason, nodes] of REFUSED) {
    test(`${reason.source.replace(/[\\^$]/g, '')}`, () => {
      const { endpoints, uncompiled } = endpointsOf(nodes);
      assert.deepEqual(endpoints, []);
      assert.match(uncompiled[0]?.reason ?? '', reason);
    });
  }
});

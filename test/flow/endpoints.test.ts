/** The HTTP-in nodes that become endpoints, and the first reason why others do not. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { EndpointSpec } from '../../src/core/endpoints.ts';
import type { GraphNode } from '../../src/flow/graph.ts';
import {
  batcher,
  collector,
  endpointsOf,
  type EndpointRowFacts as Facts,
  gate,
  httpIn,
  httpOut,
  junction,
  other,
  stage,
  streamOut,
} from './drawing.ts';

/** A drawing that compiles: the other rows change one thing. */
const IN = httpIn('in', ['a']);
const OUT = httpOut('out');
const BAD = httpOut('bad');
const plain = [IN, stage('a', ['out']), OUT];
const collected = [IN, stage('a', ['c']), collector('c', ['out'], ['bad']), OUT, BAD];

const STREAM = streamOut('out');

const SPEC: EndpointSpec = {
  id: 'in',
  method: 'post',
  path: '/in',
  model: null,
  runtime: 'r1',
  entry: 'a',
  describedBy: { first: 'a', last: 'a' },
  mediaTypes: ['application/json'],
  maxRows: 0,
  patient: false,
  answer: { statusCode: null, headers: {} },
  failure: null,
  errorPayload: 'body',
  copies: [],
  parts: null,
  sticky: null,
  key: null,
  cost: null,
};
const FAILURE = { statusCode: null, headers: {} };

type Compiled = readonly [name: string, nodes: readonly GraphNode[], spec: Partial<EndpointSpec>, facts?: Facts];

const COMPILED: readonly Compiled[] = [
  ['a stage between HTTP in and HTTP response', plain, {}],
  ['a PUT request', [httpIn('in', ['a'], { method: 'put' }), stage('a', ['out']), OUT], { method: 'put' }],
  ['a PATCH request', [httpIn('in', ['a'], { method: 'patch' }), stage('a', ['out']), OUT], { method: 'patch' }],
  ['below httpNodeRoot', plain, { path: '/api/v1/in' }, { root: '/api/v1' }],
  ['a path without a slash', [httpIn('in', ['a'], { url: 'x/y' }), stage('a', ['out']), OUT], { path: '/x/y' }],
  [
    'a PUT request, for which Node-RED ignores uploads',
    [httpIn('in', ['a'], { method: 'put', upload: true }), stage('a', ['out']), OUT],
    { method: 'put' },
  ],
  ['a batcher', [httpIn('in', ['q']), batcher('q', ['a']), stage('a', ['out']), OUT], { entry: 'q' }],
  ['two stages', [IN, stage('a', ['b']), stage('b', ['out']), OUT], { describedBy: { first: 'a', last: 'b' } }],
  [
    'two stages that hand over another property',
    [IN, stage('a', ['b'], { output: 'features' }), stage('b', ['out'], { input: 'features' }), OUT],
    { describedBy: { first: 'a', last: 'b' } },
  ],
  [
    'a junction on each wire',
    [httpIn('in', ['j']), junction('j', ['a']), stage('a', ['k']), junction('k', ['out']), OUT],
    {},
  ],
  ['a collector', collected, { failure: FAILURE }],
  ['a collector whose catch output is not wired', [IN, stage('a', ['c']), collector('c', ['out'], []), OUT], {}],
  ['a collector that catches nothing', [IN, stage('a', ['c']), collector('c', ['out'], ['bad'], false), OUT, BAD], {}],
  [
    'a collector that keeps payloads',
    [IN, stage('a', ['c']), collector('c', ['out'], ['bad'], true, { errorPayload: 'keep' }), OUT, BAD],
    { failure: FAILURE, errorPayload: 'keep' },
  ],
  [
    'a collector that passes on parts, with debug nodes before and behind it',
    [
      IN,
      stage('a', ['c', 'd']),
      collector('c', ['out', 'e'], ['bad'], true, { inParts: true }),
      OUT,
      BAD,
      other('d', [], 'debug'),
      other('e', [], 'debug'),
    ],
    { failure: FAILURE, copies: ['d', 'e'], parts: { copies: ['e'], stream: null } },
  ],
  [
    'a stream response behind a stage, with a debug node beside it',
    [IN, stage('a', ['out', 'd']), STREAM, other('d', [], 'debug')],
    { copies: ['d'], parts: { copies: [], stream: STREAM.stream } },
  ],
  [
    'a stream response behind both outputs of a collector that keeps payloads',
    [
      IN,
      stage('a', ['c']),
      collector('c', ['out', 'e'], ['out'], true, { errorPayload: 'keep', inParts: true }),
      STREAM,
      other('e', [], 'debug'),
    ],
    { failure: FAILURE, copies: ['e'], parts: { copies: ['e'], stream: STREAM.stream } },
  ],
  [
    'results and errors to the same HTTP response',
    [IN, stage('a', ['c']), collector('c', ['out'], ['out']), OUT],
    { failure: FAILURE },
  ],
  [
    'answers with their own status and headers',
    [
      IN,
      stage('a', ['c']),
      collector('c', ['out'], ['bad']),
      httpOut('out', { statusCode: 201, headers: { 'x-model': 'digits' } }),
      httpOut('bad', { statusCode: 500 }),
    ],
    {
      answer: { statusCode: 201, headers: { 'x-model': 'digits' } },
      failure: { statusCode: 500, headers: {} },
    },
  ],
  [
    'debug nodes behind the stage and behind the collector',
    [
      IN,
      stage('a', ['d', 'c']),
      collector('c', ['out', 'e'], ['bad']),
      OUT,
      BAD,
      other('d', [], 'debug'),
      other('e', [], 'debug'),
    ],
    { failure: FAILURE, copies: ['d', 'e'] },
  ],
  [
    'media types of the first stage',
    [IN, stage('a', ['out'], { mediaTypes: ['image/*'] }), OUT],
    { mediaTypes: ['image/*'] },
  ],
  ['a first stage whose requests wait for room', [IN, stage('a', ['out'], { patient: true }), OUT], { patient: true }],
  [
    'a drop key of a later stage, which nothing reads',
    [IN, stage('a', ['b']), stage('b', ['out'], { dropKey: 'camera' }), OUT],
    { describedBy: { first: 'a', last: 'b' } },
  ],
  [
    'errors of a stage that a Catch node would get, were there no collector',
    [IN, stage('a', ['c'], { caught: true }), collector('c', ['out'], ['bad']), OUT, BAD],
    { failure: FAILURE },
  ],
  ['another path', [...plain, httpIn('other', [], { url: '/others' })], {}],
  ['another path of more parts', [...plain, httpIn('other', [], { url: '/in/:id' })], {}],
  ['the same path of another method', [...plain, httpIn('other', [], { url: '/in', method: 'put' })], {}],
];

describe('an endpoint is compiled with', () => {
  for (const [name, nodes, spec, facts] of COMPILED) {
    test(name, () => {
      assert.deepEqual(endpointsOf(nodes, facts), { endpoints: [{ ...SPEC, ...spec }], uncompiled: [] });
    });
  }
});

type Refused = readonly [reason: RegExp, nodes: readonly GraphNode[], facts?: Facts];

const behind = (...nodes: readonly GraphNode[]): readonly GraphNode[] => [IN, OUT, BAD, ...nodes];
const before = (changed: Parameters<typeof httpIn>[2]): readonly GraphNode[] => [
  httpIn('in', ['a'], changed),
  stage('a', ['out']),
  OUT,
];
const debug = other('d', [], 'debug');
const f = other('f', ['a']);

const REFUSED: readonly Refused[] = [
  [
    /^the stream response cannot be used: event/,
    [IN, stage('a', ['out']), streamOut('out', { invalid: 'event: must be one line' })],
  ],
  [
    /^a function node stands behind the result collector$/,
    [IN, stage('a', ['c']), collector('c', ['f'], [], true, { inParts: true }), other('f', ['out']), STREAM],
  ],
  [
    /^the output of stage A goes to a stream response node and an HTTP response node$/,
    [IN, stage('a', ['out', 'bad']), STREAM, BAD],
  ],
  [/^the HTTP-in node takes GET requests/, before({ method: 'get' })],
  [/^the HTTP-in node takes DELETE requests/, before({ method: 'delete' })],
  [/^the path \/x\/:id is a pattern$/, before({ url: '/x/:id' })],
  [/^the path \/x\/\* is a pattern$/, before({ url: '/x/*' })],
  [/^the path \/x\(y\)\? is a pattern$/, before({ url: '/x(y)?' })],
  [/^the HTTP-in node takes file uploads$/, before({ upload: true })],
  [/^the HTTP-in node leaves bodies as they came$/, before({ raw: true })],
  [/^the HTTP-in node twin may take the same requests$/, [...plain, httpIn('twin', [], { url: '/IN/' })]],
  [/^the HTTP-in node one may take/, [...plain, httpIn('one', [], { url: '/:name' })]],
  [/^the HTTP-in node all may take/, [...plain, httpIn('all', [], { url: '/*' })]],
  [/^the HTTP-in node opt may take/, [...plain, httpIn('opt', [], { url: '/in/:id?' })]],
  [/^no entry$/, plain, { barred: 'no entry' }],
  [/^the HTTP response node cannot answer: no status$/, plain, { flawOf: () => 'no status' }],
  [/^first come$/, plain, { taken: new Map([['in', 'first come']]) }],
  [
    /^a debug node gets the whole message in front of the first stage$/,
    [httpIn('in', ['a', 'd']), stage('a', ['out']), OUT, debug],
  ],
  [/^a function node stands before the first stage$/, [httpIn('in', ['f']), f, stage('a', ['out']), OUT]],
  [
    /^a dispatch gate stands before the first stage$/,
    [httpIn('in', ['g']), gate('g', ['a']), stage('a', ['out']), OUT],
  ],
  [
    /^a result collector stands before the first stage$/,
    [httpIn('in', ['c']), collector('c', ['a'], []), stage('a', ['out']), OUT],
  ],
  [
    /^the HTTP-in node's output goes to a modelet stage and a function node$/,
    [httpIn('in', ['a', 'f']), f, stage('a', ['out']), OUT],
  ],
  [
    /^the HTTP-in node's output goes to 2 stages: no single node gathers their results$/,
    [httpIn('in', ['a', 'b']), stage('a', ['out']), stage('b', ['out']), OUT],
  ],
  [/^stage A cannot be used: no code$/, behind(stage('a', ['out'], { invalid: 'no code' }))],
  [
    /^the batcher cannot be used: a batcher must be wired/,
    [httpIn('in', ['q']), batcher('q', ['a', 'b']), stage('a', ['out']), stage('b', ['out']), OUT],
  ],
  [/^stage A reads msg\.image$/, behind(stage('a', ['out'], { input: 'image' }))],
  [/^stage A writes msg\.label$/, behind(stage('a', ['out'], { output: 'label' }))],
  [/^stage A sorts its queue by msg\.camera$/, behind(stage('a', ['out'], { dropKey: 'camera' }))],
  [/^stage B reads msg\.topic$/, behind(stage('a', ['b']), stage('b', ['out'], { readsAlso: 'topic' }))],
  [/^a Complete node watches stage A$/, behind(stage('a', ['out'], { watched: true }))],
  [
    /^a Complete node watches the batcher$/,
    [httpIn('in', ['q']), batcher('q', ['a'], { watched: true }), stage('a', ['out']), OUT],
  ],
  [/^the output of stage A also goes to a debug node$/, behind(stage('a', ['b', 'd']), stage('b', ['out']), debug)],
  [
    /^the route ends behind stage A: stage B belongs/,
    behind(stage('a', ['b']), stage('b', ['out'], { runtime: 'r2' })),
  ],
  [/^no HTTP response node is wired behind stage A$/, behind(stage('a', []))],
  [/^no HTTP response node is wired behind stage A$/, behind(stage('a', ['d']), debug)],
  [/^a function node stands behind stage A$/, behind(stage('a', ['f']), other('f', ['out']))],
  [/^the output of stage A goes to an HTTP response node and a function node$/, behind(stage('a', ['out', 'f']), f)],
  [
    /^the output of stage A goes to a result collector and a result collector$/,
    behind(stage('a', ['c', 'e']), collector('c', ['out'], []), collector('e', ['out'], [])),
  ],
  [
    /^the result collector cannot be used: order/,
    behind(stage('a', ['c']), collector('c', ['out'], [], true, { invalid: 'order' })),
  ],
  [
    /^a Complete node watches the result collector$/,
    behind(stage('a', ['c']), collector('c', ['out'], [], true, { watched: true })),
  ],
  [
    /^the result collector keeps the order of arrival$/,
    behind(stage('a', ['c']), collector('c', ['out'], [], true, { order: 'arrival' })),
  ],
  [
    /^a function node stands behind the result collector$/,
    behind(stage('a', ['c']), collector('c', ['f'], [], true, { inParts: true }), other('f', ['out'])),
  ],
  [
    /^results in parts need a body, and an answer with status 204 has none$/,
    [IN, stage('a', ['c']), collector('c', ['out'], [], true, { inParts: true }), httpOut('out', { statusCode: 204 })],
  ],
  [
    /^a function node stands behind the result collector$/,
    behind(stage('a', ['c']), collector('c', ['f'], ['bad']), other('f', ['out'])),
  ],
  [
    /^a Complete node watches an HTTP response node behind stage A$/,
    [IN, stage('a', ['out']), httpOut('out', { watched: true })],
  ],
  [
    /^a Complete node watches a debug node behind stage A$/,
    behind(stage('a', ['d', 'out']), { ...debug, watched: true }),
  ],
  [/^a Catch node handles the errors of stage B$/, behind(stage('a', ['b']), stage('b', ['out'], { caught: true }))],
  [
    /^errors: no HTTP response node is wired behind the result collector$/,
    behind(stage('a', ['c']), collector('c', ['out'], ['d']), debug),
  ],
  [/^a function node gets the errors$/, behind(stage('a', ['c']), collector('c', ['out'], ['f']), other('f', ['bad']))],
  [/^a debug node gets the errors$/, behind(stage('a', ['c']), collector('c', ['out'], ['bad', 'd']), debug)],
  [
    /^the result collector keeps payloads of failed requests, and stage B reads msg\.features$/,
    behind(
      stage('a', ['b'], { output: 'features' }),
      stage('b', ['c'], { input: 'features' }),
      collector('c', ['out'], ['bad'], true, { errorPayload: 'keep' }),
    ),
  ],
];

describe('an endpoint goes through the flow because', () => {
  for (const [reason, nodes, facts] of REFUSED) {
    test(`${reason.source.replace(/[\\^$]/g, '')}`, () => {
      const { endpoints, uncompiled } = endpointsOf(nodes, facts);
      assert.deepEqual(endpoints, []);
      assert.equal(uncompiled.length, 1);
      assert.match(uncompiled[0]?.reason ?? '', reason);
    });
  }
});

test('an HTTP-in node that leads to no pipeline is not an endpoint', () => {
  const nodes = [httpIn('in', ['f']), other('f', ['out']), OUT];
  assert.deepEqual(endpointsOf(nodes), { endpoints: [], uncompiled: [] });
});

test('two endpoints may share a stage, and keep the order of the flows', () => {
  const { endpoints } = endpointsOf([...plain, httpIn('second', ['a'])]);
  assert.deepEqual(
    endpoints.map(({ id, path, entry }) => [id, path, entry]),
    [
      ['in', '/in', 'a'],
      ['second', '/second', 'a'],
    ],
  );
});

test('any node added to a compiled endpoint, other than a debug node behind it, leaves it compiled or gives a reason', () => {
  const added = fc.constantFrom(other('x', ['out']), gate('x', ['out']), junction('x', ['out']), debug, f);
  const places = ['in', 'a', 'c'];
  fc.assert(
    fc.property(added, fc.constantFrom(...places), (node, place) => {
      const nodes = collected.map((one) =>
        one.id === place
          ? { ...one, wires: one.wires.map((wire, output) => (output === 0 ? [...wire, node.id] : wire)) }
          : one,
      );
      const { endpoints, uncompiled } = endpointsOf([...nodes, node]);
      const [spec] = endpoints;
      const isCopy = node.type === 'debug' && place !== 'in';
      assert.equal(endpoints.length + uncompiled.length, 1);
      assert.deepEqual(spec?.copies ?? null, isCopy ? ['d'] : null);
      assert.equal(
        uncompiled.every(({ reason }) => reason.length > 0 && !reason.includes('undefined')),
        true,
      );
    }),
  );
});

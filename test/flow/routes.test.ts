/** The stages that a message passes without leaving the engine, and why a chain ends where it does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Graph } from '../../src/flow/graph.ts';
import type { CompiledRoute } from '../../src/flow/routes.ts';
import { batcher, collector, compile, drawing, gate, junction, other, stage } from './drawing.ts';

interface Shape {
  readonly name: string;
  readonly graph: Graph;
  /** By entry: its stages, and what the reason for the end says. */
  readonly routes: Readonly<Record<string, readonly [string, RegExp]>>;
}

const SHAPES: readonly Shape[] = [
  { name: 'one stage', graph: drawing(stage('a')), routes: { a: ['a', /nothing is wired/] } },
  {
    name: 'a chain of three; messages may enter anywhere',
    graph: drawing(stage('a', ['b']), stage('b', ['c']), stage('c', ['end']), other('end', [], 'http response')),
    routes: {
      a: ['a b c', /goes to an HTTP response node/],
      b: ['b c', /goes to an HTTP response node/],
      c: ['c', /goes to an HTTP response node/],
    },
  },
  {
    name: 'a batcher at the entry and one between stages',
    graph: drawing(batcher('p', ['a']), stage('a', ['q']), batcher('q', ['b']), stage('b')),
    routes: {
      p: ['a b', /nothing is wired/],
      a: ['a b', /nothing is wired/],
      q: ['b', /nothing is wired/],
      b: ['b', /nothing is wired/],
    },
  },
  {
    name: 'a fan-out to two stages',
    graph: drawing(stage('a', ['b', 'c']), stage('b'), stage('c')),
    routes: { a: ['a', /goes to 2 stages/], b: ['b', /nothing/], c: ['c', /nothing/] },
  },
  {
    name: 'a fan-out to a stage and a batcher',
    graph: drawing(stage('a', ['b', 'q']), stage('b'), batcher('q', ['c']), stage('c')),
    routes: { a: ['a', /goes to 2 stages/], b: ['b', /nothing/], q: ['c', /nothing/], c: ['c', /nothing/] },
  },
  {
    name: 'a function node in between',
    graph: drawing(stage('a', ['f']), other('f', ['b']), stage('b')),
    routes: { a: ['a', /goes to a function node/], b: ['b', /nothing/] },
  },
  {
    name: 'a debug node beside the next stage changes nothing',
    graph: drawing(stage('a', ['d', 'b']), other('d', [], 'debug'), stage('b')),
    routes: { a: ['a b', /nothing/], b: ['b', /nothing/] },
  },
  {
    name: 'a collector',
    graph: drawing(stage('a', ['c']), collector('c', [], [])),
    routes: { a: ['a', /goes to a result collector/] },
  },
  {
    name: 'a gate in between',
    graph: drawing(stage('a', ['g']), gate('g', ['b']), stage('b')),
    routes: { a: ['a', /goes to a dispatch gate/], b: ['b', /nothing/] },
  },
  {
    name: 'a stage of another runtime',
    graph: drawing(stage('a', ['b']), stage('b', [], { runtime: 'r2' })),
    routes: { a: ['a', /stage B belongs to another runtime/], b: ['b', /nothing/] },
  },
  {
    name: 'a stage that reads another property',
    graph: drawing(
      stage('a', ['b']),
      stage('b', ['c'], { input: 'image', output: 'label' }),
      stage('c', [], { input: 'label' }),
    ),
    routes: {
      a: ['a', /stage B reads msg\.image, this one writes msg\.payload/],
      b: ['b c', /nothing/],
      c: ['c', /nothing/],
    },
  },
  {
    name: 'a stage that cannot be used',
    graph: drawing(stage('a', ['b']), stage('b', ['c'], { invalid: 'no file x' }), stage('c')),
    routes: { a: ['a', /next node cannot be used: no file x/], c: ['c', /nothing/] },
  },
  {
    name: 'a batcher that cannot be used',
    graph: drawing(stage('a', ['q']), batcher('q', ['b'], { invalid: 'maxBatchSize: must be >= 1' }), stage('b')),
    routes: { a: ['a', /cannot be used: maxBatchSize/], b: ['b', /nothing/] },
  },
  {
    name: 'a stage that a Complete node watches',
    graph: drawing(stage('a', ['b']), stage('b', ['c'], { watched: true }), stage('c')),
    routes: { a: ['a', /Complete node watches stage B/], b: ['b', /Complete node watches it/], c: ['c', /nothing/] },
  },
  {
    name: 'a junction, and one behind the other',
    graph: drawing(
      stage('a', ['j']),
      junction('j', ['k', 'd']),
      junction('k', ['b']),
      other('d', [], 'debug'),
      stage('b'),
    ),
    routes: { a: ['a b', /nothing/], b: ['b', /nothing/] },
  },
  {
    name: 'two wires to the same stage are two messages',
    graph: drawing(stage('a', ['j', 'b']), junction('j', ['b']), stage('b')),
    routes: { a: ['a', /goes to 2 stages/], b: ['b', /nothing/] },
  },
  {
    name: 'wires to nodes that are not there',
    graph: drawing(stage('a', ['gone', 'b']), stage('b', ['gone'])),
    routes: { a: ['a b', /nothing/], b: ['b', /nothing/] },
  },
  {
    name: 'a second output is not part of the chain',
    graph: drawing(stage('a', [[], ['b']]), stage('b')),
    routes: { a: ['a', /nothing/], b: ['b', /nothing/] },
  },
];

for (const { name, graph, routes } of SHAPES) {
  test(name, () => {
    const compiled = compile(graph);
    assert.deepEqual([...compiled.routes.keys()].sort(), Object.keys(routes).sort());
    for (const [entry, [stages, end]] of Object.entries(routes)) {
      const route = compiled.routes.get(entry) as CompiledRoute;
      assert.equal(route.entry, entry);
      assert.equal(route.stages.join(' '), stages, `stages from ${entry}`);
      assert.match(route.end, end);
      assert.equal(route.unfused, !/nothing is wired|goes to (?:an?|the) /.test(route.end), route.end);
    }
  });
}

test('a route names its runtime and its tapping nodes, in order', () => {
  const debug = (id: string) => other(id, [], 'debug');
  const graph = drawing(
    stage('a', ['d1', 'b', 'd2']),
    stage('b', ['j']),
    junction('j', ['c', 'd3']),
    stage('c', ['d4']),
    ...['d1', 'd2', 'd3', 'd4'].map(debug),
  );
  const route = compile(graph).routes.get('a');
  assert.equal(route?.runtime, 'r1');
  assert.deepEqual(
    [...(route?.taps ?? [])],
    [
      ['a', ['d1', 'd2']],
      ['b', ['d3']],
    ],
  );
});

const CIRCLES: readonly (readonly [string, Graph, string, string])[] = [
  ['a stage wired to itself', drawing(stage('a', ['a'])), 'a', ''],
  ['two stages in a circle', drawing(stage('a', ['b']), stage('b', ['a'])), 'a b', ''],
  [
    'a circle through a batcher and a junction',
    drawing(stage('a', ['q']), batcher('q', ['b']), stage('b', ['j']), junction('j', ['a'])),
    'a b q',
    '',
  ],
  ['a way into a circle', drawing(stage('x', ['a']), stage('a', ['b']), stage('b', ['a'])), 'a b', 'x'],
  ['a circle through a function node ends there', drawing(stage('a', ['f']), other('f', ['a'])), '', 'a'],
];

for (const [name, graph, invalid, usable] of CIRCLES) {
  test(`${name}`, () => {
    const compiled = compile(graph);
    assert.equal([...compiled.invalid.keys()].sort().join(' '), invalid);
    for (const reason of compiled.invalid.values()) assert.match(reason, /lead back to itself/);
    const stages = [...compiled.routes.values()].filter((route) => route.entry === route.stages[0]);
    assert.equal(stages.map(({ entry }) => entry).join(' '), usable);
  });
}

test('a circle of junctions leads nowhere and ends', () => {
  const graph = drawing(stage('a', ['j']), junction('j', ['k']), junction('k', ['j']));
  assert.match(compile(graph).routes.get('a')?.end ?? '', /nothing is wired/);
});

test('any wiring compiles: chains end, usable stages are entries, and invalid nodes are on no route', () => {
  const ids = ['s1', 's2', 's3', 's4', 'b1', 'b2', 'j1', 'j2', 'f1'];
  const wires = fc.subarray(ids, { maxLength: 3 });
  const property = fc.constantFrom('payload', 'payload', 'image');
  fc.assert(
    fc.property(
      fc.array(wires, { minLength: 9, maxLength: 9 }),
      fc.array(property, { minLength: 8, maxLength: 8 }),
      (all, properties) => {
        const graph = drawing(
          ...ids.map((id, index) => {
            const to = all[index] as string[];
            if (id.startsWith('b')) return batcher(id, to);
            if (id.startsWith('j')) return junction(id, to);
            if (id.startsWith('f')) return other(id, to);
            return stage(id, to, { input: properties[index] as string, output: properties[index + 4] as string });
          }),
        );
        const { routes, invalid, batching } = compile(graph);
        for (const [entry, route] of routes) {
          assert.equal(invalid.has(entry), false);
          assert.equal(new Set(route.stages).size, route.stages.length, 'a stage twice on a route');
          assert.notEqual(route.end, '');
          for (const id of route.stages) assert.equal(graph.get(id)?.kind === 'stage' && !invalid.has(id), true);
        }
        for (const id of ['s1', 's2', 's3', 's4']) {
          assert.equal(routes.has(id), !invalid.has(id));
          assert.ok(batching.has(id));
        }
      },
    ),
    { numRuns: 500 },
  );
});

const IN_WORDS: readonly (readonly [type: string, words: string])[] = [
  ['http response', 'an HTTP response node'],
  ['http request', 'an HTTP request node'],
  ['mqtt out', 'an MQTT out node'],
  ['udp out', 'a UDP out node'],
  ['tcp out', 'a TCP out node'],
  ['xml', 'an XML node'],
  ['csv', 'a CSV node'],
  ['debug', 'a debug node'],
  ['exec', 'an exec node'],
  ['ui-chart', 'a ui-chart node'],
  ['subflow-status', 'the status output of its subflow'],
];

for (const [type, words] of IN_WORDS) {
  test(`a route that ends at a ${type} names ${words}`, () => {
    const { routes } = compile(drawing(stage('a', ['x', 'c']), other('x', [], type), collector('c', [], [])));
    assert.equal(routes.get('a')?.end, `its output goes to ${words} and a result collector`);
  });
}

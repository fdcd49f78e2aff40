/** Versions in drawn flows: what can be one, and what becomes of routes and endpoints. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StageVersion } from '../../src/core/versions.ts';
import type { GraphNode, StageNode } from '../../src/flow/graph.ts';
import { compileEndpoints } from '../../src/flow/http/endpoints.ts';

import { batcher, compile, drawing, httpIn, httpOut, other, stage, TEN } from './drawing.ts';

function versions(...ids: readonly string[]): readonly StageVersion[] {
  return ids.map((id) => ({ stage: id, share: 10, mode: 'answer' as const }));
}

const CASES: readonly (readonly [text: string, second: Partial<StageNode>, reason: string])[] = [
  ['another runtime', { runtime: 'r2' }, 'stage B belongs to another runtime'],
  [
    'other keys',
    { keyBy: 'topic' },
    'stage B has the keys msg.topic, this one has no keys: the messages of a key would get apart',
  ],
  ['another input', { input: 'image' }, 'stage B reads msg.image, this one reads msg.payload'],
  ['another output', { output: 'label' }, 'stage B writes msg.label, this one writes msg.payload'],
  ['its own versions', { versions: versions('c') }, 'stage B lists versions itself'],
];

for (const [text, second, reason] of CASES) {
  test(`a stage with ${text} cannot be a version`, () => {
    const graph = drawing(stage('a', [], { versions: versions('b') }), stage('b', [], second), stage('c'));
    assert.equal(compile(graph).invalid.get('a'), `Versions: ${reason}`);
  });
}

test('a stage cannot be a version of itself, of two stages, or be missing', () => {
  const graph = drawing(
    stage('a', [], { versions: versions('a') }),
    stage('b', [], { versions: versions('v') }),
    stage('c', [], { versions: versions('v') }),
    stage('d', [], { versions: versions('gone') }),
    stage('e', [], { versions: versions('other') }),
    stage('v'),
    other('other'),
  );
  assert.deepEqual(Object.fromEntries(compile(graph).invalid), {
    a: 'Versions: a stage cannot be a version of itself',
    c: 'Versions: stage V is a version of stage B already',
    d: 'Versions: the stage gone does not exist, or is disabled',
    e: 'Versions: the stage other does not exist, or is disabled',
  });
});

test('a version that cannot be used itself leaves its base usable', () => {
  const graph = drawing(
    stage('a', [], { versions: versions('b') }),
    stage('b', [], { invalid: 'no file', runtime: '' }),
  );
  const { invalid, routes } = compile(graph);
  assert.deepEqual([[...invalid.keys()], [...routes.keys()]], [['b'], ['a']]);
});

test('no messages enter at a version, unless it is wired', () => {
  const [a, b] = [stage('a', [], { versions: versions('b') }), stage('b')];
  assert.deepEqual([...compile(drawing(a, b)).routes.keys()], ['a']);
  const batched = compile(drawing(a, b, batcher('before', ['b'])));
  assert.deepEqual([[...batched.routes.keys()], batched.batching.get('b')], [['a'], TEN]);
  assert.deepEqual([...compile(drawing(a, b, other('inject', ['b']))).routes.keys()], ['a', 'b']);
});

test('a route has one property by which versions are chosen', () => {
  const endOf = (first: string, second: string): string | undefined => {
    const chosen = (sticky: string): Partial<StageNode> => ({ versions: versions(`v${sticky}`), sticky });
    const graph = drawing(stage('a', ['b'], chosen(first)), stage('b', [], chosen(second)), stage('v'), stage('vuser'));
    const compiled = compile(new Map([...graph, ['vsession', stage('vsession')]]));
    const route = compiled.routes.get('a');
    return route && `${route.stages.join('>')} by ${route.sticky}: ${route.end}`;
  };
  assert.match(endOf('', 'user') ?? '', /^a>b by user: /);
  assert.match(endOf('user', '') ?? '', /^a>b by user: /);
  assert.equal(
    endOf('session', 'user'),
    'a by session: stage B chooses versions by msg.user, a stage before it by msg.session',
  );
});

test('a route has one property that is the key, and no stage before the keyed one writes it', () => {
  const endOf = (first: Partial<StageNode>, keyBy: string): string | undefined => {
    const route = compile(drawing(stage('a', ['b'], first), stage('b', [], { keyBy }))).routes.get('a');
    return route && `${route.stages.join('>')} by ${route.keyBy}: ${route.end}`;
  };
  assert.match(endOf({}, 'topic') ?? '', /^a>b by topic: /);
  assert.match(endOf({ keyBy: 'topic' }, '') ?? '', /^a>b by topic: /);
  assert.match(endOf({ keyBy: 'req.headers.x' }, 'req.headers.x') ?? '', /^a>b by req\.headers\.x: /);
  assert.equal(
    endOf({ keyBy: 'topic' }, 'site'),
    'a by topic: stage B has the keys msg.site, a stage before it msg.topic',
  );
  for (const key of ['payload', 'payload.camera', 'payload["camera"]']) {
    assert.equal(endOf({}, key), `a by : stage B has the keys msg.${key}, which a stage before it writes`);
  }
});

test('a stage with keys chooses its versions by them', () => {
  const invalidBy = (sticky: string): string | undefined =>
    compile(
      drawing(stage('a', [], { versions: versions('b'), keyBy: 'topic', sticky }), stage('b', [], { keyBy: 'topic' })),
    ).invalid.get('a');
  assert.equal(invalidBy('topic'), undefined);
  assert.match(invalidBy('user') ?? '', /^Versions: Sticky by must be topic, as Key is/);
});

function endpoint(...nodes: readonly GraphNode[]): string | null | undefined {
  const graph = drawing(httpIn('in', ['a']), httpOut('out'), ...nodes);
  const { routes, apart, invalid } = compile(graph);
  const facts = { root: '/', barred: null, taken: new Map(), v2Paths: new Map(), flawOf: () => null };
  const { endpoints, uncompiled } = compileEndpoints(graph, { routes, apart, invalid, ...facts });
  return uncompiled[0]?.reason ?? endpoints[0]?.sticky;
}

test('an endpoint is compiled if a header chooses its versions, or nothing does', () => {
  const by = (sticky: string): GraphNode => stage('a', ['out'], { versions: versions('b'), sticky });
  assert.equal(endpoint(by(''), stage('b')), null);
  assert.equal(endpoint(by('req.headers.X-User'), stage('b')), 'x-user');
  assert.equal(endpoint(by("req.headers['x-user']"), stage('b')), 'x-user');
  assert.equal(endpoint(by('user'), stage('b')), 'its versions are chosen by msg.user, which is no header');
  assert.equal(endpoint(by(''), stage('b', [], { readsAlso: 'topic' })), 'stage B reads msg.topic');
  assert.equal(endpoint(stage('a', ['out'], { keyBy: 'topic' })), 'its keys are msg.topic, which is no header');
  assert.equal(endpoint(stage('a', ['out'], { keyBy: 'req.headers.x' })), null);
});

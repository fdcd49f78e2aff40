/** Chains of stages run as one route however their wires are drawn; where one ends, the snapshot says why. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  arrived,
  instance,
  junction,
  linkIn,
  linkOut,
  noting,
  on,
  payloads,
  sorted,
  subflow,
  tab,
} from '../../fixtures/drawn.ts';
import { batcher, collector, completeNode, func, httpOut, node, runtime, sink, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';

const red = useNodeRed();

/** `a b, because ...`: the stages behind an entry by id, and why the chain goes no further. */
async function routeFrom(entry: string): Promise<{ stages: string; end: string }> {
  const { routes } = await red.snapshot();
  const route = routes.find((candidate) => candidate.entry === entry);
  assert.ok(route, `no route from ${entry}: ${JSON.stringify(routes)}`);
  return { stages: route.stages.join(' '), end: route.end };
}

async function requestsSent(): Promise<number> {
  const { runtimes } = await red.snapshot();
  return runtimes.reduce((sum, { frames }) => sum + (frames.sent['submit']?.items ?? 0), 0);
}

interface Shape {
  readonly name: string;
  readonly flows: readonly FlowNode[];
  /** The entry node of the message. */
  readonly entry: string;
  readonly fused: string;
}

const SHAPES: readonly Shape[] = [
  {
    name: 'two junctions in a row',
    flows: [noting('a', 'j1'), junction('j1', 'j2'), junction('j2', 'b'), noting('b', 'c'), noting('c', 'out')],
    entry: 'a',
    fused: 'a b c',
  },
  {
    name: 'link out to link in',
    flows: [noting('a', 'lo'), linkOut('lo', 'li'), linkIn('li', 'lo', 'b'), noting('b', 'out')],
    entry: 'a',
    fused: 'a b',
  },
  {
    name: 'a link to another tab and one back',
    flows: [
      tab('other'),
      noting('a', 'lo'),
      linkOut('lo', 'li'),
      ...on({ z: 'other' }, linkIn('li', 'lo', 'b'), noting('b', 'back'), linkOut('back', 'home')),
      linkIn('home', 'back', 'c'),
      noting('c', 'out'),
    ],
    entry: 'a',
    fused: 'a b c',
  },
  {
    name: 'the border of a group',
    flows: [
      node('group', 'group', [], { nodes: ['b'] }),
      noting('a', 'b'),
      ...on({ g: 'group' }, noting('b', 'c')),
      noting('c', 'out'),
    ],
    entry: 'a',
    fused: 'a b c',
  },
  {
    name: 'several batchers',
    flows: [
      batcher('q', 'a', { maxBatchSize: '4' }),
      noting('a', 'r'),
      batcher('r', 'b', { maxBatchSize: '8' }),
      noting('b', 'c'),
      noting('c', 'out'),
    ],
    entry: 'q',
    fused: 'a b c',
  },
];

describe('a fused route', () => {
  for (const { name, flows, entry, fused } of SHAPES) {
    test(`leads through ${name}`, async () => {
      await red.deployReady([TAB, runtime(), ...flows, sink('out')]);
      assert.equal((await routeFrom(entry)).stages, fused);
      const out = red.inputs('out');
      const sentBefore = await requestsSent();
      red.send(entry, { payload: [] });
      const [msg] = await arrived(out, 1);
      assert.deepEqual(msg?.payload, fused.split(' '));
      assert.deepEqual(
        msg?.modelet?.stages.map((timing) => timing.name),
        fused.split(' '),
      );
      // One way into the engine, one way out, and nothing through Node-RED in between.
      assert.equal((await requestsSent()) - sentBefore, 1);
    });
  }

  test('leads into a stage with several upstreams, two of them on other tabs', async () => {
    await red.deployReady([
      TAB,
      tab('east'),
      tab('west'),
      runtime(),
      noting('near', 'shared'),
      ...on({ z: 'east' }, noting('e', 'east out'), linkOut('east out', 'both')),
      ...on({ z: 'west' }, noting('w', 'west out'), linkOut('west out', 'both')),
      linkIn('both', ['east out', 'west out'], 'shared'),
      noting('shared', 'out'),
      sink('out'),
    ]);
    for (const entry of ['near', 'e', 'w']) assert.equal((await routeFrom(entry)).stages, `${entry} shared`);
    const out = red.inputs('out');
    for (const entry of ['near', 'e', 'w']) red.send(entry, { payload: [] });
    assert.deepEqual(
      sorted(payloads(await arrived(out, 3))),
      sorted([
        ['near', 'shared'],
        ['e', 'shared'],
        ['w', 'shared'],
      ]),
    );
  });

  test('has its own stages in each instance of a subflow', async () => {
    const { runtimes } = await red.deployReady([
      TAB,
      runtime(),
      subflow('sub', 'q', 's'),
      ...on({ z: 'sub' }, batcher('q', 's', { maxBatchSize: '4' }), noting('s', [])),
      noting('a', 'one'),
      instance('one', 'sub', 'b'),
      noting('b', 'out'),
      instance('two', 'sub', 'out'),
      sink('out'),
    ]);
    assert.deepEqual(runtimes[0]?.stages.map(({ id }) => id).sort(), ['a', 'b', 'one-s', 'two-s']);
    assert.equal(new Set(runtimes[0]?.stages.map(({ name }) => name)).size, 4);
    for (const id of ['one-s', 'two-s'])
      assert.equal(runtimes[0]?.stages.find((s) => s.id === id)?.batching.maxBatchSize, 4);
    assert.equal((await routeFrom('a')).stages, 'a one-s b');
    assert.equal((await routeFrom('two-q')).stages, 'two-s');
    const out = red.inputs('out');
    red.send('a', { payload: [] });
    red.send('two', { payload: [] });
    assert.deepEqual(sorted(payloads(await arrived(out, 2))), sorted([['a', 's', 'b'], ['s']]));
  });

  test('leads through a subflow in a subflow', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      subflow('inner', 'i1', 'i2'),
      ...on({ z: 'inner' }, noting('i1', 'i2'), noting('i2', [])),
      subflow('outer', 'o1', 'nested'),
      ...on({ z: 'outer' }, noting('o1', 'nested'), instance('nested', 'inner', [])),
      noting('a', 'use'),
      instance('use', 'outer', 'z'),
      noting('z', 'out'),
      sink('out'),
    ]);
    assert.equal((await routeFrom('a')).stages.split(' ').length, 5);
    const out = red.inputs('out');
    red.send('a', { payload: [] });
    assert.deepEqual((await arrived(out, 1))[0]?.payload, ['a', 'o1', 'i1', 'i2', 'z']);
  });
});

describe('not fused', () => {
  test('a fan-out to two stages makes two messages of one, as Node-RED does', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      noting('a', ['b', 'c']),
      noting('b', 'out'),
      noting('c', 'out'),
      sink('out'),
    ]);
    assert.match((await routeFrom('a')).end, /goes to 2 stages/);
    const out = red.inputs('out');
    const sent = { payload: [] as string[], mine: { deep: 1 } };
    red.send('a', sent);
    const both = await arrived(out, 2);
    assert.deepEqual(
      sorted(payloads(both)),
      sorted([
        ['a', 'b'],
        ['a', 'c'],
      ]),
    );
    // One is the message itself, the other a clone of it: nothing of one is in the other.
    assert.equal(both.filter((msg) => msg === (sent as unknown)).length, 1);
    assert.deepEqual(both[0]?.['mine'], both[1]?.['mine']);
    assert.notEqual(both[0]?.['mine'], both[1]?.['mine']);
    assert.equal(both[0]?.modelet?.requestId, both[1]?.modelet?.requestId);
    for (const msg of both) assert.equal(msg.modelet?.stages.length, 2);
  });

  test('the view shows the reason for the end of every chain, and messages go on all the same', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      runtime('second'),
      noting('a', 'b'),
      noting('b', 'f'),
      func('f', 'return msg;', 'c'),
      noting('c', 'd'),
      noting('d', 'e', { runtime: 'second' }),
      noting('e', 'watched', { runtime: 'second' }),
      noting('watched', 'z', { runtime: 'second' }),
      completeNode('complete', ['watched'], 'completed'),
      noting('z', 'collect', { runtime: 'second' }),
      collector('collect', 'out'),
      noting('writes list', 'reads payload', { output: 'list' }),
      noting('reads payload', 'broken'),
      noting('broken', [], { predict: 'sometimes' }),
      sink('completed'),
      sink('out'),
    ]);
    const expected: readonly [entry: string, stages: string, end: RegExp][] = [
      ['a', 'a b', /goes to a function node/],
      ['c', 'c', /stage d belongs to another runtime/],
      ['d', 'd e', /a Complete node watches stage watched/],
      ['watched', 'watched', /a Complete node watches it/],
      ['z', 'z', /goes to a result collector/],
      ['writes list', 'writes list', /stage reads payload reads msg\.payload, this one writes msg\.list/],
      ['reads payload', 'reads payload', /the next node cannot be used: Call: /],
    ];
    for (const [entry, stages, end] of expected) {
      const route = await routeFrom(entry);
      assert.equal(route.stages, stages, entry);
      assert.match(route.end, end);
    }
    const [out, completed] = [red.inputs('out'), red.inputs('completed')];
    red.send('a', { payload: [] });
    const [msg] = await arrived(out, 1);
    assert.deepEqual(msg?.payload, ['a', 'b', 'c', 'd', 'e', 'watched', 'z']);
    assert.equal(msg?.modelet?.stages.length, 7);
    assert.equal((await arrived(completed, 1)).length, 1);
  });

  test('the reason names the HTTP response and the status output of a subflow as users do', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      ...[noting('answering', 'answer'), httpOut('answer')],
      {
        ...{ id: 'template', type: 'subflow', name: 'with status', in: [], out: [] },
        status: { wires: [{ id: 'inside', port: 0 }] },
      },
      { ...noting('inside', []), z: 'template' },
      node('instance', 'subflow:template', []),
    ]);
    assert.equal((await routeFrom('answering')).end, 'its output goes to an HTTP response node');
    const { routes } = await red.snapshot();
    const inside = routes.find(({ entry }) => entry !== 'answering');
    assert.equal(inside?.end, 'its output goes to the status output of its subflow');
  });
});

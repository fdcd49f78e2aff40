/** Extra wires on a fused wire get the value that passes; the route, its results and its other frames stay as they are. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { arrived, junction, noting, payloads, whenIdle } from '../../fixtures/drawn.ts';
import { batcher, collector, func, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, type Snapshot, useNodeRed } from '../../fixtures/node-red.ts';

const red = useNodeRed();

const ROUNDS = 5;

/** Frames and items of one type, in both directions. */
function traffic({ runtimes }: Snapshot, type: string): { frames: number; items: number } {
  const [only] = runtimes;
  return only?.frames.sent[type] ?? only?.frames.received[type] ?? { frames: 0, items: 0 };
}

interface Counted {
  readonly route: string | undefined;
  readonly results: unknown[];
  readonly items: Readonly<Record<string, number>>;
  readonly frames: Readonly<Record<string, number>>;
}

/** Sends messages one after the other through `a -> b -> c`, so that each makes separate frames. */
async function countTraffic(flows: readonly FlowNode[]): Promise<Counted> {
  const first = await red.deployReady([TAB, runtime(), ...flows, sink('out')]);
  const out = red.inputs('out');
  for (let round = 1; round <= ROUNDS; round += 1) {
    red.send('a', { payload: [round] });
    await arrived(out, round);
  }
  await whenIdle(red);
  const last = await red.snapshot();
  const types = ['submit', 'outcomes', 'taps', 'cancel', 'queue'];
  const difference = (what: 'frames' | 'items'): Record<string, number> =>
    Object.fromEntries(types.map((type) => [type, traffic(last, type)[what] - traffic(first, type)[what]]));
  return {
    route: last.routes.find(({ entry }) => entry === 'a')?.stages.join(' '),
    results: payloads(out),
    items: difference('items'),
    frames: difference('frames'),
  };
}

/** `a -> b -> c -> out`; `more` are further targets of `a` and of `b`. */
function chain(more: { a?: string[]; b?: string[] }, ...nodes: FlowNode[]): FlowNode[] {
  return [noting('a', ['b', ...(more.a ?? [])]), noting('b', ['c', ...(more.b ?? [])]), noting('c', 'out'), ...nodes];
}

describe('taps', () => {
  test('debug, function and switch get the passing value in a message with the properties of the original', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      noting('a', ['debug', 'b', 'spoil']),
      noting('b', 'j'),
      junction('j', ['q', 'choose']),
      batcher('q', 'c'),
      noting('c', 'out'),
      sink('debug'),
      func('spoil', `msg.payload.push('spoilt'); msg.mine.deep = 'spoilt'; return msg;`, 'spoilt'),
      node('choose', 'switch', ['two'], { property: 'payload.length', rules: [{ t: 'eq', v: '2', vt: 'num' }] }),
      ...['spoilt', 'two', 'out'].map(sink),
    ]);
    const route = (await red.snapshot()).routes.find(({ entry }) => entry === 'a');
    assert.deepEqual(route?.stages, ['a', 'b', 'c']);
    const [debug, spoilt, two, out] = ['debug', 'spoilt', 'two', 'out'].map((id) => red.inputs(id));
    const sent = { payload: [], topic: 'here', mine: { deep: 1 }, _msgid: 'original' };
    red.send('a', sent);
    const [result] = await arrived(out ?? [], 1);
    // Tapped values arrive before the result.
    assert.deepEqual(payloads(debug ?? []), [['a']]);
    for (const tapped of [debug?.[0], ...(await arrived(two ?? [], 1))]) {
      assert.equal(tapped?.['topic'], 'here');
      assert.equal(tapped?._msgid, 'original');
      assert.deepEqual(tapped?.['mine'], { deep: 1 });
    }
    assert.deepEqual(payloads(two ?? []), [['a', 'b']]);
    assert.deepEqual(payloads(await arrived(spoilt ?? [], 1)), [['a', 'spoilt']]);
    assert.equal(result, sent as unknown);
    assert.deepEqual(result?.payload, ['a', 'b', 'c']);
    assert.deepEqual(result?.['mine'], { deep: 1 });
    assert.equal(result?.modelet?.stages.length, 3);
    await whenIdle(red);
    for (const messages of [debug, spoilt, two, out]) assert.equal(messages?.length, 1);
  });

  test('a tap adds one item for each message to the traffic, and nothing else', async () => {
    const untapped = await countTraffic(chain({}));
    assert.deepEqual(untapped.items, { submit: ROUNDS, outcomes: ROUNDS, taps: 0, cancel: 0, queue: 0 });
    assert.deepEqual(untapped.frames, { ...untapped.items });
    const tapped = await countTraffic(chain({ b: ['debug'] }, sink('debug')));
    assert.deepEqual(tapped.items, { ...untapped.items, taps: ROUNDS });
    assert.deepEqual(tapped.frames, { ...untapped.frames, taps: ROUNDS });
    assert.equal(tapped.route, 'a b c');
    assert.deepEqual([tapped.route, tapped.results], [untapped.route, untapped.results]);
  });

  test('several taps on one wire cost one item, and taps on two wires cost two', async () => {
    const nodes = ['d1', 'd2', 'd3'].map(sink);
    const oneWire = await countTraffic(chain({ a: ['d1', 'd2', 'd3'] }, ...nodes));
    assert.equal(oneWire.items['taps'], ROUNDS);
    const twoWires = await countTraffic(chain({ a: ['d1'], b: ['d2', 'd3'] }, ...nodes));
    assert.equal(twoWires.items['taps'], 2 * ROUNDS);
    assert.deepEqual(twoWires.results, oneWire.results);
  });

  test('a disabled node and a node at the end of the chain tap nothing', async () => {
    const { items } = await countTraffic([
      ...chain({ a: ['off'] }, { ...sink('off'), d: true }, sink('after')),
      noting('unused', []),
    ]);
    assert.equal(items['taps'], 0);
    await red.deployReady([
      TAB,
      runtime(),
      noting('a', 'b'),
      noting('b', ['out', 'after']),
      sink('after'),
      sink('out'),
    ]);
    const before = await red.snapshot();
    const after = red.inputs('after');
    red.send('a', { payload: [] });
    assert.deepEqual((await arrived(after, 1))[0]?.payload, ['a', 'b']);
    assert.equal(traffic(await red.snapshot(), 'taps').items, traffic(before, 'taps').items);
  });

  test('a request that fails behind the tap has shown its value and fails once', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      noting('a', ['fails', 'debug']),
      stage('fails', `throw new Error('no');`, 'collect'),
      collector('collect', 'out', 'failed'),
      ...['debug', 'failed', 'out'].map(sink),
    ]);
    const [debug, failed, out] = ['debug', 'failed', 'out'].map((id) => red.inputs(id));
    red.send('a', { payload: [] });
    const [error] = await arrived(failed ?? [], 1);
    assert.deepEqual(payloads(debug ?? []), [['a']]);
    assert.equal(error?.error?.stage, 'fails');
    await whenIdle(red);
    assert.deepEqual([debug?.length, failed?.length, out?.length], [1, 1, 0]);
  });
});

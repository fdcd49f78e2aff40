/**
 * Fused or not, a pipeline behaves as the nodes it is drawn with: messages, splits, Catch and Status nodes, clients.
 * Shows: way flow.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import {
  arrived,
  instance,
  join,
  noting,
  numbers,
  on,
  payloads,
  queueOf,
  split,
  subflow,
  whenIdle,
} from '../../fixtures/drawn.ts';
import {
  batcher,
  catchNode,
  collector,
  completeNode,
  freshRuntime,
  func,
  httpIn,
  httpOut,
  node,
  sink,
  stage,
  statusNode,
  TAB,
} from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();
const gate = useGate();

/** Deploys them with a separate engine for each test. */
async function deploy(...flows: FlowNode[]): Promise<void> {
  await red.deploy([TAB, freshRuntime(), ...flows]);
  await red.whenReady();
}

/** Takes a random time, and refuses multiples of five. */
const SQUARE = `
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
  if (input % 5 === 0) throw Object.assign(new Error('no ' + input), { code: 'invalid_input' });
  return input * input;`;

describe('messages', () => {
  test('fill a batch by the costs that they name; a message without a cost fails alone', async () => {
    const costs = { batchCost: 'sum', maxBatchCost: '10', costBy: 'size.tokens' };
    await deploy(
      batcher('costs', 'sized', { policy: 'oldest', maxWaitMs: '60000', ...costs }),
      stage('sized', 'return input.map(() => input);', 'collect', { predict: 'batch' }),
      ...[collector('collect', 'out', 'failed'), sink('out'), sink('failed')],
    );
    const [out, failed] = [red.inputs('out'), red.inputs('failed')];
    red.send('costs', { payload: 'a', size: { tokens: 6 } });
    red.send('costs', { payload: 'b' });
    red.send('costs', { payload: 'c', size: { tokens: '4' } });
    assert.deepEqual(payloads(await arrived(out, 2)), [
      ['a', 'c'],
      ['a', 'c'],
    ]);
    const [refused] = await arrived(failed, 1);
    assert.match(String(refused?.error?.message), /^stage sized needs a cost: msg\.size\.tokens must be a number/);
  });

  test('a fused chain sends on the object that it got, with all its properties', async () => {
    await deploy(
      httpIn('in', '/same', 'before'),
      func('before', `msg.parts = { id: 'p', index: 3, count: 9 }; msg.mine = { deep: [1] }; return msg;`, 'a'),
      noting('a', 'b'),
      noting('b', 'c'),
      noting('c', 'out'),
      httpOut('out'),
    );
    const [before, out] = [red.inputs('a'), red.inputs('out')];
    // The object may have changed by the time it is looked at: what it held is kept here.
    const held: Message[] = [];
    red.node('a').on('input', (msg) => held.push({ ...msg }));
    assert.deepEqual(await (await red.post('/same', [])).json(), ['a', 'b', 'c']);
    const [msg] = out;
    assert.equal(msg, before[0]);
    for (const key of ['req', 'res', 'parts', '_msgid', 'mine']) {
      assert.ok(held[0]?.[key]);
      assert.equal(msg?.[key], held[0]?.[key], key);
    }
  });

  const branches = [
    ['succeed', numbers(30).map((n) => n * 5 + 1)],
    ['fail in part and are routed on by the catch output', numbers(30)],
  ] as const;
  for (const [what, payload] of branches) {
    test(`core split -> pipeline -> core join gives the array in order: items that ${what}`, async () => {
      await deploy(
        httpIn('in', '/array', 'split'),
        split('split', 'batch'),
        batcher('batch', 'square', { maxBatchSize: '4' }),
        stage('square', SQUARE, 'last', { workers: '2' }),
        stage('last', 'return -input;', 'collect', { workers: '2' }),
        collector('collect', 'join', 'mark'),
        func('mark', 'msg.payload = msg.payload.error.message; delete msg.statusCode; return msg;', 'join'),
        join('join', 'reply'),
        httpOut('reply'),
      );
      const response = await red.post('/array', payload);
      assert.equal(response.status, 200);
      assert.deepEqual(
        await response.json(),
        payload.map((n) => (n % 5 === 0 ? `no ${n}` : -n * n)),
      );
    });
  }

  test('a Status node gets the status of a stage', async () => {
    await deploy(noting('a', []), statusNode('status', ['a'], 'statuses'), sink('statuses'));
    const statuses = red.inputs('statuses');
    red.send('a', { payload: [] });
    await until('it is told that the stage is ready', () =>
      statuses.some((msg) => READY.test((msg['status'] as { text?: string } | undefined)?.text ?? '')),
    );
  });
});

const FAILS = `throw new TypeError('a bug');`;

/** Counts the copies of an error that each of several nodes got. */
async function handledBy(entry: string, ...handlers: string[]): Promise<Record<string, number>> {
  const heard = handlers.map((id) => [id, red.inputs(id)] as const);
  red.send(entry, { payload: [] });
  await until('a handler has it', () => heard.some(([, messages]) => messages.length > 0));
  await whenIdle(red);
  return Object.fromEntries(heard.flatMap(([id, { length }]) => (length > 0 ? [[id, length] as const] : [])));
}

describe('errors', () => {
  test('a Catch node gets only the errors of its stage, also in the middle of a fused chain', async () => {
    await deploy(
      noting('a', 'b'),
      stage('b', FAILS, 'c'),
      noting('c', []),
      ...['a', 'b', 'c'].flatMap((id) => [catchNode(`catch ${id}`, `of ${id}`, { scope: [id] }), sink(`of ${id}`)]),
      catchNode('the rest', 'uncaught', { uncaught: true }),
      sink('uncaught'),
    );
    assert.equal((await red.snapshot()).routes.find(({ entry }) => entry === 'a')?.stages.length, 3);
    assert.deepEqual(await handledBy('a', 'of a', 'of b', 'of c', 'uncaught'), { 'of b': 1 });
  });

  test('a Catch node of a group gets the errors of the stages in it', async () => {
    const group = (id: string, ...nodes: string[]): FlowNode => node(id, 'group', [], { nodes });
    await deploy(
      group('east', 'a', 'catch east'),
      group('west', 'b', 'catch west'),
      ...on({ g: 'east' }, noting('a', 'b'), catchNode('catch east', 'of east', { scope: 'group' })),
      ...on({ g: 'west' }, stage('b', FAILS, []), catchNode('catch west', 'of west', { scope: 'group' })),
      ...['of east', 'of west'].map(sink),
    );
    assert.deepEqual(await handledBy('a', 'of east', 'of west'), { 'of west': 1 });
  });

  test('an error inside a subflow goes to the flow around it', async () => {
    await deploy(
      subflow('sub', 'inside', 'inside'),
      ...on({ z: 'sub' }, stage('inside', FAILS, [])),
      noting('a', 'use'),
      instance('use', 'sub', []),
      catchNode('catch', 'caught'),
      sink('caught'),
    );
    assert.equal((await red.snapshot()).routes.find(({ entry }) => entry === 'a')?.stages.length, 2);
    assert.deepEqual(await handledBy('a', 'caught'), { caught: 1 });
  });

  test('a Catch node in the subflow comes before the flow around it, and a collector behind the subflow before both', async () => {
    const flows = (behind: string): FlowNode[] => [
      subflow('sub', 'inside', 'inside'),
      ...on({ z: 'sub' }, stage('inside', FAILS, []), catchNode('catch inside', 'sink inside'), sink('sink inside')),
      instance('use', 'sub', behind),
      collector('collect', [], 'failed'),
      catchNode('catch', 'caught'),
      ...['caught', 'failed'].map(sink),
    ];
    const all = ['use-sink inside', 'caught', 'failed'];
    await deploy(...flows('caught'));
    assert.deepEqual(await handledBy('use', ...all), { 'use-sink inside': 1 });
    await deploy(...flows('collect'));
    assert.deepEqual(await handledBy('use', ...all), { failed: 1 });
  });

  test('the catch output has the error as msg.error, and a Catch node has it as msg._error', async () => {
    await deploy(
      noting('a', 'b'),
      stage('b', FAILS, 'collect', { name: 'named b' }),
      collector('collect', [], 'failed'),
      noting('x', 'y'),
      stage('y', FAILS, [], { name: 'named y' }),
      catchNode('catch', 'caught'),
      ...['failed', 'caught'].map(sink),
    );
    const [failed, caught] = [red.inputs('failed'), red.inputs('caught')];
    const payload = ['as it was'];
    red.send('a', { payload });
    red.send('x', { payload });
    const [out, core] = [(await arrived(failed, 1))[0], (await arrived(caught, 1))[0]];
    const expected = (id: string, msg: Message | undefined): object => ({
      code: 'modelet_failed',
      message: 'a bug',
      stage: `named ${id}`,
      requestId: msg?.modelet?.requestId,
      source: { id, type: 'modelet-stage', name: `named ${id}` },
    });
    /** The stack is long, and the count is Node-RED's own means against errors that go round for ever. */
    const shapeOf = (error: unknown): object => {
      const { stack, source, ...rest } = error as { stack: string; source: { count: number } };
      assert.match(stack, /TypeError: a bug/);
      const { count, ...where } = source;
      assert.equal(typeof count, 'number');
      return { ...rest, source: where };
    };
    assert.deepEqual(shapeOf(out?.error), expected('b', out));
    assert.equal('_error' in (out as Message), false);
    assert.deepEqual(shapeOf(core?.['_error']), expected('y', core));
    assert.deepEqual(core?.error?.source, { id: 'y', type: 'modelet-stage', name: 'named y', count: 1 });
    assert.match(core?.error?.message ?? '', /a bug/);
    assert.deepEqual([out?.['statusCode'], core?.['statusCode']], [500, 500]);
    assert.deepEqual(core?.payload, [...payload, 'x']);
    const { source: _, ...body } = expected('b', out) as { source: object };
    assert.deepEqual(out?.payload, { error: body });
  });
});

describe('an HTTP client that goes away', () => {
  const PLACES = [
    [
      'in the queue of the second stage of a fused chain',
      { capacity: '1024' },
      (n: number) => queueOf(red, 'held').then((q) => q === n),
    ],
    [
      'outside the engine, for room in the queue',
      { capacity: '1', overflow: 'wait' },
      // One of them in the engine, so that its report of an empty queue is a later one.
      async (n: number) => (await red.snapshot()).runtimes[0]?.backlog === n + 1 && (await queueOf(red, 'held')) > 0,
    ],
  ] as const;
  for (const [where, properties, areWaiting] of PLACES) {
    test(`while it waits ${where} causes no run, and counts as cancelled`, async () => {
      const chain = 'overflow' in properties ? [] : [noting('a', 'held')];
      await deploy(
        httpIn('in', '/leave', chain.length > 0 ? 'a' : 'held'),
        ...chain,
        stage('held', gate.code(), 'collect', { ...properties }),
        collector('collect', 'reply', 'reply'),
        httpOut('reply'),
        catchNode('catch', 'caught'),
        completeNode('complete', [chain.length > 0 ? 'a' : 'held'], 'done'),
        ...['caught', 'done'].map(sink),
      );
      const [caught, done, replied] = ['caught', 'done', 'reply'].map((id) => red.inputs(id));
      const first = red.post('/leave', ['first']);
      await until('the first is being worked on', async () => (await gate.entered()).length === 1);
      const client = new AbortController();
      const leaving = numbers(20).map((n) =>
        red.post('/leave', [n], { signal: client.signal }).catch((error: Error) => error.name),
      );
      await until('all of them wait', () => areWaiting(20));
      client.abort();
      assert.deepEqual(new Set(await Promise.all(leaving)), new Set(['AbortError']));
      await until('they are cancelled', async () => {
        const [only] = (await red.snapshot()).runtimes;
        return only?.requests['cancelled'] === 20 && only.backlog === 1;
      });
      await until('the queue is empty', async () => (await queueOf(red, 'held')) === 0);
      await gate.open();
      assert.equal((await first).status, 200);
      await arrived(done ?? [], 21);
      assert.deepEqual([caught?.length, replied?.length], [0, 1]);
      assert.equal((await gate.entered()).length, 1);
      assert.deepEqual(payloads(replied ?? []), [(await gate.entered())[0]]);
    });
  }
});

/** A message passes a pipeline as the same object, once, with its own result. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { batcher, collector, completeNode, func, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { Gate } from '../../fixtures/gate.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const nodeRed = useNodeRed();
const gate = new Gate();
after(() => gate.remove());

async function deploy(...nodes: readonly FlowNode[]): Promise<void> {
  await nodeRed.deployReady([TAB, runtime(), ...nodes]);
}

/** Sends a message and resolves with the message that comes out. */
async function pass(entry: string, exit: string, msg: object): Promise<Message> {
  const results = nodeRed.inputs(exit);
  nodeRed.send(entry, msg);
  return until('the message is through', () => results[0]);
}

describe('messages: one stage', () => {
  before(() =>
    deploy(
      stage('double', 'return input * 2;', 'end'),
      stage('nested', 'return { sum: input.a + input.b };', 'end', {
        input: 'request.numbers',
        output: 'answer.value',
      }),
      stage('echo', 'return input;', 'end'),
      stage('told', 'return msg.modelet ? msg.modelet.options : null;', 'end', { cache: 9 }),
      stage('habits', 'msg.payload = [msg.topic, msg._msgid, msg.payload]; return msg;', 'end'),
      sink('end'),
    ),
  );

  test('the same object goes on, with all properties except the payload unchanged', async () => {
    const shared = { by: 'reference' };
    const [req, res] = [{ params: {} }, { _res: {} }];
    const msg = { payload: 21, topic: 'mine', shared, parts: { id: 'p', index: 0, count: 1 }, _msgid: 'm1', req, res };
    const result = await pass('double', 'end', msg);
    assert.equal(result, msg);
    assert.equal(result.payload, 42);
    assert.equal(result._msgid, 'm1');
    assert.equal(result['shared'], shared);
    assert.equal(result['req'], req);
    assert.equal(result['res'], res);
    assert.deepEqual(result['parts'], { id: 'p', index: 0, count: 1 });
    assert.equal(result['topic'], 'mine');
  });

  test('msg.modelet.options reaches the worker and stays, and results are kept for each', async () => {
    const passed = async (modelet: object): Promise<Message> => pass('told', 'end', { payload: 1, modelet });
    const first = await passed({ options: { topK: 1 } });
    const { options } = first.modelet as { options?: unknown };
    assert.deepEqual([first.payload, options], [{ topK: 1 }, { topK: 1 }]);
    assert.deepEqual((await passed({ options: { topK: 2 } })).payload, { topK: 2 });
    assert.equal((await passed({})).payload, null);
    const again = { payload: 1, modelet: { ...first.modelet, options: { topK: 3 } } };
    assert.deepEqual((await pass('told', 'end', again)).payload, { topK: 3 });
  });

  test('msg.modelet has the request and its time in each stage', async () => {
    const { modelet } = await pass('double', 'end', { payload: 1 });
    assert.match(modelet?.requestId ?? '', /^[0-9a-f]{8}-\w+$/);
    assert.ok(modelet?.stages.length === 1);
    const [timing] = modelet.stages as unknown as [Record<string, number>];
    const { name, batchSize, worker, ...times } = timing;
    assert.deepEqual({ name, batchSize, worker }, { name: 'double', batchSize: 1, worker: 0 });
    assert.deepEqual(Object.keys(times).sort(), ['batchMs', 'runMs', 'waitMs']);
    for (const ms of Object.values(times)) assert.ok(ms >= 0, JSON.stringify(times));
    assert.ok(modelet.totalMs >= (times['runMs'] as number));
  });

  test('a stage reads and writes the properties that its settings name, nested ones too', async () => {
    const msg = { payload: 'untouched', request: { numbers: { a: 1, b: 2 } } };
    const result = await pass('nested', 'end', msg);
    assert.equal(result.payload, 'untouched');
    assert.deepEqual(result['answer'], { value: { sum: 3 } });
    assert.deepEqual(result['request'], { numbers: { a: 1, b: 2 } });
  });

  test('inline code has the topic and the id of the message', async () => {
    const { payload } = await pass('habits', 'end', { payload: 'p', topic: 't', _msgid: 'm2' });
    assert.deepEqual(payload, ['t', 'm2', 'p']);
  });

  const values: readonly (readonly [name: string, value: unknown])[] = [
    ['a Buffer', Buffer.from([1, 2, 3])],
    ['a typed array', Float32Array.of(0.5, 1.5)],
    ['a Buffer inside an object', { image: Buffer.from('pixels'), width: 3 }],
    ['a Date, a Map and NaN', { at: new Date(0), map: new Map([['a', 1]]), nothing: Number.NaN }],
    ['null', null],
    ['text', 'na\u00efve \u{1F600}'],
    ['an own __proto__ key', JSON.parse('{"__proto__": {"polluted": true}}')],
  ];
  for (const [name, value] of values) {
    test(`${name} passes unchanged`, async () => {
      const { payload } = await pass('echo', 'end', { payload: value });
      assert.deepEqual(payload, value);
    });
  }
});

describe('messages: a chain that a function node breaks', () => {
  const ONE = 'return { value: input.value + 1, path: [...input.path, ctx.stage] };';
  const withoutNames = (payload: unknown): unknown => ({
    ...(payload as object),
    path: (payload as { path: string[] }).path.length,
  });

  test('gives the result of the unbroken chain, under one request id', async () => {
    await deploy(
      stage('one', ONE, 'batch'),
      batcher('batch', 'two'),
      stage('two', ONE, 'three'),
      stage('three', ONE, 'fused end'),
      sink('fused end'),
      stage('uno', ONE, 'between'),
      func('between', 'msg.between = msg.modelet.requestId; return msg;', 'batch 2'),
      batcher('batch 2', 'due'),
      stage('due', ONE, 'tre'),
      stage('tre', ONE, 'broken end'),
      sink('broken end'),
    );
    const fused = await pass('one', 'fused end', { payload: { value: 1, path: [] } });
    const broken = await pass('uno', 'broken end', { payload: { value: 1, path: [] } });
    assert.deepEqual(fused.payload, { value: 4, path: ['one', 'two', 'three'] });
    assert.deepEqual(withoutNames(broken.payload), withoutNames(fused.payload));
    assert.equal(broken['between'], broken.modelet?.requestId);
    assert.notEqual(broken.modelet?.requestId, fused.modelet?.requestId);
    const names = (msg: Message): string[] | undefined => msg.modelet?.stages.map(({ name }) => name);
    assert.deepEqual(names(fused), ['one', 'two', 'three']);
    assert.deepEqual(names(broken), ['uno', 'due', 'tre']);
    const { routes } = await nodeRed.snapshot();
    const route = (entry: string) => routes.find((found) => found.entry === entry);
    assert.deepEqual(route('one')?.stages, ['one', 'two', 'three']);
    assert.deepEqual(route('uno')?.stages, ['uno']);
    assert.match(route('uno')?.end ?? '', /function node/);
  });

  test('keeps the deadline of its first pass', async () => {
    await gate.close();
    await deploy(
      stage('quick', 'return input;', 'patience'),
      func('patience', 'msg.timeout = 60000; return msg;', 'held'),
      stage('held', gate.code(), 'collect'),
      collector('collect', 'end', 'error'),
      sink('end'),
      sink('error'),
    );
    // On a slow machine, the time may end before the message reaches the second stage.
    let failed: string | undefined;
    for (let timeout = 200; failed !== 'held'; timeout *= 2) {
      const { error } = await pass('quick', 'error', { payload: 1, timeout });
      assert.equal(error?.code, 'deadline_exceeded');
      failed = error?.stage;
    }
    await gate.open();
  });
});

describe('messages: Complete nodes', () => {
  test('fire once per message, also for a failed message', async () => {
    await deploy(
      batcher('batch', 'one'),
      stage('one', 'if (input < 0) throw new Error(`below`); return input;', 'collect'),
      collector('collect', 'end', 'error'),
      sink('end'),
      sink('error'),
      completeNode('complete', ['batch', 'one', 'collect'], 'completed'),
      sink('completed'),
    );
    const [completed, ends, errors] = ['completed', 'end', 'error'].map((id) => nodeRed.inputs(id)) as Message[][];
    for (const payload of [1, -2, 3]) nodeRed.send('batch', { payload, number: payload });
    await until('all are through', () => ends?.length === 2 && errors?.length === 1);
    // The batcher accepted all three; the collector took the two results; the stage accepted none.
    const sources = (): string[] =>
      (completed ?? []).map((msg) => `${(msg['complete'] as { source: { id: string } }).source.id} ${msg['number']}`);
    await until('all are complete', () => sources().length >= 5);
    assert.deepEqual(sources().sort(), ['batch -2', 'batch 1', 'batch 3', 'collect 1', 'collect 3']);
  });

  test('a watched stage in the middle completes after its run, and ends the chain there', async () => {
    // New stages: the code of an earlier test would serve until new workers are ready.
    await deploy(
      stage('first', 'return input + 1;', 'watched'),
      stage('watched', 'return input + 1;', 'last'),
      stage('last', 'return input + 1;', 'end'),
      sink('end'),
      completeNode('complete', ['watched'], 'completed'),
      sink('completed'),
    );
    const completed = nodeRed.inputs('completed');
    assert.equal((await pass('first', 'end', { payload: 0 })).payload, 3);
    await until('the Complete node has told', () => completed.length > 0);
    // With what it made of the message.
    const told = completed.map(({ payload }) => payload);
    assert.deepEqual(told, [2]);
  });
});

describe('messages: between core nodes', () => {
  test('split -> stages -> join gives the array in its order', async () => {
    const parts = { splt: '\\n', spltType: 'str', arraySplt: 1, arraySpltType: 'len' };
    await deploy(
      node('split', 'split', ['slow first'], parts),
      stage('slow first', 'await new Promise((resolve) => setTimeout(resolve, 20 - input)); return input;', 'batch', {
        workers: '2',
      }),
      batcher('batch', 'square', { maxBatchSize: '4' }),
      stage('square', 'return input.map((value) => value * value);', 'collect', { predict: 'batch' }),
      collector('collect', 'join'),
      node('join', 'join', ['end'], { mode: 'auto', build: 'array', property: 'payload', propertyType: 'msg' }),
      sink('end'),
    );
    const numbers = Array.from({ length: 20 }, (_, index) => index);
    const joined = await pass('split', 'end', { payload: numbers, topic: 'kept' });
    assert.deepEqual(
      joined.payload,
      numbers.map((value) => value * value),
    );
    assert.equal(joined['parts'], undefined);
  });

  test('a debug node on the wire between two stages sees the value there and does not break the chain', async () => {
    await deploy(
      stage('one', 'return input + 1;', ['two', 'looks on']),
      stage('two', 'return input * 10;', 'end'),
      sink('looks on'),
      sink('end'),
    );
    const seen = nodeRed.inputs('looks on');
    const result = await pass('one', 'end', { payload: 1, topic: 'kept' });
    assert.equal(result.payload, 20);
    const copy = await until('the copy is there', () => seen[0]);
    assert.notEqual(copy, result);
    assert.deepEqual([copy.payload, copy['topic']], [2, 'kept']);
    assert.deepEqual((await nodeRed.snapshot()).routes.find(({ entry }) => entry === 'one')?.stages, ['one', 'two']);
  });

  test('junctions and link nodes between two stages do not break the chain', async () => {
    await deploy(
      stage('one', 'return input + 1;', 'junction'),
      node('junction', 'junction', ['out']),
      node('out', 'link out', [], { mode: 'link', links: ['in'] }),
      node('in', 'link in', ['two'], { links: ['out'] }),
      stage('two', 'return input * 10;', 'end'),
      sink('end'),
    );
    assert.equal((await pass('one', 'end', { payload: 1 })).payload, 20);
    assert.deepEqual((await nodeRed.snapshot()).routes.find(({ entry }) => entry === 'one')?.stages, ['one', 'two']);
  });

  test('a stage in a subflow serves each of its instances', async () => {
    const inner = { ...stage('inner', 'return input * 2;', []), z: 'sub' };
    await deploy(
      {
        id: 'sub',
        type: 'subflow',
        name: 'doubles',
        in: [{ wires: [{ id: 'inner' }] }],
        out: [{ wires: [{ id: 'inner', port: 0 }] }],
      },
      inner,
      node('first', 'subflow:sub', ['after']),
      stage('after', 'return input + 1;', 'end'),
      node('second', 'subflow:sub', ['end']),
      sink('end'),
    );
    assert.equal((await pass('first', 'end', { payload: 4 })).payload, 9);
    assert.equal((await pass('second', 'end', { payload: 4 })).payload, 8);
  });
});

describe('messages: timeout and priority', () => {
  before(async () => {
    await gate.close();
    await deploy(
      stage('held', gate.code(), 'collect'),
      collector('collect', 'end', 'error'),
      sink('end'),
      sink('error'),
    );
    nodeRed.send('held', { payload: 'at work' });
    await until('the first is at work', async () => (await gate.entered()).length === 1);
  });

  test('msg.timeout in ms ends the wait of a message that would wait for ever', async () => {
    const error = await pass('held', 'error', { payload: 'impatient', timeout: 50 });
    assert.equal(error.error?.code, 'deadline_exceeded');
    assert.equal(error['statusCode'], 408);
  });

  test('the waiting message with the highest msg.priority goes first, then the oldest; an expired one never', async () => {
    const [ends, errors] = [nodeRed.inputs('end'), nodeRed.inputs('error')];
    nodeRed.send('held', { payload: 'late', timeout: 50 });
    nodeRed.send('held', { payload: 'low', priority: -1 });
    nodeRed.send('held', { payload: 'first' });
    nodeRed.send('held', { payload: 'second', priority: 'none' });
    nodeRed.send('held', { payload: 'high', priority: '5', timeout: true });
    await until('one has expired while it waited', () => errors.length === 1);
    await gate.open();
    await until('all others are through', () => ends.length === 5);
    assert.deepEqual(await gate.entered(), ['at work', 'high', 'first', 'second', 'low']);
  });
});

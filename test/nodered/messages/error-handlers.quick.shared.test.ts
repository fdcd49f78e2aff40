/**
 * Exactly one handler gets an error: a collector's catch output, or Node-RED's Catch nodes.
 * Shows: node modelet-collector.
 */
import assert from 'node:assert/strict';
import { before, beforeEach, describe, test } from 'node:test';
import { batcher, catchNode, collector, completeNode, func, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const FAIL = `if (input.fail === ctx.stage) throw Object.assign(new Error('told to fail'), { code: input.code });
  return { ...input, seen: [...(input.seen ?? []), ctx.stage] };`;

const nodeRed = useNodeRed();

function failing(id: string, to: string | readonly string[]): FlowNode {
  return stage(id, FAIL, to);
}

/** The error of a message, and the value that failed. */
function failureOf(msg: Message | undefined): NonNullable<Message['error']> & { input: unknown } {
  assert.ok(msg?.error && msg.modelet);
  return { ...msg.error, input: (msg.modelet as { input?: unknown }).input };
}

interface Ends {
  readonly results: Message[];
  readonly errors: Message[];
  readonly caught: Message[];
}

/** Deploys `nodes` with a Catch node beside them, and listens at the three ends a message may come to. */
async function deploy(nodes: readonly FlowNode[], more: readonly FlowNode[] = []): Promise<Ends> {
  const ends = ['results', 'errors', 'caught'].map(sink);
  await nodeRed.deployReady([TAB, runtime(), ...nodes, catchNode('catch', 'caught'), ...ends, ...more]);
  return {
    results: nodeRed.inputs('results'),
    errors: nodeRed.inputs('errors'),
    caught: nodeRed.inputs('caught'),
  };
}

/** Resolves when a message that was sent later has come through: whatever the first one led to has arrived. */
async function settle({ results }: Ends, entry: string): Promise<void> {
  const before = results.length;
  nodeRed.send(entry, { payload: {}, topic: 'later' });
  await until('the later message is through', () => results.slice(before).some(({ topic }) => topic === 'later'));
}

describe('error handlers: the catch output', () => {
  let ends: Ends;
  before(async () => {
    ends = await deploy([failing('root', 'collect'), collector('collect', 'results', 'errors')]);
  });

  test('gets the error, once, and Catch nodes do not', async () => {
    nodeRed.send('root', { payload: { fail: 'root' } });
    await settle(ends, 'root');
    assert.equal(ends.errors.length, 1);
    assert.equal(ends.caught.length, 0);
  });

  test('gets the original message, with a body for a client and the failed value', async () => {
    const foreign = { kept: true };
    const msg = { payload: { fail: 'root', code: 'invalid_input' }, foreign, topic: 'mine' };
    const input = msg.payload;
    nodeRed.send('root', msg);
    await settle(ends, 'root');
    const error = ends.errors.at(-1);
    assert.equal(error, msg);
    assert.equal(error?.['foreign'], foreign);
    assert.equal(error?.['topic'], 'mine');
    assert.equal(error?.['statusCode'], 422);
    const { code, stage: at, source, stack, requestId, input: kept } = failureOf(error);
    assert.deepEqual(error?.payload, {
      error: { code: 'invalid_input', message: 'told to fail', stage: 'root', requestId },
    });
    assert.equal(kept, input);
    assert.deepEqual([code, at], ['invalid_input', 'root']);
    assert.deepEqual(source, { id: 'root', type: 'modelet-stage', name: 'root', count: 1 });
    // The stack names the tab of the dialog and the line in it.
    assert.match(stack ?? '', /root: Predict:1:/);
  });

  test('the same message has no error after its next success', async () => {
    const msg: Record<string, unknown> = { payload: { fail: 'root' } };
    nodeRed.send('root', msg);
    await until('it has failed', () => ends.errors.includes(msg as unknown as Message));
    msg['payload'] = { again: true };
    nodeRed.send('root', msg);
    await until('it has come through', () => ends.results.includes(msg as unknown as Message));
    assert.equal(Object.hasOwn(msg, 'error'), false);
    assert.equal(Object.hasOwn(msg, 'statusCode'), false);
    assert.equal(Object.hasOwn(msg['modelet'] as object, 'input'), false);
  });
});

describe('error handlers: Catch nodes', () => {
  const passedOver: readonly (readonly [why: string, nodes: FlowNode[]])[] = [
    ['there is no collector', [failing('root', 'results')]],
    ['the catch output is not wired', [failing('root', 'collect'), collector('collect', 'results')]],
    ['catch is off', [failing('root', 'collect'), collector('collect', 'results', 'errors', { catch: 'off' })]],
    [
      'two collectors are equally near',
      [
        failing('root', ['collect', 'other']),
        collector('collect', 'results', 'errors'),
        collector('other', [], 'errors'),
      ],
    ],
  ];
  for (const [why, nodes] of passedOver) {
    test(`get the error once when ${why}`, async () => {
      const ends = await deploy(nodes);
      const payload = { fail: 'root', code: 'invalid_input' };
      nodeRed.send('root', { payload, foreign: 'kept' });
      await settle(ends, 'root');
      assert.equal(ends.errors.length, 0);
      assert.equal(ends.caught.length, 1);
      const [caught] = ends.caught;
      assert.deepEqual(caught?.payload, payload);
      assert.equal(caught?.['foreign'], 'kept');
      assert.equal(caught?.['statusCode'], 422);
      assert.equal(caught?.error?.code, 'invalid_input');
      assert.match(caught?.error?.message ?? '', /told to fail/);
      assert.deepEqual(caught?.error?.source, { id: 'root', type: 'modelet-stage', name: 'root', count: 1 });
    });
  }

  test('two Catch nodes get the error once each, as in core, and a Catch node for uncaught errors does not', async () => {
    const ends = await deploy(
      [failing('root', 'results')],
      [
        catchNode('second', 'also caught', { scope: ['root'] }),
        sink('also caught'),
        catchNode('left over', 'uncaught', { uncaught: true }),
        sink('uncaught'),
      ],
    );
    const also = nodeRed.inputs('also caught');
    const uncaught = nodeRed.inputs('uncaught');
    nodeRed.send('root', { payload: { fail: 'root' } });
    await settle(ends, 'root');
    assert.deepEqual([ends.caught.length, also.length, uncaught.length], [1, 1, 0]);
  });

  test('a caught message has no error after its next success', async () => {
    const ends = await deploy(
      [failing('root', 'results')],
      [
        catchNode('retry', 'mend', { scope: ['root'] }),
        func('mend', 'msg.payload = { mended: true }; return msg;', 'root'),
      ],
    );
    nodeRed.send('root', { payload: { fail: 'root' } });
    const mended = await until('it has come through', () => ends.results[0]);
    assert.deepEqual(mended.payload, { mended: true, seen: ['root'] });
    assert.equal(mended['statusCode'], undefined);
    assert.equal(mended.error, undefined);
  });

  test('a message that fails for ever at the same node is stopped as in core', async () => {
    const ends = await deploy([failing('root', 'results')], [catchNode('retry', 'root', { scope: ['root'] })]);
    nodeRed.send('root', { payload: { fail: 'root' } });
    await until('the loop is reported', () =>
      nodeRed.logs.some((line) => /exceeded maximum number of catches/.test(line)),
    );
    await settle(ends, 'root');
    assert.equal(ends.caught.length, 9);
  });
});

describe('error handlers: in a chain', () => {
  let ends: Ends;
  let near: Message[];
  before(async () => {
    ends = await deploy(
      [
        failing('one', 'batch'),
        batcher('batch', 'two'),
        failing('two', 'near'),
        collector('near', 'three', 'near errors'),
        failing('three', 'far'),
        collector('far', 'results', 'errors'),
      ],
      [sink('near errors')],
    );
  });
  beforeEach(() => {
    near = nodeRed.inputs('near errors');
    ends.errors.length = 0;
  });

  for (const name of ['one', 'two']) {
    test(`the nearest collector behind stage ${name} gets its error`, async () => {
      nodeRed.send('one', { payload: { fail: name } });
      await settle(ends, 'one');
      assert.equal(near.length, 1);
      assert.equal(ends.errors.length, 0);
      assert.equal(near[0]?.error?.stage, name);
      assert.equal(near[0]?.error?.source.id, name);
      assert.deepEqual(failureOf(near[0]).input, { fail: name, ...(name === 'two' ? { seen: ['one'] } : {}) });
    });
  }

  test('a stage behind that collector has a separate collector, and the request keeps its id', async () => {
    nodeRed.send('one', { payload: { fail: 'three' } });
    await settle(ends, 'one');
    assert.equal(near.length, 0);
    assert.equal(ends.errors.length, 1);
    const [error] = ends.errors;
    assert.equal(error?.error?.stage, 'three');
    assert.deepEqual(
      error?.modelet?.stages.map(({ name }) => name),
      ['one', 'two', 'three'],
    );
    assert.equal(error?.error?.requestId, error?.modelet?.requestId);
    // The input of stage three, not that of stage one.
    assert.deepEqual(failureOf(error).input, { fail: 'three', seen: ['one', 'two'] });
    assert.equal(ends.caught.length, 0);
  });
});

describe('error handlers: errorPayload keep', () => {
  test('leaves the payload unchanged, as Catch nodes get it', async () => {
    const ends = await deploy([
      failing('root', 'collect'),
      collector('collect', 'results', 'errors', { errorPayload: 'keep' }),
    ]);
    const payload = { fail: 'root' };
    nodeRed.send('root', { payload });
    await settle(ends, 'root');
    assert.equal(ends.errors[0]?.payload, payload);
    assert.equal(ends.errors[0]?.error?.code, 'modelet_failed');
  });
});

describe('error handlers: under load', () => {
  test('each of 300 messages ends once, at its own end, and is complete', async () => {
    const ends = await deploy(
      [
        batcher('batch', 'root', { maxBatchSize: '16' }),
        failing('root', 'collect'),
        collector('collect', 'results', 'errors'),
      ],
      [completeNode('complete', ['batch'], 'completed'), sink('completed')],
    );
    const completed = nodeRed.inputs('completed');
    for (let index = 0; index < 300; index += 1) {
      nodeRed.send('batch', { payload: { fail: index % 3 === 0 ? 'root' : 'none' }, index });
    }
    await until('all have ended', () => ends.results.length + ends.errors.length === 300);
    await until('all are complete', () => completed.length === 300);
    const ended = [...ends.results, ...ends.errors].map((msg) => msg['index'] as number);
    assert.deepEqual(
      ended.sort((a, b) => a - b),
      Array.from({ length: 300 }, (_, index) => index),
    );
    assert.ok(ends.errors.every((msg) => (msg['index'] as number) % 3 === 0));
    assert.equal(ends.errors.length, 100);
    assert.equal(ends.caught.length, 0);
  });
});

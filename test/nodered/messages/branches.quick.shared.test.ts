/**
 * Branches of one message, through stages of one or two runtimes, meet in the node that gathers them.
 * Shows: node modelet-join.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { arrived, gather, join, noting, payloads, sendAll, split, whenIdle } from '../../fixtures/drawn.ts';
import {
  batcher,
  catchNode,
  collector,
  completeNode,
  func,
  httpIn,
  httpOut,
  runtime,
  sink,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();
const gate = useGate();

/** Fails, waits for the gate, or takes its time, if the input says so by the stage's name. */
const OBEY = `
  const order = input?.[ctx.stage];
  if (order === 'fail') throw new Error('told to fail');
  if (order === 'refuse') throw Object.assign(new Error('not like this'), { code: 'invalid_input' });
  if (order === 'hold') await (async () => {${gate.code()}})();
  if (typeof order === 'number') await new Promise((resolve) => setTimeout(resolve, order));
  return { by: ctx.stage, n: input.n };`;

interface Ends {
  readonly results: Message[];
  readonly errors: Message[];
  readonly caught: Message[];
}

/** `[fan] -> a, b, c -> [id]`; `c` belongs to another runtime. */
async function deploy(id: string, properties: object, more: readonly FlowNode[] = []): Promise<Ends> {
  await red.deployReady([
    TAB,
    runtime(),
    runtime('other'),
    func('fan', 'return msg;', ['a', 'b', 'c']),
    stage('a', OBEY, id),
    stage('b', OBEY, id),
    stage('c', OBEY, id, { runtime: 'other' }),
    gather(id, 'results', 'errors', properties),
    catchNode('catch', 'caught'),
    ...['results', 'errors', 'caught'].map(sink),
    ...more,
  ]);
  return { results: red.inputs('results'), errors: red.inputs('errors'), caught: red.inputs('caught') };
}

/** Resolves when the badge of a gathering node begins with these words. */
async function badge(id: string, words: string): Promise<void> {
  await until(`the badge says ${words}`, () => red.badges.get(id)?.text?.startsWith(words));
}

describe('branches: all of them', () => {
  let ends: Ends;
  before(async () => {
    ends = await deploy('gather', {});
  });

  test('meet in one message, each result under the name of its stage', async () => {
    sendAll(red, 'fan', [{ n: 1 }], { topic: 'mine' });
    const [msg] = await arrived(ends.results, 1);
    assert.deepEqual(msg?.payload, { a: { by: 'a', n: 1 }, b: { by: 'b', n: 1 }, c: { by: 'c', n: 1 } });
    assert.equal(msg?.['topic'], 'mine');
    assert.deepEqual(msg?.['branches'], { a: { ok: true }, b: { ok: true }, c: { ok: true } });
    const { stages = [] } = (msg?.modelet ?? {}) as { stages?: { name: string }[] };
    assert.deepEqual(stages.map(({ name }) => name).sort(), ['a', 'b', 'c']);
  });

  test('of many messages never mix', async () => {
    const before = ends.results.length;
    const sent = Array.from({ length: 200 }, (_, n) => ({ n, [['a', 'b', 'c'][n % 3] as string]: n % 7 }));
    sendAll(red, 'fan', sent);
    await until('all are through', () => ends.results.length === before + sent.length);
    for (const msg of ends.results.slice(before)) {
      const numbers = Object.values(msg.payload as Record<string, { n: number }>).map(({ n }) => n);
      assert.equal(numbers.length, 3);
      assert.equal(new Set(numbers).size, 1);
    }
    await badge('gather', 'idle');
  });

  test('are one error if one of them fails, and the others are dropped', async () => {
    const before = ends.results.length;
    sendAll(red, 'fan', [{ n: 2, a: 'hold', b: 'refuse', c: 'hold' }]);
    const [msg] = await arrived(ends.errors, 1);
    await gate.open();
    assert.equal(msg?.error?.code, 'invalid_input');
    assert.equal(msg?.error?.stage, 'b');
    assert.match(String(msg?.error?.message), /^branch b: not like this/);
    assert.equal(msg?.['statusCode'], 422);
    await whenIdle(red);
    await badge('gather', 'idle, 2 late');
    assert.equal(ends.errors.length, 1);
    assert.equal(ends.results.length, before);
    assert.equal(ends.caught.length, 0);
  });
});

describe('branches: the items of a list', () => {
  /** A crop that says how to fail, as a model may. */
  const ONE = `
    if (input === 'fail') throw new Error('told to fail');
    return Buffer.isBuffer(input) ? input.toString() : { read: input };`;
  const LIST = { mode: 'list', maxItems: '50' };
  let ends: Ends;
  let byFlow: Message[];
  before(async () => {
    await red.deployReady([
      TAB,
      runtime(),
      stage('detect', 'return input.boxes;', 'batcher', { emits: 'list' }),
      batcher('batcher', 'read', { maxBatchSize: '4' }),
      stage('read', ONE, 'gather'),
      gather('gather', 'results', 'errors', LIST),
      func('in pairs', 'return msg;', 'detect2'),
      stage('detect2', 'return input.boxes;', 'read2', { emits: 'list' }),
      stage('read2', ONE, 'gather2'),
      gather('gather2', 'pairs', 'errors', { ...LIST, form: 'pairs', partial: 'keep' }),
      stage('detect3', 'return input.boxes;', 'split', { emits: 'list' }),
      split('split', 'read3'),
      stage('read3', ONE, 'join'),
      join('join', 'flow'),
      stage('alone', ONE, 'lost'),
      gather('lost', 'results', 'errors', LIST),
      catchNode('catch', 'caught'),
      ...['results', 'pairs', 'errors', 'flow', 'caught'].map(sink),
    ]);
    ends = { results: red.inputs('results'), errors: red.inputs('errors'), caught: red.inputs('caught') };
    byFlow = red.inputs('flow');
  });

  test('pass the next stage in batches, and give what core split and join give', async () => {
    const lists = [[1], ['a', null, { x: [2] }], Array.from({ length: 40 }, (_, n) => n), [Buffer.from('crop'), 'b']];
    for (const boxes of lists) for (const first of ['detect', 'detect3']) red.send(first, { payload: { boxes } });
    await until('all are through', () => ends.results.length === 4 && byFlow.length === 4);
    const texts = (messages: Message[]): string[] => messages.map(({ payload }) => JSON.stringify(payload)).sort();
    assert.deepEqual(texts(ends.results), texts(byFlow));
    const { routes } = (await red.snapshot()) as unknown as { routes: { entry: string; stages: string[] }[] };
    assert.equal(routes.find(({ entry }) => entry === 'detect')?.stages.length, 2);
  });

  test('of an empty list are an empty array', async () => {
    const before = ends.results.length;
    red.send('detect', { payload: { boxes: [] } });
    await until('it is through', () => ends.results.length > before);
    assert.deepEqual(ends.results.at(-1)?.payload, []);
  });

  test('stand beside their results, and a failed one has none and says why', async () => {
    const pairs = red.inputs('pairs');
    red.send('in pairs', { payload: { boxes: [1, 'fail', 2] } });
    const [msg] = await arrived(pairs, 1);
    assert.deepEqual(msg?.payload, [
      { item: 1, result: { read: 1 } },
      { item: 'fail', result: null },
      { item: 2, result: { read: 2 } },
    ]);
    assert.deepEqual(msg?.['branches'], { 1: { ok: false, code: 'modelet_failed', message: 'told to fail' } });
  });

  test('fail the list if one of them fails, as do a result that is no list and a list that is too long', async () => {
    const texts: string[] = [];
    for (const boxes of [[1, 'fail'], 'none', Array(51).fill(0)]) {
      const before = ends.errors.length;
      red.send('detect', { payload: { boxes } });
      await until('it has failed', () => ends.errors.length > before);
      texts.push(`${ends.errors.at(-1)?.error?.code}: ${ends.errors.at(-1)?.error?.message}`);
    }
    assert.match(texts[0] ?? '', /^modelet_failed: item 1: told to fail/);
    assert.match(texts[1] ?? '', /^modelet_failed: the stage emits lists, and its result is a value of type string/);
    assert.match(texts[2] ?? '', /^modelet_failed: the list has 51 items; the limit is 50 items/);
  });

  test('come to a node only from a stage that emits lists: the node says so', async () => {
    const { invalid } = await red.snapshot();
    assert.match(invalid['lost'] ?? '', /only the engine gathers the items of lists/);
  });
});

describe('branches: not all of them', () => {
  test('with partial results, the message says which failed and which did not come, and why', async () => {
    const { results } = await deploy('keeps', { partial: 'keep', timeoutMs: '3000' });
    sendAll(red, 'fan', [{ n: 1, b: 'fail', c: 'hold' }]);
    const [msg] = await arrived(results, 1);
    await gate.open();
    assert.deepEqual(msg?.payload, { a: { by: 'a', n: 1 } });
    assert.deepEqual(msg?.['branches'], {
      a: { ok: true },
      b: { ok: false, code: 'modelet_failed', message: 'told to fail' },
      c: { ok: false, code: 'deadline_exceeded', message: 'no result came in time' },
    });
    assert.equal(msg?.error, undefined);
    await badge('keeps', 'idle, 1 late');
  });

  test('the first result leaves as it is, whatever becomes of the others', async () => {
    const { results, errors } = await deploy('fastest', { mode: 'first' });
    sendAll(red, 'fan', [{ n: 1, a: 'fail', b: 'hold', c: 'hold' }]);
    // The failure has come.
    await badge('fastest', '1 in progress');
    await gate.open();
    const [msg] = await arrived(results, 1);
    assert.equal((msg?.payload as { n?: number } | undefined)?.n, 1);
    await badge('fastest', 'idle, 1 late');
    sendAll(red, 'fan', [{ n: 2, a: 'fail', b: 'fail', c: 'fail' }]);
    await arrived(errors, 1);
    assert.equal(results.length, 1);
  });

  test('a quorum is more than half by default, and an error as soon as it cannot be reached', async () => {
    const { results, errors } = await deploy('votes', { mode: 'quorum' });
    sendAll(red, 'fan', [{ n: 1, c: 'fail' }]);
    const [msg] = await arrived(results, 1);
    assert.deepEqual(Object.keys(msg?.payload as object).sort(), ['a', 'b']);
    sendAll(red, 'fan', [{ n: 2, a: 'hold', b: 'fail', c: 'fail' }]);
    await arrived(errors, 1);
    await gate.open();
    await whenIdle(red);
  });

  test('a key names branches that pass the same stage; a branch that comes twice counts once', async () => {
    const set = (id: string, key: string): FlowNode => func(id, `msg.model = '${key}'; return msg;`, 'one');
    const { results } = await deploy('keyed', { key: 'model', quorum: '2' }, [
      func('keys', 'return msg;', ['x', 'x again', 'y']),
      set('x', 'x'),
      set('x again', 'x'),
      func('y', "msg.model = 'y'; setTimeout(() => node.send(msg), 100);", 'one'),
      noting('one', 'keyed'),
    ]);
    sendAll(red, 'keys', [[]]);
    await arrived(results, 1);
    assert.deepEqual(payloads(results), [{ x: ['one'], y: ['one'] }]);
    await badge('keyed', 'idle, 1 twice');
  });
});

describe('branches: nodes around them', () => {
  test('an error in front of the fan-out ends all branches, a gather may be a branch, and loops come again', async () => {
    const { results, errors } = await deploy('behind', {}, [
      stage('front', OBEY, ['a', 'b', 'c']),
      noting('p', 'inner'),
      noting('q', ['inner', 'outer']),
      gather('inner', 'outer', [], { name: 'inner', mode: 'first' }),
      gather('outer', 'again', 'errors', { name: 'outer' }),
      func(
        'again',
        'msg.count = (msg.count ?? 0) + 1; return msg.count < 3 ? [msg, null] : [null, msg];',
        'loop',
        'results',
      ),
      func('loop', 'msg.payload = []; return msg;', ['p', 'q']),
    ]);
    sendAll(red, 'loop', [[]]);
    const [msg] = await arrived(results, 1);
    assert.deepEqual(Object.keys(msg?.payload as object).sort(), ['inner', 'q']);
    assert.equal(msg?.['count'], 3);
    sendAll(red, 'front', [{ front: 'refuse' }]);
    await arrived(errors, 1);
    assert.equal(errors[0]?.error?.code, 'invalid_input');
    assert.equal(errors[0]?.error?.stage, 'front');
  });

  test('a Catch node may give a branch another result', async () => {
    const { results } = await deploy('mends', {}, [
      func('front', 'return msg;', ['a', 'd']),
      stage('d', OBEY, 'breaks'),
      func('breaks', 'throw new Error("broken");', 'mends'),
      catchNode('mind', 'instead', { scope: ['breaks'] }),
      func('instead', 'msg.payload = "instead"; return msg;', 'mends'),
      func('rest', 'return msg;', ['b', 'c']),
      func('both', 'return msg;', ['front', 'rest']),
    ]);
    sendAll(red, 'both', [{ n: 1 }]);
    const [msg] = await arrived(results, 1);
    const { payload, branches } = (msg ?? {}) as { payload?: { d?: unknown }; branches?: { d?: unknown } };
    assert.equal(payload?.d, 'instead');
    assert.deepEqual(branches?.d, { ok: true });
  });

  test('without a wire at its second output, the next collector gets the error, else Catch nodes', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      func('fan', 'return msg;', ['a', 'b']),
      stage('a', OBEY, 'gather'),
      stage('b', OBEY, 'gather'),
      gather('gather', 'collect'),
      collector('collect', 'results', 'errors'),
      gather('unwired', [], [], { name: 'unwired' }),
      stage('lone', OBEY, 'unwired'),
      catchNode('catch', 'caught'),
      ...['results', 'errors', 'caught'].map(sink),
    ]);
    const [errors, atCatch] = [red.inputs('errors'), red.inputs('caught')];
    sendAll(red, 'fan', [{ a: 'fail' }]);
    await arrived(errors, 1);
    sendAll(red, 'lone', [{ lone: 'fail' }]);
    const [msg] = await arrived(atCatch, 1);
    assert.equal((msg as { _error?: { code: string } })._error?.code, 'modelet_failed');
  });
});

describe('branches: over HTTP', () => {
  /** @param compiled whether the engine gathers: a Complete node at the gathering node leaves that to Node-RED */
  async function deployHttp(name: string, compiled = true): Promise<void> {
    await red.deployReady([
      TAB,
      runtime(),
      httpIn('in', '/vote', ['a', 'b']),
      stage('a', OBEY, 'gather'),
      stage('b', OBEY, 'gather'),
      gather('gather', 'out', 'out', { name }),
      httpOut('out'),
      ...(compiled ? [] : [completeNode('complete', ['gather'], [])]),
    ]);
  }

  test('the client gets all results, or the error of the branch', async () => {
    for (const compiled of [true, false]) {
      await deployHttp('gather', compiled);
      const { endpoints } = (await red.snapshot()) as unknown as { endpoints: { reason: string | null }[] };
      assert.equal(endpoints[0]?.reason === null, compiled, String(endpoints[0]?.reason));
      const answer = await red.post('/vote', { n: 1 });
      assert.deepEqual(await answer.json(), { a: { by: 'a', n: 1 }, b: { by: 'b', n: 1 } });
      const refused = await red.post('/vote', { n: 1, a: 'refuse' });
      assert.equal(refused.status, 422);
      const { error } = (await refused.json()) as { error: { message: string; stage: string } };
      assert.equal(error.stage, 'a');
      assert.match(error.message, /branch a: not like this/);
    }
  });

  test('the client hears that a message lacks what should hold the key of its branch', async () => {
    await red.deploy([
      TAB,
      httpIn('in', '/keyless', 'gather'),
      gather('gather', 'out', 'out', { key: 'source.name', quorum: '2' }),
      httpOut('out'),
    ]);
    const answer = await red.post('/keyless', {}, { signal: AbortSignal.timeout(20_000) });
    assert.equal(answer.status, 422);
    const { error } = (await answer.json()) as { error: { message: string } };
    assert.match(error.message, /unknown branch: msg\.source\.name is no text and no number/);
  });

  test('a client that goes away leaves no gather behind', async () => {
    for (const compiled of [true, false]) {
      await deployHttp('gather', compiled);
      const leave = new AbortController();
      const gone = fetch(new URL('/vote', red.url), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n: 1, b: 'hold' }),
        signal: leave.signal,
      }).catch(() => 'gone');
      await badge('gather', '1 in progress');
      leave.abort();
      assert.equal(await gone, 'gone');
      await badge('gather', 'idle');
      await gate.open();
      await gate.close();
    }
  });

  test('a deploy keeps gathers of a node that stays as it is, and answers those of a node that changes', async () => {
    const held = { n: 1, b: 'hold' };
    await deployHttp('gather', false);
    const kept = red.post('/vote', held);
    await badge('gather', '1 in progress');
    await deployHttp('gather', false);
    await gate.open();
    assert.equal((await kept).status, 200);
    await badge('gather', 'idle');
    await gate.close();
    const ended = red.post('/vote', held);
    await badge('gather', '1 in progress');
    await deployHttp('renamed', false);
    const answer = await ended;
    assert.equal(answer.status, 503);
    assert.equal(((await answer.json()) as { error: { code: string } }).error.code, 'shutting_down');
    await gate.open();
    await badge('gather', 'idle');
  });

  test('a deploy keeps every gather in the engine, even if the node changes', async () => {
    await deployHttp('gather');
    const kept = red.post('/vote', { n: 1, b: 'hold' });
    await badge('gather', '1 in progress');
    await deployHttp('renamed');
    await gate.open();
    assert.equal((await kept).status, 200);
    await badge('gather', 'idle');
  });
});

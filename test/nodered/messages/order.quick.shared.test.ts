/** A collector that keeps the order of arrival: whatever becomes of some requests, the results of the others keep it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { arrived, numbers, payloads, queueOf, sendAll, split, whenIdle } from '../../fixtures/drawn.ts';
import { batcher, collector, endpoint, httpIn, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { engineUrl, type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();
const gate = useGate();

/** `{ n, ms, fate }`: takes its time, then fails or gives `n`. A request that expires is not answered before that. */
const TAKE_TIME = `
  if (input.fate === 'expires' && !ctx.signal.aborted)
    await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
  await new Promise((resolve) => setTimeout(resolve, input.ms));
  if (input.fate === 'fails') throw new Error('fails');
  return input.n;`;

const ENDS = [sink('out'), sink('failed')];

function inOrder(order = 'arrival'): FlowNode[] {
  return [collector('collect', 'out', 'failed', { order }), ...ENDS];
}

async function deploy(...flows: FlowNode[]): Promise<{ out: Message[]; failed: Message[]; collected: Message[] }> {
  await red.deployReady([TAB, runtime(), ...flows]);
  return { out: red.inputs('out'), failed: red.inputs('failed'), collected: red.inputs('collect') };
}

type Fate = 'succeeds' | 'fails' | 'expires';
const requests = fc.array(
  fc.record({
    ms: fc.integer({ min: 0, max: 12 }),
    fate: fc.constantFrom<Fate>('succeeds', 'succeeds', 'succeeds', 'fails', 'expires'),
  }),
  { minLength: 5, maxLength: 40 },
);

describe('order of arrival', () => {
  test('holds over random times, with requests that fail and expire in between', async () => {
    const { out, failed } = await deploy(stage('work', TAKE_TIME, 'collect', { workers: '3' }), ...inOrder());
    await fc.assert(
      fc.asyncProperty(requests, async (all) => {
        out.length = 0;
        failed.length = 0;
        for (const [n, { ms, fate }] of all.entries()) {
          const expires = fate === 'expires';
          red.send('work', { payload: { n, fate, ms }, n, ...(expires ? { timeout: 5 } : {}) });
        }
        await until('all have ended', () => out.length + failed.length >= all.length);
        const lost = new Set(failed.map((msg) => msg['n']));
        assert.deepEqual(
          payloads(out),
          numbers(all.length).filter((n) => !lost.has(n)),
        );
        for (const [n, { fate }] of all.entries()) assert.equal(lost.has(n), fate !== 'succeeds');
      }),
      { numRuns: 15 },
    );
  });

  test('order of completion sends each result at once', async () => {
    const { out } = await deploy(
      stage('hold', gate.code(), 'collect'),
      stage('quick', 'return input;', 'collect'),
      ...inOrder('completion'),
    );
    red.send('hold', { payload: 'first' });
    sendAll(red, 'quick', [1, 2, 3]);
    assert.deepEqual(payloads(await arrived(out, 3)), [1, 2, 3]);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 4)), [1, 2, 3, 'first']);
  });

  /** Results that came to the collector and wait there for the first. */
  async function waitBehind(collected: Message[], out: Message[]): Promise<void> {
    sendAll(red, 'quick', [1, 2, 3]);
    assert.deepEqual(payloads(await arrived(collected, 3)), [1, 2, 3]);
    assert.equal(out.length, 0);
  }

  test('results behind a slow request wait for it and leave after it', async () => {
    const { out, collected } = await deploy(
      stage('hold', gate.code(), 'collect'),
      stage('quick', 'return input;', 'collect'),
      ...inOrder(),
    );
    red.send('hold', { payload: 'first' });
    await waitBehind(collected, out);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 4)), ['first', 1, 2, 3]);
  });

  test('results do not wait for an expired request', async () => {
    const { out, failed } = await deploy(
      stage('hold', gate.code(), 'collect'),
      stage('quick', 'return input;', 'collect'),
      ...inOrder(),
    );
    red.send('hold', { payload: 'first', timeout: 200 });
    sendAll(red, 'quick', [1, 2, 3]);
    assert.deepEqual(payloads(await arrived(out, 3)), [1, 2, 3]);
    assert.equal(failed[0]?.error?.code, 'deadline_exceeded');
    await gate.open();
    await whenIdle(red);
    assert.equal(out.length, 3);
  });

  test('results do not wait for a request whose HTTP client has gone', async () => {
    const { out, collected, failed } = await deploy(
      httpIn('in', '/first', 'hold'),
      stage('hold', gate.code(), 'collect'),
      stage('quick', 'return input;', 'collect'),
      ...inOrder(),
    );
    const client = new AbortController();
    const response = red.post('/first', {}, { signal: client.signal }).catch((error: Error) => error.name);
    await until('it is being worked on', async () => (await gate.entered()).length === 1);
    await waitBehind(collected, out);
    client.abort();
    assert.deepEqual(payloads(await arrived(out, 3)), [1, 2, 3]);
    assert.equal(await response, 'AbortError');
    await gate.open();
    await whenIdle(red);
    assert.deepEqual([out.length, failed.length], [3, 0]);
  });

  test('results do not wait for dropped requests', async () => {
    const { out, collected, failed } = await deploy(
      batcher('batch', 'never', { policy: 'oldest', maxWaitMs: '60000', maxBatchSize: '100' }),
      stage('never', 'return input;', 'collect'),
      stage('quick', 'return input;', 'collect'),
      ...inOrder(),
    );
    sendAll(red, 'batch', ['a', 'b']);
    await until('they wait', async () => (await queueOf(red, 'never')) === 2);
    await waitBehind(collected, out);
    red.send('batch', { reset: true });
    assert.deepEqual(payloads(await arrived(out, 3)), [1, 2, 3]);
    assert.deepEqual(
      (await arrived(failed, 2)).map(({ error }) => error?.code),
      ['dropped', 'dropped'],
    );
  });

  test('order of arrival holds for messages that were split from one request', async () => {
    const { out } = await deploy(
      stage('before', 'return input;', 'split'),
      split('split', 'work'),
      stage('work', TAKE_TIME, 'collect', { workers: '3' }),
      ...inOrder(),
    );
    red.send('before', { payload: numbers(20).map((n) => ({ n, ms: 20 - n })) });
    const all = await arrived(out, 20);
    assert.deepEqual(payloads(all), numbers(20));
    assert.equal(new Set(all.map(({ modelet }) => modelet?.requestId)).size, 1);
  });

  test('messages that come to the collector from elsewhere pass at once', async () => {
    const { out, collected } = await deploy(
      stage('hold', gate.code(), 'collect'),
      stage('quick', 'return input;', 'collect'),
      ...inOrder(),
    );
    red.send('hold', { payload: 'first' });
    await waitBehind(collected, out);
    red.send('collect', { payload: 'from elsewhere' });
    assert.deepEqual(payloads(await arrived(out, 1)), ['from elsewhere']);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 5)), ['from elsewhere', 'first', 1, 2, 3]);
  });
});

describe('order by key', () => {
  const COUNT = `
    await new Promise((resolve) => setTimeout(resolve, input.ms));
    ctx.state.count = (ctx.state.count ?? 0) + 1;
    return [ctx.key, input.n, ctx.state.count];`;
  const keyed = (keyBy: string): FlowNode => stage('work', COUNT, 'collect', { workers: '3', keyBy });

  test('holds within each key of a message property, which other keys do not wait for', async () => {
    const { out, failed } = await deploy(keyed('site.camera'), collector('collect', 'out', 'failed'), ...ENDS);
    const cameras = ['a', 'b', 7, true, 'c'];
    for (const n of numbers(40)) {
      red.send('work', { payload: { n, ms: n % 3 }, site: { camera: cameras[n % 5] } });
    }
    red.send('work', { payload: { n: 0, ms: 0 } });
    const seen = payloads(await arrived(out, 40)) as [string, number, number][];
    for (const [index, camera] of cameras.entries()) {
      assert.deepEqual(
        seen.filter(([key]) => key === String(camera)),
        numbers(8).map((count) => [String(camera), index + 5 * count, count + 1]),
      );
    }
    assert.equal((await arrived(failed, 1))[0]?.error?.code, 'invalid_input');
    for (const bounds of [{ keyEnd: true }, {}, { keyStart: true }, { keyStart: 'no boolean' }])
      red.send('work', { payload: { n: 40, ms: 0 }, site: { camera: 'a' }, ...bounds });
    const counts = payloads(await arrived(out, 44)).slice(40) as [string, number, number][];
    assert.deepEqual(
      counts.map(([, , count]) => count),
      [9, 1, 1, 2],
    );
  });

  test('a header is the key at an endpoint, which stays compiled', async () => {
    await red.deployReady([
      ...[TAB, runtime('runtime', { listen: '127.0.0.1:0' })],
      ...endpoint('/ask', 'counts'),
      stage('counts', COUNT, 'collector /ask', { keyBy: 'req.headers["x-camera"]' }),
    ]);
    const ask = async (url: string, camera?: string): Promise<unknown> => {
      const headers = { 'Content-Type': 'application/json', ...(camera && { 'X-Camera': camera }) };
      const response = await fetch(`${url}/ask`, { method: 'POST', headers, body: '{"n": 1, "ms": 0}' });
      return response.ok ? response.json() : response.status;
    };
    const listener = await engineUrl(red);
    const answers = [await ask(red.url, 'a'), await ask(listener, 'a'), await ask(listener, 'b'), await ask(red.url)];
    assert.deepEqual(answers, [['a', 1, 1], ['a', 1, 2], ['b', 1, 1], 422]);
  });

  test('a sequence of a KServe client is the key of its requests, from its start to its end', async () => {
    const add = 'ctx.state.sum = (ctx.state.sum ?? 0) + input.x.data[0]; return ctx.state.sum;';
    await red.deployReady([
      ...[TAB, runtime('runtime', { listen: '127.0.0.1:0', v2Path: '/' })],
      ...endpoint('/sum', 'sum'),
      stage('sum', add, 'collector /sum', { workers: '2', keyBy: 'req.headers["x-session"]' }),
    ]);
    for (const url of [red.url, await engineUrl(red)]) {
      const sum = async (value: number, parameters: object, more: Readonly<Record<string, string>> = {}) => {
        const body = JSON.stringify({
          inputs: [{ name: 'x', shape: [1], datatype: 'FP32', data: [value] }],
          parameters,
        });
        const headers = { 'Content-Type': 'application/json', ...more };
        const response = await fetch(`${url}/v2/models/sum/infer`, { method: 'POST', headers, body });
        const { outputs } = (await response.json()) as { readonly outputs?: readonly [{ readonly data: number[] }] };
        return outputs?.[0].data[0] ?? response.status;
      };
      const [one, other] = [{ sequence_id: 7 }, { sequence_id: 'seven' }];
      assert.equal(await sum(1, { ...one, sequence_start: true }), 1);
      assert.equal(await sum(10, { ...other, sequence_start: true }), 10);
      // They run one after another, whichever connection each takes.
      const sums = await Promise.all(numbers(3).map((count) => sum(count + 2, one)));
      assert.equal(Math.max(...sums), 10);
      assert.equal(await sum(1, { ...one, sequence_end: true }), 11);
      assert.equal(await sum(1, one), 1, 'it has ended');
      assert.equal(await sum(1, {}, { 'X-Session': 'seven' }), 11, 'a header is a key, too');
      assert.equal(await sum(2, { ...other, sequence_start: true }), 2, 'it starts again');
      assert.equal(await sum(1, { ...one, sequence_id: 0 }), 422, 'it has no key');
    }
  });

  test('a key that a stage before it writes is read from its result', async () => {
    const { out } = await deploy(
      stage('before', 'return { ...input, camera: "of " + (input.n % 2) };', 'work'),
      keyed('payload.camera'),
      ...[collector('collect', 'out', 'failed'), ...ENDS],
    );
    for (const n of numbers(4)) red.send('before', { payload: { n, ms: 0 } });
    const seen = payloads(await arrived(out, 4)) as [string, number, number][];
    assert.deepEqual(
      seen.toSorted(([, a], [, b]) => a - b).map(([key, , count]) => [key, count]),
      [
        ['of 0', 1],
        ['of 1', 1],
        ['of 0', 2],
        ['of 1', 2],
      ],
    );
  });
});

/** Every error code that a request can end with, seen by an HTTP client. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { batcher, catchNode, endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { pidsOf, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

interface ErrorBody {
  readonly error: { code: string; message: string; stage: string; requestId: string };
}

const nodeRed = useNodeRed();
const gate = useGate();

/** The one shape of an error over HTTP, and nothing in it that is not for a client. */
async function assertError(response: Response, status: number, code: string, stageName: string): Promise<string> {
  const text = await response.text();
  assert.equal(response.status, status, text);
  const { error, ...others } = JSON.parse(text) as ErrorBody;
  assert.deepEqual(others, {});
  assert.deepEqual(Object.keys(error).sort(), ['code', 'message', 'requestId', 'stage']);
  assert.equal(error.code, code);
  assert.equal(error.stage, stageName);
  assert.ok(error.requestId.length > 0);
  assert.doesNotMatch(text, /\bat .*:\d+:\d+|"stack"/);
  return error.message;
}

const MODELET = `
  switch (input.do) {
    case 'refuse': throw Object.assign(new Error('not like this'), { code: 'invalid_input' });
    case 'refuse politely': return Object.assign(new Error('not like that'), { code: 'invalid_input' });
    case 'throw': throw new TypeError('a bug');
    case 'throw text': throw 'only text';
    case 'claim': throw Object.assign(new Error('pretends'), { code: 'capacity_exceeded' });
    case 'return an error': return new Error('an error value');
    case 'return nothing': return;
    case 'return a function': return () => 1;
    case 'exit': process.exit(7);
    case 'die': process.kill(process.pid, 'SIGKILL'); await new Promise(() => {});
  }
  return input;`;

describe('errors: a modelet', () => {
  before(() =>
    nodeRed.deployReady([
      TAB,
      runtime(),
      ...endpoint('/do', 'act'),
      stage('act', MODELET, 'collector /do'),
      ...endpoint('/checked', 'checked'),
      stage('checked', 'return input.n;', 'collector /checked', {
        inputSchema: '{"type": "object", "properties": {"n": {"type": "integer"}}}',
        outputSchema: '{"type": "string"}',
      }),
      ...endpoint('/short', 'short'),
      stage('short', 'return input.slice(1);', 'collector /short', { predict: 'batch' }),
      ...endpoint('/scalar', 'scalar'),
      stage('scalar', 'return 1;', 'collector /scalar', { predict: 'batch' }),
    ]),
  );

  const cases: readonly (readonly [what: string, status: number, code: string, message: RegExp])[] = [
    ['refuse', 422, 'invalid_input', /^not like this$/],
    ['refuse politely', 422, 'invalid_input', /^not like that$/],
    ['throw', 500, 'modelet_failed', /^a bug$/],
    ['throw text', 500, 'modelet_failed', /^only text$/],
    ['claim', 500, 'modelet_failed', /^pretends$/],
    ['return an error', 500, 'modelet_failed', /^an error value$/],
    ['return nothing', 500, 'modelet_failed', /undefined/],
    ['return a function', 500, 'modelet_failed', /function/],
    ['exit', 503, 'worker_lost', /worker 0 of stage act died: exited with code 7/],
    ['die', 503, 'worker_lost', /worker 0 of stage act died: was killed by SIGKILL/],
  ];
  for (const [what, status, code, message] of cases) {
    test(`${what}: ${status} ${code}`, async () => {
      assert.match(await assertError(await nodeRed.post('/do', { do: what }), status, code, 'act'), message);
    });
  }

  test('an input that violates a schema gets 422, and the client learns the problem and its place', async () => {
    const response = await nodeRed.post('/checked', { n: 'one' });
    assert.equal(response.status, 422);
    const { error } = (await response.json()) as ErrorBody & { error: { details: unknown } };
    assert.equal(error.message, 'input/n must be integer');
    assert.deepEqual(error.details, [{ path: '/n', message: 'must be integer', keyword: 'type' }]);
    const failed = await nodeRed.post('/checked', { n: 3 });
    assert.match(await assertError(failed, 500, 'modelet_failed', 'checked'), /^output must be string$/);
  });

  test('the next request is answered after all of them', async () => {
    const response = await nodeRed.post('/do', { do: 'well' });
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), { do: 'well' });
  });

  test('a batch result of another length gets 500 bad_batch_length', async () => {
    const message = await assertError(await nodeRed.post('/short', {}), 500, 'bad_batch_length', 'short');
    assert.match(message, /0 results for 1 input$/);
  });

  test('a batch result that is not an array gets 500 bad_batch_length', async () => {
    await assertError(await nodeRed.post('/scalar', {}), 500, 'bad_batch_length', 'scalar');
  });
});

describe('errors: the input', () => {
  before(async () => {
    const echo = (id: string, url: string, runtimeId = 'plain') =>
      stage(id, 'return input;', `collector ${url}`, { runtime: runtimeId });
    await nodeRed.deployReady([
      TAB,
      runtime('plain'),
      ...endpoint('/function', 'add function'),
      func('add function', 'msg.payload = { callback: () => 1 }; return msg;', 'echo function'),
      echo('echo function', '/function'),
      ...endpoint('/large', 'make large'),
      func('make large', 'msg.payload = Buffer.alloc(65 * 1024 * 1024); return msg;', 'echo large'),
      echo('echo large', '/large'),
      runtime('tight', { maxPayloadMb: '0.001' }),
      ...endpoint('/tight', 'echo tight'),
      echo('echo tight', '/tight', 'tight'),
      ...endpoint('/grow', 'grow'),
      stage('grow', `return 'x'.repeat(input.length);`, 'collector /grow', { runtime: 'tight' }),
    ]);
  });

  test('a function in the payload gets 422 invalid_input', async () => {
    const message = await assertError(await nodeRed.post('/function', {}), 422, 'invalid_input', 'echo function');
    assert.match(message, /callback is a function/);
  });

  test('a message of 65 MB gets 413 payload_too_large', async () => {
    const message = await assertError(await nodeRed.post('/large', {}), 413, 'payload_too_large', 'echo large');
    assert.match(message, /68157440 bytes; the limit is 67108864/);
  });

  test('a body beyond the runtime\u2019s own limit gets 413, and a smaller body passes', async () => {
    const response = await nodeRed.post('/tight', { text: 'x'.repeat(2000) });
    await assertError(response, 413, 'payload_too_large', 'echo tight');
    assert.equal((await nodeRed.post('/tight', { text: 'x'.repeat(500) })).status, 200);
  });

  test('a result beyond the limit gets 500 modelet_failed', async () => {
    await assertError(await nodeRed.post('/grow', { length: 2000 }), 500, 'modelet_failed', 'grow');
  });

  test('the metrics count all of these errors', async () => {
    const { runtimes } = await nodeRed.snapshot();
    const counts = Object.fromEntries(runtimes.map(({ id, requests }) => [id, requests]));
    assert.equal(counts['plain']?.['invalid_input'], 1);
    assert.equal(counts['plain']?.['payload_too_large'], 1);
    assert.equal(counts['tight']?.['payload_too_large'], 1);
    assert.equal(counts['tight']?.['modelet_failed'], 1);
    assert.equal(counts['tight']?.['ok'], 1);
  });
});

describe('errors: no room and no time', () => {
  before(async () => {
    await gate.close();
    const held = (id: string, url: string, properties: object) =>
      stage(id, gate.code(), `collector ${url}`, { ...properties });
    await nodeRed.deployReady([
      TAB,
      runtime('small', { capacity: '1' }),
      ...endpoint('/runtime', 'runtime full'),
      held('runtime full', '/runtime', { runtime: 'small' }),
      runtime(),
      ...endpoint('/queue', 'queue full'),
      held('queue full', '/queue', { capacity: '1' }),
      runtime('hasty', { timeoutMs: '50' }),
      ...endpoint('/late', 'too late'),
      held('too late', '/late', { runtime: 'hasty' }),
      runtime('doomed'),
      ...endpoint('/doomed', 'doomed stage'),
      held('doomed stage', '/doomed', { runtime: 'doomed' }),
    ]);
  });

  test('a full runtime answers 429 capacity_exceeded with Retry-After', async () => {
    const first = nodeRed.post('/runtime', { number: 1 });
    await until('the first is being worked on', async () => (await gate.entered()).length === 1);
    const second = await nodeRed.post('/runtime', { number: 2 });
    assert.match(second.headers.get('Retry-After') ?? '', /^[1-9]\d*$/);
    await assertError(second, 429, 'capacity_exceeded', 'runtime full');
    await gate.open();
    assert.equal((await first).status, 200);
    await gate.close();
  });

  test('a full queue answers 429 capacity_exceeded with Retry-After', async () => {
    const first = nodeRed.post('/queue', { number: 1 });
    await until('the first is being worked on', async () => (await gate.entered()).length === 1);
    const second = nodeRed.post('/queue', { number: 2 });
    await until('the second waits', async () => {
      const runtimes = (await nodeRed.snapshot()).runtimes;
      return runtimes.some(({ stages }) => stages.some(({ name, queue }) => name === 'queue full' && queue === 1));
    });
    const third = await nodeRed.post('/queue', { number: 3 });
    assert.match(third.headers.get('Retry-After') ?? '', /^[1-9]\d*$/);
    await assertError(third, 429, 'capacity_exceeded', 'queue full');
    await gate.open();
    assert.deepEqual([(await first).status, (await second).status], [200, 200]);
    await gate.close();
  });

  test('a request without an answer in time gets 408 deadline_exceeded', async () => {
    await assertError(await nodeRed.post('/late', {}), 408, 'deadline_exceeded', 'too late');
    await gate.open();
    await until('the late result is dropped', async () => {
      const late = (await nodeRed.snapshot()).runtimes.find(({ id }) => id === 'hasty');
      return late?.backlog === 0 && late.stages[0]?.busy === 0;
    });
    await gate.close();
  });

  test('the requests of a dead engine get 503 engine_lost at once, and a new engine serves the next', async () => {
    const request = nodeRed.post('/doomed', {});
    await until('it is being worked on', async () => (await gate.entered()).length === 1);
    const doomed = (await nodeRed.snapshot()).runtimes.filter(({ id }) => id === 'doomed');
    const [engine] = pidsOf({ runtimes: doomed });
    process.kill(engine as number, 'SIGKILL');
    await assertError(await request, 503, 'engine_lost', 'doomed stage');
    await gate.open();
    assert.equal((await nodeRed.post('/doomed', {})).status, 200);
  });
});

describe('errors: no worker', () => {
  test('a stage whose On Start fails answers 503 stage_unavailable at once, with the cause', async () => {
    await nodeRed.deploy([
      TAB,
      runtime(),
      ...endpoint('/broken', 'broken'),
      stage('broken', 'return input;', 'collector /broken', { setup: `throw new Error('no such model');` }),
    ]);
    const message = await assertError(await nodeRed.post('/broken', {}), 503, 'stage_unavailable', 'broken');
    assert.match(message, /no such model/);
  });
});

describe('errors without a handler', () => {
  test('without a collector and a Catch node the client and the log still get the error', async () => {
    await nodeRed.deployReady([
      TAB,
      runtime(),
      httpIn('in', '/alone', 'batch'),
      batcher('batch', 'alone'),
      stage('alone', `throw new Error('no process listens');`, 'out'),
      httpOut('out'),
    ]);
    const message = await assertError(await nodeRed.post('/alone', {}), 500, 'modelet_failed', 'alone');
    assert.equal(message, 'no process listens');
    await until('it is in the log', () =>
      nodeRed.logs.some((line) => /^20 .*modelet_failed: no process listens/.test(line)),
    );
  });

  test('a client that a Catch node answers gets no second answer', async () => {
    await nodeRed.deployReady([
      TAB,
      runtime(),
      httpIn('in', '/caught', 'fails'),
      stage('fails', `throw Object.assign(new Error('no'), { code: 'invalid_input' });`, 'out'),
      catchNode('catch', 'shape'),
      func('shape', 'msg.payload = { caught: msg.error.code }; return msg;', 'out'),
      httpOut('out'),
    ]);
    const response = await nodeRed.post('/caught', {});
    assert.equal(response.status, 422);
    assert.deepEqual(await response.json(), { caught: 'invalid_input' });
  });
});

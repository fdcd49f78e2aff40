/** Values that mean harm, through whole flows: each passes as the README says or is refused with a code, and nothing else suffers. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { catchNode, collector, endpoint, func, httpOut, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type Message, pidsOf, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const BODY_LIMIT = 1_000_000;

/** Makes what cannot be written as JSON: in Node-RED and in workers, under the names that requests use. */
const MAKERS = {
  '100,000 levels': 'let v = 1; for (let n = 0; n < 100000; n += 1) v = [v]; return v;',
  'levels below a NaN': 'let v = NaN; for (let n = 0; n < 100000; n += 1) v = { v }; return v;',
  'a revoked proxy': 'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return { proxy };',
  'a getter that throws': 'return { get broken() { throw new Error("broken getter"); } };',
  'a toJSON that throws': 'return { toJSON() { throw null; } };',
  'a symbol': 'return { a: Symbol("s") };',
  'a function': 'return { a: () => 1 };',
  'a promise': 'return { a: Promise.resolve(1) };',
  '2^40 references': 'let v = [1]; for (let n = 0; n < 40; n += 1) v = [v, v]; return v;',
  'an array of 2^32 holes': 'return [new Array(2 ** 32 - 1)];',
  'a text 100,000 times': 'const t = "x".repeat(1 << 20); return Array.from({ length: 100000 }, () => t);',
} as const;
const TOO_LARGE: readonly string[] = ['2^40 references', 'an array of 2^32 holes', 'a text 100,000 times'];

const MAKE = `const makers = {${Object.entries(MAKERS)
  .map(([name, code]) => `${JSON.stringify(name)}() { ${code} }`)
  .join(',')}};`;

const DIES = `
  process.stderr.write('Error: secret words\\n    at ' + process.execPath + ':1:1\\n', () => process.kill(process.pid, 'SIGKILL'));
  await new Promise(() => {});`;

/** The next text that its worker writes as JSON is invalid. */
const MISWRITES = `
  const { stringify } = JSON;
  if (!input.well) JSON.stringify = () => { JSON.stringify = stringify; return '{'; };
  return { done: true };`;

const nodeRed = useNodeRed({
  settings: { apiMaxLength: String(BODY_LIMIT) },
  prepare: async (nodeRed) => {
    await nodeRed.deploy([
      TAB,
      runtime('runtime', { maxPayloadMb: '4' }),
      stage('echo', 'return input;', 'results'),
      collector('results', 'result', 'failure'),
      sink('result'),
      sink('failure'),
      stage('topic', 'return msg.topic;', 'results'),
      ...endpoint('/echo', 'echo body'),
      stage('echo body', 'return input;', 'collector /echo'),
      ...endpoint('/input', 'make input'),
      func('make input', `${MAKE} msg.payload = makers[msg.payload.make](); return msg;`, 'echo input'),
      stage('echo input', 'return input;', 'collector /input'),
      ...endpoint('/result', 'make result'),
      stage('make result', `${MAKE} return makers[input.make]();`, 'collector /result'),
      // Node-RED clones what goes to a Catch node, and what goes along a second wire.
      ...endpoint('/caught', 'echo caught').slice(0, 1),
      stage('echo caught', 'return input;', 'answer'),
      catchNode('catch', 'tell', { scope: ['echo caught'] }),
      func(
        'tell',
        'const { code } = msg._error ?? msg.error; msg.payload = { error: { code } }; return msg;',
        'answer',
      ),
      httpOut('answer'),
      ...endpoint('/twice', 'echo twice').slice(0, 1),
      stage('echo twice', 'return input;', 'collect twice'),
      collector('collect twice', 'answer', ['tell', 'failure'], { errorPayload: 'keep' }),
      ...endpoint('/uncloned', 'uncloneable').slice(0, 1),
      func(
        'uncloneable',
        'msg.payload = { get broken() { throw new Error("broken getter"); } }; return msg;',
        'collect uncloned',
      ),
      collector('collect uncloned', ['first wire', 'answer']),
      sink('first wire'),
      ...endpoint('/miswritten', 'miswrite'),
      stage('miswrite', MISWRITES, 'collector /miswritten'),
      ...endpoint('/path', 'paths'),
      stage('paths', `if (input.name === 'die') { ${DIES} } return require(input.name);`, 'collector /path'),
      ...endpoint('/no-start', 'no start'),
      stage('no start', '', 'collector /no-start', {
        setup: "require('node:fs').readFileSync(process.execPath + '/no/such');",
      }),
    ]);
    await until('the workers are ready, all but one', async () => {
      const stages = (await nodeRed.snapshot()).runtimes[0]?.stages ?? [];
      return stages.every(({ name, ready }) => ready === (name === 'no start' ? 0 : 1)) && stages.length > 0;
    });
    pids = await pidsOfHealthy();
  },
});
let pids: number[];

async function pidsOfHealthy(): Promise<number[]> {
  const { runtimes, ...rest } = await nodeRed.snapshot();
  const healthy = runtimes.map((one) => ({
    ...one,
    stages: one.stages.filter(({ name }) => name !== 'no start' && name !== 'paths'),
  }));
  return pidsOf({ ...rest, runtimes: healthy });
}

async function codeOf(response: Response): Promise<string> {
  const { error } = (await response.json()) as { error: { code: string } };
  return error.code;
}

/** Sends a message as a wire would, and gives what comes out at either end. */
async function through(message: object, entry = 'echo'): Promise<Message> {
  const ends = [nodeRed.inputs('result'), nodeRed.inputs('failure')];
  nodeRed.send(entry, message);
  return until('it has come to one of the ends', () => ends.flat()[0]);
}

describe('hostile bodies over HTTP', () => {
  test('__proto__ and constructor.prototype stay data on both sides, and pollute nothing', async () => {
    const text = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}},"list":[{"__proto__":3}]}';
    const response = await nodeRed.post('/echo', null, { body: text });
    assert.equal(await response.text(), text);
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });

  test('100,000 levels are refused with 422, with and without handlers of the error', async () => {
    const body = '['.repeat(100_000) + ']'.repeat(100_000);
    for (const path of ['/echo', '/caught', '/twice']) {
      const response = await nodeRed.post(path, null, { body });
      assert.equal(response.status, 422, path);
      assert.equal(await codeOf(response), 'invalid_input', path);
    }
  });

  test('lone surrogates come back', async () => {
    const response = await nodeRed.post('/echo', null, { body: '{"a":"\\ud800 \\udc00"}' });
    assert.deepEqual(await response.json(), { a: '\ud800 \udc00' });
  });
});

/** The processes are those of the beginning, and no request is open, after any attack. */
async function assertUnharmed(): Promise<void> {
  assert.deepEqual(await pidsOfHealthy(), pids);
  const { backlog, lateOutcomes } = (await nodeRed.snapshot()).runtimes[0] ?? {};
  assert.deepEqual({ backlog, lateOutcomes }, { backlog: 0, lateOutcomes: 0 });
}

describe('values that cannot be sent', () => {
  for (const make of Object.keys(MAKERS)) {
    test(`${make} is refused with a code, as an input and as a result`, async () => {
      const expected = TOO_LARGE.includes(make) ? 'payload_too_large' : 'invalid_input';
      assert.equal(await codeOf(await nodeRed.post('/input', { make })), expected);
      assert.equal(await codeOf(await nodeRed.post('/result', { make })), 'modelet_failed');
    });
  }

  test('a value that Node-RED cannot clone for the second wire of a collector fails, and its client hears it', async () => {
    const first = nodeRed.inputs('first wire');
    const answer = await nodeRed.post('/uncloned', {}, { signal: AbortSignal.timeout(20_000) });
    assert.deepEqual([answer.status, await codeOf(answer)], [500, 'modelet_failed']);
    assert.deepEqual(first, []);
  });

  test('refused values harm no process', assertUnharmed);
});

const cycle: unknown[] = [];
cycle.push(cycle);

const CARRIED: Readonly<Record<string, unknown>> = {
  'NaN and infinities': [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0],
  'a Date, a Map, a Set and a pattern': { at: new Date(5), map: new Map([[{ k: 1 }, 2]]), set: new Set([1]), re: /x/g },
  'a BigInt': 2n ** 100n,
  'binaries, nested': { bytes: Buffer.from([0, 255]), floats: Float32Array.of(1.5, Number.NaN) },
  'a cycle': cycle,
  'undefined in an array': [1, undefined, 3],
  'a million elements': new Array(1_000_000).fill(7),
  'lone surrogates': '\ud800 \udfff',
  'own __proto__ keys beside a Date': Object.assign(JSON.parse('{"__proto__":{"polluted":1}}') as object, {
    at: new Date(0),
  }),
};

describe('a worker that encodes wrongly', () => {
  test('a result that cannot be read is the worker\u2019s fault, not the client\u2019s: protocol_error', async () => {
    const response = await nodeRed.post('/miswritten', {});
    assert.equal(response.status, 500);
    assert.equal(await codeOf(response), 'protocol_error');
    assert.equal((await nodeRed.post('/miswritten', { well: true })).status, 200);
  });
});

describe('values that JSON lacks', () => {
  for (const [name, payload] of Object.entries(CARRIED)) {
    test(`${name} pass through Node-RED unchanged`, async () => {
      assert.deepStrictEqual((await through({ payload })).payload, payload);
    });
  }
});

describe('hostile properties of messages', () => {
  const thrower = (): never => {
    throw new Error('not to be read');
  };
  const PROPERTIES: Readonly<Record<string, object>> = {
    'a symbol as timeout': { timeout: Symbol('soon') },
    'a timeout that throws': { timeout: { valueOf: thrower } },
    'a priority that throws': { priority: { [Symbol.toPrimitive]: thrower } },
    'a topic in a circle': { topic: cycle },
    'a number as request id': { modelet: { requestId: 5, stages: 7 } },
    'text as modelet': { modelet: 'not a trace' },
  };
  for (const [name, properties] of Object.entries(PROPERTIES)) {
    test(`${name} has no effect`, async () => {
      const message = await through({ payload: 1, ...properties });
      assert.equal(message.payload, 1);
      assert.equal(message.modelet?.stages.length, 1);
    });
  }

  test('a topic counts with the payload if the code reads it', async () => {
    const half = 'x'.repeat(2_100_000);
    assert.equal((await through({ payload: '', topic: half }, 'topic')).payload, half);
    assert.equal((await through({ payload: half, topic: half })).payload, half);
    assert.equal((await through({ payload: half, topic: half }, 'topic')).error?.code, 'payload_too_large');
    let references: unknown[] = [1];
    for (let level = 0; level < 40; level += 1) references = [references, references];
    assert.equal((await through({ payload: '', topic: references }, 'topic')).error?.code, 'payload_too_large');
  });

  test('a payload that cannot be read gets invalid_input', async () => {
    const message = Object.defineProperty({}, 'payload', { enumerable: true, configurable: true, get: thrower });
    Object.defineProperty(message, 'payload', { set: () => {} });
    assert.equal((await through(message)).error?.code, 'invalid_input');
  });
});

describe('the answer to a client', () => {
  async function told(path: string, body: object): Promise<string> {
    const text = await (await nodeRed.post(path, body)).text();
    assert.doesNotMatch(text, /\bat .*:\d+|node_modules|\/(?:home|tmp|usr|work|root)\b/, 'neither stack nor folder');
    for (const folder of [process.cwd(), nodeRed.userDir]) assert.ok(!text.includes(folder), text);
    return (JSON.parse(text) as { error: { message: string } }).error.message;
  }

  test('names a missing file without its folder', async () => {
    const name = `${nodeRed.userDir}/models/secret.js`;
    assert.match(await told('/path', { name }), /^Cannot find module 'secret\.js'/);
  });

  test('says how a worker died, with only the first line that it printed', async () => {
    const message = await told('/path', { name: 'die' });
    assert.match(message, /^worker 0 of stage paths died: was killed by SIGKILL/);
  });

  test('says why a stage does not start', async () => {
    assert.match(await told('/no-start', {}), /^stage no start does not start: .*ENOTDIR/);
  });
});

describe('the limits of a body', () => {
  test("a body beyond Node-RED's own limit gets 413, and no stage sees it", async () => {
    const before = (await nodeRed.snapshot()).runtimes[0]?.requests;
    const response = await nodeRed.post('/echo', { text: 'x'.repeat(BODY_LIMIT) });
    assert.equal(response.status, 413);
    assert.equal(await codeOf(response), 'payload_too_large');
    const after = { ...before, payload_too_large: (before?.['payload_too_large'] ?? 0) + 1 };
    assert.deepEqual((await nodeRed.snapshot()).runtimes[0]?.requests, after);
  });
});

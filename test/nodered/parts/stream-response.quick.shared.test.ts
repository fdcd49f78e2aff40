/**
 * The stream response node behind other nodes: what it makes of messages, what ends a stream, and who hears of it.
 * Shows: node modelet-stream, way stream.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, beforeEach, describe, test } from 'node:test';
import { WebSocket } from 'undici';
import { split, streamOut } from '../../fixtures/drawn.ts';
import { catchNode, collector, func, httpIn, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { callsIn, release } from '../../fixtures/service.ts';

const red = useNodeRed({
  prepare: async () => {
    folder = await mkdtemp(join(tmpdir(), 'modelet-stream-'));
  },
});
let folder: string;
after(() => rm(folder, { recursive: true, force: true }));
// The same folder for all: a stage that is set otherwise is served by its old workers for a while.
beforeEach(async () => {
  for (const file of await readdir(folder)) await rm(join(folder, file));
});

const MODELET = join(repositoryRoot, 'test', 'fixtures', 'modelets', 'parts.js');

/** `[http in] -> [stage] -> [collector] -> [function] -> [stream response]`; the test lets the parts go, one by one. */
function behind(code: string, properties: object = {}, catches: string[] = ['out']): FlowNode[] {
  return [
    httpIn('in', '/parts', 'make'),
    stage('make', '', 'collect', { source: 'file', path: MODELET, init: JSON.stringify({ folder }) }),
    collector('collect', 'between', catches, { results: 'parts' }),
    func('between', code, 'out'),
    streamOut('out', properties),
  ];
}

async function deploy(...flows: FlowNode[]): Promise<void> {
  // No time limit, which would also close a generator that nothing else closes.
  await red.deployReady([TAB, runtime('runtime', { timeoutMs: '0' }), ...flows]);
}

/** A client that reads what comes, as it comes. */
class Client {
  text = '';
  ended = false;
  readonly #leaving = new AbortController();

  constructor(path: string, input: object) {
    void this.#read(path, input).catch(() => {
      this.ended = true;
    });
  }

  async #read(path: string, input: object): Promise<void> {
    const answer = await red.post(path, input, { signal: this.#leaving.signal });
    for await (const chunk of answer.body as ReadableStream<Uint8Array>) this.text += Buffer.from(chunk).toString();
    this.ended = true;
  }

  has(text: string): Promise<unknown> {
    return until(`the client has ${text}`, () => this.text.includes(text) || undefined);
  }

  end(): Promise<unknown> {
    return until('the answer ends', () => this.ended || undefined);
  }

  leave(): void {
    this.#leaving.abort();
  }
}

/** Asks for a WebSocket and returns what comes instead. */
async function handshake(path: string): Promise<string> {
  const asked = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13' };
  const [answer] = (await once(get(`${red.url}${path}`, { headers: asked }), 'response')) as [IncomingMessage];
  return `${answer.statusCode} ${await text(answer)}`;
}

const isClosed = (): Promise<unknown> => until('the generator is closed', () => callsIn(folder).includes('end'));

describe('a stream response behind a function node', () => {
  test('writes each part before the next is made, as the function has changed it, and then the end', async () => {
    await deploy(...behind('msg.payload = msg.payload?.index ?? msg.payload; return msg;', { event: 'n' }));
    const client = new Client('/parts', { to: 3, result: 'all' });
    for (const part of [1, 2]) {
      await client.has(`event: n\ndata: ${part - 1}\n\n`);
      assert.ok(!client.text.includes(`data: ${part}`));
      release(folder, `part${part}`);
    }
    await client.end();
    assert.equal(
      client.text,
      `${[0, 1, 2].map((n) => `event: n\ndata: ${n}\n\n`).join('')}event: done\ndata: "all"\n\n`,
    );
  });

  test('closes the generator when the client goes away, and when a node ends the stream early', async () => {
    await deploy(...behind('msg.complete ||= msg.parts.index === 30; return msg;'));
    const leaving = new Client('/parts', { endless: true });
    await leaving.has('data: "x');
    leaving.leave();
    await isClosed();
    await rm(join(folder, 'calls'));
    const client = new Client('/parts', { endless: true });
    await client.end();
    assert.equal(client.text.split('data: "x').length - 1, 31);
    assert.match(client.text, /event: done\ndata: "x+"\n\n$/);
    await isClosed();
  });

  test('says an error in the stream, whether a collector, a Catch node or no node hands it over', async () => {
    const ways = [behind('return msg;'), [...behind('return msg;', {}, []), catchNode('caught', 'out')]];
    for (const flow of [...ways, behind('return msg;', {}, [])]) {
      await deploy(...flow);
      release(folder, 'part1');
      const client = new Client('/parts', { to: 3, fail: 1 });
      await client.end();
      assert.match(
        client.text,
        /^data: \{"index":0.*\}\n\nevent: error\ndata: \{"error":\{"code":"modelet_failed".*\n\n$/,
      );
      const { status, body } = await answerTo({ fail: 0, to: 1 });
      assert.deepEqual([status, (body as { error: { message: string } }).error.message], [500, 'no more']);
    }
  });

  test('goes on after a deploy that replaces the nodes, and ends with an error when its flow is removed', async () => {
    const flow = behind('return msg;');
    await deploy(...flow);
    const client = new Client('/parts', { to: 2 });
    await client.has('"index":0');
    await red.deploy([TAB, runtime('runtime', { timeoutMs: '0' }), ...flow.map((one) => ({ ...one, x: 200 }))]);
    release(folder, 'part1');
    await client.end();
    assert.match(client.text, /"index":1.*\n\nevent: done\ndata: null\n\n$/);
    const left = new Client('/parts', { endless: true });
    await left.has('data: "x');
    await red.deploy([TAB, sink('other')]);
    await left.end();
    assert.match(left.text, /event: error\ndata: \{"error":\{"code":"shutting_down".*\}\}\n\n$/);
  });
});

async function answerTo(input: object, path = '/parts'): Promise<{ status: number; body: unknown }> {
  const answer = await red.post(path, input);
  return { status: answer.status, body: JSON.parse(await answer.text()) };
}

test('a stream response needs no pipeline: a split message is a stream', async () => {
  await deploy(
    httpIn('in', '/split', 'status'),
    func(
      'status',
      "msg.payload = ['a', 'b']; msg.statusCode = 203; msg.headers = { 'X-Own': 'yes', 'Content-Type': 'text/html' }; return msg;",
      'split',
    ),
    split('split', 'out'),
    streamOut('out', { format: 'jsonl' }),
    stage('unused', 'return input;', 'seen'),
    sink('seen'),
  );
  const answer = await red.post('/split', {});
  assert.equal(await answer.text(), '{"part":"a"}\n{"part":"b"}\n{"done":null}\n');
  const headers = ['x-own', 'content-type'].map((name) => answer.headers.get(name));
  assert.deepEqual([answer.status, ...headers], [203, 'yes', 'application/x-ndjson']);
});

test('a message without a client, and a node that cannot be used, are errors', async () => {
  await deploy(
    ...behind('return msg;', { event: 'a\nb' }),
    streamOut('usable'),
    catchNode('caught', 'seen'),
    sink('seen'),
  );
  const seen = red.inputs('seen');
  red.send('usable', { payload: 1 });
  const { error } = await until('the Catch node has it', () => seen[0]);
  assert.match(String(error?.message), /no HTTP client waits/);
  await until('the badge says why', () => red.badges.get('out')?.text?.includes('Event: must be one line'));
  await deploy(httpIn('in', '/bad', 'out'), streamOut('out', { event: 'a\nb' }), stage('unused', 'return 1;', 'out'));
  const { status, body } = await answerTo({}, '/bad');
  assert.deepEqual([status, (body as { error: { code: string } }).error.code], [503, 'config_invalid']);
});

test('a status or header that HTTP cannot carry does not keep the client from an answer', async () => {
  const bad = [
    "msg.headers = { 'X-Own': 'a\\nb' };",
    'msg.statusCode = 99;',
    "msg.headers = { 'X Y': 1 }; msg.error = {};",
  ];
  await deploy(
    ...bad.flatMap((code, at) => [
      httpIn(`in${at}`, `/bad${at}`, `spoil${at}`),
      func(`spoil${at}`, `${code} msg.payload = 1; return msg;`, 'out'),
    ]),
    streamOut('out'),
    stage('unused', 'return input;', 'out'),
  );
  for (const at of bad.keys()) {
    const { status, body } = await answerTo({}, `/bad${at}`);
    assert.deepEqual([status, (body as { error: { code: string } }).error.code], [500, 'modelet_failed']);
  }
});

test('a WebSocket client gets parts by the nodes of Node-RED itself', async () => {
  const socket = { server: 'socket', client: '' };
  await deploy(
    { id: 'socket', type: 'websocket-listener', path: '/parts-of', wholemsg: 'false' },
    node('in', 'websocket in', ['make'], socket),
    stage('make', 'return (function* () { yield* input; return "end"; })();', 'collect'),
    collector('collect', 'out', [], { results: 'parts' }),
    node('out', 'websocket out', [], socket),
  );
  const got: unknown[] = [];
  const client = new WebSocket(`${red.url.replace('http', 'ws')}/parts-of`);
  client.addEventListener('message', ({ data }) => got.push(data));
  await new Promise((resolve) => client.addEventListener('open', resolve));
  client.send('abc');
  await until('all have come', () => got.includes('end'));
  assert.deepEqual(got, ['a', 'b', 'c', 'end']);
  client.close();
});

test('a WebSocket client gets parts from the endpoint itself, beside the WebSockets of Node-RED', async (t) => {
  const socket = { server: 'socket', client: '' };
  const flow = (path: string): FlowNode[] => [
    { id: 'socket', type: 'websocket-listener', path, wholemsg: 'false' },
    node('in', 'websocket in', ['echo'], socket),
    node('echo', 'websocket out', [], socket),
    httpIn('in2', '/tokens', 'make'),
    stage('make', 'return (function* () { yield* input; return "end"; })();', 'stream'),
    streamOut('stream', { format: 'websocket' }),
    httpIn('in3', '/passed', 'pass'),
    func('pass', 'return msg;', 'make'),
  ];
  const clients: WebSocket[] = [];
  t.after(() => {
    for (const client of clients) client.close();
  });
  const ask = async (path: string, message: string, last: string): Promise<unknown[]> => {
    const got: unknown[] = [];
    const client = new WebSocket(`${red.url.replace('http', 'ws')}${path}`);
    clients.push(client);
    client.addEventListener('message', ({ data }) => got.push(data));
    await new Promise((resolve) => client.addEventListener('open', resolve));
    client.send(message);
    await until(`${path} has answered`, () => got.includes(last));
    return got;
  };
  const lines = ['{"part":"a"}', '{"part":"b"}', '{"done":"end"}'];
  await deploy(...flow('/echoed'));
  assert.deepEqual(await ask('/tokens', '"ab"', lines[2] as string), lines);
  assert.deepEqual(await ask('/echoed', 'hello', 'hello'), ['hello']);
  assert.equal(await (await red.post('/tokens', 'ab')).text(), `${lines.join('\n')}\n`, 'by POST');
  const { hooks } = red.red as unknown as {
    hooks: { add(name: string, hook: (event: object) => void): void; remove(name: string): void };
  };
  hooks.add('onReceive.test', (_event: object) => {});
  await red.snapshot();
  assert.deepEqual(await ask('/tokens', '"ab"', lines[2] as string), lines, 'through the flow');
  hooks.remove('onReceive.test');
  assert.match(await handshake('/passed'), /^400 .*only a compiled endpoint takes WebSockets: /);
  await deploy(...flow('/tokens'));
  assert.deepEqual(
    await ask('/tokens', '"ab"', '"ab"'),
    ['"ab"'],
    'a path that both claim is of Node-RED\u2019s own node',
  );
});

test('eight clients at a time get their own parts, compiled or not', async () => {
  const code = `return (async function* () {
    for (let n = 0; n < 50; n += 1) { await new Promise(setImmediate); yield input.name + n; }
  })();`;
  const make = (id: string, to: string): FlowNode => stage(id, code, to, { workers: '8', isolation: 'thread' });
  await deploy(
    httpIn('in', '/compiled', 'make'),
    make('make', 'out'),
    httpIn('in2', '/flow', 'pass'),
    func('pass', 'return msg;', 'make2'),
    make('make2', 'out'),
    streamOut('out', { format: 'raw' }),
  );
  const names = Array.from({ length: 16 }, (_, n) => String.fromCharCode(97 + n));
  await Promise.all(
    names.map(async (name, index) => {
      const answer = await red.post(index % 2 === 0 ? '/compiled' : '/flow', { name });
      assert.equal(await answer.text(), Array.from({ length: 50 }, (_, n) => `${name}${n}`).join(''));
    }),
  );
  const { endpoints } = await red.snapshot();
  assert.deepEqual(endpoints.map(({ reason }) => reason === null).sort(), [false, true]);
});

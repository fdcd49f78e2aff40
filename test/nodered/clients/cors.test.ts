/**
 * Pages of other origins (CORS): preflight requests, results, streams and errors, at Node-RED's port (compiled and through
 * the flow), at the listener of the engine and at `modelet serve`; and `httpNodeCors` of Node-RED beside it.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { streamOut } from '../../fixtures/drawn.ts';
import { RawClient } from '../../fixtures/endpoint.ts';
import { endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { serveFlows } from '../../fixtures/headless.ts';
import { engineUrl, type FlowNode } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';

const APP = 'https://app.example.com';
const NODE = 'https://node.example.com';
const OTHER = 'https://other.example.com';
/** Node-RED's own settings allow another page. */
const SETTINGS = { httpNodeCors: { origin: [NODE], methods: 'POST' }, apiMaxLength: '10kb' };

const FLOWS: readonly FlowNode[] = [
  TAB,
  runtime('runtime', { listen: '127.0.0.1:0', v2Path: '/', cors: `${APP}/, http://localhost:5173` }),
  ...endpoint('/predict', 'echo'),
  stage('echo', 'if (input.fails) throw new Error("broken"); return input;', 'collector /predict'),
  httpIn('in stream', '/stream', 'parts'),
  stage('parts', 'return (function* () { yield 1; yield 2; })();', 'stream'),
  streamOut('stream', { format: 'jsonl' }),
  httpIn('in flow', '/flow', 'pass'),
  func('pass', 'return msg;', 'drawn'),
  stage('drawn', 'if (input.fails) throw new Error("broken"); return input;', 'out flow'),
  httpOut('out flow'),
  runtime('closed'),
  ...endpoint('/closed', 'closed stage'),
  stage('closed stage', 'return input;', 'collector /closed', { runtime: 'closed' }),
];

let folder: string;
let red: NodeRedProcess;
let hosts: readonly (readonly [name: string, url: string, paths: readonly string[]])[];
const ends: (() => Promise<void>)[] = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'modelet-cors-'));
  writeFileSync(join(folder, 'flows.json'), JSON.stringify(FLOWS));
  writeFileSync(
    join(folder, 'settings.js'),
    `module.exports = ${JSON.stringify({ flowFile: 'flows.json', ...SETTINGS })}`,
  );
  red = await NodeRedProcess.start(FLOWS, SETTINGS);
  const t = { after: (end: never) => ends.push(end) } as never;
  const served = await serveFlows(t, folder, '--runtime', 'runtime for tests');
  hosts = [
    ['Node-RED', red.url, ['/predict', '/flow']],
    ['the listener', await engineUrl(red), ['/predict']],
    ['modelet serve', served.url, ['/predict']],
  ];
});
after(async () => {
  await red.end();
  for (const end of ends) await end();
  rmSync(folder, { recursive: true, force: true });
});

interface Told {
  readonly status: number;
  /** The page that may read the answer; null: none. */
  readonly allowed: string | null;
  readonly exposed: boolean;
  readonly headers: Headers;
}

async function ask(url: string, origin: string | null, init: RequestInit = {}): Promise<Told> {
  const headers = { 'Content-Type': 'application/json', ...(origin ? { Origin: origin } : {}), ...init.headers };
  const answer = await fetch(url, { method: 'POST', body: '{"n":1}', ...init, headers });
  await answer.arrayBuffer();
  const allowed = answer.headers.get('access-control-allow-origin');
  const exposed = /X-Request-Id/.test(answer.headers.get('access-control-expose-headers') ?? '');
  return { status: answer.status, allowed, exposed, headers: answer.headers };
}

const PREFLIGHT = {
  'Access-Control-Request-Method': 'POST',
  'Access-Control-Request-Headers': 'content-type,x-api-key',
};

test('endpoints are compiled beside httpNodeCors, and served without Node-RED', async () => {
  const { endpoints } = await red.snapshot();
  assert.deepEqual(
    endpoints.map(({ path, reason }) => [path, reason === null]),
    [
      ['/predict', true],
      ['/stream', true],
      ['/closed', true],
      ['/flow', false],
    ],
  );
});

test('every answer says which page may read it', async () => {
  const large = JSON.stringify('x'.repeat(20_000));
  const rows: readonly (readonly [about: string, path: string, status: number, init: RequestInit])[] = [
    ['a result', '', 200, {}],
    ['an error of the modelet', '', 500, { body: '{"fails":true}' }],
    ['no JSON', '', 400, { body: '{' }],
    ['too large', '', 413, { body: large }],
    ['a wrong type', '', 415, { headers: { 'Content-Type': 'text/plain' } }],
    ['a stream', '/stream', 200, {}],
    ['tensors', '/v2/models/predict/infer', 400, {}],
    ['a model', '/v2/models/predict', 200, { method: 'GET', body: null }],
  ];
  for (const [host, url, paths] of hosts) {
    for (const [about, own, status, init] of rows) {
      for (const path of own === '' ? paths : [own]) {
        const where = `${about}, ${path}, ${host}`;
        const told = await ask(url + path, APP, init);
        assert.deepEqual([told.status, told.allowed, told.exposed], [status, APP, true], where);
        assert.match(told.headers.get('vary') ?? '', /\bOrigin\b/, where);
        for (const origin of [OTHER, 'null', 'https://app.example.com.evil.example', null]) {
          const other = await ask(url + path, origin, init);
          assert.deepEqual([other.status, other.allowed], [status, null], `${where}, from ${origin}`);
        }
      }
    }
  }
});

test('health, metrics, OpenAPI and refusals of the listener do so, too', async () => {
  for (const [host, url] of hosts.slice(1)) {
    for (const path of ['/health/live', '/metrics', '/openapi.json', '/nothing', '/predict']) {
      const told = await ask(url + path, APP, { method: 'GET', body: null });
      assert.equal(told.allowed, APP, `${path}, ${host}`);
    }
  }
});

test('a preflight request is answered for pages that may call, without a body', async () => {
  for (const [host, url, paths] of hosts) {
    for (const path of [...paths, '/stream', '/PREDICT/', '/v2/models/predict/infer']) {
      const where = `${path}, ${host}`;
      const init = { method: 'OPTIONS', body: null, headers: PREFLIGHT };
      const told = await ask(url + path, 'http://localhost:5173', init);
      assert.deepEqual([told.status, told.allowed], [204, 'http://localhost:5173'], where);
      assert.match(told.headers.get('access-control-allow-methods') ?? '', /\bPOST\b/, where);
      assert.equal(told.headers.get('access-control-allow-headers'), 'content-type,x-api-key', where);
      const other = await ask(url + path, OTHER, init);
      assert.equal(other.allowed, null, `${where}: not for others`);
    }
  }
});

test("Node-RED's own httpNodeCors goes on, at its port alone", async () => {
  for (const [host, url, paths] of hosts) {
    const expected = host === 'Node-RED' ? NODE : null;
    for (const path of [...paths, ...(host === 'Node-RED' ? ['/closed'] : [])]) {
      assert.equal((await ask(url + path, NODE)).allowed, expected, `${path}, ${host}`);
      const asked = await ask(url + path, NODE, { method: 'OPTIONS', body: null, headers: PREFLIGHT });
      assert.equal(asked.allowed, expected, `a preflight request, ${path}, ${host}`);
    }
  }
  assert.equal((await ask(`${red.url}/closed`, APP)).allowed, null, 'a runtime without origins');
});

test('a deploy changes the pages that may call, with the same engine', async () => {
  const pid = (await red.snapshot()).runtimes[0]?.engine.pid;
  const open = FLOWS.map((node) => (node.id === 'runtime' ? { ...node, cors: '*' } : node));
  await red.deploy(open);
  for (const [, url, paths] of hosts.slice(0, 2)) {
    for (const path of paths) {
      await until(`${path} is open to all`, async () => (await ask(url + path, OTHER)).allowed === '*');
    }
  }
  assert.equal((await red.snapshot()).runtimes[0]?.engine.pid, pid);
});

test('a page that may call may open a WebSocket', async () => {
  const socket = streamOut('stream', { format: 'websocket' });
  await red.deploy(FLOWS.map((node) => (node.id === 'stream' ? socket : node)));
  const handshake = async (url: string, origin: string): Promise<number | undefined> => {
    const client = new RawClient(Number(new URL(url).port));
    const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
    client.send(
      `GET /stream HTTP/1.1\r\nHost: a\r\nOrigin: ${origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}\r\n\r\n`,
    );
    await until('the handshake is answered', () => client.statuses.length === 1 || client.socket.destroyed);
    client.socket.destroy();
    return client.statuses[0];
  };
  for (const [host, url] of hosts.slice(0, 2)) {
    await until(`${host} takes WebSockets`, async () => (await handshake(url, APP)) === 101);
    assert.equal(await handshake(url, OTHER), 403, host);
  }
});

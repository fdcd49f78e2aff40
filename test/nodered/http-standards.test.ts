/**
 * HTTP as its standards have it: the same requests at Node-RED's own port (compiled, and through the flow), at the
 * listener of the engine and at `modelet serve`. Each cell of a table is asserted at each of them.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { RawClient } from '../fixtures/endpoint.ts';
import { endpoint, func, httpIn, httpOut, keysNode, runtime, stage, TAB } from '../fixtures/flow.ts';
import { serveFlows } from '../fixtures/headless.ts';
import { engineUrl, type FlowNode } from '../fixtures/node-red.ts';
import { NodeRedProcess } from '../fixtures/node-red-process.ts';
import { until } from '../fixtures/polling.ts';

const KEY = 'the-key-of-the-tests';
const SLOW_KEY = 'a-key-for-one-request-in-an-hour';
const CLIENTS = [
  { name: 'tests', key: KEY },
  { name: 'slow', key: SLOW_KEY, rate: '0.0003' },
];

function flows(more: object = {}): FlowNode[] {
  return [
    TAB,
    runtime('runtime', { listen: '127.0.0.1:0', v2Path: '/', maxPayloadMb: '0.15', ...more }),
    ...endpoint('/predict', 'echo'),
    stage('echo', 'return input;', 'collector /predict'),
    ...endpoint('/any', 'any'),
    stage('any', 'return typeof input;', 'collector /any', { mediaTypes: '*/*' }),
    httpIn('in flow', '/flow', 'pass'),
    func('pass', 'return msg;', 'drawn'),
    stage('drawn', 'return input;', 'out flow'),
    httpOut('out flow'),
  ];
}

interface Place {
  readonly name: string;
  readonly port: number;
  /** The path of the endpoint that takes JSON. */
  readonly json: string;
}

let folder: string;
let red: NodeRedProcess;
const places: Place[] = [];
const after1: (() => Promise<void> | void)[] = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'modelet-http-'));
  const settings = { apiMaxLength: '100kb' };
  red = await NodeRedProcess.start(flows(), settings);
  await red.deploy([...flows({ keys: 'keys' }), keysNode('keys', CLIENTS)]);
  await red.whenReady();
  const file = join(folder, 'flows.json');
  const keysFile = join(folder, 'keys.json');
  const { credentials: _, ...named } = keysNode('keys', CLIENTS);
  writeFileSync(file, JSON.stringify([...flows({ keys: 'keys' }), named]));
  writeFileSync(
    join(folder, 'settings.js'),
    `module.exports = ${JSON.stringify({ flowFile: 'flows.json', ...settings })}`,
  );
  writeFileSync(keysFile, JSON.stringify(CLIENTS));
  const served = await serveFlows(
    { after: (end: never) => after1.push(end) } as never,
    folder,
    '--keys-file',
    keysFile,
  );
  const portOf = (url: string): number => Number(new URL(url).port);
  places.push(
    { name: "Node-RED's port", port: portOf(red.url), json: '/predict' },
    { name: "Node-RED's port, through the flow", port: portOf(red.url), json: '/flow' },
    { name: 'the listener', port: portOf(await engineUrl(red)), json: '/predict' },
    { name: 'modelet serve', port: portOf(served.url), json: '/predict' },
  );
  for (const { port, json } of places) {
    // The one request of this client.
    const client = new RawClient(port);
    client.send(Buffer.concat(written({ target: json, headers: { ...JSON_TYPE, 'X-API-Key': SLOW_KEY }, body: '1' })));
    await answers(client, 1, 'the slow client has its answer');
    client.socket.destroy();
  }
});
after(async () => {
  await red.end();
  for (const end of after1) await end();
  rmSync(folder, { recursive: true, force: true });
});

interface Asked {
  readonly target?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** Whether the body comes in chunks, without a length. */
  readonly chunked?: boolean;
}

const JSON_TYPE = { 'Content-Type': 'application/json' };
const GZIP = { ...JSON_TYPE, 'Content-Encoding': 'gzip' };

/** A request as its bytes: the head, and the body. */
function written({ target = '/', method = 'POST', headers = {}, body = '', chunked = false }: Asked): [Buffer, Buffer] {
  const bytes = Buffer.from(body);
  const all = {
    Host: 'test',
    'X-API-Key': KEY,
    ...(chunked ? { 'Transfer-Encoding': 'chunked' } : { 'Content-Length': String(bytes.length) }),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1');
  if (!chunked) return [head, bytes];
  const parts = Array.from({ length: Math.ceil(bytes.length / 50_000) }, (_, at) => {
    const part = bytes.subarray(at * 50_000, (at + 1) * 50_000);
    return Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')]);
  });
  return [head, Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])];
}

/** Resolves when the connection has so many answers, or has ended. */
async function answers(client: RawClient, count: number, about: string): Promise<void> {
  await until(about, () => client.statuses.length >= count || client.socket.destroyed);
}

const LARGE = randomBytes(600_000);
const LARGE_JSON = `["${LARGE.toString('base64')}"]`;

describe('a refused request leaves its connection usable, or closes it', () => {
  const [J, V2] = ['json', '/v2/models/predict/infer'];
  const ROWS: readonly (readonly [about: string, status: number, asked: Asked])[] = [
    ['too large', 413, { target: J, headers: JSON_TYPE, body: LARGE_JSON }],
    ['too large, in chunks', 413, { target: J, headers: JSON_TYPE, body: LARGE_JSON, chunked: true }],
    ['too large behind gzip', 413, { target: J, headers: GZIP, body: gzipSync(LARGE_JSON) }],
    ['too large behind gzip, in chunks', 413, { target: J, headers: GZIP, body: gzipSync(LARGE_JSON), chunked: true }],
    ['a bomb', 413, { target: J, headers: GZIP, body: gzipSync(Buffer.alloc(200_000_000, ' ')) }],
    ['not compressed as it says', 400, { target: J, headers: GZIP, body: LARGE }],
    ['not compressed as it says, in chunks', 400, { target: J, headers: GZIP, body: LARGE, chunked: true }],
    ['compressed and cut', 400, { target: J, headers: GZIP, body: gzipSync('{"a":"text"}').subarray(0, -9) }],
    ['no JSON', 400, { target: J, headers: JSON_TYPE, body: '{"a":' }],
    ['no JSON behind gzip', 400, { target: J, headers: GZIP, body: gzipSync('{"a":') }],
    ['too deep', 422, { target: J, headers: JSON_TYPE, body: '['.repeat(20_000) + ']'.repeat(20_000) }],
    [
      'too deep behind gzip',
      422,
      { target: J, headers: GZIP, body: gzipSync('['.repeat(20_000) + ']'.repeat(20_000)) },
    ],
    [
      'a coding that nobody knows',
      415,
      { target: J, headers: { ...JSON_TYPE, 'Content-Encoding': 'zstd' }, body: LARGE },
    ],
    ['a wrong type', 415, { target: J, headers: { 'Content-Type': 'image/png' }, body: LARGE.subarray(0, 90_000) }],
    [
      'a wrong type, in chunks',
      415,
      { target: J, headers: { 'Content-Type': 'image/png' }, body: LARGE.subarray(0, 90_000), chunked: true },
    ],
    [
      'a wrong character set',
      415,
      { target: J, headers: { 'Content-Type': 'application/json; charset=latin1' }, body: LARGE_JSON },
    ],
    ['a wrong timeout', 400, { target: J, headers: { ...GZIP, timeout: 'soon' }, body: gzipSync('{}') }],
    ['no key', 401, { target: J, headers: { ...JSON_TYPE, 'X-API-Key': 'no' }, body: LARGE_JSON }],
    [
      'no key, behind gzip',
      401,
      { target: J, headers: { ...GZIP, 'X-API-Key': 'no' }, body: gzipSync(LARGE_JSON), chunked: true },
    ],
    ['too many', 429, { target: J, headers: { ...JSON_TYPE, 'X-API-Key': SLOW_KEY }, body: LARGE_JSON }],
    [
      'too many, behind gzip',
      429,
      { target: J, headers: { ...GZIP, 'X-API-Key': SLOW_KEY }, body: gzipSync(LARGE_JSON) },
    ],
    ['no such path', 404, { target: '/nothing', headers: JSON_TYPE, body: LARGE_JSON }],
    [
      'no such path, behind gzip',
      404,
      { target: '/nothing', headers: GZIP, body: gzipSync(LARGE_JSON), chunked: true },
    ],
    ['bytes that are too large', 413, { target: '/any', headers: { 'Content-Type': 'image/png' }, body: LARGE }],
    [
      'bytes that are too large, in chunks',
      413,
      { target: '/any', headers: { 'Content-Type': 'image/png' }, body: LARGE, chunked: true },
    ],
    [
      'msgpack that is too large',
      413,
      { target: '/any', headers: { 'Content-Type': 'application/msgpack' }, body: LARGE, chunked: true },
    ],
    [
      'compressed msgpack',
      415,
      {
        target: '/any',
        headers: { 'Content-Type': 'application/msgpack', 'Content-Encoding': 'gzip' },
        body: gzipSync('a'),
      },
    ],
    ['tensors that are too large', 413, { target: V2, headers: GZIP, body: gzipSync(LARGE_JSON) }],
    ['tensors that are not compressed as they say', 400, { target: V2, headers: GZIP, body: LARGE }],
    ['tensors without a key', 401, { target: V2, headers: { ...GZIP, 'X-API-Key': 'no' }, body: gzipSync(LARGE_JSON) }],
    ['tensors of no model', 404, { target: '/v2/models/nothing/infer', headers: GZIP, body: gzipSync(LARGE_JSON) }],
  ];

  for (const [about, status, asked] of ROWS) {
    test(about, async () => {
      for (const { name, port, json } of places) {
        const where = `${about}, ${name}`;
        const target = asked.target === J ? json : asked.target;
        const [head, body] = written({ ...asked, ...(target ? { target } : {}) });
        const next = Buffer.concat(written({ target: json, headers: JSON_TYPE, body: '{"next":1}' }));
        const client = new RawClient(port);
        // The server may answer when it has the head, a part of the body, or all of it.
        client.send(head).send(body.subarray(0, body.length >> 1));
        await new Promise(setImmediate);
        client.send(body.subarray(body.length >> 1));
        await answers(client, 1, `an answer to ${where}`);
        assert.equal(client.statuses[0], status, `${where}: ${client.received.slice(0, 500)}`);
        // A client must know that its connection ends before it sends more.
        if (!/^Connection: close/im.test(client.received)) {
          client.send(next);
          await answers(client, 2, `the next answer behind ${where}`);
          assert.deepEqual(client.statuses, [status, 200], where);
          await until(`the whole next answer behind ${where}`, () => client.received.endsWith('{"next":1}'));
        }
        client.socket.destroy();
      }
    });
  }
});

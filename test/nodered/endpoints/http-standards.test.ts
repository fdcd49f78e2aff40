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
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { pathRules } from '../../../src/config/http/http-settings.ts';
import { Endpoints } from '../../../src/http/endpoints.ts';
import { RawClient } from '../../fixtures/endpoint.ts';
import { endpoint, func, httpIn, httpOut, keysNode, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { serveFlows } from '../../fixtures/headless.ts';
import { engineUrl, type FlowNode } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';

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
  const settings = { apiMaxLength: '100kb', disableEditor: false };
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
const coded = (coding: string) => ({ ...JSON_TYPE, 'Content-Encoding': coding });
const GZIP = coded('gzip');

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
    ['an unknown coding', 415, { target: J, headers: { ...JSON_TYPE, 'Content-Encoding': 'zstd' }, body: LARGE }],
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

describe('a request as the standards allow it is answered alike everywhere', () => {
  const JSON_BODY = { headers: JSON_TYPE, body: '{"a":"\u00e4"}' };
  const TENSORS = '{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[2]}]}';
  const MODEL = '/v2/models/predict/infer';
  const typed = (parameter: string, body: string | Buffer = '{"a":1}'): Asked => ({
    headers: { 'Content-Type': `application/json; ${parameter}` },
    body,
  });
  const text = (charset: string): Asked => ({
    headers: { 'Content-Type': `text/plain; charset=${charset}` },
    body: Buffer.from([0xff]),
  });
  /** Targets have `@` for the path of the endpoint, plain or spelled in another way. `engine`: the status of the hosts without Node-RED, if it differs. */
  const ROWS: readonly (readonly [about: string, status: number, target: string, asked?: Asked, engine?: number])[] = [
    ['a plain path', 200, '@'],
    ['an absolute target', 200, 'http://test@'],
    ['an absolute target with a port and a query', 200, 'HTTP://other.example:8080@?a=1'],
    ['an absolute target without a path', 404, 'http://test'],
    ['an absolute target elsewhere', 404, 'http://test/nothing'],
    ['a slash at the end', 200, '@/'],
    ['a slash at the end, and a query', 200, '@/?a=1'],
    ['two slashes at the end', 404, '@//'],
    ['two slashes at the start', 404, '/@'],
    ['another case', 200, '@CASE'],
    ['a letter that needs no encoding', 200, '@ESCAPED'],
    ['a letter that needs no encoding, and a slash', 200, '@ESCAPED/?a=1'],
    ['an encoded slash', 404, '@%2F'],
    ['a broken encoding', 404, '@%zz'],
    ['a type in another case', 200, '@', { headers: { 'Content-Type': 'Application/JSON' }, body: '{"a":1}' }],
    ['UTF-8 by its name', 200, '@', typed('charset=UTF-8')],
    ['UTF-8 by another name', 200, '@', typed('charset=utf8')],
    ['UTF-8 by another name, quoted', 200, '@', typed('charset="UTF8"; q=1')],
    [
      'UTF-8 by another name, compressed',
      200,
      '@',
      { headers: { ...GZIP, 'Content-Type': 'application/json;charset=utf8' }, body: gzipSync('{"a":1}') },
    ],
    ['ASCII', 200, '@', typed('charset=us-ascii')],
    ['Latin 1', 415, '@', typed('charset=iso-8859-1')],
    ['UTF-16', 200, '@', typed('charset=utf-16le', Buffer.from('{"a":1}', 'utf16le')), 415],
    ['JSON that is not UTF-8', 400, '@', { headers: JSON_TYPE, body: Buffer.from([0x22, 0xff, 0x22]) }],
    ['compressed JSON that is not UTF-8', 400, '@', { headers: GZIP, body: gzipSync(Buffer.from([0x22, 0xff, 0x22])) }],
    ['a compressed number that would be infinite', 400, '@', { headers: GZIP, body: gzipSync('{"a":1e999}') }],
    ['the same with deflate', 400, '@', { headers: coded('deflate'), body: deflateSync('{"a":1e999}') }],
    ['the same with Brotli', 400, '@', { headers: coded('br'), body: brotliCompressSync('{"a":1e999}') }],
    ['JSON with deflate', 200, '@', { headers: coded('deflate'), body: deflateSync('{"a":1}') }],
    ['JSON with Brotli', 200, '@', { headers: coded('br'), body: brotliCompressSync('{"a":1}') }],
    ['text that is not UTF-8', 400, '/any', { headers: { 'Content-Type': 'text/plain' }, body: Buffer.from([0xff]) }],
    ['text in Latin 1', 200, '/any', text('latin1')],
    ['text in another character set', 415, '/any', text('windows-1251')],
    ['a byte order mark', 200, '@', { headers: JSON_TYPE, body: '\ufeff{"a":1}' }],
    ['tensors', 200, MODEL, { headers: JSON_TYPE, body: TENSORS }],
    ['tensors behind a byte order mark', 200, MODEL, { headers: JSON_TYPE, body: `\ufeff${TENSORS}` }],
    ['tensors in ASCII', 200, MODEL, { ...typed('charset=us-ascii', TENSORS) }],
    ['tensors at an absolute target', 200, `http://test${MODEL}`, { headers: JSON_TYPE, body: TENSORS }],
    ['tensors of an encoded name', 200, '/v2/models/pr%65dict/infer', { headers: JSON_TYPE, body: TENSORS }],
    ['tensors of a model in another case', 404, '/v2/models/Predict/infer', { headers: JSON_TYPE, body: TENSORS }],
    ['metadata at an absolute target', 200, 'http://test/v2/models/predict', { method: 'GET' }],
  ];
  for (const [about, status, target, asked = JSON_BODY, engine = status] of ROWS) {
    test(about, async () => {
      for (const { name, port, json } of places) {
        const where = `${about}, ${name}`;
        const spelled = {
          PLAIN: json,
          CASE: json.toUpperCase(),
          ESCAPED: `/%${json.charCodeAt(1).toString(16)}${json.slice(2)}`,
        };
        const own = target.replace(
          /@(CASE|ESCAPED|)/,
          (_, spelling: keyof typeof spelled | '') => spelled[spelling || 'PLAIN'],
        );
        const [head, body] = written({ ...JSON_BODY, ...asked, target: own });
        const client = new RawClient(port).send(head).send(body);
        await answers(client, 1, `an answer to ${where}`);
        const expected = name.startsWith('Node-RED') ? status : engine;
        assert.equal(client.statuses[0], expected, `${where}: ${client.received.slice(0, 500)}`);
        client.socket.destroy();
      }
    });
  }

  test('health and metrics at absolute targets, with a slash and in another case, where an engine listens', async () => {
    for (const { name, port } of places.filter(({ name }) => !name.startsWith('Node-RED'))) {
      for (const target of ['http://test/health/live', '/health/ready/', '/Metrics', 'http://test/openapi.json?a']) {
        const client = new RawClient(port).send(Buffer.concat(written({ method: 'GET', target })));
        await answers(client, 1, `${target}, ${name}`);
        assert.equal(client.statuses[0], 200, `${target}, ${name}: ${client.received}`);
        client.socket.destroy();
      }
    }
  });
});

test('paths are compared as the settings of Node-RED say', () => {
  const endpoints = new Endpoints();
  const spelledBy = (httpServerOptions: object): string[] => {
    endpoints.replace([], pathRules({ httpServerOptions }));
    return ['/Predict/', '/%50redict', '/'].map((path) => endpoints.spelled(path));
  };
  assert.deepEqual(spelledBy({}), ['/predict', '/predict', '/']);
  assert.deepEqual(spelledBy({ 'case sensitive routing': true }), ['/Predict', '/Predict', '/']);
  assert.deepEqual(spelledBy({ 'strict routing': true }), ['/predict/', '/predict', '/']);
});

describe('an offer of HTTP/2 in clear text is passed over', () => {
  const OFFER = { Connection: 'Upgrade, HTTP2-Settings', Upgrade: 'h2c', 'HTTP2-Settings': 'AAMAAABkAAQAAP__' };
  const ROWS: readonly (readonly [about: string, status: number, asked: Asked])[] = [
    ['a request', 200, { target: 'json', headers: { ...JSON_TYPE, ...OFFER }, body: '{"offered":1}' }],
    [
      'a large request',
      200,
      { target: 'json', headers: { ...JSON_TYPE, ...OFFER }, body: `["${'x'.repeat(90_000)}"]` },
    ],
    [
      'a request in chunks',
      200,
      { target: 'json', headers: { ...JSON_TYPE, ...OFFER }, body: '{"offered":1}', chunked: true },
    ],
    ['an error', 400, { target: 'json', headers: { ...JSON_TYPE, ...OFFER }, body: '{' }],
    ['no key', 401, { target: 'json', headers: { ...JSON_TYPE, ...OFFER, 'X-API-Key': 'no' }, body: '1' }],
    ['a path without an endpoint', 404, { target: '/nothing', method: 'GET', headers: OFFER }],
  ];
  for (const [about, status, asked] of ROWS) {
    test(about, async () => {
      for (const { name, port, json } of places) {
        const [head, body] = written({ ...asked, target: asked.target === 'json' ? json : (asked.target as string) });
        const client = new RawClient(port).send(head);
        await new Promise(setImmediate);
        client.send(body);
        await answers(client, 1, `${about}, ${name}`);
        assert.deepEqual(client.statuses, [status], `${about}, ${name}: ${client.received.slice(0, 500)}`);
        client.socket.destroy();
      }
    });
  }

  test("and the editor's own socket is left alone", async () => {
    const port = Number(new URL(red.url).port);
    const key = { 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version': '13' };
    const upgrade = { Connection: 'Upgrade', Upgrade: 'websocket', ...key };
    const target = '/admin/comms';
    const client = new RawClient(port).send(written({ method: 'GET', target, headers: upgrade })[0]);
    await answers(client, 1, 'the handshake is answered');
    assert.deepEqual(client.statuses, [101]);
    client.socket.destroy();
    const offering = new RawClient(port).send(written({ method: 'GET', target, headers: OFFER })[0]);
    await offering.closed;
    assert.deepEqual(offering.statuses, [400], 'the editor refuses it, once');
  });
});

/**
 * WebSockets at endpoints, on both hosts: in this process, and on the engine's listener.
 * Shows: way WebSocket.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { systemClock } from '../../../src/core/clock.ts';
import type { ServedEndpoint } from '../../../src/http/served-endpoint.ts';
import { Sockets } from '../../../src/http/sockets/sockets.ts';
import { inlineStage, listenAtEngine, RawClient, serveEndpoint, type TestEndpoint } from '../../fixtures/endpoint.ts';
import { until } from '../../fixtures/polling.ts';

interface Web {
  readonly readyState: number;
  readonly _socket: { pause(): void; resume(): void };
  on(event: string, listener: (...args: never[]) => void): void;
  send(data: string | Buffer): void;
  terminate(): void;
}
const require = createRequire(import.meta.url);
const WebSocket = require('ws') as new (url: string, options?: { headers?: object; origin?: string }) => Web;

const CODE = `
  if (input && input.error) throw Object.assign(new Error(input.error), { code: 'invalid_input' });
  if (input === null || !(input.parts >= 0)) return { got: Buffer.isBuffer(input) ? input.length : input };
  return (async function* () {
    let made = 0;
    try {
      for (; made < input.parts; made += 1) yield input.fill ? 'x'.repeat(65536) : made;
      if (input.late) throw Object.assign(new Error(input.late), { code: 'invalid_input' });
      return 'all';
    } finally {
      node.log('closed after ' + made);
    }
  })();`;
const STAGES = [inlineStage('make', CODE)];
const STREAM = { format: 'websocket', event: '', heartbeatMs: 0 } as const;
const KEY = 'the-key-of-the-app';

type Settings = NonNullable<Parameters<typeof serveEndpoint>[2]>;

function settings(more: Settings = {}, heartbeatMs = 0): Settings {
  return { parts: { copies: [], stream: { ...STREAM, heartbeatMs } }, ...more };
}

async function here(t: TestContext, spec: Parameters<typeof serveEndpoint>[1], own: Settings): Promise<TestEndpoint> {
  const hosted = await serveEndpoint(t, spec, own);
  const sockets = new Sockets(hosted.endpoints, systemClock);
  sockets.serve(hosted.server);
  t.after(() => sockets.end());
  return hosted;
}

const HOSTS = [
  ['in this process', here],
  ['in the engine', listenAtEngine],
] as const;

/** A client that keeps what comes. */
class Client {
  readonly web: Web;
  readonly messages: { part?: unknown; done?: unknown; error?: { code: string } }[] = [];
  /** Code of its end, or status of a refused handshake. */
  ended: number | null = null;
  pings = 0;

  constructor({ port }: { readonly port: number }, options: { headers?: object; origin?: string } = {}) {
    this.web = new WebSocket(`ws://127.0.0.1:${port}/`, options);
    this.web.on('message', (data: Buffer | string) => this.messages.push(JSON.parse(String(data)) as object));
    this.web.on('ping', () => {
      this.pings += 1;
    });
    this.web.on('close', (code: number) => {
      this.ended ??= code;
    });
    this.web.on('error', () => {});
    this.web.on('unexpected-response', (_request: never, { statusCode }: { statusCode: number }) => {
      this.ended = statusCode;
    });
  }

  async open(): Promise<this> {
    await until('it is open or refused', () => this.web.readyState === 1 || this.ended !== null);
    return this;
  }

  ask(value: unknown): void {
    this.web.send(Buffer.isBuffer(value) ? value : JSON.stringify(value));
  }

  come(count: number): Promise<unknown> {
    return until(`${count} messages have come`, () => this.messages.length >= count);
  }
}

async function inTurn(endpoint: TestEndpoint): Promise<void> {
  const client = await new Client(endpoint).open();
  for (const value of [{ parts: 2 }, 5, null, { error: 'no' }, { parts: 1, late: 'no' }, Buffer.from('abc')]) {
    client.ask(value);
  }
  client.web.send('{');
  await client.come(10);
  const told = client.messages.map(({ error, ...rest }) => (error ? error.code : rest));
  const parts = [{ part: 0 }, { part: 1 }, { done: 'all' }];
  const whole = [{ done: { got: 5 } }, { done: { got: null } }];
  const failed = ['invalid_input', { part: 0 }, 'invalid_input'];
  assert.deepEqual(told, [...parts, ...whole, ...failed, { done: { got: 3 } }, 'bad_request']);
  const large = 'x'.repeat(90_000);
  client.ask(large);
  await client.come(11);
  assert.deepEqual(client.messages.at(-1), { done: { got: large } });
  client.ask('x'.repeat(200_000));
  await until('a message that is too large ends it', () => client.ended !== null);
  assert.equal(client.ended, 1009);
}

async function stalled(endpoint: TestEndpoint): Promise<void> {
  const closed = (): number[] =>
    endpoint.service.logs.flatMap(({ message }) => Number(/^closed after (\d+)/.exec(message)?.[1] ?? []) || []);
  const client = await new Client(endpoint).open();
  client.ask({ parts: 4000, fill: true });
  await client.come(1);
  client.web._socket.pause();
  const other = await new Client(endpoint).open();
  // The only worker has one place: the other request waits for the first to end.
  other.ask({ parts: 1 });
  client.web.terminate();
  await other.come(2);
  const [made = 0] = closed();
  assert.ok(made > 0 && made < 4000, `${made} parts were made`);
}

async function otherUpgrade({ port }: TestEndpoint): Promise<void> {
  const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n';
  const head = `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\n${h2c}`;
  const client = new RawClient(port).send(`${head}\r\n5`);
  await client.closed;
  assert.match(client.received, /^HTTP\/1\.1 200 [\s\S]*\{"done":\{"got":5\}\}/);
}

/** A connection that ended without a code: its client answered a ping too late. */
const LATE = 1006;

/**
 * Returns the code with which a connection ends whose client has answered several pings, and then sends too many messages.
 * On a slow machine clients answer the quick ones too late, at any time.
 */
async function endOfPinged(hostWith: (heartbeatMs: number) => Promise<TestEndpoint>): Promise<number> {
  for (const heartbeatMs of [30, 300, 3000]) {
    const client = await new Client(await hostWith(heartbeatMs)).open();
    await until('pings come, or the client is late', () => client.pings > 2 || client.ended !== null);
    if (client.ended === LATE) continue;
    for (let n = 0; n < 40; n += 1) client.ask({ parts: 1000 });
    const code = await until('it is sent away, or late', () => client.ended);
    if (code !== LATE) return code;
  }
  throw new Error('no client was in time to answer a ping');
}

for (const [where, host] of HOSTS) {
  describe(where, () => {
    test('at an endpoint without keys', async (t) => {
      const endpoint = await host(t, { stages: STAGES }, settings({ maxBytes: 100_000 }));
      await t.test('each message is a request, and its answer is messages, in turn', () => inTurn(endpoint));
      await t.test('a client that does not read stops the generator, and a client that leaves closes it', () =>
        stalled(endpoint),
      );
      await t.test('another upgrade is served as the request that it is', () => otherUpgrade(endpoint));
    });

    test('the handshake needs a key, and each request counts for its limits', async (t) => {
      const hash = createHash('sha256').update(KEY).digest('hex');
      const keys = [{ name: 'app', hash, paths: [], rate: 2, concurrent: 0 }];
      const endpoint = await host(t, { stages: STAGES }, settings({ keys }));
      assert.equal((await new Client(endpoint).open()).ended, 401);
      const headers = { 'X-API-Key': KEY };
      const foreign = new Client(endpoint, { headers, origin: 'http://elsewhere.example' });
      assert.equal((await foreign.open()).ended, 403);
      const own = new Client(endpoint, { headers, origin: `http://127.0.0.1:${endpoint.port}` });
      await own.open();
      for (let n = 0; n < 4; n += 1) own.ask(n);
      await own.come(4);
      const codes = own.messages.map(({ error }) => error?.code ?? 'ok');
      assert.deepEqual([codes[0], codes.includes('rate_limited')], ['ok', true]);
      own.web.terminate();
    });

    test('a silent client is pinged, and too many messages at once end the connection', async (t) => {
      assert.equal(await endOfPinged((heartbeatMs) => host(t, { stages: STAGES }, settings({}, heartbeatMs))), 1013);
    });
  });
}

test('a deploy that removes the endpoint ends its connections after the open answer', async (t) => {
  const { service, port } = await listenAtEngine(t, { stages: STAGES }, settings());
  const client = await new Client({ port }).open();
  client.ask({ parts: 3 });
  await client.come(1);
  const listener = { address: { host: '127.0.0.1', port: 0 }, tls: null, endpoints: [], keys: null };
  service.apply({ stages: STAGES, listener: { ...listener, maxJson: { bytes: 1024, name: 'the limit' } } });
  await until('the connection ends', () => client.ended !== null);
  assert.deepEqual([client.messages.at(-1), client.ended], [{ done: 'all' }, 1001]);
});

test('a message is asked of the endpoint that its path has after a deploy', async (t) => {
  let method = 'post';
  const server = createServer((request, response) => response.end(`{"done":"${request.method}"}\n`)).listen(0);
  t.after(() => server.close());
  await once(server, 'listening');
  const endpoint = (): ServedEndpoint =>
    ({ spec: { method }, clients: null, limits: { maxBytes: 1000 } }) as unknown as ServedEndpoint;
  const sockets = new Sockets({ socketAt: endpoint, hasSockets: true }, systemClock);
  sockets.serve(server);
  const client = await new Client(server.address() as AddressInfo).open();
  client.ask(1);
  await client.come(1);
  method = 'put';
  sockets.refresh();
  client.ask(2);
  await client.come(2);
  assert.deepEqual(client.messages, [{ done: 'POST' }, { done: 'PUT' }]);
  client.web.terminate();
});

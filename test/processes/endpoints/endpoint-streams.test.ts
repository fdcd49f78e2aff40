/** A compiled endpoint that answers part by part: in which form, at whose pace, and how an answer that has begun ends. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { AnswerSpec } from '../../../src/core/endpoints.ts';
import { type Answer, CALLERS, TYPES, write } from '../../fixtures/callers.ts';
import {
  inlineStage,
  listenAtEngine,
  type Overrides,
  postText,
  RawClient,
  serveEndpoint,
  type TestEndpoint,
} from '../../fixtures/endpoint.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { callsIn, release } from '../../fixtures/service.ts';

const HOSTS: readonly (readonly [where: string, host: typeof listenAtEngine])[] = [
  ['in this process', serveEndpoint],
  ['in the engine', listenAtEngine],
];
/** Yields what it is given, and then fails or returns. */
const YIELDS = inlineStage(
  'yields',
  `if (!input.parts && !input.error) return input;
   return (async function* () {
     for (const code of input.parts ?? []) yield eval('(' + code + ')');
     if (input.ms) await new Promise((resolve) => setTimeout(resolve, input.ms));
     if (input.error) throw new Error(input.error);
     if (input.exit) process.exit(3);
     return input.result;
   })();`,
  { workers: 2 },
);
const STREAMS: Overrides = { parts: { copies: [], stream: null } };

interface Paced extends TestEndpoint {
  readonly folder: string;
}

/** An endpoint whose parts the test lets go, one by one. */
async function paced(t: TestContext, host: typeof listenAtEngine, overrides: Overrides = {}): Promise<Paced> {
  const folder = folderFor(t);
  const endpoint = await host(
    t,
    { stages: [{ id: 'parts', file: 'parts', init: { folder } }] },
    { ...STREAMS, ...overrides },
  );
  return { ...endpoint, folder };
}

function ask(
  { url }: TestEndpoint,
  input: object,
  headers: Record<string, string> = {},
  call = CALLERS['node:http'],
): Promise<Answer> {
  return call(url, { 'Content-Type': TYPES.json, 'X-Request-Id': 'asked', ...headers }, write('json', input));
}

const isClosed = ({ folder }: Paced): Promise<boolean> =>
  until('the generator is closed', () => callsIn(folder).includes('end'));
/** The server hears later how the engine's own requests ended. */
const hasCounted = ({ service }: TestEndpoint, counts: Readonly<Record<string, number>>): Promise<boolean> =>
  until(JSON.stringify(counts), () => {
    const { requests } = service.service.snapshot();
    return Object.entries(counts).every(([code, number]) => requests[code] === number);
  });

const EVENTS = 'text/event-stream';
const LINES = 'application/x-ndjson';
const PARTS = ['"a\\n"', '{ n: [1] }', 'null', 'Buffer.from("b")', 'Float32Array.of(1.5)'];
const AS_JSON = ['"a\\n"', '{"n":[1]}', 'null', '{"type":"Buffer","data":[98]}', '[1.5]'];

for (const [where, host] of HOSTS) {
  describe(where, () => {
    test('each part reaches the client before the next is made, and then the end', async (t) => {
      const endpoint = await paced(t, host);
      const client = new RawClient(endpoint.port).send(postText('{"to":3,"result":"all"}', { Connection: 'close' }));
      const parts = (): number => client.received.split('data: {"index"').length - 1;
      for (const part of [1, 2]) {
        await until(`part ${part} comes`, () => parts() === part);
        assert.equal(parts(), part);
        release(endpoint.folder, `part${part}`);
      }
      await client.closed;
      assert.equal(parts(), 3);
      assert.match(client.received, /event: done\ndata: "all"\n\n\r\n0\r\n\r\n$/);
      await hasCounted(endpoint, { ok: 1 });
    });

    test('every client of an endpoint gets its parts', async (t) => {
      const endpoint = await host(t, { stages: [YIELDS] }, STREAMS);
      await t.test('the form is what the client accepts, or what the headers of the answer set', async () => {
        const events = `${AS_JSON.map((part) => `data: ${part}\n\n`).join('')}event: done\ndata: {"n":2}\n\n`;
        const lines = `${AS_JSON.map((part) => `{"part":${part}}\n`).join('')}{"done":{"n":2}}\n`;
        const rows: readonly (readonly [accept: string | undefined, type: string, body: string])[] = [
          [undefined, EVENTS, events],
          ['*/*', EVENTS, events],
          [EVENTS, EVENTS, events],
          ['text/html', EVENTS, events],
          ['application/msgpack', EVENTS, events],
          [LINES, LINES, lines],
          ['application/jsonl', 'application/jsonl', lines],
          [TYPES.json, LINES, lines],
          [`${LINES};q=0.5, ${EVENTS}`, EVENTS, events],
          [`${EVENTS};q=0, ${LINES};q=0.1`, LINES, lines],
        ];
        for (const [accept, type, body] of rows) {
          const headers: Record<string, string> = accept === undefined ? {} : { Accept: accept };
          const answer = await ask(endpoint, { parts: PARTS, result: { n: 2 } }, headers);
          assert.deepEqual([answer.status, answer.headers['content-type'], answer.bytes.toString()], [200, type, body]);
          assert.equal(answer.headers['cache-control'], 'no-cache');
          assert.equal(answer.headers['x-request-id'], 'asked');
        }
      });

      await t.test('an error before the first part is a separate answer; a later one is in the stream', async () => {
        const early = await ask(endpoint, { error: 'no' });
        assert.deepEqual([early.status, early.headers['content-type']], [500, 'application/json; charset=utf-8']);
        const said = '{"error":{"code":"modelet_failed","message":"no","stage":"yields","requestId":"asked"}}';
        assert.equal(early.bytes.toString(), said);
        const events = await ask(endpoint, { parts: ['1'], error: 'no' });
        assert.deepEqual([events.status, events.bytes.toString()], [200, `data: 1\n\nevent: error\ndata: ${said}\n\n`]);
        const lines = await ask(endpoint, { parts: ['1'], error: 'no' }, { Accept: LINES });
        assert.equal(lines.bytes.toString(), `{"part":1}\n${said}\n`);
        const late = await ask(endpoint, { parts: ['1'], ms: 1800 }, { Accept: LINES, timeout: '1000' });
        assert.match(late.bytes.toString(), /^\{"part":1\}\n\{"error":\{"code":"deadline_exceeded"/);
        const lost = await ask(endpoint, { parts: ['1'], exit: true }, { Accept: LINES });
        assert.match(lost.bytes.toString(), /^\{"part":1\}\n\{"error":\{"code":"worker_lost"/);
        await hasCounted(endpoint, { modelet_failed: 3, deadline_exceeded: 1, worker_lost: 1 });
      });

      await t.test('a part that cannot be written ends the stream with an error, and its generator', async () => {
        const endless = '(() => { const self = {}; self.self = self; return self; })()';
        const { bytes } = await ask(endpoint, { parts: ['1', endless, '2'] }, { Accept: LINES });
        assert.match(
          bytes.toString(),
          /^\{"part":1\}\n\{"error":\{"code":"modelet_failed","message":"the answer cannot be written as JSON.*\n$/,
        );
      });

      await t.test('requests that come at once on one connection get their own streams, in their order', async () => {
        const client = new RawClient(endpoint.port);
        const sent = Array.from({ length: 12 }, (_, n) => ({ parts: [`${n}`, `${n}`], ms: (n * 7) % 5, result: n }));
        client.send(sent.map((input) => postText(JSON.stringify(input), { Accept: LINES })).join(''));
        await until('all are answered', () => client.received.endsWith('{"done":11}\n\r\n0\r\n\r\n'));
        const lines = client.received.split(/\r?\n/).filter((line) => line.startsWith('{'));
        assert.deepEqual(
          lines,
          sent.flatMap((_, n) => [`{"part":${n}}`, `{"part":${n}}`, `{"done":${n}}`]),
        );
        client.socket.destroy();
      });

      await t.test('an answer without parts has the end alone', async () => {
        const { status, bytes } = await ask(endpoint, { n: 1 }, { Accept: LINES });
        assert.deepEqual([status, bytes.toString()], [200, '{"done":{"n":1}}\n']);
      });
    });

    const own: readonly (readonly [answer: AnswerSpec, type: string, body: string])[] = [
      [
        { statusCode: 201, headers: { 'Content-Type': EVENTS, 'Cache-Control': 'private' } },
        'text/event-stream; charset=utf-8',
        'data: "a"\n\ndata: {"type":"Buffer","data":[98]}\n\nevent: done\ndata: null\n\n',
      ],
      [{ statusCode: 201, headers: { 'content-type': 'text/plain' } }, 'text/plain; charset=utf-8', 'ab'],
    ];
    for (const [answer, type, body] of own) {
      test(`headers and status of the HTTP response node count: ${type}`, async (t) => {
        const endpoint = await host(t, { stages: [YIELDS] }, { ...STREAMS, answer });
        const { status, headers, bytes } = await ask(
          endpoint,
          { parts: ['"a"', 'Buffer.from("b")'] },
          { Accept: LINES },
        );
        assert.deepEqual([status, headers['content-type'], bytes.toString()], [201, type, body]);
        assert.equal(headers['cache-control'], answer.headers['Cache-Control'] ?? 'no-cache');
      });
    }

    test('a comment comes while no part does, also before the first, so that an error comes in the stream', async (t) => {
      const stream = { format: 'sse', event: '', heartbeatMs: 20 } as const;
      const endpoint = await paced(t, host, { parts: { copies: [], stream } });
      const client = new RawClient(endpoint.port).send(postText('{"to":2,"result":"all"}', { Connection: 'close' }));
      await until('comments come', () => /data: \{"index":0.*\}\n\n\r\n(?:3\r\n:\n\n\r\n){3}/s.test(client.received));
      release(endpoint.folder, 'part1');
      await client.closed;
      assert.match(client.received, /"index":1.*event: done\ndata: "all"\n\n\r\n0\r\n\r\n$/s);
      const slow = await host(t, { stages: [YIELDS] }, { parts: { copies: [], stream } });
      const { status, bytes } = await ask(slow, { ms: 400, error: 'no' });
      assert.equal(status, 200);
      assert.match(bytes.toString(), /^(?::\n\n)+event: error\ndata: \{"error":\{"code":"modelet_failed"/);
    });

    test('a stream that cannot say an error is cut off', async (t) => {
      const answer = { statusCode: null, headers: { 'Content-Type': 'text/plain' } };
      const endpoint = await host(t, { stages: [YIELDS] }, { ...STREAMS, answer });
      const client = new RawClient(endpoint.port).send(postText('{"parts":["1"],"error":"no"}'));
      await client.closed;
      assert.match(client.received, /\r\n1\r\n1\r\n$/, 'the last chunk is missing');
    });

    test('a client that goes away closes the generator', async (t) => {
      const endpoint = await paced(t, host);
      const client = new RawClient(endpoint.port).send(postText('{"endless":true}'));
      await until('a part comes', () => client.received.includes('data: '));
      client.socket.destroy();
      await isClosed(endpoint);
      await hasCounted(endpoint, { cancelled: 1 });
    });

    test('a client that leaves at any byte of its stream leaves nothing behind', async (t) => {
      const endpoint = await host(t, { stages: [YIELDS] }, STREAMS);
      const text = postText('{"parts":["1","[2]"],"result":3}', { Connection: 'close' });
      const whole = new RawClient(endpoint.port).send(text);
      await whole.closed;
      const clients = Array.from({ length: whole.received.length }, (_, at) => {
        const client = new RawClient(endpoint.port).send(text);
        client.socket.on('data', () => {
          if (client.received.length >= at) client.socket[at % 2 === 0 ? 'destroy' : 'resetAndDestroy']();
        });
        return client.closed;
      });
      await Promise.all(clients);
      await until('no request is open', () => endpoint.service.service.snapshot().backlog === 0);
      const { bytes } = await ask(endpoint, { parts: ['1'] }, { Accept: LINES });
      assert.equal(bytes.toString(), '{"part":1}\n{"done":null}\n');
    });

    test('a client that stops reading stops the generator, and the deadline ends both', async (t) => {
      const endpoint = await paced(t, host);
      const stalled = (headers: Record<string, string>): RawClient => {
        const client = new RawClient(endpoint.port);
        client.socket.pause();
        return client.send(postText('{"endless":true}', headers));
      };
      const leaving = stalled({});
      let last = { made: 0, at: 0 };
      await until('no more parts are made', () => {
        const made = callsIn(endpoint.folder).length;
        assert.ok(made < 30_000, 'the generator does not wait');
        if (made !== last.made) last = { made, at: performance.now() };
        return made > 16 && performance.now() - last.at > 300;
      });
      assert.ok(!callsIn(endpoint.folder).includes('end'), 'the generator waits');
      leaving.socket.destroy();
      await isClosed(endpoint);
      const client = stalled({ timeout: '1500' });
      await hasCounted(endpoint, { deadline_exceeded: 1 });
      client.socket.resume();
      await until('the rest comes to a client that reads again', () => client.received.endsWith('0\r\n\r\n'));
      assert.match(client.received, /event: error\ndata: \{"error":\{"code":"deadline_exceeded"/);
      client.socket.destroy();
    });
  });
}

/** Clients that lie, stall, leave or send what is no HTTP: no crash, no leak, no answer to the wrong request. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { CALLERS, TYPES } from '../../fixtures/callers.ts';
import {
  inlineStage,
  listenAtEngine,
  postText,
  RawClient,
  serveEndpoint,
  type TestEndpoint,
} from '../../fixtures/endpoint.ts';
import { until } from '../../fixtures/polling.ts';

const MEGABYTE = 1024 * 1024;
const ECHO = 'if (input.ms) await new Promise((resolve) => setTimeout(resolve, input.ms)); return input;';

const HOSTS: readonly (readonly [where: string, host: typeof listenAtEngine])[] = [
  ['in this process', serveEndpoint],
  ['in the engine', listenAtEngine],
];
const STAGE = inlineStage('echo', ECHO, { workers: 4, capacity: 4096 });

/** Nothing is left of what clients did, and the next client is served. */
async function isWell({ url, service }: TestEndpoint): Promise<void> {
  await until('no request is open', () => service.service.snapshot().backlog === 0);
  const { status, bytes } = await CALLERS.fetch(url, { 'Content-Type': TYPES.json }, Buffer.from('{"next":1}'));
  assert.deepEqual([status, bytes.toString()], [200, '{"next":1}']);
}

for (const [where, host] of HOSTS) {
  describe(where, () => {
    test('a client that leaves at any byte of its request leaves nothing behind', async (t) => {
      const endpoint = await host(t, { stages: [STAGE] });
      const whole = postText('{"ms":30}');
      for (let at = 1; at <= whole.length; at += 1) {
        const client = new RawClient(endpoint.port).send(whole.slice(0, at));
        // Some leave before the server has read anything, some after.
        if (at % 3 === 0) await pause(1);
        client.socket[at % 2 === 0 ? 'destroy' : 'resetAndDestroy']();
      }
      await isWell(endpoint);
    });

    test('clients that send a byte now and then keep no other client waiting, and get their answers', async (t) => {
      const endpoint = await host(t, { stages: [STAGE] });
      const whole = postText('{"slow":1}');
      const clients = Array.from({ length: 200 }, (_, n) =>
        new RawClient(endpoint.port).send(whole.slice(0, n % whole.length)),
      );
      await isWell(endpoint);
      for (let sent = 0; sent < 3; sent += 1) {
        for (const [n, client] of clients.entries()) {
          client.send(whole.slice((n % whole.length) + sent, (n % whole.length) + sent + 1));
        }
        await isWell(endpoint);
      }
      for (const [n, client] of clients.entries()) client.send(whole.slice((n % whole.length) + 3));
      await until('all are answered', () => clients.every(({ statuses }) => statuses.length === 1));
      assert.ok(clients.every(({ received }) => received.endsWith('{"slow":1}')));
      for (const { socket } of clients) socket.destroy();
    });

    test('a client that leaves while its request runs has it cancelled', async (t) => {
      const endpoint = await host(t, { stages: [STAGE] });
      const client = new RawClient(endpoint.port).send(postText('{"ms":2000}'));
      await until('the request is open', () => endpoint.service.service.snapshot().backlog === 1);
      client.socket.destroy();
      await until('the request is given up', () => endpoint.service.service.snapshot().requests['cancelled'] === 1);
      assert.equal(endpoint.service.service.snapshot().backlog, 0);
    });

    test('requests that come at once on one connection get their own answers, in their order', async (t) => {
      const endpoint = await host(t, { stages: [STAGE] });
      const client = new RawClient(endpoint.port);
      const sent = Array.from({ length: 60 }, (_, n) => JSON.stringify({ n, ms: (n * 7) % 5 }));
      client.send(sent.map((body) => postText(body)).join(''));
      await until('all are answered', () => client.statuses.length === sent.length);
      await until('the last answer is whole', () => client.received.endsWith(sent.at(-1) as string));
      assert.deepEqual(
        client.received
          .split('\r\n\r\n')
          .slice(1)
          .map((answer) => answer.split('HTTP/1.1')[0]),
        sent,
      );
      client.socket.destroy();
      await isWell(endpoint);
    });

    test('bytes that are not HTTP, or two requests in one, end their connection and no other', async (t) => {
      const endpoint = await host(t, { stages: [STAGE] });
      const rows: readonly (readonly [name: string, sent: string, statuses: readonly number[]])[] = [
        ['a length and chunks', postText('{}', { 'Transfer-Encoding': 'chunked' }), [400]],
        ['two lengths', postText('{}').replace('Host:', 'Content-Length: 3\r\nHost:'), [400]],
        ['a length that is no number', postText('{}', { 'Content-Length': '2a' }), [400]],
        ['a negative length', postText('{}', { 'Content-Length': '-2' }), [400]],
        ['a length that is too short', postText('{}tail', { 'Content-Length': '2' }), [400]],
        ['huge headers', postText('{}', { 'X-Huge': 'x'.repeat(100_000) }), [431]],
        ['a line break in a header', postText('{}', { 'X-Own': 'a\rb' }), [400]],
        ['chunks of no size', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n', [400]],
        [
          'a chunk that is longer than it says',
          `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n`,
          [400],
        ],
        [
          'a chunk of endless size',
          `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${'f'.repeat(40)}\r\n`,
          [400],
        ],
      ];
      for (const [name, sent, statuses] of rows) {
        const client = new RawClient(endpoint.port).send(sent);
        await client.closed;
        assert.deepEqual(client.statuses, statuses, `${name}: ${client.received.slice(0, 300)}`);
      }
      await isWell(endpoint);
    });

    test('random changes to a request come to an answer, to the end of the connection, or to patience', async (t) => {
      const endpoint = await host(t, { stages: [STAGE] });
      const whole = Buffer.from(postText('{"a":[1,"text"]}', { Accept: 'application/msgpack', timeout: '5000' }));
      let seed = 13;
      const random = (below: number): number => {
        seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
        return (seed >>> 8) % below;
      };
      const clients = Array.from({ length: 300 }, () => {
        const changed = Buffer.from(whole);
        for (let change = random(6); change >= 0; change -= 1) changed[random(changed.length)] = random(256);
        return new RawClient(endpoint.port).send(changed.subarray(0, changed.length - random(3)));
      });
      await isWell(endpoint);
      for (const { received, socket } of clients) {
        assert.match(received, /^(?:HTTP\/1\.1 [1-5]\d\d |$)/);
        socket.destroy();
      }
      await isWell(endpoint);
    });

    test('a body beyond the limit is refused before it is sent, or when the limit is reached', async (t) => {
      const maxBytes = MEGABYTE;
      const endpoint = await host(t, { stages: [STAGE] }, { maxBytes });
      const head = { 'Content-Length': String(512 * MEGABYTE), 'Content-Type': 'application/octet-stream' };
      const announced = new RawClient(endpoint.port).send(postText('x', head));
      await until('the announced body is refused', () => announced.statuses.length === 1);
      assert.deepEqual(announced.statuses, [413]);
      announced.socket.destroy();
      const status = await new Promise((resolve, reject) => {
        const sent = request(endpoint.url, { method: 'POST', headers: { 'Content-Type': 'application/octet-stream' } });
        sent.on('response', ({ statusCode }) => resolve(statusCode)).on('error', reject);
        sent.end(Buffer.alloc(3 * MEGABYTE));
      });
      assert.equal(status, 413);
      await isWell(endpoint);
    });

    test('clients that do not read their answers keep no other client waiting', async (t) => {
      const code = "return { text: 'x'.repeat(2_000_000) };";
      const endpoint = await host(
        t,
        { stages: [inlineStage('large', code, { workers: 2 })] },
        { maxBytes: 4 * MEGABYTE },
      );
      const clients = Array.from({ length: 20 }, () => {
        const client = new RawClient(endpoint.port);
        client.socket.pause();
        return client.send(postText('{}'));
      });
      const read = await CALLERS.fetch(endpoint.url, { 'Content-Type': TYPES.json }, Buffer.from('{}'));
      assert.equal(read.bytes.length, 2_000_011);
      for (const { socket } of clients) socket.destroy();
      await until('no request is open', () => endpoint.service.service.snapshot().backlog === 0);
    });
  });
}

test('lengths that clients only claim take no memory, and their clients no place', async (t) => {
  const maxBytes = 1024 * MEGABYTE;
  const endpoint = await serveEndpoint(
    t,
    { stages: [STAGE] },
    { maxBytes, maxJson: { bytes: maxBytes, name: 'the limit' } },
  );
  const before = process.memoryUsage().arrayBuffers;
  const head = { 'Content-Length': String(512 * MEGABYTE), 'Content-Type': 'application/octet-stream' };
  const clients = Array.from({ length: 50 }, () => new RawClient(endpoint.port).send(postText('x', head)));
  await isWell(endpoint);
  assert.ok(process.memoryUsage().arrayBuffers - before < 50 * MEGABYTE, 'memory is taken for bytes that never came');
  for (const { socket } of clients) socket.destroy();
});

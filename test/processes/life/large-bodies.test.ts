/** The memory of large bodies is freed when they are answered. No answer changes by that. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Chunks } from '../../../src/wire/codec/chunks.ts';
import { type HostedEndpoint, inlineStage, listenAtEngine, RawClient, serveEndpoint } from '../../fixtures/endpoint.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';

const LENGTH = 200_000;
/** Gives a body back. A body that begins with 0 fails at once, and a body that begins with 255 waits until it is cancelled. */
const CODE = `
  if (input[0] === 0) throw Object.assign(new Error('no'), { code: 'invalid_input' });
  while (input[0] === 255 && !ctx.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5));
  return input;`;

const bodyOf = (value: number): Uint8Array<ArrayBuffer> => new Uint8Array(LENGTH).fill(value);

function post(url: string, body: Uint8Array<ArrayBuffer>, signal: AbortSignal | null = null): Promise<Response> {
  return fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/octet-stream' }, signal });
}

/** Returns the bodies of the requests that come, as the runtime gets them. */
function bodiesOf({ service: { service } }: HostedEndpoint): Chunks[] {
  const bodies: Chunks[] = [];
  const { desk } = service;
  const submit = desk.submit.bind(desk);
  desk.submit = (request) => {
    bodies.push(request.payload.chunks as Chunks);
    return submit(request);
  };
  return bodies;
}

const serve = (t: TestContext): Promise<HostedEndpoint> =>
  serveEndpoint(t, { stages: [inlineStage('in', CODE, { capacity: 4 })] });

test('a body is freed when it is answered, and not when it has failed', async (t) => {
  const endpoint = await serve(t);
  const bodies = bodiesOf(endpoint);
  const answer = await post(endpoint.url, bodyOf(7));
  assert.ok(Buffer.from(await answer.arrayBuffer()).equals(bodyOf(7)));
  assert.throws(() => bodies[0]?.lent, /freed/);
  const failed = await post(endpoint.url, bodyOf(0));
  assert.equal(failed.status, 422, await failed.text());
  assert.ok(bodies[1]?.bytes.equals(bodyOf(0)));
  const gone = new AbortController();
  const waiting = post(endpoint.url, bodyOf(255), gone.signal);
  await until('the worker has it', () => bodies.length === 3);
  gone.abort();
  await assert.rejects(waiting);
  await until('nothing is open', () => endpoint.service.service.desk.backlog === 0);
  assert.ok(bodies[2]?.bytes.equals(bodyOf(255)));
});

test('a client that sends many requests at once and reads late gets what it sent', async (t) => {
  const { port, service } = await listenAtEngine(t, { stages: [inlineStage('in', 'return input')] });
  const client = new RawClient(port);
  client.socket.pause();
  const values = Array.from({ length: 30 }, (_, at) => at + 1);
  const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\nContent-Length: ${LENGTH}\r\n\r\n`;
  for (const value of values) client.send(head).send(Buffer.from(bodyOf(value)));
  await until('the first is answered', () => (service.service.snapshot().requests['ok'] ?? 0) > 0);
  client.socket.resume();
  await until('the last answer is whole', () => client.received.endsWith(String.fromCharCode(30).repeat(LENGTH)));
  const [, ...answers] = client.received.split(/HTTP\/1\.1 200 OK\r\n/);
  assert.equal(answers.length, values.length);
  for (const [at, value] of values.entries())
    assert.ok(answers[at]?.includes(String.fromCharCode(value).repeat(LENGTH)), `the answer to ${value}`);
  client.socket.destroy();
});

test('what middleware has kept of a body and of its answer stays', async (t) => {
  const endpoint = await serve(t);
  const seen: Buffer[] = [];
  const sent: Buffer[] = [];
  endpoint.server.prependListener('request', (request, response) => {
    const end = response.end.bind(response);
    Object.assign(response, {
      end: (body: Buffer) => {
        sent.push(body);
        return end(body);
      },
    });
    request.on('data', (chunk: Buffer) => seen.push(chunk));
  });
  const answer = await post(endpoint.url, bodyOf(9));
  assert.ok(Buffer.from(await answer.arrayBuffer()).equals(bodyOf(9)));
  // The next answer comes after the first has left this process.
  await (await post(endpoint.url, bodyOf(9))).arrayBuffer();
  assert.ok(Buffer.concat(seen).subarray(0, LENGTH).equals(bodyOf(9)));
  assert.ok(sent[0]?.equals(bodyOf(9)));
});

/** Notes in a file whether each body is what a client has sent. */
const checkedIn = (file: string): string => `
  const isWhole = input.length === ${LENGTH} && input.every((byte) => byte === input[0]) && input[0] > 0;
  require('node:fs').appendFileSync(${JSON.stringify(file)}, isWhole ? '.' : 'x');`;

for (const [place, serveAt] of [
  ["Node-RED's process", serveEndpoint],
  ['the engine', listenAtEngine],
] as const) {
  test(`clients of ${place} get what they sent while a worker dies, and a shadow gets the same`, async (t) => {
    const seen = join(folderFor(t), 'seen');
    const versions = { list: [{ stage: 'shadow', mode: 'shadow', share: 100 }], rollbackAbove: 0 } as const;
    const { url, service } = await serveAt(t, {
      stages: [
        inlineStage('in', 'return input', { versions, retryLost: true, workers: 2 }),
        inlineStage('shadow', checkedIn(seen)),
      ],
      routes: { in: ['in'] },
    });
    const values = Array.from({ length: 240 }, (_, at) => 1 + at);
    const client = async (): Promise<void> => {
      for (let value = values.pop(); value !== undefined; value = values.pop()) {
        const answer = await post(url, bodyOf(value));
        assert.ok(Buffer.from(await answer.arrayBuffer()).equals(bodyOf(value)), `${value}: ${answer.status}`);
        if (value === 120) kill9(service.pids('in')[0]);
      }
    };
    await Promise.all(Array.from({ length: 8 }, client));
    const copies = (): string => (existsSync(seen) ? readFileSync(seen, 'utf8') : '');
    await until('the shadow has seen some', () => copies().length >= 20);
    assert.match(copies(), /^\.+$/);
  });
}

/** Endpoints that need keys, on both hosts: in this process, and on the engine's listener. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import type { ClientKey } from '../../../src/core/endpoints.ts';
import { inlineStage, listenAtEngine, POST_AT_ROOT, RawClient, serveEndpoint } from '../../fixtures/endpoint.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { until } from '../../fixtures/polling.ts';

const HOSTS: readonly (readonly [where: string, host: typeof listenAtEngine])[] = [
  ['in this process', serveEndpoint],
  ['in the engine', listenAtEngine],
];
const STAGE = inlineStage(
  'echo',
  'if (input.ms) await new Promise((resolve) => setTimeout(resolve, input.ms)); return input;',
  { workers: 2 },
);
const APP = 'the-key-of-the-app';
const BATCH = 'the-key-of-the-batch';

function client(name: string, key: string, more: Partial<ClientKey> = {}): ClientKey {
  return { name, hash: createHash('sha256').update(key).digest('hex'), paths: [], rate: 0, concurrent: 0, ...more };
}

function post(url: string, key: string | null, body = '{"n":1}'): Promise<Response> {
  const headers = { 'Content-Type': 'application/json', ...(key === null ? {} : { 'X-API-Key': key }) };
  return fetch(url, { method: 'POST', headers, body });
}

function raw(headers: string): string {
  return `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 7\r\n${headers}\r\n\r\n{"n":1}`;
}

for (const [where, host] of HOSTS) {
  describe(where, () => {
    test('a client is answered by what its key allows', async (t) => {
      const keys = [
        client('app', APP),
        client('batch', BATCH, { rate: 0.01 }),
        client('elsewhere', 'another-key', { paths: ['/elsewhere'] }),
      ];
      const { url, service } = await host(t, { stages: [STAGE] }, { keys });
      const refused = await post(url, null);
      const { error } = (await refused.json()) as { error: { code: string; stage?: string } };
      assert.deepEqual([refused.status, error.code, error.stage], [401, 'unauthorized', undefined]);
      assert.equal(refused.headers.get('www-authenticate'), 'Bearer');
      assert.equal((await post(url, 'a wrong key')).status, 401);
      assert.equal((await post(url, 'another-key')).status, 403);
      assert.equal((await post(url, APP)).status, 200);
      assert.equal((await post(url, BATCH)).status, 200);
      const limited = await post(url, BATCH);
      assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '100']);
      const counted = { app: { 200: 1 }, batch: { 200: 1, 429: 1 }, elsewhere: { 403: 1 }, none: { 401: 2 } };
      const shown = (): unknown => service.service.snapshot().clients;
      await until('all are counted', () => JSON.stringify(shown()) === JSON.stringify(sorted(shown(), counted)));
    });

    test('a connection may bear another key with each request, and no header breaks it', async (t) => {
      const keys = [client('app', APP), client('batch', BATCH)];
      const { port } = await host(t, { stages: [STAGE] }, { keys });
      const sent = [
        `X-API-Key: ${APP}`,
        'X-API-Key: schl\u00fcssel',
        `Authorization: Bearer ${BATCH}`,
        'X-Nothing: 1',
        `X-API-Key: ${'x'.repeat(8000)}`,
        `Authorization: Bearer ${APP}`,
      ];
      const connection = new RawClient(port).send(sent.map(raw).join(''));
      await until('all are answered', () => connection.statuses.length === sent.length);
      assert.deepEqual(connection.statuses, [200, 401, 200, 401, 401, 200]);
      connection.socket.destroy();
    });

    test('open requests fill the places of their client alone, and leave them when it goes away', async (t) => {
      const keys = [client('app', APP, { concurrent: 1 }), client('batch', BATCH)];
      const { url, service } = await host(t, { stages: [STAGE] }, { keys });
      const leaving = new AbortController();
      const headers = { 'Content-Type': 'application/json', 'X-API-Key': APP };
      const open = fetch(url, { method: 'POST', headers, body: '{"ms":3000}', signal: leaving.signal });
      open.catch(() => {});
      await until('the first request is open', () => service.service.snapshot().backlog === 1);
      assert.equal((await post(url, APP)).status, 429);
      assert.equal((await post(url, BATCH)).status, 200);
      leaving.abort();
      await until('there is room again', async () => (await post(url, APP)).status === 200);
    });
  });
}

function sorted(shown: unknown, expected: Record<string, unknown>): unknown {
  return Object.fromEntries(Object.keys(shown as object).map((name) => [name, expected[name]]));
}

test('a deploy of the listener ends a key at once, on open connections too, and its other paths need a key', async (t) => {
  const keys = [client('app', APP), client('batch', BATCH)];
  const { url, service } = await listenAtEngine(t, { stages: [STAGE] }, { keys });
  service.service.publishApi('{"openapi":"3.1.0"}');
  const connection = new RawClient(Number(new URL(url).port)).send(raw(`X-API-Key: ${APP}`));
  await until('the key is known', () => connection.statuses.length === 1);
  for (const path of ['metrics', 'openapi.json']) {
    assert.equal((await fetch(`${url}${path}`)).status, 401, path);
    assert.equal((await fetch(`${url}${path}`, { headers: { Authorization: `Bearer ${BATCH}` } })).status, 200, path);
  }
  assert.equal((await fetch(`${url}health/ready`)).status, 200);
  assert.equal((await fetch(url, { method: 'OPTIONS' })).status, 204, 'a preflight bears no key');
  const scrape = new Scrape(await (await fetch(`${url}metrics`, { headers: { 'X-API-Key': APP } })).text());
  assert.equal(scrape.value('modelet_client_requests_total', { client: 'app', status: '200' }), 1);
  assert.equal(scrape.value('modelet_client_requests_total', { client: 'none', status: '401' }), 2);
  const listener = {
    ...{ address: { host: '127.0.0.1', port: 0 }, tls: null, endpoints: [POST_AT_ROOT] },
    ...{ maxJson: { bytes: 1024, name: 'the limit' }, keys: [client('batch', BATCH)] },
  };
  service.apply({ stages: [STAGE], listener });
  await until('the key has ended', async () => (await post(url, APP)).status === 401);
  connection.send(raw(`X-API-Key: ${APP}`) + raw(`X-API-Key: ${BATCH}`));
  await until('the connection goes on', () => connection.statuses.length >= 3 || connection.socket.destroyed);
  assert.deepEqual(connection.statuses, [200, 401, 200]);
  connection.socket.destroy();
});

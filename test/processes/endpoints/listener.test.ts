/** The engine's own listener: its addresses, what it answers besides endpoints, and that nothing costs a request its answer. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { compileRuntime } from '../../../src/config/compile.ts';
import type { ListenAddress, ListenerSpec } from '../../../src/core/endpoints.ts';
import type { ListenerSnapshot } from '../../../src/observe/views/snapshot.ts';
import { inlineStage, listenAtEngine, POST_AT_ROOT } from '../../fixtures/endpoint.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { release, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const ECHO = inlineStage('echo', 'return input;');
const ANY_PORT: ListenAddress = { host: '127.0.0.1', port: 0 };

function listenerAt(address: ListenAddress, more: Partial<ListenerSpec> = {}): ListenerSpec {
  return {
    address,
    tls: null,
    maxJson: { bytes: 1024 * 1024, name: 'the limit' },
    keys: null,
    endpoints: [POST_AT_ROOT],
    ...more,
  };
}

/** A stage whose runs wait until the test releases `slow` in the folder. */
function waiting(t: TestContext): readonly [stage: StageSpec, folder: string] {
  const folder = folderFor(t);
  const code = `
    const { existsSync } = await import('node:fs');
    while (!existsSync(${JSON.stringify(join(folder, 'slow.open'))})) await new Promise((done) => setTimeout(done, 2));
    return input;`;
  return [inlineStage('slow', code, { workers: 2 }), folder];
}

function stateOf({ service }: TestService): ListenerSnapshot | null {
  return service.snapshot().listener;
}

async function post(url: string, value: unknown): Promise<{ status: number; value: unknown }> {
  const headers = { 'Content-Type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(value) });
  return { status: answer.status, value: await answer.json() };
}

test('the deep health check runs the examples, and does not show the message of their error', async (t) => {
  const content = `export default class {
  static examples = [1];
  predict(input) {
    globalThis.calls = (globalThis.calls ?? 0) + 1;
    if (globalThis.calls > 2) throw new Error('a secret');
    return input;
  }
}`;
  const file = join(folderFor(t), 'model.mjs');
  writeFileSync(file, content);
  const { url, service } = await listenAtEngine(t, { stages: [{ id: 'model', file }] });
  await service.ready();
  const check = async (): Promise<unknown[]> => {
    const answer = await fetch(`${url}health/ready?deep=1`);
    return [answer.status, await answer.json()];
  };
  const stage = { stage: 'model', examples: 1 };
  await until('the engine listens', () => stateOf(service)?.tag === 'listening');
  // The worker also ran the example before it was ready.
  assert.deepEqual(await check(), [200, { ready: true, missing: [], checks: [{ ...stage, ok: true }] }]);
  const checks = [{ ...stage, ok: false, error: { code: 'modelet_failed' } }];
  assert.deepEqual(await check(), [503, { ready: false, missing: [], checks }]);
  assert.equal((await fetch(`${url}health/ready`)).status, 200);
});

test('the listener serves endpoints, health, metrics and the document, and says what else it does not serve', async (t) => {
  const { url, service } = await listenAtEngine(t, { stages: [ECHO] });
  service.service.publishApi('{"openapi":"3.1.0"}');
  await until('the engine listens', () => stateOf(service)?.tag === 'listening');
  assert.deepEqual(await post(url, { n: 1 }), { status: 200, value: { n: 1 } });
  const rows: readonly (readonly [method: string, path: string, status: number, body: RegExp, allow?: string])[] = [
    ['GET', 'health/live', 200, /^\{"live":true\}$/],
    ['GET', 'health/ready', 200, /^\{"ready":true,"missing":\[\]\}$/],
    [
      'GET',
      'health/ready?deep=1',
      200,
      /^\{"ready":true,"missing":\[\],"checks":\[\{"stage":"echo","ok":true,"examples":0\}\]\}$/,
    ],
    ['HEAD', 'health/ready', 200, /^$/],
    ['GET', 'openapi.json', 200, /^\{"openapi":"3\.1\.0"\}$/],
    ['GET', 'metrics', 200, /^# HELP /],
    ['GET', 'elsewhere', 404, /"code":"not_found".*"requestId":"asked"/],
    ['POST', 'elsewhere', 404, /"code":"not_found"/],
    ['GET', '', 405, /"code":"method_not_allowed"/, 'POST, OPTIONS'],
    ['DELETE', 'metrics', 405, /"code":"method_not_allowed"/, 'GET, HEAD, OPTIONS'],
    ['OPTIONS', '', 204, /^$/, 'POST, OPTIONS'],
    ['OPTIONS', 'elsewhere', 404, /"code":"not_found"/],
    ['POST', '?callback=run', 415, /"code":"unsupported_media"/],
  ];
  for (const [method, path, status, body, allow] of rows) {
    const answer = await fetch(url + path, { method, headers: { 'X-Request-Id': 'asked' } });
    assert.equal(answer.status, status, `${method} ${path}`);
    assert.equal(answer.headers.get('allow') ?? undefined, allow, `${method} ${path}`);
    assert.match(await answer.text(), body);
  }
  const scrape = new Scrape(await (await fetch(`${url}metrics`)).text());
  assert.equal(scrape.value('modelet_requests_total', { runtime: 'runtime-1', code: 'ok' }), 1);
  assert.equal(scrape.value('modelet_requests_total', { code: 'unsupported_media' }), 1);
  assert.equal(scrape.value('modelet_items_total', { stage: 'echo' }), 1);
  await until('the server counts them too', () => service.service.snapshot().requests['unsupported_media'] === 1);
  const { requests, slowest } = service.service.snapshot();
  assert.equal(requests['ok'], 1);
  assert.deepEqual(
    slowest.map(({ code, stages }) => [code, stages.map(({ name }) => name)]),
    [['ok', ['echo']]],
  );
  assert.equal(
    service.service.measure().durations.ok.counts.reduce((sum, count) => sum + count),
    1,
  );
});

test('the listener serves the metrics that modelets declare', async (t) => {
  const counting = inlineStage('counts', "ctx.metrics.counter('calls_total', 'Calls').inc(2); return input;");
  const { url, service } = await listenAtEngine(t, { stages: [counting] });
  await post(url, { n: 1 });
  const text = async (): Promise<string> => (await fetch(`${url}metrics`)).text();
  await until('the worker has reported', () => Object.keys(service.stage('counts').reading.own).length === 1);
  const name = 'modelet_model_calls_total';
  const exposition = await text();
  assert.equal(new Scrape(exposition).value(name, { runtime: 'runtime-1', stage: 'counts' }), 2);
  assert.match(exposition, /^# HELP modelet_model_calls_total Calls$/m);
  assert.equal(new Scrape(exposition).types.get(name), 'counter');
});

test('a port that another program has is taken when it is free, and meanwhile the rest runs', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  const service = await serve(t, { stages: [ECHO], listener: listenerAt({ host: '127.0.0.1', port }) });
  await until('the address is refused', () => stateOf(service)?.tag === 'failed');
  const message = `cannot listen at 127.0.0.1:${port}: port ${port} is in use (EADDRINUSE)`;
  assert.deepEqual(stateOf(service), { tag: 'failed', code: 'EADDRINUSE', message, address: `127.0.0.1:${port}` });
  assert.equal(await service.value(5), 5);
  other.close();
  assert.equal(await service.url(), `http://127.0.0.1:${port}`);
  assert.deepEqual((await post(await service.url(), [1])).value, [1]);
  assert.equal(service.logs.filter((record) => record.message === message).length, 1, 'one line for all attempts');
});

test('an address that cannot be taken is refused with its reason', async (t) => {
  const folder = folderFor(t);
  const rows: readonly (readonly [address: ListenAddress, reason: RegExp])[] = [
    [{ host: '192.0.2.1', port: 8080 }, /this machine has no address 192\.0\.2\.1 \(EADDRNOTAVAIL\)/],
    [{ host: 'no.such.host.invalid', port: 8080 }, /the host no\.such\.host\.invalid is not known/],
    [{ path: join(folder, 'missing', 'socket') }, /its folder does not exist \(ENOENT\)|permission denied/],
  ];
  const service = await serve(t, { stages: [ECHO] });
  for (const [address, reason] of rows) {
    service.apply({ stages: [ECHO], listener: listenerAt(address) });
    await until(`${reason}`, () => {
      const state = stateOf(service);
      return state?.tag === 'failed' && reason.test(state.message);
    });
  }
  service.apply({ stages: [ECHO], listener: listenerAt(ANY_PORT, { tls: {} }) });
  await until('a TLS configuration without a key is refused', () => {
    const state = stateOf(service);
    return state?.tag === 'failed' && /the TLS configuration has no key/.test(state.message);
  });
});

test('a Unix socket is for its owner and group, and comes back after the engine was killed', async (t) => {
  const path = join(folderFor(t), 'engine.sock');
  const service = await serve(t, { stages: [ECHO], listener: listenerAt({ path }) });
  const ask = async (): Promise<string> => {
    const sent = request({
      socketPath: path,
      method: 'POST',
      path: '/',
      headers: { 'Content-Type': 'application/json' },
    });
    sent.end('[7]');
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    return (await buffer(answer)).toString();
  };
  assert.equal(await service.url(), `unix:${path}`);
  assert.equal(statSync(path).mode & 0o777, 0o660);
  assert.equal(await ask(), '[7]');
  await killEngine(service);
  assert.equal(await service.url(), `unix:${path}`);
  assert.equal(await ask(), '[7]');
  service.apply({ stages: [ECHO] });
  await until('the socket is removed', () => !existsSync(path));
  assert.equal(stateOf(service), null);
});

test('an engine that dies loses the requests that it has, and its successor listens again', async (t) => {
  const slow = inlineStage(
    'slow',
    'if (input.ms) await new Promise((done) => setTimeout(done, input.ms)); return input;',
  );
  const service = await serve(t, { stages: [slow], listener: listenerAt(ANY_PORT) });
  const lost = post(await service.url(), { ms: 60_000 });
  const failed = assert.rejects(lost);
  await until('the request is open', () => service.service.snapshot().backlog === 1);
  await killEngine(service);
  await failed;
  assert.deepEqual(await post(await service.url(), { n: 1 }), { status: 200, value: { n: 1 } });
});

test('a worker that dies costs the requests that it has', async (t) => {
  const dies = inlineStage('dies', 'if (input.exit) process.exit(3); return input;');
  const { url, service } = await listenAtEngine(t, { stages: [dies] });
  const { status, value } = await post(url, { exit: true });
  assert.equal(status, 503);
  assert.match(JSON.stringify(value), /"code":"worker_lost"/);
  await service.ready();
  assert.equal((await post(url, { n: 1 })).status, 200);
});

test('a change of the address lets open requests end, and nothing else opens a connection again', async (t) => {
  const [slow, folder] = waiting(t);
  const service = await serve(t, { stages: [slow], listener: listenerAt(ANY_PORT) });
  await service.ready();
  const before = await service.url();
  // The same address again: the engine keeps its server.
  service.apply({ stages: [slow], listener: listenerAt(ANY_PORT) });
  const underWay = post(before, { n: 1 });
  await until('the request is open', () => service.service.snapshot().backlog === 1);
  assert.equal(await service.url(), before);
  const path = join(folder, 'engine.sock');
  service.apply({ stages: [slow], listener: listenerAt({ path }) });
  await until(
    'it listens there',
    () => stateOf(service)?.tag === 'listening' && existsSync(path) && service.service.snapshot().backlog === 1,
  );
  release(folder, 'slow');
  assert.deepEqual(await underWay, { status: 200, value: { n: 1 } });
  await assert.rejects(post(before, { n: 2 }), 'no process listens at the earlier address');
});

test('a runtime that closes answers open requests, and refuses others', async (t) => {
  const [slow, folder] = waiting(t);
  const { url, service } = await listenAtEngine(t, { stages: [slow] });
  const underWay = post(url, { n: 1 });
  await until('the request is open', () => service.service.snapshot().backlog === 1);
  const closed = service.service.close(true);
  release(folder, 'slow');
  assert.deepEqual(await underWay, { status: 200, value: { n: 1 } });
  await closed;
  await assert.rejects(post(url, { n: 2 }));
});

test('a full runtime refuses at its own address too', async (t) => {
  const config = { ...compileRuntime({}), capacity: 2 };
  const [slow, folder] = waiting(t);
  const { url } = await listenAtEngine(t, { stages: [slow], config });
  const statuses: number[] = [];
  const posts = Array.from({ length: 4 }, async (_, n) => statuses.push((await post(url, { n })).status));
  await until('two are refused', () => statuses.length === 2);
  release(folder, 'slow');
  await Promise.all(posts);
  assert.deepEqual(statuses, [429, 429, 200, 200]);
});

async function killEngine(service: TestService): Promise<void> {
  const before = service.enginePid;
  kill9(before);
  await until('another engine runs', () => {
    const { pid, state } = service.service.snapshot().engine;
    return state === 'ready' && pid !== before;
  });
}

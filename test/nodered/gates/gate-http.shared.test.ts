/** A gate in front of an `http request` node: what comes back through the collector ends the leases and tells of load. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, afterEach, describe, test } from 'node:test';
import { catchNode, collector, dispatchGate, func, httpIn, httpOut, node, sink, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

/** Answers what it is asked to, when the test wants it. */
let answer: (response: ServerResponse) => void;
const asked: string[] = [];
const server = createServer((incoming, response) => {
  asked.push(incoming.url ?? '');
  incoming.resume();
  answer(response);
});

function ok(body = 'fine'): void {
  answer = (response) => response.end(body);
}

const red = useNodeRed({
  prepare: async (red) => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await red.deploy([
      TAB,
      httpIn('in', '/behind', 'gate'),
      dispatchGate('gate', 'ask', 'refused', { maxSys: '2', whenClosed: 'refuse' }),
      httpRequest('ask', `http://127.0.0.1:${port}/model`, 'collect'),
      collector('collect', ['out', 'results']),
      httpOut('out'),
      httpOut('refused'),
      sink('results'),
      httpIn('limited in', '/limited', 'limited'),
      dispatchGate('limited', 'ask limited', 'refused', { whenClosed: 'refuse' }),
      httpRequest('ask limited', `http://127.0.0.1:${port}/model`, 'collect'),
      dispatchGate('to nobody', 'ask nobody'),
      httpRequest('ask nobody', 'http://127.0.0.1:9/', [], { senderr: true }),
      catchNode('catch', 'collect nobody', { scope: ['ask nobody'] }),
      collector('collect nobody', 'nobody'),
      sink('nobody'),
      // Sets headers itself, and comes from no `http request`.
      func('own', "msg.headers = { connection: 'close', 'content-encoding': 'gzip' }; return msg;", 'collect own'),
      collector('collect own', 'own results'),
      sink('own results'),
    ]);
    results = red.inputs('results');
    ok();
  },
});
let results: Message[];
after(async () => {
  server.close();
});
afterEach(async () => {
  ok();
  await until('the gate is open again', async () => (await red.gate('gate')).open);
  results.length = 0;
});

function httpRequest(id: string, url: string, to: string | string[], properties: object = {}): FlowNode {
  return node(id, 'http request', [to], { method: 'POST', ret: 'txt', paytoqs: 'ignore', url, ...properties });
}

/** The gate's decision about a request, when its lease has ended. */
async function send(payload: unknown = {}, gate = 'gate'): Promise<Message> {
  red.send(gate, { payload });
  const result = await until('it has come back', () => results.shift());
  assert.equal((await red.gate(gate)).inFlight, 0);
  return result;
}

describe('the answer of an http request', () => {
  test('a result ends the lease, and reaches the client without the headers of the other connection', async () => {
    answer = (response) => {
      const about = { 'Keep-Alive': 'timeout=9', 'X-Private': '1', TE: 'trailers', 'X-Model': 'small' };
      response.writeHead(200, { ...about, Connection: 'keep-alive, X-Private', 'Content-Length': 4 });
      response.end('fine');
    };
    const response = await red.post('/behind', {});
    assert.equal(response.status, 200);
    assert.equal(await response.text(), 'fine');
    assert.equal(response.headers.get('x-model'), 'small');
    const { headers } = (await until('the other has it', () => results[0])) as { headers?: Record<string, string> };
    assert.deepEqual(Object.keys(headers ?? {}).sort(), ['date', 'x-model']);
    assert.equal((await red.gate('gate')).inFlight, 0);
  });

  test('429 closes the gate for as long as Retry-After says', async () => {
    answer = (response) => response.writeHead(429, { 'Retry-After': '3600' }).end();
    await send({}, 'limited');
    const { open, lastRefusal, why } = await red.gate('limited');
    assert.deepEqual([open, lastRefusal?.retryAfterMs], [false, 3_600_000]);
    assert.match(why, /refused/);
    const before = asked.length;
    assert.equal((await red.post('/limited', {})).status, 429);
    assert.equal(asked.length, before, 'nothing went through');
  });

  test('503 closes the gate until the next sample', async () => {
    answer = (response) => response.writeHead(503).end();
    assert.equal((await red.gate('gate')).lastRefusal, null);
    await send();
    assert.equal((await red.gate('gate')).lastRefusal?.retryAfterMs, 0);
  });

  for (const status of [200, 404, 500, 502]) {
    test(`${status} ends the lease and closes nothing`, async () => {
      answer = (response) => response.writeHead(status).end();
      await send();
      assert.equal((await red.gate('gate')).open, true);
    });
  }

  test('at most N requests are in flight', async () => {
    const answers: ServerResponse[] = [];
    answer = (response) => answers.push(response);
    const requests = [red.post('/behind', {}), red.post('/behind', {})];
    await until('both are with the server', () => answers.length === 2);
    assert.equal((await red.gate('gate')).inFlight, 2);
    assert.equal((await red.post('/behind', {})).status, 429);
    for (const response of answers) response.end('late');
    for (const request of requests) assert.equal((await request).status, 200);
  });
});

test('a request without an answer reaches a Catch node and ends its lease', async () => {
  const nobody = red.inputs('nobody');
  red.send('to nobody', { payload: 1 });
  const { error } = await until('it has failed', () => nobody[0]);
  assert.equal(error?.source.id, 'ask nobody');
  const { inFlight, lost, lastRefusal } = await red.gate('to nobody');
  assert.deepEqual([inFlight, lost, lastRefusal], [0, 0, null]);
});

test('headers that a flow has set pass a collector unchanged', async () => {
  const own = red.inputs('own results');
  red.send('own', { payload: 1 });
  const { headers } = await until('it is through', () => own[0]);
  assert.deepEqual({ ...(headers as object) }, { connection: 'close', 'content-encoding': 'gzip' });
});

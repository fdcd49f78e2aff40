/** A request keeps its caller's id on its way and in its answer, whatever its source. */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { before, describe, test } from 'node:test';
import { catchNode, collector, endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`;
const MADE = /^[0-9a-f]{8}-\w+$/;
const FAIL = `if (input.fail) throw Object.assign(new Error('told to fail'), { code: 'invalid_input' }); return input;`;

const red = useNodeRed({
  settings: {
    logging: { console: { level: 'off' }, memory: { level: 'debug', handler: () => keep } },
    runtimeState: { enabled: true, ui: false },
    httpNodeMiddleware: (request: IncomingMessage, response: ServerResponse, next: () => void) => {
      const id = request.headers['x-given-by-middleware'];
      if (id !== undefined) response.setHeader('X-Request-Id', id);
      next();
    },
  },
});
const gate = useGate();

/** The records that Node-RED has logged, with all parts. */
const logged: Readonly<Record<string, unknown>>[] = [];
function keep(entry: Readonly<Record<string, unknown>>): void {
  // The handler of the debug sidebar rewrites the message of an entry later.
  logged.push({ ...entry, msg: String(entry['msg']) });
}

function ask(path: string, headers: Record<string, string> = {}, body: object = {}): Promise<Response> {
  return red.post(path, body, { headers: { 'Content-Type': 'application/json', ...headers } });
}

function idOf(response: Response): string {
  return response.headers.get('X-Request-Id') ?? 'none';
}

/** An endpoint without a collector: errors go to Catch nodes if there are any. */
function bare(url: string, first: string): FlowNode[] {
  return [httpIn(`in ${url}`, url, first), httpOut(`out ${url}`)];
}

describe('a request id', () => {
  before(() =>
    red.deployReady([
      TAB,
      runtime('runtime', { logLevel: 'debug' }),
      ...endpoint('/plain', 'plain'),
      stage('plain', FAIL, 'collector /plain'),
      httpIn('in /long', '/long', 'long 1'),
      stage('long 1', 'return input;', 'forget'),
      func('forget', 'if (msg.payload.forget) delete msg.modelet; return msg;', 'long 2'),
      stage('long 2', FAIL, 'collector /long'),
      collector('collector /long', 'out /long', 'out /long'),
      httpOut('out /long'),
      ...endpoint('/own', 'own'),
      stage('own', 'return input;', 'set header'),
      func('set header', "msg.headers = { 'x-request-id': 'of the flow' }; return msg;", 'collector /own'),
      ...bare('/uncaught', 'uncaught'),
      stage('uncaught', FAIL, 'out /uncaught'),
      ...bare('/through', 'pass'),
      func('pass', 'return msg;', 'through'),
      stage('through', FAIL, 'out /through'),
      ...bare('/caught', 'caught'),
      stage('caught', FAIL, 'out /caught'),
      catchNode('catch', 'out /caught', { scope: ['caught'] }),
      ...endpoint('/late', 'late'),
      stage('late', 'await new Promise(() => {});', 'collector /late', { runtime: 'hasty' }),
      runtime('hasty', { timeoutMs: 100 }),
      ...endpoint('/broken', 'broken'),
      stage('broken', 'return input;', 'collector /broken', { predict: 'sometimes' }),
    ]),
  );

  const taken: readonly [what: string, headers: Record<string, string>, id: string | RegExp][] = [
    ['X-Request-Id', { 'X-Request-Id': 'order/17:a' }, 'order/17:a'],
    ['an X-Request-Id of 128 characters', { 'X-Request-Id': 'x'.repeat(128) }, 'x'.repeat(128)],
    ['the trace of traceparent', { traceparent: TRACEPARENT }, TRACE],
    ['X-Request-Id before traceparent', { 'X-Request-Id': 'mine', traceparent: TRACEPARENT }, 'mine'],
    ['the trace where X-Request-Id cannot be used', { 'X-Request-Id': 'a b', traceparent: TRACEPARENT }, TRACE],
    ['a new one: no header', {}, MADE],
    ['a new one: too long', { 'X-Request-Id': 'x'.repeat(129) }, MADE],
    ['a new one: a space in it', { 'X-Request-Id': 'two words' }, MADE],
    ['a new one: beyond ASCII', { 'X-Request-Id': 'caf\u00e9' }, MADE],
    ['a new one: a trace of zeros', { traceparent: `00-${'0'.repeat(32)}-00f067aa0ba902b7-01` }, MADE],
  ];
  for (const [what, headers, id] of taken) {
    test(`is ${what}: in the message, the error and the answer`, async () => {
      const results = red.inputs('collector /plain');
      const response = await ask('/plain', headers);
      assert.equal(response.status, 200);
      assert.match(idOf(response), typeof id === 'string' ? /./ : id);
      if (typeof id === 'string') assert.equal(idOf(response), id);
      assert.equal(results.at(-1)?.modelet?.requestId, idOf(response));

      const failed = await ask('/plain', headers, { fail: true });
      assert.equal(failed.status, 422);
      const { error } = (await failed.json()) as { error: { requestId: string } };
      assert.equal(error.requestId, idOf(failed));
      if (typeof id === 'string') assert.equal(error.requestId, id);
    });
  }

  test('two requests without an id get different ids', async () => {
    assert.notEqual(idOf(await ask('/plain')), idOf(await ask('/plain')));
  });

  test('stays the same over several passes, also if a node removes msg.modelet', async () => {
    const results = red.inputs('collector /long');
    for (const body of [{}, { forget: true }]) {
      for (const headers of [{}, { 'X-Request-Id': 'far' }]) {
        const response = await ask('/long', headers, body);
        assert.equal(response.status, 200);
        assert.equal(results.at(-1)?.modelet?.requestId, idOf(response));
      }
    }
    assert.equal(idOf(await ask('/long', {}, { forget: true, fail: true })).length > 4, true);
  });

  test('is in the answer unless the flow sets another', async () => {
    const response = await ask('/own', { 'X-Request-Id': 'of the caller' });
    assert.equal(idOf(response), 'of the flow');
  });

  test('is taken from the header that a middleware has set in the answer, where an invalid header stays', async () => {
    const results = red.inputs('collector /plain');
    const given = await ask('/plain', { 'X-Given-By-Middleware': 'given', 'X-Request-Id': 'mine' });
    assert.equal(idOf(given), 'given');
    assert.equal(results.at(-1)?.modelet?.requestId, 'given');
    const unfit = await ask('/plain', { 'X-Given-By-Middleware': 'two words', 'X-Request-Id': 'mine' });
    assert.equal(idOf(unfit), 'two words');
    assert.equal(results.at(-1)?.modelet?.requestId, 'mine');
  });

  const ways: readonly [path: string, body: object, status: number][] = [
    ['/uncaught', { fail: true }, 422],
    ['/caught', { fail: true }, 422],
    ['/late', {}, 408],
    ['/broken', {}, 503],
  ];
  for (const [path, body, status] of ways) {
    test(`is in the answer ${status} of ${path}`, async () => {
      const response = await ask(path, { 'X-Request-Id': `id of ${path}`.replaceAll(' ', '-') }, body);
      assert.equal(response.status, status);
      assert.equal(idOf(response), `id-of-${path}`);
    });
  }

  test('is in the log record of a failure at level debug', async () => {
    await ask('/plain', { 'X-Request-Id': 'logged' }, { fail: true });
    await until('it is logged', () =>
      logged.some(({ requestId, code }) => requestId === 'logged' && code === 'invalid_input'),
    );
  });

  for (const path of ['/uncaught', '/through']) {
    test(`is in the log line of a failure at ${path} that nothing handles, with all that Node-RED adds`, async () => {
      await ask(path, { 'X-Request-Id': `line-of-${path}` }, { fail: true });
      const line = await until('it is logged', () =>
        logged.find(({ requestId, type }) => requestId === `line-of-${path}` && type === 'modelet-stage'),
      );
      const name = path.slice(1);
      const node = { id: name, name, type: 'modelet-stage', z: TAB.id, path: TAB.id };
      const failure = {
        msg: 'invalid_input: told to fail (Predict:1:37)',
        code: 'invalid_input',
        requestId: `line-of-${path}`,
      };
      const expected = { ...node, ...failure, level: 20 };
      assert.deepEqual(Object.fromEntries(Object.keys(expected).map((key) => [key, line[key]])), expected);
    });
  }

  test('a message without an HTTP client gets an id', async () => {
    const results: Message[] = red.inputs('collector /plain');
    red.send('plain', { payload: 1 });
    await until('it has come', () => results.length > 0);
    assert.match(results[0]?.modelet?.requestId ?? '', MADE);
  });

  test('is in the answers of flows that stop, to held requests and to later ones', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      ...endpoint('/held', 'held'),
      stage('held', gate.code(), 'collector /held'),
    ]);
    const held = ask('/held', { 'X-Request-Id': 'held' }, { number: 1 });
    await until('it is held', async () => (await gate.entered()).length === 1);
    const stopped = red.post('/admin/flows/state', { state: 'stop' });
    for (const [id, response] of [
      ['held', await held],
      ['later', await ask('/held', { 'X-Request-Id': 'later' })],
    ] as const) {
      assert.equal(response.status, 503);
      assert.equal(idOf(response), id);
      assert.equal(((await response.json()) as { error: { requestId: string } }).error.requestId, id);
    }
    await stopped;
  });
});

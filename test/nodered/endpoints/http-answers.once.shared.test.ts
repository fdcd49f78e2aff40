/** Answers over HTTP in the forms that callers want, through whole flows. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decode, encode } from '@msgpack/msgpack';
import { CALLERS, type Form, post, read, TYPES, typeOf } from '../../fixtures/callers.ts';
import { catchNode, collector, endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';

const call = CALLERS['node:http'];

/** `[http in] -> [stage] -> [collector] -> [function] -> [http response]` */
function shaped(url: string, id: string, shape: string): FlowNode[] {
  return [
    httpIn(`in ${url}`, url, id),
    stage(id, 'return input;', `collector ${url}`),
    collector(`collector ${url}`, `shape ${url}`, `out ${url}`),
    func(`shape ${url}`, shape, `out ${url}`),
    httpOut(`out ${url}`),
  ];
}

async function refusedAsJson(url: string, body: object, headers: Record<string, string>, why: RegExp): Promise<void> {
  const answer = await post(`${red.url}${url}`, 'json', body, headers);
  assert.deepEqual([answer.status, typeOf(answer)], [500, TYPES.json]);
  const { error } = read('json', answer.bytes) as { error: Record<string, string> };
  assert.equal(error['code'], 'modelet_failed');
  assert.match(error['message'] ?? '', why);
}

const red = useNodeRed({
  flows: [
    TAB,
    runtime(),
    ...endpoint('/echo', 'echo'),
    stage('echo', 'return input;', 'collector /echo'),
    ...endpoint('/give', 'give'),
    stage('give', 'return input.give;', 'collector /give'),
    ...shaped('/score', 'score', 'msg.payload = msg.payload.score; return msg;'),
    ...shaped('/csv', 'csv', "msg.headers = { 'content-type': 'text/csv' }; msg.payload = 'a,b'; return msg;"),
    ...shaped('/unwritable', 'unwritable', 'msg.payload = { callback() {} }; return msg;'),
    ...shaped('/large', 'large', 'msg.payload = { large: 2n ** 64n }; return msg;'),
    ...shaped('/top', 'top', 'msg.payload = eval(msg.payload.top); return msg;'),
    ...shaped(
      '/typed',
      'typed',
      "msg.headers = { 'content-type': 'text/csv' }; msg.payload = eval(msg.payload.top); return msg;",
    ),
    ...endpoint('/big', 'big'),
    stage('big', 'return 2n ** 60n;', 'collector /big'),
    ...endpoint('/nan', 'nan'),
    stage('nan', 'return input.text ? "NaN" : NaN;', 'collector /nan'),
    ...shaped('/empty', 'empty', 'msg.statusCode = 204; msg.payload = undefined; return msg;'),
    { ...httpIn('in /query', '/query', 'query'), method: 'get' },
    stage('query', 'return input;', 'out /query'),
    httpOut('out /query'),
    httpIn('in /caught', '/caught', 'fails'),
    stage('fails', `throw Object.assign(new Error('no'), { code: 'invalid_input' });`, 'out /query'),
    catchNode('catch', 'tell', { scope: ['fails'] }),
    func('tell', 'msg.payload = { caught: msg.error.code ?? msg._error.code }; return msg;', 'out /query'),
  ],
});

describe('the form of an answer', () => {
  const rows: readonly (readonly [sent: Form, accept: string | undefined, answered: Form])[] = [
    ['json', undefined, 'json'],
    ['json', '*/*', 'json'],
    ['json', 'application/msgpack', 'msgpack'],
    ['json', 'application/json;q=0.1, application/x-msgpack', 'msgpack'],
    ['json', 'text/html', 'json'],
    ['msgpack', undefined, 'msgpack'],
    ['msgpack', '*/*', 'msgpack'],
    ['msgpack', 'application/json', 'json'],
    ['msgpack', 'application/json, text/plain, */*', 'json'],
  ];
  for (const [sent, accept, answered] of rows) {
    test(`${sent} sent, Accept ${accept ?? 'absent'}: ${answered}`, async () => {
      const answer = await post(
        `${red.url}/echo`,
        sent,
        { a: [1, 'b', null] },
        accept === undefined ? {} : { Accept: accept },
      );
      assert.equal(answer.status, 200);
      assert.equal(typeOf(answer), TYPES[answered]);
      assert.equal(answer.headers['content-length'], String(answer.bytes.length));
      assert.deepEqual(read(answered, answer.bytes), { a: [1, 'b', null] });
    });
  }

  const values: readonly unknown[] = ['text', '', '42', '4.50', 42, -0.5, true, false, null, [], 'true'];
  for (const form of ['json', 'msgpack'] as const) {
    test(`a result that is not an object is in ${form} if Accept names that form`, async () => {
      for (const value of values) {
        const answer = await post(`${red.url}/give`, 'json', { give: value }, { Accept: TYPES[form] });
        assert.equal(typeOf(answer), TYPES[form], JSON.stringify(value));
        assert.deepEqual(read(form, answer.bytes), value);
        assert.equal(answer.headers['content-length'], String(answer.bytes.length));
      }
      const score = await post(`${red.url}/score`, 'json', { score: 0.25 }, { Accept: TYPES[form] });
      assert.equal(read(form, score.bytes), 0.25);
    });
  }

  test('text and numbers are as Node-RED sends them if Accept names no form', async () => {
    for (const value of ['text', '42', 42]) {
      const answer = await post(`${red.url}/give`, 'json', { give: value });
      assert.equal(typeOf(answer), 'text/html');
      assert.equal(answer.bytes.toString(), String(value));
    }
  });

  test('a boolean is JSON if Accept names no form, because Node-RED could not send it', async () => {
    for (const value of [true, false]) {
      const answer = await post(`${red.url}/give`, 'json', { give: value });
      assert.deepEqual([answer.status, typeOf(answer), answer.bytes.toString()], [200, TYPES.json, String(value)]);
    }
  });

  test('a type and a body that the flow has set stay unchanged', async () => {
    for (const accept of [TYPES.json, TYPES.msgpack]) {
      const answer = await post(`${red.url}/csv`, 'msgpack', {}, { Accept: accept });
      assert.equal(typeOf(answer), 'text/csv');
      assert.equal(answer.bytes.toString(), 'a,b');
    }
  });

  test('a Buffer is sent unchanged, and an answer without a body stays empty', async () => {
    const bytes = Buffer.from([0xff, 0, 1]);
    const raw = await post(`${red.url}/echo`, 'msgpack', bytes);
    assert.deepEqual([raw.status, typeOf(raw)], [200, 'application/octet-stream']);
    assert.deepEqual(raw.bytes, bytes);
    const none = await post(`${red.url}/empty`, 'msgpack', {});
    assert.deepEqual([none.status, none.bytes.length], [204, 0]);
  });

  test('a result that msgpack cannot hold gets 500 with a reason, and no client waits for ever', async () => {
    const answer = await post(`${red.url}/unwritable`, 'msgpack', {}, { 'X-Request-Id': 'mine' });
    assert.deepEqual([answer.status, typeOf(answer)], [500, TYPES.msgpack]);
    const { error } = read('msgpack', answer.bytes) as { error: Record<string, string> };
    assert.deepEqual([error['code'], error['requestId']], ['modelet_failed', 'mine']);
    assert.match(error['message'] ?? '', /cannot be sent as msgpack: there is a function in it/);
  });

  test('a BigInt in JSON is a number if that is exact, else text, with and without Accept', async () => {
    for (const headers of [{}, { Accept: TYPES.json }]) {
      const large = await post(`${red.url}/large`, 'json', {}, headers);
      assert.deepEqual([large.status, typeOf(large)], [200, TYPES.json]);
      assert.deepEqual(read('json', large.bytes), { large: '18446744073709551616' });
      for (const [top, expected] of [
        ['2n ** 60n', '1152921504606846976'],
        ['5n', 5],
      ] as const) {
        const answer = await post(`${red.url}/top`, 'json', { top }, headers);
        assert.deepEqual([answer.status, typeOf(answer)], [200, TYPES.json]);
        assert.equal(read('json', answer.bytes), expected);
      }
    }
  });

  test('a result that is a BigInt is an int64 in msgpack, and in JSON text', async () => {
    const packed = await post(`${red.url}/big`, 'msgpack', {});
    assert.deepEqual([packed.status, typeOf(packed)], [200, TYPES.msgpack]);
    assert.equal(decode(packed.bytes, { useBigInt64: true }), 2n ** 60n);
    // As it is sent: an echo that needs all of its 64 bits.
    const sent = Buffer.from(encode(2n ** 60n, { useBigInt64: true }));
    const echoed = await call(`${red.url}/echo`, { 'Content-Type': TYPES.msgpack }, sent);
    assert.deepEqual(echoed.bytes, sent);
    for (const headers of [{}, { Accept: TYPES.json }]) {
      const answer = await post(`${red.url}/big`, 'json', {}, headers);
      assert.deepEqual([answer.status, typeOf(answer)], [200, TYPES.json]);
      assert.equal(read('json', answer.bytes), String(2n ** 60n));
    }
  });

  test('NaN is a number in msgpack and null in JSON, and a text "NaN" stays text', async () => {
    for (const [text, form, expected] of [
      [false, 'msgpack', Number.NaN],
      [false, 'json', null],
      [true, 'msgpack', 'NaN'],
      [true, 'json', 'NaN'],
    ] as const) {
      const answer = await post(`${red.url}/nan`, 'json', { text }, { Accept: TYPES[form] });
      assert.deepEqual([answer.status, typeOf(answer), read(form, answer.bytes)], [200, TYPES[form], expected]);
    }
  });

  test('a client gets an answer for any result that a flow makes', async () => {
    const made = ['2n ** 60n', '2n ** 70n', '() => 1', 'Symbol()', 'new Date(0)', 'new Map([[1, 2]])', 'new Set([1])'];
    made.push('new Uint8Array(2)', 'new Float64Array(1)', 'new ArrayBuffer(2)', '-Infinity', 'undefined', 'null');
    for (const top of made) {
      for (const headers of [{}, { Accept: TYPES.json }, { Accept: TYPES.msgpack }]) {
        const answer = await post(`${red.url}/top`, 'json', { top }, headers);
        assert.ok(answer.status === 200 || answer.status === 500, `${top}: ${answer.status}`);
        // Nothing has no form, and a number is text for who has named none.
        if (top !== 'undefined' && 'Accept' in headers) assert.equal(typeOf(answer), headers.Accept, top);
      }
    }
  });

  test('a body that does not fit the type set by the flow gets 500 in the form of the caller', async () => {
    for (const top of ['() => 1', '[new WeakMap()]']) {
      await refusedAsJson('/typed', { top }, {}, /cannot be written/);
    }
    const { status, bytes } = await post(`${red.url}/typed`, 'json', { top: '2n ** 40n' });
    assert.deepEqual([status, String(bytes)], [200, '1099511627776'], 'a BigInt is its digits');
  });

  test('an answer of nodes behind a Catch node is in the form of the caller as well', async () => {
    const answer = await post(`${red.url}/caught`, 'msgpack', {});
    assert.deepEqual([answer.status, typeOf(answer)], [422, TYPES.msgpack]);
    assert.deepEqual(read('msgpack', answer.bytes), { caught: 'invalid_input' });
  });

  test('a GET passes its query unchanged, caches can tell its answers apart, and an unchanged answer is 304', async () => {
    const get = (headers: Record<string, string>, method = 'GET') =>
      call(`${red.url}/query?a=1`, headers, Buffer.alloc(0), method);
    const packed = await get({ Accept: TYPES.msgpack });
    assert.deepEqual([packed.status, typeOf(packed)], [200, TYPES.msgpack]);
    assert.deepEqual(read('msgpack', packed.bytes), { a: '1' });
    assert.match(packed.headers['vary'] ?? '', /\bAccept\b/);
    const plain = await get({});
    assert.equal(typeOf(plain), TYPES.json);
    assert.match(plain.headers['vary'] ?? '', /\bAccept\b/);
    assert.notEqual(plain.headers['etag'], packed.headers['etag']);
    const known = await get({ Accept: TYPES.msgpack, 'If-None-Match': packed.headers['etag'] ?? '' });
    assert.deepEqual([known.status, known.bytes.length], [304, 0]);
    const head = await get({ Accept: TYPES.msgpack }, 'HEAD');
    assert.deepEqual([head.status, typeOf(head), head.bytes.length], [200, TYPES.msgpack, 0]);
    assert.equal(head.headers['content-length'], packed.headers['content-length']);
  });
});

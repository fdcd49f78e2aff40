/** Bodies and answers over HTTP in the forms that callers send and want, through whole flows. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Answer, CALLERS, type Form, read, TYPES, typeOf, whileAsking, write } from '../fixtures/callers.ts';
import {
  catchNode,
  collector,
  endpoint,
  func,
  httpIn,
  httpOut,
  node,
  runtime,
  sink,
  stage,
  TAB,
} from '../fixtures/flow.ts';
import { type FlowNode, NodeRed, until } from '../fixtures/node-red.ts';

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

let red: NodeRed;
before(async () => {
  red = await NodeRed.start();
  await red.deploy([
    TAB,
    runtime(),
    ...endpoint('/echo', 'echo'),
    stage('echo', 'return input;', 'collector /echo'),
    ...endpoint('/give', 'give'),
    stage('give', 'return input.give;', 'collector /give'),
    ...shaped('/score', 'score', 'msg.payload = msg.payload.score; return msg;'),
    ...shaped('/csv', 'csv', "msg.headers = { 'content-type': 'text/csv' }; msg.payload = 'a,b'; return msg;"),
    ...shaped('/unwritable', 'unwritable', 'msg.payload = { callback() {} }; return msg;'),
    ...shaped('/empty', 'empty', 'msg.statusCode = 204; msg.payload = undefined; return msg;'),
    ...endpoint('/image', 'image'),
    stage('image', 'return 1;', 'later', { output: 'seen', mediaTypes: 'image/*, application/msgpack' }),
    func('later', 'return msg;', 'second'),
    stage('second', 'return { bytes: Buffer.isBuffer(input) ? input.length : -1 };', 'collector /image'),
    httpIn('in /replaced', '/replaced', 'replace'),
    func('replace', 'msg.payload = { of: msg.payload.length }; return msg;', 'echo'),
    httpIn('in /both', '/both', ['one', 'other']),
    stage('one', 'return input;', 'one result', { mediaTypes: '*/*' }),
    stage('other', 'return input;', 'other result', { mediaTypes: '*/*' }),
    sink('one result'),
    sink('other result'),
    httpIn('in /split', '/split', 'split'),
    node('split', 'modelet-feed', ['part'], { from: 'array' }),
    httpIn('in /lines', '/lines', 'lines'),
    node('lines', 'modelet-feed', ['part'], { from: 'lines' }),
    stage('part', 'return input;', 'part result'),
    sink('part result'),
    { ...httpIn('in /query', '/query', 'query'), method: 'get' },
    stage('query', 'return input;', 'out /query'),
    httpOut('out /query'),
    httpIn('in /called', '/called', 'call'),
    node('call', 'link call', ['out /query'], { links: ['called'], linkType: 'static', timeout: '30' }),
    node('called', 'link in', ['answers'], { links: [] }),
    stage('answers', 'return input;', 'back'),
    node('back', 'link out', [], { mode: 'return', links: [] }),
    httpIn('in /caught', '/caught', 'fails'),
    stage('fails', `throw Object.assign(new Error('no'), { code: 'invalid_input' });`, 'out /query'),
    catchNode('catch', 'tell', { scope: ['fails'] }),
    func('tell', 'msg.payload = { caught: msg.error.code ?? msg._error.code }; return msg;', 'out /query'),
    httpIn('in /foreign', '/foreign', 'answer foreign'),
    func('answer foreign', 'msg.payload = { foreign: true }; return msg;', 'out /foreign'),
    httpOut('out /foreign'),
  ]);
  await red.whenReady();
});
after(() => red.stop());

function post(path: string, form: Form, value: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  return call(`${red.url}${path}`, { 'Content-Type': TYPES[form], ...headers }, write(form, value));
}

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
      const answer = await post('/echo', sent, { a: [1, 'b', null] }, accept === undefined ? {} : { Accept: accept });
      assert.equal(answer.status, 200);
      assert.equal(typeOf(answer), TYPES[answered]);
      assert.equal(answer.headers['content-length'], String(answer.bytes.length));
      assert.deepEqual(read(answered, answer.bytes), { a: [1, 'b', null] });
    });
  }

  const values: readonly unknown[] = ['text', '', '42', '4.50', 42, -0.5, true, false, null, [], 'true'];
  for (const form of ['json', 'msgpack'] as const) {
    test(`what is no object is in ${form} where Accept names it`, async () => {
      for (const value of values) {
        const answer = await post('/give', 'json', { give: value }, { Accept: TYPES[form] });
        assert.equal(typeOf(answer), TYPES[form], JSON.stringify(value));
        assert.deepEqual(read(form, answer.bytes), value);
        assert.equal(answer.headers['content-length'], String(answer.bytes.length));
      }
      const score = await post('/score', 'json', { score: 0.25 }, { Accept: TYPES[form] });
      assert.equal(read(form, score.bytes), 0.25);
    });
  }

  test('where it is not named, text and numbers are as Node-RED gives them', async () => {
    for (const value of ['text', '42', 42]) {
      const answer = await post('/give', 'json', { give: value });
      assert.equal(typeOf(answer), 'text/html');
      assert.equal(answer.bytes.toString(), String(value));
    }
  });

  test('a type that the flow has set stays, with what it has made', async () => {
    for (const accept of [TYPES.json, TYPES.msgpack]) {
      const answer = await post('/csv', 'msgpack', {}, { Accept: accept });
      assert.equal(typeOf(answer), 'text/csv');
      assert.equal(answer.bytes.toString(), 'a,b');
    }
  });

  test('a Buffer is sent as it is, and an answer without a body stays one', async () => {
    const bytes = Buffer.from([0xff, 0, 1]);
    const raw = await post('/echo', 'msgpack', bytes);
    assert.deepEqual([raw.status, typeOf(raw)], [200, 'application/octet-stream']);
    assert.deepEqual(raw.bytes, bytes);
    const none = await post('/empty', 'msgpack', {});
    assert.deepEqual([none.status, none.bytes.length], [204, 0]);
  });

  test('what msgpack cannot hold: 500 with a reason, and nobody waits for ever', async () => {
    const answer = await post('/unwritable', 'msgpack', {}, { 'X-Request-Id': 'mine' });
    assert.deepEqual([answer.status, typeOf(answer)], [500, TYPES.msgpack]);
    const { error } = read('msgpack', answer.bytes) as { error: Record<string, string> };
    assert.deepEqual([error['code'], error['requestId']], ['modelet_failed', 'mine']);
    assert.match(error['message'] ?? '', /cannot be sent as msgpack: there is a function in it/);
  });

  test('what nodes behind a Catch node answer is in the form of the caller as well', async () => {
    const answer = await post('/caught', 'msgpack', {});
    assert.deepEqual([answer.status, typeOf(answer)], [422, TYPES.msgpack]);
    assert.deepEqual(read('msgpack', answer.bytes), { caught: 'invalid_input' });
  });

  test('GET: a query as it is, an answer that caches tell apart, and 304 where it has not changed', async () => {
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

describe('the body of a request', () => {
  test('of msgpack keeps what JSON has not: bytes, dates, large integers', async () => {
    const sent = {
      image: Buffer.from(Array.from({ length: 256 }, (_, index) => index)),
      at: new Date(1e12),
      list: [2 ** 53],
    };
    const { status, bytes } = await post('/echo', 'msgpack', sent);
    assert.equal(status, 200);
    const { image, ...rest } = read('msgpack', bytes) as typeof sent;
    assert.deepEqual(Buffer.from(image), sent.image);
    assert.deepEqual(rest, { at: sent.at, list: sent.list });
  });

  test('of msgpack may be anything, not only an object', async () => {
    for (const value of [5, 'text', true, null, [1], -1.5]) {
      const answer = await post('/echo', 'msgpack', value);
      assert.deepEqual(read('msgpack', answer.bytes), value);
    }
  });

  test('of JSON under another name is parsed', async () => {
    const answer = await post('/echo', 'json', { a: 1 }, { 'Content-Type': 'application/vnd.api+json' });
    assert.deepEqual(read('json', answer.bytes), { a: 1 });
  });

  test('of JSON that is no object or array: 400, which says so', async () => {
    const answer = await post('/echo', 'json', 'text');
    assert.equal(answer.status, 400);
    assert.match(answer.bytes.toString(), /no object or array/);
  });

  test('of a listed type comes as bytes; a later stage need not list it; JSON is refused where it is not listed', async () => {
    const png = { 'Content-Type': 'image/png' };
    const answer = await call(`${red.url}/image`, png, Buffer.from([0x89, 0x50, 0xff]));
    assert.deepEqual(read('json', answer.bytes), { bytes: 3 });
    const refused = await post('/image', 'json', {});
    assert.equal(refused.status, 415);
    assert.match(refused.bytes.toString(), /send image\/\* or application\/msgpack/);
  });

  test('that a form is: 415, which tells users of curl what to do', async () => {
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const answer = await call(`${red.url}/echo`, form, Buffer.from('{"a":1}'));
    assert.equal(answer.status, 415);
    assert.match(answer.bytes.toString(), /curl -d needs -H 'Content-Type: application\/json'/);
  });

  test('that is empty is none', async () => {
    for (const headers of [{}, { 'Content-Type': 'text/plain' }]) {
      const { status } = await call(`${red.url}/echo`, { ...headers }, Buffer.alloc(0));
      assert.equal(status, 200);
    }
  });

  test('that the flow has replaced may have been of any type', async () => {
    const answer = await call(`${red.url}/replaced`, { 'Content-Type': 'text/plain' }, Buffer.from('four'));
    assert.deepEqual(read('json', answer.bytes), { of: 4 });
  });

  test('that goes to two stages is whole in both', async () => {
    const results = [red.inputs('one result'), red.inputs('other result')];
    const sent = { bytes: Buffer.from([0xff, 0xfe]) };
    await whileAsking(`${red.url}/both`, TYPES.msgpack, write('msgpack', sent), () =>
      until('both have answered', () => results.every(({ length }) => length === 1)),
    );
    for (const [message] of results) assert.deepEqual(message?.payload, sent);
  });

  test('that a paced split takes apart is decoded before, and its parts are no bodies', async () => {
    const results = red.inputs('part result');
    const sent = [Buffer.from([0xff]), Buffer.from([0xfe])];
    await whileAsking(`${red.url}/split`, TYPES.msgpack, write('msgpack', sent), () =>
      until('both parts are through', () => results.length === 2),
    );
    await whileAsking(`${red.url}/lines`, 'text/plain', Buffer.from('one line'), () =>
      until('the line is through', () => results.length === 3),
    );
    assert.deepEqual(
      results.map(({ payload }) => payload),
      [...sent, 'one line'],
    );
  });

  test('that goes through a link call is decoded, and answered in its form', async () => {
    const answer = await post('/called', 'msgpack', { bytes: Buffer.from([0xff]) });
    assert.equal(typeOf(answer), TYPES.msgpack);
    const { bytes } = read('msgpack', answer.bytes) as { bytes: Uint8Array };
    assert.deepEqual([...bytes], [0xff]);
  });

  test('of msgpack that is hostile is refused, and the next is served', async () => {
    const hostile = [
      'ddffffffff',
      '91'.repeat(100_000),
      `dd001e8480${'80'.repeat(2_000_000)}`,
      'c1',
      '81a95f5f70726f746f5f5f80',
    ];
    for (const hex of hostile) {
      const answer = await call(`${red.url}/echo`, { 'Content-Type': TYPES.msgpack }, Buffer.from(hex, 'hex'));
      assert.ok([400, 413].includes(answer.status), String(answer.status));
      assert.equal(typeOf(answer), TYPES.msgpack);
    }
    assert.equal((await post('/echo', 'msgpack', { a: 1 })).status, 200);
  });
});

describe('an endpoint that leads to no pipeline', () => {
  test('is left as Node-RED has it', async () => {
    const answer = await post('/foreign', 'json', {}, { Accept: TYPES.msgpack });
    assert.equal(typeOf(answer), TYPES.json);
    assert.deepEqual(read('json', answer.bytes), { foreign: true });
    const malformed = await call(`${red.url}/foreign`, { 'Content-Type': TYPES.json }, Buffer.from('{'));
    assert.deepEqual([malformed.status, malformed.bytes.toString()], [500, 'Internal Server Error']);
  });
});

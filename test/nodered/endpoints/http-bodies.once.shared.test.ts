/** Bodies over HTTP in the forms that callers send, through whole flows; and endpoints of other nodes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CALLERS, post, read, TYPES, typeOf, whileAsking, write } from '../../fixtures/callers.ts';
import { endpoint, func, httpIn, httpOut, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const call = CALLERS['node:http'];

const red = useNodeRed({
  flows: [
    TAB,
    runtime(),
    ...endpoint('/echo', 'echo'),
    stage('echo', 'return input;', 'collector /echo'),
    ...endpoint('/image', 'image'),
    stage('image', 'return 1;', 'later', { output: 'seen', mediaTypes: 'image/*, application/msgpack' }),
    func('later', 'return msg;', 'second'),
    stage('second', 'return { bytes: Buffer.isBuffer(input) ? input.length : -1 };', 'collector /image'),
    httpIn('in /seen', '/seen', 'see'),
    func('see', 'msg.seen = msg.payload; return msg;', 'seen'),
    stage('seen', 'return input;', 'tell'),
    func('tell', 'msg.payload = { seen: msg.seen, input: msg.payload }; return msg;', 'out /foreign'),
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
    httpIn('in /called', '/called', 'call'),
    node('call', 'link call', ['out /called'], { links: ['called'], linkType: 'static', timeout: '30' }),
    httpOut('out /called'),
    node('called', 'link in', ['answers'], { links: [] }),
    stage('answers', 'return input;', 'back'),
    node('back', 'link out', [], { mode: 'return', links: [] }),
    httpIn('in /foreign', '/foreign', 'answer foreign'),
    func('answer foreign', 'msg.payload = { foreign: true }; return msg;', 'out /foreign'),
    httpOut('out /foreign'),
  ],
});

describe('the body of a request', () => {
  test('of msgpack keeps the types that JSON lacks: bytes, dates, large integers', async () => {
    const sent = {
      image: Buffer.from(Array.from({ length: 256 }, (_, index) => index)),
      at: new Date(1e12),
      list: [2 ** 53],
    };
    const { status, bytes } = await post(`${red.url}/echo`, 'msgpack', sent);
    assert.equal(status, 200);
    const { image, ...rest } = read('msgpack', bytes) as typeof sent;
    assert.deepEqual(Buffer.from(image), sent.image);
    assert.deepEqual(rest, { at: sent.at, list: sent.list });
  });

  test('of msgpack may be any value, not only an object', async () => {
    for (const value of [5, 'text', true, null, [1], -1.5]) {
      const answer = await post(`${red.url}/echo`, 'msgpack', value);
      assert.deepEqual(read('msgpack', answer.bytes), value);
    }
  });

  test('of JSON under another name is parsed', async () => {
    const answer = await post(`${red.url}/echo`, 'json', { a: 1 }, { 'Content-Type': 'application/vnd.api+json' });
    assert.deepEqual(read('json', answer.bytes), { a: 1 });
  });

  test('of JSON may be any value, as for the nodes in between, and is parsed once', async () => {
    for (const value of [5, '5', '', true, null, [1]]) {
      const answer = await post(`${red.url}/seen`, 'json', value, { Accept: TYPES.json });
      assert.deepEqual(read('json', answer.bytes), { seen: value, input: value });
    }
    const malformed = await call(`${red.url}/seen`, { 'Content-Type': TYPES.json }, Buffer.from('nul'));
    assert.equal(malformed.status, 400);
    assert.match(malformed.bytes.toString(), /the body is not valid JSON: Unexpected/);
  });

  test('of a listed type arrives as bytes, later stages need not list it, and unlisted JSON is refused', async () => {
    const png = { 'Content-Type': 'image/png' };
    const answer = await call(`${red.url}/image`, png, Buffer.from([0x89, 0x50, 0xff]));
    assert.deepEqual(read('json', answer.bytes), { bytes: 3 });
    const refused = await post(`${red.url}/image`, 'json', {});
    assert.equal(refused.status, 415);
    assert.match(refused.bytes.toString(), /send image\/\* or application\/msgpack/);
  });

  test('that is a form gets 415, and the answer tells users of curl what to do', async () => {
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const answer = await call(`${red.url}/echo`, form, Buffer.from('{"a":1}'));
    assert.equal(answer.status, 415);
    assert.match(answer.bytes.toString(), /curl -d needs -H 'Content-Type: application\/json'/);
  });

  test('counts as no body if it is empty', async () => {
    for (const headers of [{}, { 'Content-Type': 'text/plain' }]) {
      const { status } = await call(`${red.url}/echo`, { ...headers }, Buffer.alloc(0));
      assert.equal(status, 200);
    }
  });

  test('may have any type if the flow replaces it', async () => {
    const answer = await call(`${red.url}/replaced`, { 'Content-Type': 'text/plain' }, Buffer.from('four'));
    assert.deepEqual(read('json', answer.bytes), { of: 4 });
  });

  test('arrives whole at both of two stages', async () => {
    const results = [red.inputs('one result'), red.inputs('other result')];
    const sent = { bytes: Buffer.from([0xff, 0xfe]) };
    await whileAsking(`${red.url}/both`, TYPES.msgpack, write('msgpack', sent), () =>
      until('both have answered', () => results.every(({ length }) => length === 1)),
    );
    for (const [message] of results) assert.deepEqual(message?.payload, sent);
  });

  test('is decoded before a paced split takes it apart, and its parts do not count as bodies', async () => {
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

  test('is decoded behind a link call, and the answer has its form', async () => {
    const answer = await post(`${red.url}/called`, 'msgpack', { bytes: Buffer.from([0xff]) });
    assert.equal(typeOf(answer), TYPES.msgpack);
    const { bytes } = read('msgpack', answer.bytes) as { bytes: Uint8Array };
    assert.deepEqual([...bytes], [0xff]);
  });

  test('of hostile msgpack is refused, and the next request is served', async () => {
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
    assert.equal((await post(`${red.url}/echo`, 'msgpack', { a: 1 })).status, 200);
  });
});

describe('an endpoint that leads to no pipeline', () => {
  test('stays as Node-RED made it', async () => {
    const answer = await post(`${red.url}/foreign`, 'json', {}, { Accept: TYPES.msgpack });
    assert.equal(typeOf(answer), TYPES.json);
    assert.deepEqual(read('json', answer.bytes), { foreign: true });
    const malformed = await call(`${red.url}/foreign`, { 'Content-Type': TYPES.json }, Buffer.from('5'));
    assert.deepEqual([malformed.status, malformed.bytes.toString()], [500, 'Internal Server Error']);
  });
});

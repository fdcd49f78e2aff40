/**
 * Requests to a flow whose HTTP-in nodes have the root of the editor, as Node-RED has it by default. The editor's server
 * gets each request first.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Answer, CALLERS, TYPES, write } from '../../fixtures/callers.ts';
import { func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';

const JSON_BODY = { 'Content-Type': TYPES.json };
const LOGIN = { Authorization: `Basic ${Buffer.from('user:secret').toString('base64')}` };
/** Bcrypt's form of `secret`. */
const HASH = '$2b$04$7HqZDxjO7/RKwLaJ4RLCP.GaOf0NeXpInjaKlKeTt0YTPEsJqgE5e';
const FLOWS = [
  TAB,
  runtime(),
  httpIn('in', '/echo', 'pass'),
  httpIn('in any', '/:any', 'pass'),
  func('pass', 'msg.before = typeof msg.payload; return msg;', 'echo'),
  stage('echo', 'return input;', 'tell'),
  func('tell', 'msg.payload = { before: msg.before, input: msg.payload }; return msg;', 'out'),
  httpOut('out'),
];

let red: NodeRedProcess;
before(async () => {
  red = await NodeRedProcess.start(FLOWS, {
    httpNodeRoot: '/admin',
    httpNodeAuth: { user: 'user', pass: HASH },
    apiMaxLength: '100kb',
  });
});
after(() => red.end());

function ask(headers: Record<string, string>, body: string | Buffer, path = 'echo'): Promise<Answer> {
  return CALLERS['node:http'](`${red.url}/admin/${path}`, headers, Buffer.from(body));
}

function errorOf({ bytes }: Answer): unknown {
  const { code, message } = (JSON.parse(bytes.toString()) as { error: { code: string; message: string } }).error;
  return [code, message];
}

describe('where the editor and the HTTP-in nodes have one root', () => {
  test('every JSON value is taken, and the nodes in between get it parsed', async () => {
    for (const [value, type] of [
      [{ a: 1 }, 'object'],
      ['5', 'string'],
      [5, 'number'],
      [false, 'boolean'],
    ] as const) {
      const { status, bytes } = await ask({ ...JSON_BODY, ...LOGIN }, write('json', value));
      assert.deepEqual([status, JSON.parse(bytes.toString())], [200, { before: type, input: value }]);
    }
  });

  test('a body that cannot be read gets a coded error', async () => {
    const rows: readonly (readonly [
      headers: Record<string, string>,
      body: string | Buffer,
      status: number,
      code: string,
    ])[] = [
      [JSON_BODY, '{"a":', 400, 'bad_request'],
      [JSON_BODY, '{"a": 1e999}', 400, 'bad_request'],
      [{ ...JSON_BODY, 'Content-Encoding': 'gzip' }, gzipSync('{"a": 1e999}'), 400, 'bad_request'],
      [JSON_BODY, Buffer.from([0x22, 0xff, 0x22]), 400, 'bad_request'],
      [JSON_BODY, `["${'x'.repeat(200_000)}"]`, 413, 'payload_too_large'],
      [{ 'Content-Type': 'application/json; charset=latin1' }, '1', 415, 'unsupported_media'],
    ];
    for (const [headers, body, status, code] of rows) {
      const answer = await ask({ ...headers, ...LOGIN }, body);
      assert.equal(answer.status, status, answer.bytes.toString());
      assert.equal((errorOf(answer) as [string])[0], code);
    }
  });

  test('nothing reads the body of a client that has not logged in', async () => {
    for (const body of ['{"a":', `["${'x'.repeat(200_000)}"]`, '{}']) {
      assert.equal((await ask(JSON_BODY, body)).status, 401);
    }
  });

  test('the editor reads its own bodies, although a path of the flow matches its paths', async () => {
    await red.deploy(FLOWS);
    await red.whenReady();
    const answer = await ask({ ...JSON_BODY, ...LOGIN }, '{"flows":', 'flows');
    assert.equal(answer.status, 400);
    assert.doesNotMatch(answer.bytes.toString(), /requestId/);
    const own = await ask({ ...JSON_BODY, ...LOGIN }, '[1]', 'anything');
    assert.deepEqual([own.status, JSON.parse(own.bytes.toString())], [200, { before: 'object', input: [1] }]);
  });
});

/** A compiled endpoint answers as Node-RED's own nodes do, without ever making a message. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { type Answer, CALLERS, read, TYPES, typeOf, write } from '../../fixtures/callers.ts';
import {
  type HostedEndpoint,
  inlineStage,
  type Overrides,
  serveEndpoint,
  type TestEndpoint,
} from '../../fixtures/endpoint.ts';

const call = CALLERS.fetch;
const GIVE =
  "if (input.error) throw Object.assign(new Error(input.error), { code: input.code }); return eval('(' + input.give + ')');";

function giving(t: TestContext, overrides: Overrides = {}): Promise<HostedEndpoint> {
  return serveEndpoint(t, { stages: [inlineStage('give', GIVE)] }, overrides);
}

function echoing(t: TestContext, overrides: Overrides = {}): Promise<HostedEndpoint> {
  return serveEndpoint(t, { stages: [inlineStage('echo', 'return input;')] }, overrides);
}

function ask({ url }: TestEndpoint, give: string, headers: Record<string, string> = {}): Promise<Answer> {
  return call(url, { 'Content-Type': TYPES.json, ...headers }, write('json', { give }));
}

const HTML = 'text/html; charset=utf-8';
const JSON_TYPE = 'application/json; charset=utf-8';

describe('a result', () => {
  test('has the body and type that Express would give it', async (t) => {
    const endpoint = await giving(t);
    const rows: readonly (readonly [give: string, type: string, body: string])[] = [
      ['{ a: "ä", n: [1, 2.5] }', JSON_TYPE, '{"a":"ä","n":[1,2.5]}'],
      ['[1]', JSON_TYPE, '[1]'],
      ['null', JSON_TYPE, 'null'],
      ['true', JSON_TYPE, 'true'],
      ['"ä <b>"', HTML, 'ä <b>'],
      ['""', HTML, ''],
      ['5e21', HTML, '5e+21'],
      ['-0', HTML, '0'],
      ['NaN', HTML, 'NaN'],
      ['Buffer.from("ab")', 'application/octet-stream', 'ab'],
      ['Float32Array.of(1, 2.5)', JSON_TYPE, '[1,2.5]'],
      ['new Set([1])', JSON_TYPE, '[1]'],
      ['new Date(0)', JSON_TYPE, '"1970-01-01T00:00:00.000Z"'],
      ['5n', JSON_TYPE, '5'],
      ['{ bytes: Buffer.from("a") }', JSON_TYPE, '{"bytes":{"type":"Buffer","data":[97]}}'],
      ['"x".repeat(100000)', HTML, 'x'.repeat(100_000)],
    ];
    for (const [give, type, body] of rows) {
      const { status, headers, bytes } = await ask(endpoint, give);
      assert.deepEqual([status, headers['content-type'], bytes.toString()], [200, type, body], give);
      assert.equal(headers['content-length'], String(bytes.length));
    }
  });

  test('has the form that the caller accepts', async (t) => {
    const endpoint = await giving(t);
    for (const value of [5, '5', true, null, { a: [1] }, 'text']) {
      const give = `(${JSON.stringify(value)})`;
      for (const form of ['json', 'msgpack'] as const) {
        const answer = await ask(endpoint, give, { Accept: TYPES[form] });
        assert.deepEqual([typeOf(answer), read(form, answer.bytes)], [TYPES[form], value], `${form} ${give}`);
      }
    }
  });

  test('has the status and headers of the HTTP response node', async (t) => {
    const headers = { 'X-Own': '1', 'Content-Type': 'text/plain' };
    const endpoint = await giving(t, { answer: { statusCode: 201, headers } });
    for (const [give, type, body] of [
      ['"text"', 'text/plain; charset=utf-8', 'text'],
      ['({ a: 1 })', 'text/plain; charset=utf-8', '{"a":1}'],
      ['Buffer.from("b")', 'text/plain; charset=utf-8', 'b'],
    ] as const) {
      const answer = await ask(endpoint, give, { Accept: TYPES.msgpack });
      assert.deepEqual([answer.status, answer.headers['x-own']], [201, '1']);
      assert.deepEqual([answer.headers['content-type'], answer.bytes.toString()], [type, body]);
    }
  });

  test('of an answer without content is left out', async (t) => {
    const endpoint = await giving(t, { answer: { statusCode: 204, headers: {} } });
    const { status, headers, bytes } = await ask(endpoint, '({})');
    assert.deepEqual([status, headers['content-type'], bytes.length], [204, undefined, 0]);
  });

  test('that no answer can hold is an error, not silence', async (t) => {
    const endpoint = await giving(t);
    const answer = await ask(endpoint, '(() => { const self = {}; self.self = self; return self; })()');
    assert.equal(answer.status, 500);
    assert.match(answer.bytes.toString(), /"code":"modelet_failed","message":"the answer cannot be written as JSON/);
  });

  test('bears the id of its request', async (t) => {
    const endpoint = await giving(t);
    const named = await ask(endpoint, '1', { 'X-Request-Id': 'mine' });
    assert.equal(named.headers['x-request-id'], 'mine');
    const traced = await ask(endpoint, '1', { traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01` });
    assert.equal(traced.headers['x-request-id'], 'ab'.repeat(16));
    const ids = await Promise.all([ask(endpoint, '1'), ask(endpoint, '1')]);
    assert.notEqual(ids[0]?.headers['x-request-id'], ids[1]?.headers['x-request-id']);
  });
});

describe('a body', () => {
  const rows: readonly (readonly [name: string, type: string | undefined, body: string | Buffer, echoed: string])[] = [
    ['of JSON', 'application/json', ' {"a":\n1} ', '{"a":1}'],
    ['of JSON with a character set', 'application/json; charset=UTF-8', '[1]', '[1]'],
    ['of JSON behind a byte order mark', 'application/json', '\ufeff[1]', '[1]'],
    ['of a JSON text', 'application/json', ' "5"', '5'],
    ['of a JSON value', 'application/json', 'null', 'null'],
    ['of JSON under another name', 'application/problem+json', '"a"', 'a'],
    ['that is empty, of JSON', 'application/json', '', '{}'],
    ['that is empty, of text', 'text/plain', '', ''],
    ['of text', 'text/plain', 'ä', 'ä'],
    ['of XML', 'application/xml', '<a/>', '<a/>'],
    ['without a type', undefined, 'plain', 'plain'],
    ['of bytes', 'application/octet-stream', Buffer.from([0, 255]), '\0\u00ff'],
    ['of an image', 'image/png', Buffer.from([137]), '\u0089'],
    ['of msgpack', 'application/msgpack', write('msgpack', { a: 1 }), '\u0081\u00a1a\u0001'],
  ];
  for (const chunked of [false, true]) {
    test(`reaches the modelet as Node-RED would hand it on, ${chunked ? 'in chunks' : 'with a length'}`, async (t) => {
      const endpoint = await echoing(t);
      for (const [name, type, body, echoed] of rows) {
        const headers: Record<string, string> = type === undefined ? {} : { 'Content-Type': type };
        if (!chunked) headers['Content-Length'] = String(Buffer.byteLength(body));
        const { status, bytes } = await CALLERS['node:http'](endpoint.url, headers, Buffer.from(body));
        const isText = typeof body === 'string';
        // An empty list of chunks is no body for a caller of node:http.
        const expected = name === 'that is empty, of JSON' && chunked ? ['{}', ''] : [echoed];
        assert.equal(status, 200, `${name}: ${bytes}`);
        assert.ok(
          expected.includes(bytes.toString(isText ? 'utf8' : 'latin1')),
          `${name}: ${bytes.toString('latin1')}`,
        );
      }
    });
  }

  test('of JSON may be compressed, up to the limit when it is decoded', async (t) => {
    const endpoint = await echoing(t, { maxJson: { bytes: 1000, name: 'the limit' } });
    const json = { 'Content-Type': TYPES.json };
    for (const [coding, compress] of [
      ['gzip', gzipSync],
      ['deflate', deflateSync],
      ['br', brotliCompressSync],
    ] as const) {
      const headers = { ...json, 'Content-Encoding': coding };
      assert.equal((await call(endpoint.url, headers, compress('{"a":1}'))).bytes.toString(), '{"a":1}', coding);
      const large = await call(endpoint.url, headers, compress(JSON.stringify({ a: 'x'.repeat(5_000_000) })));
      assert.deepEqual([large.status, codeOf(large)], [413, 'payload_too_large'], coding);
      const wrong = await call(endpoint.url, headers, Buffer.from('{"a":1}'));
      assert.deepEqual([wrong.status, codeOf(wrong)], [400, 'bad_request'], coding);
    }
    const other = await call(endpoint.url, { ...json, 'Content-Encoding': 'zstd' }, Buffer.from('{}'));
    assert.deepEqual([other.status, codeOf(other)], [415, 'unsupported_media']);
  });
});

function codeOf({ bytes }: Answer): string {
  return (read('json', bytes) as { error: { code: string } }).error.code;
}

describe('a request', () => {
  const rows: readonly (readonly [
    name: string,
    headers: Record<string, string>,
    body: string,
    status: number,
    text: RegExp,
  ])[] = [
    ['that is no JSON', {}, '{', 400, /"code":"bad_request","message":"the body is not valid JSON: /],
    ['with white space as JSON', {}, '  ', 400, /not valid JSON: Unexpected end/],
    [
      'in another character set',
      { 'Content-Type': 'application/json; charset=latin1' },
      '{}',
      415,
      /unsupported charset/,
    ],
    ['of an unknown type', { 'Content-Type': 'image/png' }, 'a', 415, /send application\/json/],
    ['of a malformed type', { 'Content-Type': 'json' }, '{}', 415, /invalid media type/],
    ['that is too large', {}, `["${'x'.repeat(2000)}"]`, 413, /the body is larger than the limit/],
    ['with a wrong timeout', { timeout: '-1' }, '{}', 400, /the header timeout must be a positive number/],
    ['of invalid msgpack', { 'Content-Type': TYPES.msgpack, Accept: TYPES.json }, '\xc1', 400, /not valid msgpack/],
    [
      'of compressed msgpack',
      { 'Content-Type': TYPES.msgpack, Accept: TYPES.json, 'Content-Encoding': 'gzip' },
      'a',
      415,
      /taken as it is/,
    ],
  ];
  test('that cannot be read is refused, counted, and leaves the connection usable', async (t) => {
    const maxJson = { bytes: 1000, name: 'the limit' };
    const endpoint = await echoing(t, { mediaTypes: [TYPES.json, TYPES.msgpack], maxJson });
    for (const [name, headers, body, status, text] of rows) {
      const answer = await call(endpoint.url, { 'Content-Type': TYPES.json, ...headers }, Buffer.from(body, 'latin1'));
      assert.equal(answer.status, status, `${name}: ${answer.bytes}`);
      assert.match(answer.bytes.toString(), text, name);
      assert.match(answer.headers['x-request-id'] ?? '', /./);
    }
    // The worker finds what is no JSON; the runtime itself has counted it.
    assert.equal(endpoint.refused.length, rows.length - 2);
    assert.equal((await call(endpoint.url, { 'Content-Type': TYPES.json }, Buffer.from('{}'))).status, 200);
  });

  test('that only a flow can read stays untouched', async (t) => {
    const endpoint = await echoing(t);
    const form = await call(endpoint.url, { 'Content-Type': 'application/x-www-form-urlencoded' }, Buffer.from('a=1'));
    const utf16 = await call(
      endpoint.url,
      { 'Content-Type': 'application/json; charset=utf-16' },
      Buffer.from('{}', 'utf16le'),
    );
    const script = await call(`${endpoint.url}?callback=f`, { 'Content-Type': TYPES.json }, Buffer.from('{}'));
    const other = await call(`${endpoint.url}other`, { 'Content-Type': TYPES.json }, Buffer.from('{}'));
    for (const { bytes } of [form, utf16, script, other]) assert.equal(bytes.toString(), 'not taken');
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']) {
      assert.equal((await call(endpoint.url, {}, Buffer.alloc(0), method)).status, 404, method);
    }
    assert.equal((await call(`${endpoint.url}?a=1`, { 'Content-Type': TYPES.json }, Buffer.from('{}'))).status, 200);
  });
});

describe('an error', () => {
  test('is answered as it is if nothing handles it', async (t) => {
    const endpoint = await giving(t);
    const post = (body: object, headers = {}): Promise<Answer> =>
      call(endpoint.url, { 'Content-Type': TYPES.json, 'X-Request-Id': 'one', ...headers }, write('json', body));
    const failed = await post({ error: 'boom in /a/b/c.js' });
    assert.equal(failed.status, 500);
    const error = { code: 'modelet_failed', message: 'boom in c.js', stage: 'give', requestId: 'one' };
    assert.deepEqual(read('json', failed.bytes), { error });
    const refused = await post({ error: 'no', code: 'invalid_input' }, { Accept: TYPES.msgpack });
    assert.deepEqual([refused.status, typeOf(refused)], [422, TYPES.msgpack]);
    assert.deepEqual((read('msgpack', refused.bytes) as { error: object }).error, {
      ...error,
      code: 'invalid_input',
      message: 'no',
    });
  });

  test('has the status and headers of the HTTP response node behind the catch output', async (t) => {
    const failure = { statusCode: 599, headers: { 'X-Failed': 'yes' } };
    const endpoint = await giving(t, { failure });
    const failed = await call(endpoint.url, { 'Content-Type': TYPES.json }, write('json', { error: 'boom' }));
    assert.deepEqual([failed.status, failed.headers['x-failed'], codeOf(failed)], [599, 'yes', 'modelet_failed']);
    // Node-RED's own parsers answer this before any flow runs.
    const unread = await call(endpoint.url, { 'Content-Type': TYPES.json }, Buffer.from('{'));
    assert.deepEqual([unread.status, unread.headers['x-failed']], [400, undefined]);
  });

  test('repeats the payload if the collector keeps it', async (t) => {
    const endpoint = await giving(t, { failure: { statusCode: null, headers: {} }, errorPayload: 'keep' });
    const failed = await call(endpoint.url, { 'Content-Type': TYPES.json }, write('json', { error: 'boom' }));
    assert.deepEqual([failed.status, read('json', failed.bytes)], [500, { error: 'boom' }]);
  });

  test('of a full runtime says when to come again', async (t) => {
    const code = 'await new Promise(() => {});';
    const config = { capacity: 1 };
    const endpoint = await serveEndpoint(t, { stages: [inlineStage('never', code)], config }, { timeoutMs: 60_000 });
    const waiting = call(endpoint.url, { 'Content-Type': TYPES.json, timeout: '3000' }, Buffer.from('{}'));
    let refused: Answer | undefined;
    while (refused?.status !== 429) {
      refused = await call(endpoint.url, { 'Content-Type': TYPES.json, timeout: '20' }, Buffer.from('{}'));
    }
    assert.deepEqual([codeOf(refused), refused.headers['retry-after']], ['capacity_exceeded', '1']);
    const late = await waiting;
    assert.deepEqual([late.status, codeOf(late)], [408, 'deadline_exceeded']);
  });
});

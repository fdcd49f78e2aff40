/**
 * The same requests to an endpoint that is compiled, to one whose requests pass a function node, and to the engine's own
 * listener: the same status, the same body, the same headers that matter.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { pipelineOf } from '../../../src/node-red/pipeline.ts';
import { type Answer, CALLERS, TYPES, write } from '../../fixtures/callers.ts';
import { keysNode } from '../../fixtures/flow.ts';
import { engineUrl, NodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { type Asked, answeredAlike, flows, KINDS } from './endpoint-pairs.ts';

const JSON_BODY = { 'Content-Type': TYPES.json };

let red: NodeRed;
/** Address of the engine. */
let engine: string;
before(async () => {
  red = await NodeRed.start({ apiMaxLength: '100kb' });
  await red.deploy(flows());
  await red.whenReady();
  engine = await engineUrl(red);
});
after(() => red.stop());

test('one of each pair is compiled', () => {
  const { endpoints, uncompiled } = pipelineOf(red.red as never).deployment.compiled;
  const kinds = Object.keys(KINDS);
  assert.deepEqual(endpoints.map(({ path }) => path).sort(), kinds.map((kind) => `/c${kind}`).sort());
  assert.deepEqual(uncompiled.map(({ path }) => path).sort(), kinds.map((kind) => `/f${kind}`).sort());
});

const assertSame = (asked: Asked, about: string): Promise<number> =>
  answeredAlike({ red: red.url, engine }, asked, about);

const RESULTS = [
  ...[
    '{ a: [1, 2.5, "ä"] }',
    '[]',
    'null',
    'true',
    'false',
    '0',
    '-0',
    '5',
    '5e21',
    'NaN',
    '7n',
    '""',
    '"5"',
    '"<b>ä"',
  ],
  ...['Buffer.from("ab")', 'Buffer.alloc(0)', 'Float32Array.of(1.5)', 'new Set([1])', 'new Map([[1, 2]])'],
  ...['new Date(0)', '{ at: new Date(0) }', '{ bytes: Buffer.from("a") }', '{ n: NaN }', '/a/', 'undefined', '() => 1'],
  ...['{ data: Float32Array.of(1, 2), dims: [2], type: "float32" }', '"x".repeat(50000)', '"x".repeat(200000)'],
];

describe('every result', () => {
  for (const accept of [undefined, TYPES.json, TYPES.msgpack, '*/*', 'text/html, application/json;q=0.5']) {
    test(`is answered alike to a client that accepts ${accept ?? 'whatever comes'}`, async () => {
      const headers = { ...JSON_BODY, ...(accept === undefined ? {} : { Accept: accept }) };
      const askAll = async (kind: string): Promise<void> => {
        for (const give of RESULTS)
          await assertSame({ headers, body: write('json', { give }), kind }, `${kind} ${give}`);
      };
      await Promise.all(['/plain', '/caught', '/kept', '/gathered', '/switched'].map(askAll));
    });
  }

  test('is answered alike where its HTTP response node sends no content', async () => {
    assert.equal(await assertSame({ headers: JSON_BODY, body: write('json', { n: 1 }), kind: '/checked' }, '204'), 204);
  });
});

describe('a request that forks is answered alike', () => {
  const FORKED: readonly (readonly [name: string, sent: unknown, kind: string, status: number])[] = [
    ['by all results', { n: 1 }, '/gathered', 201],
    ['by the error of a branch', { error: 'no', code: 'invalid_input' }, '/gathered', 422],
    ['by the death of a worker', { exit: true }, '/gathered', 503],
    ['by the one stage', { n: 1 }, '/switched', 200],
    ['by the other stage', { n: '2' }, '/switched', 200],
    ['where the value is missing', ['n'], '/switched', 200],
    ['where no value has properties', null, '/switched', 200],
    ['by an error behind the switch', { error: 'no' }, '/switched', 500],
  ];
  for (const [name, sent, kind, status] of FORKED) {
    test(name, async () => {
      assert.equal(await assertSame({ headers: JSON_BODY, body: write('json', sent), kind }, name), status);
    });
  }

  test('where the body is no JSON', async () => {
    for (const kind of ['/gathered', '/switched']) {
      assert.equal(await assertSame({ headers: JSON_BODY, body: Buffer.from('{"n":'), kind }, kind), 400);
    }
  });
});

const BODIES: readonly (readonly [name: string, headers: Record<string, string>, body: string | Buffer])[] = [
  ['JSON with white space', JSON_BODY, ' {\n"a": [1e3, "\\u00e4"]}\t'],
  ['JSON with a character set', { 'Content-Type': 'application/json; charset=UTF-8' }, '{}'],
  ['JSON behind a byte order mark', JSON_BODY, '\ufeff{"a":1}'],
  ['JSON that is no UTF-8', JSON_BODY, Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d])],
  ['JSON with a number that would be infinite', JSON_BODY, '{"a":[1e999]}'],
  ['a JSON number that would be infinite', JSON_BODY, '-1e999'],
  ['JSON with an integer that JavaScript rounds', JSON_BODY, '{"a":9007199254740993}'],
  ['JSON in UTF-16', { 'Content-Type': 'application/json; charset=utf-16le' }, Buffer.from('{"a":1}', 'utf16le')],
  ['JSON in Latin 1', { 'Content-Type': 'application/json; charset=latin1' }, '{}'],
  ['no JSON', JSON_BODY, '{"a":'],
  ['a JSON text', JSON_BODY, ' "5" '],
  ['an empty JSON text', JSON_BODY, '""'],
  ['a JSON number', JSON_BODY, '5'],
  ['a JSON boolean', JSON_BODY, 'false'],
  ['JSON null', JSON_BODY, 'null'],
  ['no JSON value', JSON_BODY, 'nul'],
  ['a compressed JSON text', { ...JSON_BODY, 'Content-Encoding': 'gzip' }, gzipSync('"a"')],
  ['white space as JSON', JSON_BODY, '  '],
  ['JSON that is too deep', JSON_BODY, `${'['.repeat(1100)}${']'.repeat(1100)}`],
  ['JSON under another name', { 'Content-Type': 'application/problem+json' }, '5'],
  ['no JSON under another name', { 'Content-Type': 'application/problem+json' }, '{'],
  ['compressed JSON', { ...JSON_BODY, 'Content-Encoding': 'gzip' }, gzipSync('{"a":1}')],
  ['JSON that is not compressed as it says', { ...JSON_BODY, 'Content-Encoding': 'gzip' }, '{"a":1}'],
  [
    'compressed JSON that is too large',
    { ...JSON_BODY, 'Content-Encoding': 'gzip' },
    gzipSync(`["${'x'.repeat(2e5)}"]`),
  ],
  ['JSON in an unknown coding', { ...JSON_BODY, 'Content-Encoding': 'zstd' }, '{}'],
  ['JSON that is too large', JSON_BODY, `["${'x'.repeat(120_000)}"]`],
  ['msgpack', { 'Content-Type': TYPES.msgpack }, write('msgpack', { a: [1, Buffer.from('b')] })],
  ['no msgpack', { 'Content-Type': TYPES.msgpack }, Buffer.from([0xc1])],
  ['compressed msgpack', { 'Content-Type': TYPES.msgpack, 'Content-Encoding': 'gzip' }, gzipSync('a')],
  ['text', { 'Content-Type': 'text/plain' }, 'ä'],
  ['text that is too large', { 'Content-Type': 'text/plain', 'Content-Length': '200000' }, 'x'.repeat(200_000)],
  ['XML', { 'Content-Type': 'application/xml' }, '<a/>'],
  ['bytes', { 'Content-Type': 'application/octet-stream' }, Buffer.from([0, 128, 255])],
  ['compressed bytes', { 'Content-Type': 'application/octet-stream', 'Content-Encoding': 'gzip' }, gzipSync('a')],
  ['an image', { 'Content-Type': 'image/png' }, Buffer.from([137])],
  ['a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'a=1&b[]=2'],
  ['a form of parts', { 'Content-Type': 'multipart/form-data; boundary=a' }, '--a--'],
  ['no type', {}, 'plain'],
  ['a malformed type', { 'Content-Type': 'json' }, '{}'],
  ['nothing', {}, ''],
  ['nothing, as JSON', { ...JSON_BODY, 'Content-Length': '0' }, ''],
  ['nothing, as text', { 'Content-Type': 'text/plain', 'Content-Length': '0' }, ''],
  ['nothing, as bytes', { 'Content-Type': 'application/octet-stream', 'Content-Length': '0' }, ''],
  ['nothing, as msgpack', { 'Content-Type': TYPES.msgpack, 'Content-Length': '0' }, ''],
  ['an invalid timeout', { ...JSON_BODY, timeout: 'soon' }, '{}'],
];

describe('every body', () => {
  for (const kind of ['/plain', '/caught']) {
    for (const [name, headers, body] of BODIES) {
      test(`is taken or refused alike: ${name}, at ${kind}`, async () => {
        await assertSame({ headers, body: Buffer.from(body), kind }, name);
        await assertSame({ headers: { ...headers, Accept: TYPES.msgpack }, body: Buffer.from(body), kind }, name);
      });
    }
  }

  test('may be compressed with Brotli', async () => {
    const headers = { ...JSON_BODY, 'Content-Encoding': 'br' };
    for (const at of ['c', 'f']) {
      const { status, bytes } = await CALLERS.fetch(`${red.url}/${at}/plain`, headers, brotliCompressSync('{"a":1}'));
      assert.deepEqual([status, bytes.toString()], [200, '{"a":1}']);
    }
  });
});

describe('every error', () => {
  const rows: readonly (readonly [code: string, asked: Partial<Asked> & { readonly sent: object }, status: number])[] =
    [
      ['modelet_failed', { sent: { error: 'boom in /a/b/c.js' } }, 500],
      ['invalid_input', { sent: { error: 'no', code: 'invalid_input' } }, 422],
      ['deadline_exceeded', { sent: { ms: 60_000 }, headers: { timeout: '400' } }, 408],
      ['worker_lost', { sent: { exit: true } }, 503],
      ['bad_batch_length', { sent: {}, kind: '/batched' }, 500],
      ['invalid_input with details', { sent: { n: 'one' }, kind: '/checked' }, 422],
    ];
  for (const [code, { sent, headers = {}, kind }, status] of rows) {
    for (const at of kind ? [kind] : ['/plain', '/caught', '/kept']) {
      test(`is answered alike: ${code}, at ${at}`, async () => {
        const asked = { headers: { ...JSON_BODY, ...headers }, body: write('json', sent), kind: at };
        assert.equal(await assertSame(asked, code), at === '/kept' ? 418 : status);
        await red.whenReady();
      });
    }
  }

  test('of a later stage is answered alike, with the value that the stage got', async () => {
    const body = write('json', { give: '{ late: true }' });
    assert.equal(await assertSame({ headers: JSON_BODY, body, kind: '/kept' }, 'late'), 418);
  });
});

describe('a result in parts', () => {
  const all = [undefined, 'text/event-stream', 'application/x-ndjson', TYPES.json, TYPES.msgpack];
  const one = ['application/x-ndjson'];
  const unwritable = '(() => { const self = {}; self.self = self; return self; })()';
  const rows: readonly (readonly [name: string, sent: object, accepts: readonly (string | undefined)[]])[] = [
    ['every value', { parts: RESULTS.slice(0, -2), result: { n: 1 } }, all],
    ['no part', { parts: [], result: [1] }, all],
    ['no part and no result', { parts: [] }, all],
    ['a whole result', { n: 1 }, all],
    ['a result that no answer can hold', { give: unwritable }, one],
    ['a part that no answer can hold', { parts: ['1', unwritable] }, one],
    ['an error before the first part', { parts: [], late: 'no' }, all],
    ['an error half way, with details', { parts: ['1'], late: 'no' }, all],
    ['a deadline half way', { parts: ['"x".repeat(100000)'], ms: 60_000 }, one],
    ['a worker that dies half way', { parts: ['1'], exit: true }, one],
  ];
  for (const [name, sent, accepts] of rows) {
    test(`is answered alike: ${name}`, async () => {
      for (const accept of accepts) {
        const limit: Record<string, string> = 'ms' in sent ? { timeout: '1000' } : {};
        const headers = { ...JSON_BODY, ...limit, ...(accept === undefined ? {} : { Accept: accept }) };
        await assertSame({ headers, body: write('json', sent), kind: '/parts' }, `${name}, ${accept}`);
        await red.whenReady();
      }
    });
  }

  const writable = { parts: RESULTS.slice(0, RESULTS.indexOf('undefined')), result: 'all' };
  for (const [name, sent] of [...rows, ['every value that can be written', writable] as const]) {
    test(`is answered alike by a stream response: ${name}`, async () => {
      const text = JSON.stringify(sent);
      // A worker that dies too often is not replaced at once.
      const streams = text.includes('exit') ? [true] : [true, false, undefined];
      // An answer of plain parts has no form for errors, and a node in between hides which stage made a value.
      const hasForm = (kind: string): boolean =>
        !(kind === '/raw' && /late|exit|"ms"|self|undefined/.test(text)) &&
        !(kind === '/openai' && text.includes('self'));
      const askAll = async (kind: string): Promise<void> => {
        for (const stream of kind === '/openai' ? streams : [undefined]) {
          const limit: Record<string, string> = 'ms' in sent ? { timeout: '1000' } : {};
          const body = write('json', { ...sent, stream, model: 'mine' });
          await assertSame({ headers: { ...JSON_BODY, ...limit }, body, kind }, `${name}, ${kind}, ${stream}`);
          await red.whenReady();
        }
      };
      await Promise.all(['/sse', '/openai', '/jsonl', '/raw'].filter(hasForm).map(askAll));
    });
  }

  test('is answered alike in a type of the flow\u2019s own', async () => {
    for (const sent of [{ parts: ['"a"', '1', '{ n: 1 }', 'Buffer.from("b")'] }, { parts: [], result: 'all' }]) {
      assert.equal(await assertSame({ headers: JSON_BODY, body: write('json', sent), kind: '/bytes' }, 'bytes'), 200);
    }
  });

  test('is cut off alike by an error if its type has no form for errors', async () => {
    for (const url of [`${red.url}/f`, `${red.url}/c`, `${engine}/c`]) {
      const answer = await fetch(`${url}/bytes`, {
        ...{ method: 'POST', headers: JSON_BODY, body: '{"parts":["1"],"late":"no"}' },
      });
      assert.equal(answer.status, 200);
      await assert.rejects(answer.text(), url);
    }
  });
});

describe('every other method', () => {
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'PATCH']) {
    test(`is answered alike: ${method}`, async () => {
      const [flow, compiled] = await Promise.all(
        ['/f', '/c'].map((half) => fetch(`${red.url}${half}/plain`, { method })),
      );
      assert.equal(compiled?.status, flow?.status);
      assert.equal(compiled?.headers.get('allow'), flow?.headers.get('allow'));
    });
  }
});

describe('every key', () => {
  const KEY = 'the-key-of-the-app';
  before(async () => {
    const clients = [
      { name: 'app', key: KEY },
      { name: 'slow', key: 'the-key-of-the-slow', rate: '0.001' },
      { name: 'elsewhere', key: 'the-key-of-elsewhere', paths: '/elsewhere' },
    ];
    await red.deploy([...flows({ keys: 'keys' }), keysNode('keys', clients)]);
    await until('the engine asks for keys', async () => (await fetch(`${engine}/metrics`)).status === 401);
  });
  const rows: readonly (readonly [name: string, headers: Record<string, string>, status: number])[] = [
    ['none', {}, 401],
    ['a wrong one', { 'X-API-Key': 'wrong' }, 401],
    ['a key with other characters than ASCII', { 'X-API-Key': 'schl\u00fcssel' }, 401],
    ['a key that is too long', { Authorization: `Bearer ${'x'.repeat(8000)}` }, 401],
    ['one for other paths', { 'X-API-Key': 'the-key-of-elsewhere' }, 403],
    ['a good one', { 'X-API-Key': KEY }, 200],
    ['a good one as a bearer', { Authorization: `Bearer ${KEY}` }, 200],
  ];
  for (const [name, headers, status] of rows) {
    test(`is taken or refused alike: ${name}`, async () => {
      for (const accept of [{}, { Accept: TYPES.msgpack }]) {
        const asked = { ...JSON_BODY, ...accept, ...headers };
        assert.equal(await assertSame({ headers: asked, body: Buffer.from('{"n":1}') }, name), status);
        const late = await assertSame({ headers: asked, body: Buffer.from('{"n":'), kind: '/caught' }, name);
        assert.equal(late, status === 200 ? 400 : status, 'the key comes before the body');
      }
    });
  }

  test('is limited alike', async () => {
    const headers = { ...JSON_BODY, 'X-API-Key': 'the-key-of-the-slow' };
    const body = Buffer.from('{"n":1}');
    // Node-RED's server and the engine count apart.
    const firsts = [`${red.url}/c/plain`, `${engine}/c/plain`].map((url) => CALLERS.fetch(url, headers, body));
    assert.deepEqual(
      (await Promise.all(firsts)).map(({ status }) => status),
      [200, 200],
    );
    const answers: Answer[] = [];
    for (const url of [`${red.url}/f/plain`, `${red.url}/c/plain`, `${engine}/c/plain`]) {
      answers.push(await CALLERS.fetch(url, headers, body));
    }
    assert.deepEqual(
      answers.map(({ status, bytes }) => [status, /"code":"(\w+)"/.exec(bytes.toString())?.[1]]),
      answers.map(() => [429, 'rate_limited']),
    );
    for (const { headers: sent } of answers) assert.ok(Number(sent['retry-after']) > 900);
  });
});

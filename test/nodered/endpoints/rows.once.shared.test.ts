/**
 * Rows of an HTTP body as items: at Node-RED's server, the engine's listener and the headless runner the same, and
 * refused where the endpoint is not compiled.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { decode, encode } from '@msgpack/msgpack';
import { WebSocket } from 'undici';
import { gather, streamOut } from '../../fixtures/drawn.ts';
import { batcher, endpoint, func, httpIn, httpOut, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { serveFlows } from '../../fixtures/headless.ts';
import { engineUrl, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();

const DOES = `
  if (input?.error) throw Object.assign(new Error(input.error), { code: input.code });
  if (input?.give) return eval('(' + input.give + ')');
  return { is: input };`;
const SCHEMA = JSON.stringify({ type: 'object', properties: { n: { type: 'number' } }, required: ['n'] });

const UPPER = "if (input === 'bad') throw new Error('no'); return input.toUpperCase();";
const SEEN = 'ctx.state.seen = [...(ctx.state.seen ?? []), input]; return ctx.state.seen;';
const HALF = { versions: ['other'], shares: [{ share: 50, mode: 'answer' }] };
const ONCE = { maxRows: 10, cache: 10, workers: '1' };

function flows(): FlowNode[] {
  return [
    TAB,
    runtime('runtime', { listen: '127.0.0.1:0', capacity: 12 }),
    ...endpoint('/rows', 'batches'),
    batcher('batches', 'does', { policy: 'greedy', maxBatchSize: 4 }),
    stage('does', DOES, 'collector /rows', { maxRows: 10 }),
    ...endpoint('/words', 'words'),
    stage('words', "return input.split(' ');", 'before upper', { emits: 'list', maxRows: 10 }),
    batcher('before upper', 'upper', { policy: 'greedy', maxBatchSize: 4 }),
    stage('upper', UPPER, 'gathers'),
    gather('gathers', 'collector /words', [], { mode: 'list', form: 'pairs' }),
    httpIn('in /seen', '/seen', 'seen'),
    stage('seen', SEEN, 'out /seen', { maxRows: 10, keyBy: 'req.headers.x-key', workers: '2' }),
    httpOut('out /seen'),
    httpIn('in /once', '/once', 'counts'),
    stage('counts', 'state.n += 1; return state.n;', 'out /once', { ...ONCE, setup: 'return { n: 0 };' }),
    httpOut('out /once'),
    httpIn('in /shared', '/shared', 'base'),
    stage('base', "return 'base ' + input;", 'out /shared', { maxRows: 10, ...HALF }),
    stage('other', "return 'other ' + input;", [], { workers: '1' }),
    httpOut('out /shared'),
    httpIn('in /talk', '/talk', 'talks'),
    stage('talks', DOES, 'out /talk', { maxRows: 10 }),
    streamOut('out /talk', { format: 'websocket' }),
    httpIn('in /typed', '/typed', 'typed'),
    stage('typed', DOES, 'out /typed', { maxRows: 100, inputSchema: SCHEMA }),
    node('out /typed', 'http response', [], { statusCode: '201', headers: { 'Content-Type': 'text/plain' } }),
  ];
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly failed: string | null;
  readonly body: unknown;
}

async function send(
  url: string,
  type: string,
  body: string | Uint8Array<ArrayBuffer>,
  accept = '*/*',
  key = 'any',
): Promise<Answer> {
  const headers = { 'Content-Type': type, Accept: accept, 'X-Key': key };
  const answer = await fetch(url, { method: 'POST', headers, body });
  const given = answer.headers.get('Content-Type')?.split(';')[0] ?? '';
  const bytes = Buffer.from(await answer.arrayBuffer());
  const lines = (): unknown =>
    bytes
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
  const value =
    given === 'application/msgpack'
      ? decode(bytes)
      : given.endsWith('json') && !given.endsWith('ndjson')
        ? JSON.parse(bytes.toString())
        : lines();
  return { status: answer.status, type: given, failed: answer.headers.get('X-Failed-Rows'), body: withoutIds(value) };
}

/** Leaves out the id of the request, which every error has. */
function withoutIds(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (key, inner: unknown) => (key === 'requestId' ? undefined : inner)));
}

const JSON_TYPE = 'application/json';
const LINES = 'application/x-ndjson';

function failed(code: string, message: string, more: object = {}): object {
  return { error: { code, message, stage: 'does', ...more } };
}

/** Sends a message over a WebSocket. Returns the messages up to the last one of its answer. */
async function saidBy(url: string, message: string): Promise<Record<string, unknown>[]> {
  const said: Record<string, unknown>[] = [];
  const client = new WebSocket(url);
  client.addEventListener('open', () => client.send(message));
  client.addEventListener('message', ({ data }) => said.push(withoutIds(JSON.parse(String(data))) as (typeof said)[0]));
  await until('the answer has ended', () => said.some((one) => one['done'] !== undefined));
  client.close();
  return said;
}

/** Asks for everything once. @param url where the endpoints are */
async function check(url: string): Promise<void> {
  const rows = new URL('/rows', url).href;
  const mixed = '\ufeff [1.50, {"error":"no"} ,"a]\\"," , [[1],{}], {"give":"() => 1"},null]';
  const results = [1.5, null, 'a]",', [[1], {}], null, null].map((is) => ({ result: { is } }) as object);
  results[1] = failed('modelet_failed', 'no');
  results[4] = failed('modelet_failed', 'the answer cannot be written as JSON: a function has no JSON form');
  const answer = await send(rows, JSON_TYPE, mixed);
  assert.deepEqual(
    { ...answer, body: (answer.body as object[]).toSpliced(4, 1) },
    {
      ...{ status: 200, type: JSON_TYPE, failed: '2' },
      body: results.toSpliced(4, 1),
    },
  );
  assert.match(JSON.stringify((answer.body as object[])[4]), /modelet_failed/);

  // No row has run, or none has a result.
  assert.deepEqual(await send(rows, JSON_TYPE, '[]'), { status: 200, type: JSON_TYPE, failed: '0', body: [] });
  assert.deepEqual(await send(rows, 'text/csv', ''), { status: 200, type: JSON_TYPE, failed: '0', body: [] });
  const bad = '[{"error":"a","code":"invalid_input"},{"error":"b"}]';
  const none = await send(rows, JSON_TYPE, bad);
  assert.deepEqual([none.status, none.failed, (none.body as unknown[]).length], [500, '2', 2]);
  for (const [body, status, message] of [
    ['[1,]', 400, /^the body is not valid JSON/],
    [`[${'1,'.repeat(10)}1]`, 413, /^the request has 11 rows; the limit is 10 rows$/],
  ] as const) {
    const refused = await send(rows, JSON_TYPE, body);
    assert.equal(refused.status, status);
    assert.match((refused.body as { error: { message: string } }).error.message, message);
  }
  const beyond = await send(new URL('/typed', url).href, JSON_TYPE, `[${'1,'.repeat(12)}1]`);
  assert.equal(beyond.status, 413, 'more rows than the runtime ever has room for');
  assert.equal((await send(rows, 'text/plain', '1')).status, 415);
  assert.deepEqual((await send(rows, JSON_TYPE, '{"a":[1]}')).body, { is: { a: [1] } }, 'an object is one item');

  // Lines and tables.
  const lines = await send(rows, 'application/jsonl', '{"n":1}\r\n\n{"n":\n3');
  assert.deepEqual([lines.status, lines.type, lines.failed], [200, JSON_TYPE, '1']);
  const [first, broken, third] = lines.body as {
    readonly error?: { readonly code: string; readonly message: string };
  }[];
  assert.deepEqual([first, third], [{ result: { is: { n: 1 } } }, { result: { is: 3 } }]);
  assert.equal(broken?.error?.code, 'invalid_input');
  assert.match(broken?.error?.message ?? '', /^line 3: it is not valid JSON/);
  const table = await send(rows, 'text/csv', 'name;n\r\n"a ""b""; c";1.5\r\nshort\r\n;007\r\n');
  const short = failed('invalid_input', 'line 3: 1 value for 2 columns');
  const named = (name: unknown, n: unknown): object => ({ result: { is: { name, n } } });
  assert.deepEqual(table.body, [named('a "b"; c', 1.5), short, named(null, '007')]);
  const packed = await send(rows, 'application/msgpack', encode([{ n: 1 }, [2]]) as Uint8Array<ArrayBuffer>);
  assert.deepEqual(
    [packed.type, packed.body],
    ['application/msgpack', [{ result: { is: { n: 1 } } }, { result: { is: [2] } }]],
  );

  // In parts, in the order in which the rows settle.
  const inParts = await send(rows, LINES, '1\n{"error":"no"}\n3\n', LINES);
  const parts = inParts.body as { readonly index?: number }[];
  assert.deepEqual([inParts.status, inParts.type, parts.at(-1)], [200, LINES, { done: { rows: 3, failed: 1 } }]);
  const sorted = parts.slice(0, -1).sort((a, b) => (a.index ?? 0) - (b.index ?? 0));
  const wanted = [{ result: { is: 1 } }, failed('modelet_failed', 'no'), { result: { is: 3 } }];
  assert.deepEqual(
    sorted,
    wanted.map((one, index) => ({ index, ...one })),
  );

  // Rows of which each becomes a list.
  const pairs = (...items: readonly string[]) => ({
    result: items.map((item) => ({ item, result: item.toUpperCase() })),
  });
  const inLists = await send(new URL('/words', url).href, JSON_TYPE, '["a b c","d bad",7,"e"]');
  assert.deepEqual(
    [inLists.status, inLists.failed, (inLists.body as object[]).toSpliced(2, 1)],
    [200, '2', [pairs('a', 'b', 'c'), failed('modelet_failed', 'item 1: no', { stage: 'upper' }), pairs('e')]],
  );
  const listsInParts = await send(new URL('/words', url).href, LINES, '"a b"\n""\n', LINES);
  assert.deepEqual(
    (listsInParts.body as { readonly index?: number }[]).sort((a, b) => (a.index ?? 2) - (b.index ?? 2)),
    [{ index: 0, ...pairs('a', 'b') }, { index: 1, ...pairs('') }, { done: { rows: 2, failed: 0 } }],
  );

  // All rows have the key of their request, and run in order; each is looked up in the cache by itself.
  const keyed = await send(new URL('/seen', url).href, JSON_TYPE, '[1,2,3]', '*/*', `key of ${url}`);
  assert.deepEqual(keyed.body, [{ result: [1] }, { result: [1, 2] }, { result: [1, 2, 3] }]);
  const twice = await send(new URL('/once', url).href, JSON_TYPE, JSON.stringify([url, url, `${url}/`, url]));
  const [one, ...others] = (twice.body as { readonly result: number }[]).map(({ result }) => result);
  assert.deepEqual(others, [one, (one as number) + 1, one]);

  // Each row goes to a version by itself.
  const shared = await send(new URL('/shared', url).href, JSON_TYPE, '[1,2,3,4]');
  const answers = (shared.body as { readonly result: string }[]).map(({ result }) => result.split(' '));
  assert.deepEqual(
    answers.map(([, input]) => input),
    ['1', '2', '3', '4'],
  );
  assert.deepEqual(answers.map(([version]) => version).sort(), ['base', 'base', 'other', 'other']);

  // Over a WebSocket, each line is a message.
  const said = await saidBy(new URL('/talk', url.replace('http', 'ws')).href, '[1,{"error":"no"}]');
  assert.deepEqual(said.at(-1), { done: { rows: 2, failed: 1 } });
  assert.deepEqual(
    said.slice(0, -1).sort((a, b) => Number(a['index']) - Number(b['index'])),
    [
      { index: 0, result: { is: 1 } },
      { index: 1, ...failed('modelet_failed', 'no', { stage: 'talks' }) },
    ],
  );

  // The schema is that of a row; status and headers are those of the HTTP response node, but not the type of a result.
  const typed = await send(new URL('/typed', url).href, JSON_TYPE, '[{"n":1},{"n":"1"}]');
  assert.deepEqual([typed.status, typed.type, typed.failed], [201, JSON_TYPE, '1']);
  const [good, wrong] = typed.body as [object, { readonly error: { readonly code: string; readonly details: object } }];
  assert.deepEqual([good, wrong.error.code], [{ result: { is: { n: 1 } } }, 'invalid_input']);
  assert.ok(Array.isArray(wrong.error.details));
}

test('each row of a body is an item, and has its own result or error', async () => {
  await red.deployReady([
    ...flows(),
    httpIn('in /flow', '/flow', 'pass'),
    func('pass', 'return msg;', 'late'),
    stage('late', DOES, 'out /flow', { maxRows: 10 }),
    httpOut('out /flow'),
  ]);
  await check(red.url);
  const { requests } = (await red.snapshot()).runtimes[0] as { readonly requests: Record<string, number> };
  assert.ok((requests['ok'] ?? 0) >= 14, 'each row counts as a request of the runtime');
  await check(await engineUrl(red));
});

test('so it does in the headless runner', async (t) => {
  const file = join(folderFor(t), 'flows.json');
  writeFileSync(file, JSON.stringify(flows()));
  const { url } = await serveFlows(t, file);
  await until('the stages are ready', async () => (await fetch(new URL('/health/ready', url))).ok);
  await check(url);
});

test('an endpoint that is not compiled refuses rows, and says at the deploy why', async () => {
  const url = new URL('/flow', red.url).href;
  assert.match(red.logs.join('\n'), /POST \/flow refuses rows: only a compiled endpoint takes them, and /);
  for (const [type, body] of [
    [JSON_TYPE, '[1]'],
    ['application/jsonl', '1\n'],
    ['text/csv', 'n\n1\n'],
  ] as const) {
    const { status, body: refused } = await send(url, type, body);
    assert.equal(status, 415);
    assert.match(JSON.stringify(refused), /only a compiled endpoint takes the rows of a body/);
  }
  assert.deepEqual((await send(url, JSON_TYPE, '{"n":1}')).body, { is: { n: 1 } });
});

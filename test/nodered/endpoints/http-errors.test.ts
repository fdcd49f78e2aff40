/**
 * Each way in which a request over HTTP can fail, as callers see it: with the clients that they use, in JSON and in
 * msgpack, whichever pipeline node comes first.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Answer, CALLERS, FORMS, type Form, read, TYPES, write } from '../../fixtures/callers.ts';
import { instance, on, subflow } from '../../fixtures/drawn.ts';
import { batcher, collector, dispatchGate, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const WAYS = ['stage', 'batcher', 'gate'] as const;

const DO = `
  if (input.do === 'refuse') throw Object.assign(new Error('not like this'), { code: 'invalid_input' });
  if (input.do === 'fail') throw new TypeError('a bug');
  return { done: input.do };`;

/** Each input on its own, also where it came with others. */
const EACH = `
  return input.map(({ bad, n }) => bad ? Object.assign(new Error('not like this'), { code: 'invalid_input' })
    : { n, together: input.length });`;

/** An endpoint for each way into one stage. */
function ways(name: string, code: string, properties: Readonly<Record<string, unknown>> = {}): FlowNode[] {
  return [
    httpIn(`${name} by stage`, `/stage/${name}`, name),
    httpIn(`${name} by batcher`, `/batcher/${name}`, `${name} batcher`),
    batcher(`${name} batcher`, name, { maxBatchSize: '4' }),
    httpIn(`${name} by gate`, `/gate/${name}`, `${name} gate`),
    dispatchGate(`${name} gate`, name, `${name} answer`, { maxSys: '1000' }),
    stage(name, code, `${name} results`, properties),
    collector(`${name} results`, `${name} answer`, `${name} answer`),
    httpOut(`${name} answer`),
  ];
}

const held = useGate();
const red = useNodeRed({
  settings: { apiMaxLength: '200kb' },
  flows: [
    TAB,
    runtime(),
    ...ways('do', DO),
    ...ways('late', 'await new Promise((resolve) => setTimeout(resolve, 300)); return 1;'),
    // A stage that cannot start would say when to come again, and a gate would wait until then.
    ...ways('unusable', 'return input;', { predict: 'sometimes' }),
    runtime('small', { capacity: '1' }),
    ...ways('held', held.code('1'), { runtime: 'small' }),
    runtime('narrow', { maxPayloadMb: '0.001' }),
    ...ways('tight', 'return 1;', { runtime: 'narrow' }),
    httpIn('in', '/together', 'three'),
    batcher('three', 'each', { maxBatchSize: '3', policy: 'oldest', maxWaitMs: '60000' }),
    stage('each', EACH, 'results', { predict: 'batch' }),
    collector('results', 'answer', 'answer'),
    httpOut('answer'),
    { ...subflow('inside', '', ''), in: [], out: [] },
    ...on({ z: 'inside' }, httpIn('in within', '/within', 'within'), stage('within', 'return 1;', 'out within')),
    ...on({ z: 'inside' }, httpOut('out within')),
    instance('instance', 'inside', []),
  ],
});

interface Row {
  readonly status: number;
  readonly code: string;
  readonly what: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: (form: Form) => Buffer;
  readonly message: RegExp;
  /** Sends it, while what makes it fail is the case. */
  readonly during?: (form: Form, send: () => Promise<Answer>) => Promise<Answer>;
}

const asking = (value: unknown) => (form: Form) => write(form, value);

const ROWS: readonly Row[] = [
  {
    status: 400,
    code: 'bad_request',
    what: 'a body that is cut off',
    path: 'do',
    body: (form) => write(form, { do: 'well', and: ['more'] }).subarray(0, -3),
    message: /^the body is not valid (JSON|msgpack)/,
  },
  {
    status: 400,
    code: 'bad_request',
    what: 'a header timeout that is no number',
    path: 'do',
    headers: { timeout: 'soon' },
    body: asking({ do: 'well' }),
    message: /^the header timeout must be a positive number, of milliseconds$/,
  },
  {
    status: 400,
    code: 'bad_request',
    what: 'a header timeout of 0',
    path: 'do',
    headers: { timeout: '0' },
    body: asking({ do: 'well' }),
    message: /timeout/,
  },
  {
    status: 408,
    code: 'deadline_exceeded',
    what: 'no answer within the header timeout',
    path: 'late',
    headers: { timeout: '40' },
    body: asking({}),
    message: /./,
  },
  {
    status: 413,
    code: 'payload_too_large',
    what: 'a payload beyond the runtime\u2019s limit',
    path: 'tight',
    body: asking({ text: 'x'.repeat(2000) }),
    message: /limit is 1049 bytes|larger than the runtime takes/,
  },
  {
    status: 413,
    code: 'payload_too_large',
    what: 'a body beyond all limits',
    path: 'tight',
    body: asking({ text: 'x'.repeat(300_000) }),
    message: /larger than 200kb, the apiMaxLength|limit is 1049 bytes|larger than the runtime takes/,
  },
  {
    status: 415,
    code: 'unsupported_media',
    what: 'a body of another type',
    path: 'do',
    headers: { 'Content-Type': 'text/plain' },
    body: asking({ do: 'well' }),
    message: /^Content-Type text\/plain is not taken here: send application\/json or application\/msgpack$/,
  },
  {
    status: 415,
    code: 'unsupported_media',
    what: 'an invalid Content-Type',
    path: 'do',
    headers: { 'Content-Type': 'not a type' },
    body: asking({ do: 'well' }),
    message: /type/,
  },
  {
    status: 422,
    code: 'invalid_input',
    what: 'an input that the modelet refuses',
    path: 'do',
    body: asking({ do: 'refuse' }),
    message: /^not like this$/,
  },
  {
    status: 429,
    code: 'capacity_exceeded',
    what: 'a runtime that is full',
    path: 'held',
    body: asking({}),
    message: /./,
    during: async (form, send) => {
      const first = CALLERS.fetch(`${red.url}/stage/held`, { 'Content-Type': TYPES[form] }, write(form, {}));
      await until('the first is being worked on', async () => (await held.entered()).length === 1);
      const answer = await send();
      assert.match(answer.headers['retry-after'] ?? '', /^[1-9]\d*$/);
      await held.open();
      assert.equal((await first).status, 200);
      return answer;
    },
  },
  {
    status: 500,
    code: 'modelet_failed',
    what: 'a modelet that throws',
    path: 'do',
    body: asking({ do: 'fail' }),
    message: /^a bug$/,
  },
  {
    status: 503,
    code: 'config_invalid',
    what: 'a stage that cannot be used',
    path: 'unusable',
    body: asking({}),
    message: /Call: must be one of item, batch/,
  },
];

let sent = 0;

/** Checks what all errors have in common, over HTTP. */
function assertError({ status, headers, bytes }: Answer, form: Form, requestId: string, row: Row): void {
  const text = bytes.toString('latin1');
  assert.equal(status, row.status, text);
  assert.equal(headers['content-type']?.split(';')[0], TYPES[form], text);
  assert.equal(headers['content-length'], String(bytes.length));
  assert.equal(headers['x-request-id'], requestId);
  const { error, ...others } = read(form, bytes) as { error: Record<string, unknown> };
  assert.deepEqual(others, {});
  assert.equal(error['code'], row.code);
  assert.match(String(error['message']), row.message);
  assert.equal(error['requestId'], requestId);
  assert.deepEqual(
    Object.keys(error).filter((name) => !['code', 'message', 'stage', 'requestId'].includes(name)),
    [],
  );
}

for (const way of WAYS) {
  for (const form of FORMS) {
    describe(`errors over HTTP, through a ${way} first, in ${form}`, () => {
      for (const row of ROWS) {
        test(`${row.what}: ${row.status} ${row.code}`, async () => {
          for (const [client, call] of Object.entries(CALLERS)) {
            await held.close();
            sent += 1;
            const requestId = `${client}-${sent}`;
            const accept = row.headers?.['Content-Type'] ? { Accept: TYPES[form] } : {};
            const headers = { 'Content-Type': TYPES[form], 'X-Request-Id': requestId, ...accept, ...row.headers };
            const send = () => call(`${red.url}/${way}/${row.path}`, headers, row.body(form));
            assertError(await (row.during ? row.during(form, send) : send()), form, requestId, row);
          }
        });
      }

      test('the endpoint serves the next request after all these errors', async () => {
        for (const call of Object.values(CALLERS)) {
          const answer = await call(
            `${red.url}/${way}/do`,
            { 'Content-Type': TYPES[form] },
            write(form, { do: 'well' }),
          );
          assert.equal(answer.status, 200);
          assert.equal(answer.headers['content-type']?.split(';')[0], TYPES[form]);
          assert.deepEqual(read(form, answer.bytes), { done: 'well' });
        }
      });
    });
  }
}

describe('errors over HTTP', () => {
  test('a refused item fails alone: its neighbours in the batch succeed, each in its own form', async () => {
    const [good, bad, last] = await Promise.all([
      CALLERS.fetch(`${red.url}/together`, { 'Content-Type': TYPES.json }, write('json', { n: 1 })),
      CALLERS['node:http'](`${red.url}/together`, { 'Content-Type': TYPES.msgpack }, write('msgpack', { bad: true })),
      CALLERS['node:http'](`${red.url}/together`, { 'Content-Type': TYPES.msgpack }, write('msgpack', { n: 3 })),
    ]);
    assert.deepEqual([good.status, bad.status, last.status], [200, 422, 200]);
    assert.deepEqual(read('json', good.bytes), { n: 1, together: 3 });
    assert.deepEqual(read('msgpack', last.bytes), { n: 3, together: 3 });
    const { error } = read('msgpack', bad.bytes) as { error: { code: string } };
    assert.equal(error.code, 'invalid_input');
  });

  test('the metrics count all errors, also those that reached no flow', async () => {
    const { runtimes } = await red.snapshot();
    const requests = runtimes.find(({ id }) => id === 'runtime')?.requests ?? {};
    const timesPerRow = WAYS.length * FORMS.length * Object.keys(CALLERS).length;
    const rows = (code: string) => ROWS.filter((row) => row.code === code).length * timesPerRow;
    assert.equal(requests['bad_request'], rows('bad_request'));
    assert.equal(requests['unsupported_media'], rows('unsupported_media'));
    assert.equal(requests['modelet_failed'], rows('modelet_failed'));
    const tight = runtimes.find(({ id }) => id === 'narrow')?.requests;
    assert.equal(tight?.['payload_too_large'], rows('payload_too_large'));
  });

  test('an endpoint within a subflow answers like any other', async () => {
    const send = (body: Buffer) => CALLERS.fetch(`${red.url}/within`, { 'Content-Type': TYPES.json }, body);
    assert.equal((await send(write('json', {}))).status, 200);
    const { status, bytes } = await send(Buffer.from('{'));
    assert.equal(status, 400);
    assert.equal((read('json', bytes) as { error: { code: string } }).error.code, 'bad_request');
  });
});

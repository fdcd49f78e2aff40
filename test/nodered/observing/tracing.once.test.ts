/** A traced flow: the spans of its requests belong to their callers' traces, and tell what msg.modelet tells. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { trace } from '@opentelemetry/api';
import { endpoint, func, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { type RememberedSpan, SpanMemory } from '../../fixtures/span-memory.ts';

const CALLER = '00f067aa0ba902b7';
const FAIL = `if (input.fail) throw new Error('told to fail'); return input;`;
const FLOWS = [
  TAB,
  runtime(),
  ...endpoint('/long', 'first'),
  stage('first', FAIL, 'second'),
  stage('second', 'return input;', 'between'),
  func('between', 'return msg;', 'third'),
  stage('third', 'return input;', 'collector /long'),
];

const memory = new SpanMemory();
const red = useNodeRed();
after(() => trace.disable());

async function spansOf(traceId: string, body: object): Promise<{ spans: RememberedSpan[]; response: Response }> {
  const headers = { 'Content-Type': 'application/json', traceparent: `00-${traceId}-${CALLER}-01` };
  const response = await red.post('/long', body, { headers });
  return { spans: memory.spans.filter((span) => span.spanContext().traceId === traceId), response };
}

describe('a traced flow', () => {
  test('makes no spans before there is an SDK', async () => {
    await red.deployReady(FLOWS);
    const { response } = await spansOf('1'.repeat(32), {});
    assert.equal(response.status, 200);
    assert.equal(memory.spans.length, 0);
  });

  test('makes spans for each way through the engine, in the caller’s trace', async () => {
    trace.setGlobalTracerProvider(memory);
    await red.deployReady(FLOWS);
    const messages = red.inputs('collector /long');
    const { spans, response } = await spansOf('2'.repeat(32), {});
    assert.equal(response.status, 200);
    assert.deepEqual(
      spans.map(({ name }) => name),
      [
        'modelet request',
        'queue first',
        'run first',
        'queue second',
        'run second',
        'modelet request',
        'queue third',
        'run third',
      ],
    );
    const requests = spans.filter(({ name }) => name === 'modelet request');
    assert.ok(requests.every(({ parent }) => parent?.spanId === CALLER));
    assert.ok(requests.every(({ attributes }) => attributes['modelet.request_id'] === '2'.repeat(32)));
    const runs = spans.filter(({ name }) => name.startsWith('run '));
    const told = messages[0]?.modelet?.stages as unknown as { runMs: number }[];
    for (const [index, { startedAt, endedAt = 0 }] of runs.entries()) {
      assert.ok(Math.abs(endedAt - startedAt - (told[index]?.runMs ?? 0)) < 0.01);
    }
    for (const { startedAt, endedAt = 0 } of spans) assert.ok(endedAt >= startedAt);
  });

  test('records a failure', async () => {
    const { spans, response } = await spansOf('3'.repeat(32), { fail: true });
    assert.equal(response.status, 500);
    assert.deepEqual(
      spans.map(({ name, status }) => [name, status?.message]),
      [
        ['modelet request', 'modelet_failed: told to fail'],
        ['queue first', undefined],
        ['run first', undefined],
      ],
    );
  });
});

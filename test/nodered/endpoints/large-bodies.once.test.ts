/** Many large JSON bodies at the same time, over HTTP: all are answered, and so is what else comes. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';

// A second round says nothing new here: the fault of the engine with such payloads has one.
const BODIES = 8;
const LARGE = Buffer.from(JSON.stringify({ text: 'x'.repeat(60_000_000) }));
/** More than all of them take on a busy machine. */
const TIMEOUT_MS = 300_000;
const SMALL = Buffer.from('{"a":1}');

interface Got {
  readonly status: number;
  readonly bytes: number;
}

function post(url: string, body: Buffer): Promise<Got> {
  const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent: false, headers });
    sent.on('error', reject).on('response', (response) => {
      let bytes = 0;
      response
        .on('data', (chunk: Buffer) => {
          bytes += chunk.length;
        })
        .on('close', () => resolve({ status: response.statusCode ?? 0, bytes }));
    });
    sent.end(body);
  });
}

test(`${BODIES} bodies of 60 MB at a time, and small ones beside them, are all answered`, async (t) => {
  const red = await NodeRedProcess.start([
    TAB,
    // Less memory for queues would refuse some of them: their answers leave slowly.
    runtime('runtime', { timeoutMs: String(TIMEOUT_MS), maxQueueMb: '4096' }),
    ...endpoint('/large', 'large'),
    stage('large', 'return input;', 'collector /large'),
    ...endpoint('/small', 'small'),
    stage('small', 'return input;', 'collector /small'),
  ]);
  t.after(() => red.end());
  const large: Got[] = [];
  const small: Got[] = [];
  const one = async (): Promise<void> => {
    large.push(await post(`${red.url}/large`, LARGE));
  };
  const beside = async (): Promise<void> => {
    while (large.length < BODIES) small.push(await post(`${red.url}/small`, SMALL));
  };
  await Promise.all([...Array.from({ length: BODIES }, one), beside()]);
  assert.deepEqual(
    large,
    Array.from({ length: BODIES }, () => ({ status: 200, bytes: LARGE.length })),
  );
  assert.ok(small.length > 0 && small.every(({ status }) => status === 200), 'the small ones are answered');
  assert.equal((await red.snapshot()).runtimes[0]?.engine.restarts, 0);
});

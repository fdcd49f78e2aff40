/** The metrics agree with the client of many requests about the end and the time of each. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Scrape } from '../../fixtures/exposition.ts';
import { batcher, endpoint, func, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const REQUESTS = process.env['TEST_FULL'] ? 20_000 : 5000;
/** Number of requests that find a queue full, also of late ones, and of cancelled ones. */
const SPECIAL = 1300;
const IN_FLIGHT = 64;

const folder = mkdtempSync(join(tmpdir(), 'modelet-counts-'));
const agent = new Agent({ keepAlive: true });

// Before Node-RED stops: the worker ends its request.
after(() => writeFileSync(join(folder, 'held.open'), ''));
const nodeRed = useNodeRed({
  flows: [
    TAB,
    runtime('runtime', { name: 'counted' }),
    // A function node in front: what messages say is compared with the metrics, and a compiled endpoint makes none.
    ...endpoint('/work', 'pass'),
    func('pass', 'return msg;', 'first'),
    stage('first', 'return input;', 'batch', { workers: '2' }),
    batcher('batch', 'work', { maxBatchSize: 16 }),
    stage(
      'work',
      `return input.map(({ fault }) =>
         fault ? Object.assign(new Error(fault), fault === 'invalid_input' ? { code: fault } : {}) : 'fine');`,
      'collector /work',
      { predict: 'batch' },
    ),
    // One runs, one waits, all others find the queue full.
    ...endpoint('/narrow', 'narrow'),
    stage('narrow', 'await new Promise((done) => setTimeout(done, 2)); return input;', 'collector /narrow', {
      capacity: '1',
      overflow: 'refuse',
    }),
    // Its worker holds the first request until the test ends; those behind it wait.
    ...endpoint('/held', 'held'),
    node('held', 'modelet-stage', ['collector /held'], {
      name: 'held',
      runtime: 'runtime',
      source: 'file',
      path: join(repositoryRoot, 'test', 'fixtures', 'modelets', 'gate.js'),
      input: 'payload.name',
      init: JSON.stringify({ folder }),
    }),
    ...endpoint('/late', 'late'),
    func('late', 'msg.timeout = 20; return msg;', 'held'),
  ],
});
after(() => {
  agent.destroy();
  rmSync(folder, { recursive: true, force: true });
});

const counts: Record<string, number> = {};
let sent = 0;

function count(code: string): void {
  counts[code] = (counts[code] ?? 0) + 1;
}

/** Posts, and counts the answer by its code; `leave` goes away without waiting for one. */
function post(path: string, body: unknown, leave?: Promise<unknown>): Promise<void> {
  sent += 1;
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json' };
    const asking = request(`${nodeRed.url}${path}`, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on('end', () => {
        const { error } = text.startsWith('{') ? (JSON.parse(text) as { error?: { code: string } }) : {};
        count(response.statusCode === 200 ? 'ok' : (error?.code ?? `${response.statusCode}: ${text}`));
        resolve();
      });
    });
    let left = false;
    void leave?.then(() => {
      left = true;
      asking.destroy();
    });
    asking.on('error', (error) => {
      if (!left) {
        reject(error);
        return;
      }
      count('cancelled');
      resolve();
    });
    asking.end(JSON.stringify(body));
  });
}

/** Sends `total` requests, `IN_FLIGHT` at a time. */
async function sendAll(total: number, send: (number: number) => Promise<void>): Promise<void> {
  let next = 0;
  const client = async (): Promise<void> => {
    for (let number = next++; number < total; number = next++) await send(number);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, client));
}

async function scrape(): Promise<Scrape> {
  return new Scrape(await (await fetch(`${nodeRed.url}/admin/modelets/metrics`)).text());
}

/** Those among the codes that occurred. */
async function requestCounts(): Promise<Record<string, number>> {
  const series = (await scrape()).find('modelet_requests_total').filter(({ value }) => value > 0);
  return Object.fromEntries(series.map(({ labels, value }) => [labels['code'], value]));
}

describe('metrics and the client of the requests', () => {
  let messages: Message[] = [];

  test(`agree on how each of ${REQUESTS} requests has ended`, async () => {
    messages = nodeRed.inputs('out /work');
    const failed = nodeRed.inputs('error /work');
    const faults = [undefined, undefined, 'invalid_input', undefined, 'modelet_failed'];
    await sendAll(REQUESTS - SPECIAL, (n) => post('/work', { fault: faults[n % faults.length] }));
    await sendAll(1000, () => post('/narrow', {}));
    let leave: () => void = () => {};
    const leaving = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const left = [post('/held', { name: 'held' }, leaving)];
    await until('it is held', async () => (await scrape()).value('modelet_workers_busy', { stage: 'held' }) === 1);
    // From here on that stage answers nothing.
    await sendAll(100, () => post('/late', { name: 'late' }));
    left.push(...Array.from({ length: 199 }, () => post('/held', { name: 'never' }, leaving)));
    await until('all wait', async () => (await scrape()).value('modelet_backlog') === 200);
    leave();
    await Promise.all(left);
    await until('nothing is open', async () => (await scrape()).value('modelet_backlog') === 0);
    assert.equal(sent, REQUESTS);
    assert.deepEqual(Object.keys(counts).sort(), [
      'cancelled',
      'capacity_exceeded',
      'deadline_exceeded',
      'invalid_input',
      'modelet_failed',
      'ok',
    ]);
    assert.deepEqual(await requestCounts(), counts);
    messages = [...messages, ...failed];
  });

  test('agree within 1 % on the time that requests spent in each stage, and in all', async () => {
    assert.equal(messages.length, REQUESTS - SPECIAL);
    const found = await until('the engine has reported the last batch', async () => {
      const latest = await scrape();
      return latest.value('modelet_run_seconds_count', { stage: 'work' }) === messages.length && latest;
    });
    const sumOf = (name: string, time: 'waitMs' | 'batchMs' | 'runMs'): number => {
      const timings = messages.flatMap((message) => message.modelet?.stages ?? []) as unknown as Timing[];
      return timings.filter((timing) => timing.name === name).reduce((sum, timing) => sum + timing[time], 0) / 1000;
    };
    for (const name of ['first', 'work']) {
      const of = { stage: name };
      near(found.value('modelet_queue_wait_seconds_sum', of), sumOf(name, 'waitMs'));
      near(found.value('modelet_batch_wait_seconds_sum', of), sumOf(name, 'batchMs'));
      near(found.value('modelet_run_seconds_sum', of), sumOf(name, 'runMs'));
      assert.equal(found.value('modelet_batch_size_sum', of), found.value('modelet_items_total', of));
    }
    const [failed, invalid] = ['modelet_failed', 'invalid_input'].map((code) =>
      found.value('modelet_request_duration_seconds_sum', { code }),
    ) as [number, number];
    const told = messages.filter(({ error }) => error).reduce((sum, { modelet }) => sum + (modelet?.totalMs ?? 0), 0);
    near(failed + invalid, told / 1000);
  });
});

interface Timing {
  readonly name: string;
  readonly waitMs: number;
  readonly batchMs: number;
  readonly runMs: number;
}

function near(measured: number, told: number): void {
  assert.ok(Math.abs(measured - told) <= Math.max(0.01 * told, 0.001), `measured ${measured} s, told ${told} s`);
}

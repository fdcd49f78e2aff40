/** Two Node-REDs with the same flow share the waiting room of a durable gate, on a server that is killed under load. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { collector, dispatchGate, httpIn, httpOut, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';
import { allGone, killStarted } from '../../fixtures/processes.ts';
import { Redis, WITHOUT_REDIS } from '../../fixtures/redis.ts';

const COUNT = 120;
const SECRET = 'one for both';

let folder: string;
let effects: string;
let redis: Redis;

function flows(broker: object): FlowNode[] {
  return [
    TAB,
    runtime('runtime', { broker: 'broker' }),
    { id: 'broker', type: 'modelet-broker', name: '', url: redis.url, prefix: 'modelet', tls: '', ...broker },
    httpIn('in', '/jobs/:id', 'name'),
    node('name', 'change', ['gate'], { rules: [{ t: 'set', p: 'jobId', pt: 'msg', to: 'req.params.id', tot: 'msg' }] }),
    node('get', 'http in', ['order'], { url: '/jobs/:id', method: 'get', upload: false, swaggerDoc: '' }),
    node('order', 'change', ['name'], { rules: [{ t: 'set', p: 'gate', pt: 'msg', to: 'status', tot: 'str' }] }),
    dispatchGate('gate', 'work', 'answers', { store: 'durable', maxSys: '4', capacity: 10_000 }),
    httpOut('answers'),
    stage(
      'work',
      `require('node:fs').appendFileSync(${JSON.stringify(effects)}, process.ppid + ' ' + input.id + '\\n'); return { of: input.id };`,
      'done',
    ),
    collector('done', 'sink'),
    sink('sink'),
  ];
}

function done(): { readonly engine: string; readonly id: string }[] {
  const lines = readFileSync(effects, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => ({ engine: line.split(' ')[0] ?? '', id: line.split(' ')[1] ?? '' }));
}

async function post(red: NodeRedProcess, id: string): Promise<Response> {
  const headers = { 'Content-Type': 'application/json' };
  const response = await fetch(`${red.url}/jobs/${id}`, { method: 'POST', headers, body: JSON.stringify({ id }) });
  await response.arrayBuffer();
  return response;
}

describe('two Node-REDs with a broker', { skip: WITHOUT_REDIS }, () => {
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'modelet-broker-'));
    effects = join(folder, 'effects');
    appendFileSync(effects, '');
    redis = await Redis.start(folder, ['--requirepass', SECRET]);
  });
  after(async () => {
    await redis.kill();
    try {
      await allGone();
    } finally {
      killStarted();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test('work off one waiting room, each item once, and tell each other’s results; a killed server loses nothing', async (t) => {
    // The secret comes as from the editor: a flow file holds none.
    const start = async (): Promise<NodeRedProcess> => {
      const red = await NodeRedProcess.start(flows({}));
      t.after(() => red.end());
      await red.deploy(flows({ credentials: { password: SECRET } }));
      return red;
    };
    const [one, two] = await Promise.all([start(), start()]);
    const ids = Array.from({ length: COUNT }, (_, n) => `id-${n}`);
    const accept = async (id: string, n: number): Promise<void> => {
      await until(`${id} is accepted`, async () => (await post(n % 2 === 0 ? one : two, id)).status === 202);
    };
    await Promise.all(ids.slice(0, COUNT / 2).map(accept));
    await redis.kill();
    const refused = await post(one, 'nobody');
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '2']);
    const gates = await until('the other says so, too', async () => {
      const snapshot = await two.snapshot();
      return snapshot.gates[0]?.open === false && snapshot.gates;
    });
    assert.match(gates[0]?.store?.error ?? '', /^the broker is unreachable\nredis:\/\/127\.0\.0\.1:\d+: /);
    redis.restart();
    await Promise.all(ids.slice(COUNT / 2).map((id, n) => accept(id, n)));
    await until('all are done', () => new Set(done().map(({ id }) => id)).size === COUNT);
    // Jobs that ran while the server was away were not done twice: their outcome was stored when the server was back.
    assert.equal(done().length, COUNT);
    assert.equal(new Set(done().map(({ engine }) => engine)).size, 2, 'both have worked');
    for (const [n, id] of ids.entries()) {
      const ask = async (): Promise<unknown> => (await fetch(`${(n % 2 === 0 ? two : one).url}/jobs/${id}`)).json();
      const answer = await until(`${id} has ended`, async () => {
        const found = (await ask()) as { state: string };
        return found.state === 'done' && found;
      });
      assert.deepEqual(answer, { id, state: 'done', result: { of: id } });
    }
  });
});

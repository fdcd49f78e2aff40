/** Compiled endpoints at Node-RED’s own server and at the engine: they answer right through deploys, and only while there are any. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { batcher, endpoint, func, httpIn, httpOut, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { engineUrl, type FlowNode } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';

const CLIENTS = 16;
const DEPLOYS = 10;

function flows(version: number, change: number, more: readonly FlowNode[] = []): FlowNode[] {
  return [
    TAB,
    { id: 'other', type: 'tab', label: 'other' },
    runtime('runtime', { listen: '127.0.0.1:0' }),
    ...endpoint('/run', 'batch'),
    batcher('batch', 'double', { maxBatchSize: '16', policy: 'greedy' }),
    stage('double', 'return { n: input.n * 2 };', 'add', { workers: '2' }),
    stage('add', `return { n: input.n + 1, version: ${version} };`, 'collector /run'),
    { ...node('comment', 'comment', []), z: 'other', info: String(change) },
    ...more,
  ];
}

interface Answer {
  readonly status: number | string;
  readonly body: string;
}

let red: NodeRedProcess;
/** The addresses of the endpoint: Node-RED's own server, and the engine's. */
let hosts: Readonly<Record<'Node-RED' | 'the engine', string>>;
before(async () => {
  red = await NodeRedProcess.start(flows(0, 0));
  hosts = { 'Node-RED': red.url, 'the engine': await engineUrl(red) };
});
after(() => red.end());

/** Posts by a separate connection, or by those of an agent. */
function post(n: number, host: keyof typeof hosts = 'Node-RED', agent: Agent | false = false): Promise<Answer> {
  return new Promise((resolve) => {
    const headers = { 'Content-Type': 'application/json' };
    const sent = request(`${hosts[host]}/run`, { agent, method: 'POST', headers }, (response) => {
      let body = '';
      response.on('data', (chunk) => {
        body += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
    });
    sent.on('error', (error) => resolve({ status: error.message, body: '' }));
    sent.end(JSON.stringify({ n }));
  });
}

/**
 * Posts from all clients until `act` is over, which gets the number of answers so far. Returns the answers other than
 * 200, and the versions that answered.
 */
async function whilePosting(
  act: (answered: () => number) => Promise<unknown>,
  host: keyof typeof hosts = 'Node-RED',
): Promise<{ wrong: string[]; versions: number[] }> {
  const wrong: string[] = [];
  const versions = new Set<number>();
  // Not an agent of all tests: Node-RED may close an idle connection just as a request begins on it.
  const agent = new Agent({ keepAlive: true });
  let [total, over] = [0, false];
  const client = async (first: number): Promise<void> => {
    for (let n = first; !over; n += CLIENTS) {
      const { status, body } = await post(n, host, agent);
      total += 1;
      const answered = status === 200 ? (JSON.parse(body) as { n: number; version: number }) : null;
      if (answered?.n === 2 * n + 1) versions.add(answered.version);
      else wrong.push(`${status} ${body}`);
    }
  };
  const clients = Array.from({ length: CLIENTS }, (_, index) => client(index));
  await act(() => total).finally(() => {
    over = true;
  });
  await Promise.all(clients);
  agent.destroy();
  return { wrong, versions: [...versions] };
}

for (const host of ['Node-RED', 'the engine'] as const) {
  test(`every request to ${host} gets its answer during ${DEPLOYS} full deploys`, async () => {
    const { wrong } = await whilePosting(async (answered) => {
      for (let change = 1; change <= DEPLOYS; change += 1) {
        await red.deploy(flows(0, change));
        await until('clients are answered', () => answered() > 20 * change);
      }
    }, host);
    assert.deepEqual(wrong, []);
  });
}

test('the engine answers while the loop of Node-RED is blocked', async (t) => {
  // Blocked until the file is there, however fast the machine is.
  const end = join(folderFor(t), 'end');
  const busy = func('busy', `while (!fs.existsSync(${JSON.stringify(end)})); return msg;`, 'blocked');
  const withFiles = { ...busy, libs: [{ var: 'fs', module: 'fs' }] };
  await red.deploy(flows(0, 11, [httpIn('block', '/block', 'busy'), withFiles, httpOut('blocked')]));
  let isOver = false;
  const blocked = fetch(`${red.url}/block`, { method: 'POST' }).then(() => {
    isOver = true;
  });
  try {
    for (let n = 0; n < 50; n += 1) assert.equal((await post(n, 'the engine')).status, 200);
    assert.ok(!isOver, 'it is still blocked');
  } finally {
    writeFileSync(end, '');
  }
  await blocked;
});

test('requests are answered while flows stop and start', async (t) => {
  // Flows stop until the file is there. The function node clears the timers that it has when it closes, but not a timer that starts later.
  const end = join(folderFor(t), 'end');
  const close = `
    const look = (done) => fs.existsSync(${JSON.stringify(end)}) ? done() : setTimeout(look, 20, done);
    __node__.on('close', (done) => void Promise.resolve().then(() => look(done)));`;
  const slow = { ...func('slow', 'return msg;'), initialize: close, libs: [{ var: 'fs', module: 'fs' }] };
  await red.deploy(flows(0, 20, [slow]));
  let isOver = false;
  const deploying = red.deploy(flows(0, 21)).then(() => {
    isOver = true;
  });
  // One after another: a request that waited for the flows to start would be the last.
  for (let answered = 0; answered < 10; answered += 1) {
    assert.equal((await post(answered)).status, 200);
    assert.ok(!isOver, `only ${answered} were answered meanwhile`);
  }
  writeFileSync(end, '');
  await deploying;
});

test('changed code takes over without the loss of a request', async () => {
  const { wrong, versions } = await whilePosting(async () => {
    for (const version of [1, 2]) {
      await red.deploy(flows(version, 30));
      await until(`version ${version} answers`, async () => (await post(0)).body.includes(`"version":${version}`));
    }
  });
  assert.deepEqual(wrong, []);
  assert.ok(versions.includes(2));
});

test('Node-RED serves a removed endpoint again, and a restored one is compiled again', async () => {
  await red.deploy([TAB]);
  await until('the endpoint is gone', async () => (await post(1)).status === 404);
  await red.deploy(flows(3, 40));
  await red.whenReady();
  assert.deepEqual(await post(1), { status: 200, body: '{"n":3,"version":3}' });
});

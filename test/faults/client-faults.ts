/** Faults that HTTP clients cause in a pipeline. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { TAB } from '../fixtures/flow.ts';
import type { FaultGroup } from './fault.ts';
import { LEFT, type NodeRedBed, type NodeRedFault } from './node-red-bed.ts';
import { pipelined } from './pipelined.ts';

const BURST = 50_000;
const BURST_SOCKETS = 250;

const LEAVING = 10_000;
const LEAVING_AT_ONCE = 100;

export const CLIENT_FAULTS: FaultGroup<NodeRedFault> = {
  title: 'HTTP clients',
  faults: [
    {
      name: `${BURST.toLocaleString('en')} requests at once`,
      requests: 'as many as the smallest capacity on the way at least: their result; others: `capacity_exceeded`',
      recovery: 'the next request is served',
      codes: ['capacity_exceeded'],
      concernsAll: true,
      mostFailed: Number.POSITIVE_INFINITY,
      inject: burst,
    },
    {
      name: `${LEAVING.toLocaleString('en')} clients connect, ask, and go away before their answer`,
      requests: 'those whose client is gone: `cancelled`; no others',
      recovery: 'not needed',
      inject: leaveAgainAndAgain,
    },
  ],
};

async function burst(bed: NodeRedBed): Promise<void> {
  const { runtimes } = await bed.red.snapshot();
  const capacities = runtimes.flatMap(({ capacity, stages }) => [capacity, ...stages.map((stage) => stage.capacity)]);
  const counts: Record<number, number> = {};
  await pipelined(`${bed.red.url}/model`, BURST, BURST_SOCKETS, ({ number, status, headers, body }) => {
    counts[status] = (counts[status] ?? 0) + 1;
    if (status === 200) assert.equal((body as { n: number }).n, number, 'the answer is that of the request');
    else if (status === 429) assert.match(headers, /^retry-after: [1-9]/im);
    else assert.fail(`answered ${status}: ${JSON.stringify(body)}`);
  });
  const { 200: ok = 0, 429: refused = 0 } = counts;
  assert.equal(ok + refused, BURST, JSON.stringify(counts));
  assert.ok(ok >= Math.min(...capacities), `${ok} of them served`);
  bed.note('ok', ok);
  bed.note('capacity_exceeded', refused);
  assert.equal((await bed.post('/beside', { n: 1 })).code, 'ok');
  bed.note('ok');
}

async function leaveAgainAndAgain({ red }: NodeRedBed): Promise<void> {
  let begun = 0;
  const inTurn = async (): Promise<void> => {
    for (let number = begun++; number < LEAVING / 2; number = begun++) {
      await connected(red.url, WAYS_TO_LEAVE[number % WAYS_TO_LEAVE.length] as Leaving);
      // Waits until Node-RED has closed as well: more connections than it takes would be refused by the system.
      await connected(red.url, (socket) => socket.end(ASKING));
    }
  };
  await Promise.all(Array.from({ length: LEAVING_AT_ONCE }, inTurn));
  assert.ok((await red.counted(TAB.id, LEFT)) >= LEAVING / 4, 'requests came to the pipeline');
}

type Leaving = (socket: Socket) => void;

const ASKING = [
  'POST /left HTTP/1.1',
  'Host: pipeline',
  'Content-Type: application/json',
  'Content-Length: 8',
  '',
  '{"n": 0}',
].join('\r\n');

const WAYS_TO_LEAVE: readonly Leaving[] = [
  (socket) => socket.write(ASKING, () => socket.destroy()),
  (socket) => socket.write(ASKING, () => socket.resetAndDestroy()),
  (socket) => socket.write(ASKING.slice(0, -4), () => socket.destroy()),
  (socket) => socket.destroy(),
];

/** Connects, leaves, and resolves when the connection is closed. */
async function connected(url: string, leave: Leaving): Promise<void> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  const closed = once(socket, 'close');
  await once(socket, 'connect');
  leave(socket);
  socket.resume();
  await closed;
}

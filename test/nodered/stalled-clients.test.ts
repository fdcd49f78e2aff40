/** A client that does not read what it asked for: how much of it is made, and what ends it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { streamOut } from '../fixtures/drawn.ts';
import { collector, func, node, runtime, stage, TAB } from '../fixtures/flow.ts';
import { until } from '../fixtures/node-red.ts';
import { NodeRedProcess } from '../fixtures/node-red-process.ts';

const MEGABYTE = 1024 * 1024;
/** The parts that the reading client gets while the other one does not read. */
const READ_BYTES = 300 * MEGABYTE;

/** Parts without end, of 64 KiB. */
const ENDLESS = `
  return (function* () {
    let made = 0;
    try {
      for (;;) {
        made += 1;
        yield 'x'.repeat(65_536);
      }
    } finally {
      node.log('closed ' + (input.name ?? 'one') + ' after ' + made + ' parts');
    }
  })();`;

const WRITE = `
  const response = msg.res._res;
  if (!response.headersSent) response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  response.write('data: ' + msg.payload + '\\n\\n');
  if (msg.complete || msg.error) response.end();`;

const GET = { method: 'get', upload: false, swaggerDoc: '' };

let red: NodeRedProcess;
before(async () => {
  red = await NodeRedProcess.start([
    TAB,
    runtime(),
    node('in', 'http in', ['make'], { url: '/written', ...GET }),
    stage('make', ENDLESS, 'collect', { workers: '2' }),
    collector('collect', 'write', 'write', { results: 'parts' }),
    func('write', WRITE),
    node('in2', 'http in', ['make2'], { url: '/streamed', ...GET }),
    stage('make2', ENDLESS, 'collect2', { workers: '2' }),
    collector('collect2', 'pass', 'out', { results: 'parts' }),
    func('pass', 'return msg;', 'out'),
    streamOut('out', { heartbeatMs: '50' }),
  ]);
});
after(() => red.end());

/** Asks, and reads nothing of the answer. @param name where it asks, and who */
function stalledClient(name: string, headers = ''): Socket {
  const { port, hostname } = new URL(red.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.pause();
  socket.write(`GET /${name.split('-')[0]}?name=${name} HTTP/1.1\r\nHost: test\r\n${headers}\r\n`);
  return socket;
}

/** Reads until so much has come, then leaves. */
function read(way: string, bytes: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = bytes;
    let last = '';
    const request = get(`${red.url}/${way}?name=reader`, (response) => {
      response.on('error', () => {});
      response.on('close', () => reject(new Error(`ended ${left} bytes early: ${last.slice(-500)}`)));
      response.on('data', (chunk: Buffer) => {
        left -= chunk.length;
        last = chunk.toString();
        if (left > 0) return;
        request.destroy();
        resolve();
      });
    });
    request.on('error', (error) => {
      if (left > 0) reject(error);
    });
  });
}

const residentBytes = (): number => {
  const status = readFileSync(`/proc/${red.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) * 1024;
};

/** How many parts were made for a client, once that has come to its end. */
async function partsOf(name: string): Promise<number> {
  const found = await until(
    `the generator for ${name} is closed`,
    () => new RegExp(`closed ${name} after (\\d+) parts`).exec(red.output) ?? undefined,
  );
  return Number(found[1]);
}

for (const way of ['written', 'streamed']) {
  test(`${way}: a client that does not read stops its generator and not the others, and Node-RED does not grow`, async () => {
    await read(way, 10 * MEGABYTE);
    await red.collectGarbage();
    const before = residentBytes();
    const stalled = stalledClient(`${way}-stalled`);
    await read(way, READ_BYTES);
    await red.collectGarbage();
    const grown = residentBytes() - before;
    assert.ok(grown < READ_BYTES / 3, `Node-RED has grown by ${Math.round(grown / MEGABYTE)} MB`);
    stalled.destroy();
    const made = (await partsOf(`${way}-stalled`)) * 65_536;
    assert.ok(made < READ_BYTES / 3, `${Math.round(made / MEGABYTE)} MB were made for it`);
  });

  test(`${way}: a client that reads again gets the rest`, async () => {
    const socket = stalledClient(`${way}-waking`);
    await read(way, 20 * MEGABYTE);
    let got = 0;
    socket.on('data', (chunk: Buffer) => {
      got += chunk.length;
    });
    socket.resume();
    await until('much more has come than lies between two processes', () => got > 60 * MEGABYTE);
    socket.destroy();
    await partsOf(`${way}-waking`);
  });

  test(`${way}: the deadline of a request ends it, whether its client reads or not`, async () => {
    const socket = stalledClient(`${way}-late`, 'timeout: 1500\r\n');
    await partsOf(`${way}-late`);
    socket.destroy();
  });
}

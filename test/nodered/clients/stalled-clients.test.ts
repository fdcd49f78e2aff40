/** A client that does not read what it asked for: how much of it is made, and what ends it. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type ClientRequest, get, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { streamOut } from '../../fixtures/drawn.ts';
import { collector, func, httpIn, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';

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

/** As many parts of 64 KiB as the client wants, with the number of each. */
const COUNTED = `
  return (async function* () {
    try {
      for (let n = 0; n < input.parts; n += 1) yield n + 'x'.repeat(65_536);
    } finally {
      node.log('done ' + input.name);
    }
  })();`;

/** The same in Python. */
const COUNTED_PY = `
async def predict(value):
    try:
        for n in range(value["parts"]):
            yield str(n) + "x" * 65_536
    finally:
        print("done", value["name"])
`;

const WRITE = `
  const response = msg.res._res;
  if (!response.headersSent) response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  response.write('data: ' + msg.payload + '\\n\\n');
  if (msg.complete || msg.error) response.end();`;

const GET = { method: 'get', upload: false, swaggerDoc: '' };

const folder = mkdtempSync(join(tmpdir(), 'modelet-stalled-'));
after(() => rmSync(folder, { recursive: true }));
const counted = join(folder, 'counted.py');
writeFileSync(counted, COUNTED_PY);

let red: NodeRedProcess;
before(async () => {
  red = await NodeRedProcess.start([
    TAB,
    // A busy machine needs more than the usual time limit for so many bytes.
    runtime('runtime', { timeoutMs: '900000' }),
    node('in', 'http in', ['make'], { url: '/written', ...GET }),
    stage('make', ENDLESS, 'collect', { workers: '2' }),
    collector('collect', 'write', 'write', { results: 'parts' }),
    func('write', WRITE),
    node('in2', 'http in', ['make2'], { url: '/streamed', ...GET }),
    stage('make2', ENDLESS, 'collect2', { workers: '2' }),
    collector('collect2', 'pass', 'out', { results: 'parts' }),
    func('pass', 'return msg;', 'out'),
    streamOut('out', { heartbeatMs: '50' }),
    httpIn('in3', '/many', 'make3'),
    stage('make3', COUNTED, 'out3', { workers: '1', concurrency: '32' }),
    streamOut('out3'),
    httpIn('in4', '/many-python', 'make4'),
    stage('make4', '', 'out4', { workers: '1', concurrency: '32', source: 'python', path: counted }),
    streamOut('out4'),
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

/** A client of the endpoint for many, which does not read before it is told to. */
class Streaming {
  readonly #request: ClientRequest;
  #answer: IncomingMessage | null = null;
  #text = '';
  /** Numbers of the parts that have come. */
  readonly parts: number[] = [];
  ends = 0;

  constructor(path: string, name: string, parts: number) {
    const headers = { 'Content-Type': 'application/json' };
    this.#request = request(`${red.url}${path}`, { method: 'POST', headers, agent: false }, (answer) => {
      this.#answer = answer;
    });
    this.#request.on('error', () => {});
    this.#request.end(JSON.stringify({ name, parts }));
  }

  get hasBegun(): boolean {
    return this.#answer !== null;
  }

  read(): void {
    this.#answer?.setEncoding('utf8').on('data', (text: string) => {
      const events = (this.#text + text).split('\n\n');
      this.#text = events.pop() as string;
      for (const event of events) {
        if (event.startsWith('event: done')) this.ends += 1;
        // A heartbeat, where the next part is long in coming, is a comment.
        else if (!event.startsWith(':')) this.parts.push(Number.parseInt(event.slice('data: "'.length), 10));
      }
    });
  }

  leave(): void {
    this.#request.destroy();
  }
}

const residentBytes = (pid: number = red.pid): number => {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) * 1024;
};

/** Waits until processes have less than `most` bytes more than before. What a client keeps does not go while it stalls. */
async function grownLess(most: number, before: number, bytes: () => number): Promise<void> {
  await until(`the processes have grown by less than ${most / MEGABYTE} MB`, async () => {
    await red.collectGarbage();
    return bytes() - before < most;
  });
}

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
    try {
      await read(way, READ_BYTES);
      await grownLess(READ_BYTES / 3, before, residentBytes);
    } finally {
      // Else Node-RED waits for the time limit of its request when it ends.
      stalled.destroy();
    }
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

for (const [language, path, make] of [
  ['JavaScript', '/many', 'make3'],
  ['Python', '/many-python', 'make4'],
] as const) {
  test(`of 32 streams of one worker in ${language}, those that are read come whole while the others stall, and each ends once`, {
    skip: language === 'Python' && WITHOUT_PYTHON,
  }, async () => {
    const [runtime] = (await red.snapshot()).runtimes;
    const workers = runtime?.stages.find(({ id }) => id === make)?.workers ?? [];
    const pids = [red.pid, runtime?.engine.pid, ...workers.map(({ pid }) => pid)] as number[];
    assert.equal(pids.length, 3);
    const allBytes = (): number => pids.reduce((sum, pid) => sum + residentBytes(pid), 0);
    const [many, few] = [400, 20];
    // Memory that streams need while all are read is no growth.
    const warm = Array.from({ length: 32 }, (_, n) => new Streaming(path, `warm${n}.`, 100));
    await until('they have begun', () => warm.every(({ hasBegun }) => hasBegun));
    for (const one of warm) one.read();
    await until('they have their ends', () => warm.every(({ ends }) => ends > 0));
    const from = red.output.length;
    await red.collectGarbage();
    const before = allBytes();
    const named = (kind: string, parts: number): Streaming[] =>
      Array.from({ length: 16 }, (_, n) => new Streaming(path, `${kind}${n}.`, parts));
    const [stalled, readers] = [named('stalled', many), named('reader', few)];
    await until('all 32 have begun', () => [...stalled, ...readers].every(({ hasBegun }) => hasBegun));
    for (const reader of readers) reader.read();
    await until('every reader has its end', () => readers.every(({ ends }) => ends > 0));
    const all = (count: number): number[] => Array.from({ length: count }, (_, n) => n);
    for (const { parts } of readers) assert.deepEqual(parts, all(few));
    const done = (): string[] =>
      [...red.output.slice(from).matchAll(/done ((?:stalled|reader)\d+)\./g)].map(([, name]) => name as string);
    assert.ok(!done().some((name) => name.startsWith('stalled')), 'those that stall have not been made to their end');
    const asked = stalled.length * many * 65_536;
    await grownLess(asked / 4, before, allBytes);
    const [waking, leaving] = [stalled.slice(0, 4), stalled.slice(4)];
    for (const one of leaving) one.leave();
    for (const one of waking) one.read();
    await until('every client that reads again has its end', () => waking.every(({ ends }) => ends > 0));
    for (const { parts } of waking) assert.deepEqual(parts, all(many));
    await until('all generators are closed', () => done().length >= 32);
    assert.equal(new Set(done()).size, 32);
    assert.deepEqual([done().length, ...[...readers, ...waking].map(({ ends }) => ends)], [32, ...Array(20).fill(1)]);
  });
}

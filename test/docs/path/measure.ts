/** Measures which files a request passes, in every process, on each of the three ways into a pipeline. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { engineUrl, type FlowNode } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import type { Order, Ran, Told } from './recorder.ts';

export type Way = 'listener' | 'compiled' | 'flow';
export type Process = 'Node-RED' | 'engine' | 'worker';

/** A function that every request of a way calls, in the order of the first calls. */
export interface Step {
  readonly process: Process;
  /** Source file below the repository. */
  readonly file: string;
  readonly name: string;
  readonly callsPerRequest: number;
}

/** Requests of a way, one after the other. */
const REQUESTS = 20;
/** Share of these in which a function on the path runs. Work after an answer may run with the next request. */
const MOST = 0.7;
/** Later than every call of a request. */
const LATE_NS = 10n ** 15n;

const FLOWS: readonly FlowNode[] = [
  TAB,
  runtime('runtime', { listen: '127.0.0.1:0' }),
  ...['compiled', 'flow'].flatMap((way) => [
    httpIn(`${way}In`, `/${way}`, way === 'flow' ? 'between' : 'compiledFirst'),
    stage(`${way}First`, 'return { n: input.n + 1 };', `${way}Second`),
    stage(`${way}Second`, 'return { n: input.n * 2 };', `${way}Out`),
    httpOut(`${way}Out`),
  ]),
  func('between', 'return msg;', 'flowFirst'),
];

/** Returns the steps of a request on each way. */
export async function measurePaths(): Promise<Record<Way, Step[]>> {
  const processes: Recorded[] = [];
  const server = createServer((socket) => processes.push(new Recorded(processes.length, socket))).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  const { NODE_OPTIONS: before } = process.env;
  process.env.MODELET_PATH_PORT = String((server.address() as AddressInfo).port);
  process.env.NODE_OPTIONS = `--import=${pathToFileURL(join(import.meta.dirname, 'recorder.js'))}`;
  let red: NodeRedProcess | null = null;
  try {
    // A loop that stalls on a busy machine would put the hooks of the watch on the path.
    red = await NodeRedProcess.start(FLOWS, { modeletWatchFunctions: false });
    return await measure(processes.filter(isOurs), [
      ['listener', `${await engineUrl(red)}/compiled`],
      ['compiled', `${red.url}/compiled`],
      ['flow', `${red.url}/flow`],
    ]);
  } finally {
    if (before === undefined) delete process.env.NODE_OPTIONS;
    else process.env.NODE_OPTIONS = before;
    await red?.end();
    server.close();
  }
}

/** Counts the calls on all ways before it orders them, because breakpoints make a process slow. */
async function measure(
  processes: readonly Recorded[],
  ways: readonly (readonly [Way, string])[],
): Promise<Record<Way, Step[]>> {
  const counted: [Way, string, Counted[]][] = [];
  for (const [, url] of ways) await post(url);
  await Promise.all(processes.map((one) => one.hold()));
  for (const [way, url] of ways) counted.push([way, url, await count(processes, url)]);
  const functions = counted.flatMap(([, , steps]) => steps);
  await Promise.all(
    processes.map((one) => one.watch(functions.filter((step) => step.one === one).map(({ ran }) => ran))),
  );
  const ordered: [Way, Step[]][] = [];
  for (const [way, url, steps] of counted) ordered.push([way, await order(processes, url, steps)]);
  return Object.fromEntries(ordered) as Record<Way, Step[]>;
}

/** Returns the functions that run for most requests. */
async function count(processes: readonly Recorded[], url: string): Promise<Counted[]> {
  const calls = new Map<string, { readonly step: Counted; readonly counts: number[] }>();
  await post(url);
  await Promise.all(processes.map((one) => one.count()));
  for (let round = 0; round < REQUESTS; round += 1) {
    await post(url);
    const ran = await Promise.all(processes.map(async (one) => (await one.count()).map((ran) => ({ one, ran }))));
    for (const step of ran.flat()) {
      const known = calls.get(keyOf(step)) ?? { step, counts: [] };
      known.counts.push(step.ran.calls);
      calls.set(keyOf(step), known);
    }
  }
  return [...calls.values()]
    .filter(({ counts }) => counts.length >= REQUESTS * MOST)
    .map(({ step: { one, ran }, counts }) => ({ one, ran: { ...ran, calls: median(counts) } }));
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}

/** Sorts steps by their first calls in one request. A function without a statement has no time: it comes last. */
async function order(processes: readonly Recorded[], url: string, steps: readonly Counted[]): Promise<Step[]> {
  await Promise.all(processes.map((one) => one.times()));
  const began = process.hrtime.bigint();
  await post(url);
  const first = new Map<string, bigint>();
  for (const one of processes) {
    for (const [script, at, nanoseconds] of await one.times()) {
      const key = keyOf({ one, ran: { url: script, at } });
      const time = BigInt(nanoseconds);
      if (time >= began && !first.has(key)) first.set(key, time);
    }
  }
  const rankOf = (step: Counted): number => Number((first.get(keyOf(step)) ?? began + LATE_NS) - began);
  return steps.toSorted((a, b) => rankOf(a) - rankOf(b)).map(stepOf);
}

interface Counted {
  readonly one: Recorded;
  readonly ran: Ran;
}

function isOurs({ process }: Recorded): boolean {
  return process !== null;
}

function keyOf({ one, ran }: { readonly one: Recorded; readonly ran: Pick<Ran, 'url' | 'at'> }): string {
  return `${one.id}:${ran.url}:${ran.at}`;
}

function stepOf({ one, ran: { url, name, calls } }: Counted): Step {
  return { process: one.process as Process, file: sourceOf(url), name, callsPerRequest: calls };
}

async function post(url: string): Promise<void> {
  const headers = { 'Content-Type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body: '{"n":20}' });
  const text = await answer.text();
  if (text !== '{"n":42}') throw new Error(`${url} answered ${answer.status} ${text}`);
}

function sourceOf(url: string): string {
  const built = relative(join(repositoryRoot, 'dist'), url.startsWith('file:') ? new URL(url).pathname : url);
  return built.replace(/\.js$/, '.ts');
}

/** A process with the recorder in it. */
class Recorded {
  readonly id: number;
  readonly #socket: Socket;
  readonly #told: Told[] = [];
  process: Process | null = null;

  constructor(id: number, socket: Socket) {
    this.id = id;
    this.#socket = socket;
    socket.on('error', () => {});
    socket.on('close', () => {
      this.process = null;
    });
    createInterface(socket).on('line', (line) => {
      const told = JSON.parse(line) as Told;
      if (told.is === 'process') this.process = processOf(told.entry);
      else this.#told.push(told);
    });
  }

  async count(): Promise<readonly Ran[]> {
    const told = await this.#ask({ do: 'count' });
    return told.is === 'counts' ? told.functions : [];
  }

  async hold(): Promise<void> {
    await this.#ask({ do: 'hold' });
  }

  async watch(functions: readonly Ran[]): Promise<void> {
    await this.#ask({ do: 'watch', functions });
  }

  async times(): Promise<readonly (readonly [string, number, string])[]> {
    const told = await this.#ask({ do: 'times' });
    return told.is === 'times' ? told.times : [];
  }

  async #ask(order: Order): Promise<Told> {
    this.#socket.write(`${JSON.stringify(order)}\n`);
    return until(`an answer to ${order.do}`, () => this.#told.shift());
  }
}

function processOf(entry: string): Process | null {
  if (entry.endsWith('/red.js')) return 'Node-RED';
  if (entry === 'programs/engine.js') return 'engine';
  return entry === 'worker/main.js' ? 'worker' : null;
}

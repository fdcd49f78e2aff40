/**
 * Loaded by `--import` into every process of a Node-RED: tells a collector, over TCP, which functions of this package
 * run. Node.js counts calls by V8's precise coverage, and orders them by breakpoints that never stop.
 */
import { Session } from 'node:inspector/promises';
import { createConnection } from 'node:net';
import { sep } from 'node:path';
import { createInterface } from 'node:readline';

/** A function that ran, by its script and its place there. */
export interface Ran {
  readonly url: string;
  readonly name: string;
  /** Offsets of its first character and of the one behind its last. */
  readonly at: number;
  readonly end: number;
  /** Calls since the last question. */
  readonly calls: number;
}

export type Order =
  /** Answers with the functions that ran since the last time. */
  | { readonly do: 'count' }
  /** Lets no timer fire from now on, and time hardly pass: what runs by the clock is no part of the path of a request. */
  | { readonly do: 'hold' }
  /** Notes the times of calls of these functions from now on. */
  | { readonly do: 'watch'; readonly functions: readonly Ran[] }
  /** Answers with these times, and forgets them. */
  | { readonly do: 'times' };

/** Answers of a process; the first says which process it is. */
export type Told =
  | { readonly is: 'process'; readonly entry: string; readonly pid: number }
  | { readonly is: 'counts'; readonly functions: readonly Ran[] }
  | { readonly is: 'holding' }
  | { readonly is: 'watching' }
  | { readonly is: 'times'; readonly times: readonly (readonly [url: string, at: number, nanoseconds: string])[] };

const PACKAGE = /\/dist\/(?:src|nodes)\//;
/** Most calls whose times are kept until the collector asks. */
const MOST_TIMES = 100_000;
const times: [url: string, at: number, nanoseconds: string][] = [];
const scripts = new Map<string, { readonly id: string; readonly url: string }>();
const session = new Session();

/** Breakpoints call this by name. */
Object.assign(globalThis, {
  __modeletRan(url: string, at: number) {
    if (times.length < MOST_TIMES) times.push([url, at, String(process.hrtime.bigint())]);
    return false;
  },
});

const startTimer = globalThis.setTimeout;
const now = performance.now.bind(performance);
const SLOWER = 1000;
/** null: time passes as usual. */
let heldAt: number | null = null;
performance.now = () => (heldAt === null ? now() : heldAt + (now() - heldAt) / SLOWER);
/** A timer that is held starts again, so that its owner can still cancel it. */
globalThis.setTimeout = Object.assign((call: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => {
  const timer: NodeJS.Timeout = startTimer(() => {
    if (heldAt === null) call(...args);
    else timer.refresh();
  }, ms);
  return timer;
}, startTimer);

session.connect();
session.on('Debugger.scriptParsed', ({ params: { scriptId, url } }) => {
  if (PACKAGE.test(url)) scripts.set(url, { id: scriptId, url });
});
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

const socket = createConnection({ host: '127.0.0.1', port: Number(process.env.MODELET_PATH_PORT) });
socket.unref();
socket.on('error', () => {});
const tell = (told: Told): void => void socket.write(`${JSON.stringify(told)}\n`);
tell({ is: 'process', entry: (process.argv[1] ?? '').split(sep).slice(-2).join('/'), pid: process.pid });
createInterface(socket).on('line', (line) => {
  void obey(JSON.parse(line)).then(tell);
});

async function obey(order: Order): Promise<Told> {
  switch (order.do) {
    case 'count':
      return { is: 'counts', functions: await count() };
    case 'hold':
      heldAt = now();
      return { is: 'holding' };
    case 'watch':
      await watch(order.functions);
      return { is: 'watching' };
    case 'times':
      return { is: 'times', times: times.splice(0) };
  }
}

async function count(): Promise<Ran[]> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => PACKAGE.test(url))
    .flatMap(({ url, functions }) =>
      functions.map(({ functionName, ranges }) => ({
        url,
        name: functionName,
        at: ranges[0]?.startOffset ?? 0,
        end: ranges[0]?.endOffset ?? 0,
        calls: ranges[0]?.count ?? 0,
      })),
    )
    .filter(({ calls, at }) => calls > 0 && at > 0);
}

async function watch(functions: readonly Ran[]): Promise<void> {
  await session.post('Debugger.enable');
  for (const { url, at, end } of functions) {
    const script = scripts.get(url);
    if (!script) continue;
    const { scriptSource } = await session.post('Debugger.getScriptSource', { scriptId: script.id });
    const { locations } = await session.post('Debugger.getPossibleBreakpoints', {
      start: { scriptId: script.id, ...placeOf(scriptSource, at) },
      end: { scriptId: script.id, ...placeOf(scriptSource, end) },
    });
    const [location] = locations;
    if (!location) continue;
    const condition = `__modeletRan(${JSON.stringify(url)}, ${at})`;
    await session.post('Debugger.setBreakpoint', { location, condition }).catch(() => {});
  }
}

function placeOf(source: string, offset: number): { lineNumber: number; columnNumber: number } {
  const before = source.slice(0, offset).split('\n');
  return { lineNumber: before.length - 1, columnNumber: before.at(-1)?.length ?? 0 };
}

/**
 * Loads an HTTP endpoint from a separate process: with wrk where it is installed, else with autocannon, which takes as
 * much CPU per request as Node-RED does and so hides a part of every difference.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface HttpLoad {
  readonly url: string;
  readonly body: string | Buffer;
  readonly contentType: string;
  /** Open connections. Each sends its next request when it has its answer. */
  readonly connections: number;
  readonly seconds: number;
  /** Requests per second of all connections together. Needs autocannon, because wrk knows no rates. */
  readonly rate?: number;
}

/** Latencies in milliseconds. */
export interface HttpFigures {
  readonly answered: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  /** Answers with another status than 2xx, time-outs and broken connections. */
  readonly failed: number;
}

export const WRK: boolean = spawnSync('wrk', ['--version']).error === undefined;
export const LOAD_GENERATOR: string = WRK ? 'wrk' : 'autocannon';

const AUTOCANNON = createRequire(import.meta.url).resolve('autocannon/autocannon.js');

/** Reads the body from a file, because it may be binary, and prints the figures as JSON. */
const WRK_SCRIPT = `
init = function(args)
  local file = io.open(args[1], "rb")
  wrk.method = "POST"
  wrk.body = file:read("*a")
  wrk.headers["Content-Type"] = args[2]
  file:close()
end
done = function(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('{"answered":%d,"seconds":%f,"p50":%f,"p99":%f,"p999":%f,"failed":%d}\\n',
    summary.requests - errors.status, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3, failed))
end
`;

/** @throws Error if the load generator fails; refused requests only count as `failed` */
export async function loadHttp(load: HttpLoad): Promise<HttpFigures> {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-load-'));
  try {
    const body = join(folder, 'body');
    writeFileSync(body, load.body);
    return WRK && load.rate === undefined ? await withWrk(load, body, folder) : await withAutocannon(load, body);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function withWrk(load: HttpLoad, body: string, folder: string): Promise<HttpFigures> {
  const script = join(folder, 'load.lua');
  writeFileSync(script, WRK_SCRIPT);
  const options = ['-t1', `-c${load.connections}`, `-d${load.seconds}s`, '--timeout', '10s', '-s', script];
  const printed = await run('wrk', [...options, load.url, '--', body, load.contentType]);
  const { seconds, ...figures } = JSON.parse(printed.slice(printed.lastIndexOf('{'))) as HttpFigures & {
    readonly seconds: number;
  };
  return { ...figures, perSecond: figures.answered / seconds };
}

async function withAutocannon(load: HttpLoad, body: string): Promise<HttpFigures> {
  const options = ['-j', '-n', '-m', 'POST', '-i', body, '-H', `Content-Type=${load.contentType}`];
  if (load.rate !== undefined) options.push('-R', String(load.rate));
  options.push('-c', String(load.connections), '-d', String(load.seconds), load.url);
  const result = JSON.parse(await run(process.execPath, [AUTOCANNON, ...options])) as {
    readonly '2xx': number;
    readonly non2xx: number;
    readonly errors: number;
    readonly duration: number;
    readonly latency: { readonly p50: number; readonly p99: number; readonly p99_9: number };
  };
  const { latency } = result;
  return {
    answered: result['2xx'],
    perSecond: result['2xx'] / result.duration,
    p50: latency.p50,
    p99: latency.p99,
    p999: latency.p99_9,
    failed: result.non2xx + result.errors,
  };
}

async function run(command: string, args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  let complaints = '';
  child.stdout.on('data', (chunk) => {
    printed += chunk;
  });
  child.stderr.on('data', (chunk) => {
    complaints += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${complaints}${printed}`);
  return printed;
}

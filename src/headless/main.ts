#!/usr/bin/env node
/** Entry point of the command `modelet`: serves the endpoints of flows without Node-RED, or checks them. */
import { constants } from 'node:os';
import { resolve } from 'node:path';
import type { RuntimeConfig } from '../config/compile.ts';
import type { EndpointSpec, ListenAddress } from '../core/endpoints.ts';
import { asError } from '../core/errors.ts';
import { usedRuntimes } from '../flow/read/compiled-nodes.ts';
import { type HostSpec, RemoteWorkerHost } from '../hosts/worker-host/worker-host.ts';
import { jsonLines, Log } from '../observe/log/log.ts';
import { allowedCpus } from '../process/affinity.ts';
import { killAll, probeLauncher } from '../process/parent/launch.ts';
import type { Machine } from '../runtime/service/runtime-pins.ts';
import { sharesKeptIn } from '../runtime/service/versions/shares-file.ts';
import { type Command, EXIT, readCommand, USAGE } from './command-line.ts';
import { compileFlows, type HeadlessFlows } from './compile-flows.ts';
import { readFlows } from './flow-file.ts';
import { install } from './install.ts';
import { readKeys } from './keys-file.ts';
import { type MeasureOptions, measure } from './measure.ts';
import { brokenBehindEndpoints, judge } from './refusals.ts';
import { recordsOf, reportOf, runtimeName } from './report.ts';
import { HeadlessServer, type ServedRuntime } from './server.ts';
import { tlsFilesOf } from './tls-files.ts';

const LOCAL: ListenAddress = { host: '127.0.0.1', port: 8080 };
/** The longest interval that setInterval takes, in milliseconds. */
const LONGEST_INTERVAL_MS = 2 ** 31 - 1;

const [command, ...rest] = process.argv.slice(2);
if (command === 'mock-gateway') await mockGateway(rest);
else process.exitCode = await run(process.argv.slice(2));

/** Runs the server that examples try gates on: a separate script, which needs nothing of this package. */
async function mockGateway(args: readonly string[]): Promise<void> {
  const script = new URL('../../../assets/mock-gateway.mjs', import.meta.url);
  const gateway = (await import(script.href)) as { mockGateway(args: readonly string[]): void };
  gateway.mockGateway(args);
}

/** Returns the exit code. A server that has started goes on, and exits by itself. */
async function run(args: readonly string[]): Promise<number> {
  let command: Command;
  let flows: HeadlessFlows;
  try {
    command = readCommand(args);
    if (command.tag === 'help') {
      process.stdout.write(`${USAGE}\n`);
      return EXIT.done;
    }
    if (command.tag === 'worker') {
      await host(command.host);
      return EXIT.done;
    }
    flows = compileFlows(readFlows(command.flows));
    if (command.runtime !== null) runtimesOf(flows, command.runtime);
  } catch (thrown) {
    process.stderr.write(`modelet: ${asError(thrown).message}\nmodelet --help says how it is used\n`);
    return EXIT.usage;
  }
  if (command.tag === 'measure') return measureFlows(flows, command);
  return command.tag === 'check' ? check(flows, command.runtime) : serve(flows, command);
}

async function measureFlows(flows: HeadlessFlows, options: MeasureOptions): Promise<number> {
  // No worker that still starts keeps this process alive.
  const staying = setInterval(() => {}, LONGEST_INTERVAL_MS);
  try {
    const areMeasured = await measure(flows, options, await thisMachine(), (text) => process.stdout.write(`${text}\n`));
    return areMeasured ? EXIT.done : EXIT.refused;
  } catch (thrown) {
    process.stderr.write(`modelet: ${asError(thrown).message}\n`);
    return EXIT.usage;
  } finally {
    clearInterval(staying);
  }
}

function check(flows: HeadlessFlows, name: string | null): number {
  const endpoints = endpointsOf(flows, runtimesOf(flows, name));
  const verdict = judge(flows);
  process.stdout.write(`${reportOf(flows, endpoints, verdict)}\n`);
  if (endpoints.length === 0) process.stdout.write('No endpoint can be served.\n');
  return endpoints.length === 0 || verdict.refused.length > 0 ? EXIT.refused : EXIT.done;
}

async function serve(flows: HeadlessFlows, command: Extract<Command, { tag: 'serve' }>): Promise<number> {
  const log = Log.to(jsonLines(1));
  const verdict = judge(flows);
  const runtimes = runtimesOf(flows, command.runtime);
  const endpoints = endpointsOf(flows, runtimes);
  for (const record of recordsOf(flows, endpoints, verdict)) log.write(record);
  const refuse = (message: string): number => {
    log.write({ level: 'error', message });
    return EXIT.refused;
  };
  const broken = brokenBehindEndpoints(flows, command.runtime === null ? null : runtimes);
  if (broken.length > 0) return refuse('does not start: the settings of nodes behind HTTP-in nodes are not valid');
  const serving = [...runtimes].filter(([id]) => endpoints.some(({ runtime }) => runtime === id));
  const [first, ...others] = serving;
  if (!first) return refuse('does not start: no endpoint can be served');
  if (others.length > 0) {
    const named = serving.map(([id]) => runtimeName(flows, id));
    // Two runtimes may have one name. Then only their ids tell them apart.
    const choice = new Set(named).size === named.length ? named : serving.map(([id]) => id);
    return refuse(`does not start: several runtimes have endpoints, choose one by --runtime: ${choice.join(', ')}`);
  }
  let served: ServedRuntime;
  try {
    served = servedBy(flows, first, endpoints, command);
    if (command.install) await install(flows, served.id, log);
  } catch (thrown) {
    return refuse(`does not start: ${asError(thrown).message}`);
  }
  const { versionsFile, statesFolder } = command;
  const kept = {
    shares:
      versionsFile === null ? null : sharesKeptIn(versionsFile, (message) => log.write({ level: 'warn', message })),
    statesFolder: statesFolder && resolve(statesFolder),
  };
  const server = new HeadlessServer(flows, served, await thisMachine(), { log, ...kept }, () => end(EXIT.refused));
  drainOnSignals(() => server.drain(), log);
  server.start();
  return EXIT.done;
}

/** Starts a worker host. */
async function host(spec: HostSpec): Promise<void> {
  const log = Log.to(jsonLines(1));
  const served = new RemoteWorkerHost(spec, await thisMachine(), log);
  drainOnSignals(() => served.drain(), log);
  served.run().catch((thrown: unknown) => {
    log.write({ level: 'error', message: `does not start: ${asError(thrown).message}` });
    end(EXIT.refused);
  });
}

async function thisMachine(): Promise<Machine> {
  const cpus = allowedCpus();
  return { allowedCpus: cpus, launcher: await probeLauncher(cpus) };
}

function end(code: number): never {
  killAll();
  process.exit(code);
}

/** Ends this process after the first signal when all work at hand is done, and at once after the second. */
function drainOnSignals(drain: () => Promise<void>, log: Log): void {
  let isEnding = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (isEnding) end(128 + constants.signals[signal]);
      isEnding = true;
      log.write({ level: 'info', message: `${signal}: answers open requests, then ends` });
      void drain().then(() => {
        log.write({ level: 'info', message: 'ended' });
        end(EXIT.done);
      });
    });
  }
  // While a dead engine waits for its restart, nothing else keeps this process alive: no timer of the clock does.
  setInterval(() => {}, LONGEST_INTERVAL_MS);
}

/** Returns the runtimes that are meant. @throws Error if no runtime has this name */
function runtimesOf(flows: HeadlessFlows, name: string | null): Map<string, RuntimeConfig> {
  const all = usedRuntimes(flows.nodes);
  if (name === null) return all;
  const found = [...all].filter(([id, config]) => id === name || config.name === name);
  if (found.length > 0) return new Map(found);
  const names = [...all.keys()].map((id) => runtimeName(flows, id)).join(', ') || 'none';
  throw new Error(`no runtime with stages is called ${name}; there are: ${names}`);
}

function endpointsOf({ compiled }: HeadlessFlows, runtimes: ReadonlyMap<string, RuntimeConfig>): EndpointSpec[] {
  return compiled.endpoints.filter(({ runtime }) => runtimes.has(runtime));
}

/** @throws Error if the certificates or keys of the runtime cannot be used */
function servedBy(
  flows: HeadlessFlows,
  [id, config]: readonly [string, RuntimeConfig],
  endpoints: readonly EndpointSpec[],
  { listen, keysFile }: Extract<Command, { tag: 'serve' }>,
): ServedRuntime {
  const keys = readKeys(keysFile, config.keys);
  return { id, config, endpoints, address: listen ?? config.listen ?? LOCAL, tls: tlsFilesOf(flows, config.tls), keys };
}

/** Servers that are compared: each runs in separate processes, and answers one or several workloads. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { descendants } from '../../fixtures/family.ts';
import { freePort } from '../../fixtures/free-port.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { functionNode, httpPair } from '../flows.ts';
import type { ModelFolders } from './models.ts';
import { pipeline, SUM_OF_PAYLOAD, WORKLOADS, type WorkloadName } from './workloads.ts';

export interface Server {
  readonly name: string;
  readonly version: string;
  /** Addresses of the workloads that it answers. */
  readonly urls: Readonly<Partial<Record<WorkloadName, string>>>;
  /** Returns the processes that take part in answering a workload. */
  processes(workload: WorkloadName): Promise<readonly number[]>;
  /** Takes no CPU from now until `resume`. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

const FOLDER = join(repositoryRoot, 'test', 'bench', 'peers');
/** Outside of the product's dependencies; ignored by git. */
const ENVIRONMENT = join(repositoryRoot, '.peers');
const PACKAGES = {
  ...{ mosec: '0.9.8', litserve: '0.2.19' },
  // Of the workloads with models.
  ...{ onnxruntime: '1.32.0', tokenizers: '0.23.3', numpy: '2.4.6', pillow: '13.0.0' },
} as const;
const READY_MS = 60_000;

/** Returns a Python that has the peers' packages, and installs them on the first use. */
export function pythonOfPeers(): string {
  const python = join(ENVIRONMENT, 'bin', 'python');
  const wanted = Object.entries(PACKAGES).map(([name, version]) => `${name}==${version}`);
  if (!existsSync(python)) must('python3', ['-m', 'venv', ENVIRONMENT]);
  const check = `from importlib.metadata import version as v; assert [${Object.keys(PACKAGES)
    .map((name) => `v('${name}')`)
    .join(', ')}] == [${Object.values(PACKAGES)
    .map((version) => `'${version}'`)
    .join(', ')}]`;
  if (spawnSync(python, ['-c', check], { stdio: 'ignore' }).status !== 0) {
    console.error(`Installing ${wanted.join(', ')} into ${ENVIRONMENT} (once) ...`);
    must(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...wanted]);
  }
  return python;
}

function must(command: string, args: readonly string[]): void {
  const { status, error } = spawnSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
}

/** One process per workload, because mosec and LitServe configure batching for the whole server. */
export async function startMosec(python: string, workload: WorkloadName, model: string): Promise<Server> {
  const port = await freePort();
  const options = ['--address', '127.0.0.1', '--port', String(port), '--log-level', 'error'];
  const program = [
    join(FOLDER, 'mosec_server.py'),
    workload === 'python' || workload === 'schema' ? 'batch' : workload,
    ...options,
  ];
  return runProgram('mosec', PACKAGES.mosec, python, program, workload, `http://127.0.0.1:${port}/inference`, model);
}

export async function startLitServe(python: string, workload: WorkloadName, model: string): Promise<Server> {
  const port = await freePort();
  const program = [join(FOLDER, 'litserve_server.py'), workload, String(port)];
  return runProgram(
    'LitServe',
    PACKAGES.litserve,
    python,
    program,
    workload,
    `http://127.0.0.1:${port}/predict`,
    model,
  );
}

/** A server without any framework around it: what HTTP itself costs in Node.js. */
export async function startNodeHttp(): Promise<Server> {
  const port = await freePort();
  const program = [join(import.meta.dirname, 'node-http.js'), String(port)];
  const { version } = process;
  return runProgram('node:http, no pipeline', version, process.execPath, program, 'batch', `http://127.0.0.1:${port}/`);
}

async function runProgram(
  name: string,
  version: string,
  command: string,
  args: readonly string[],
  workload: WorkloadName,
  url: string,
  model = '',
): Promise<Server> {
  // A separate group: mosec's workers must not outlive their parent.
  const env = { ...process.env, MODEL: model };
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true, env });
  let complaints = '';
  child.stderr.on('data', (chunk) => {
    complaints = `${complaints}${chunk}`.slice(-2000);
  });
  const signal = (name: NodeJS.Signals): void => {
    process.kill(-(child.pid as number), name);
  };
  const pause = (): void => signal('SIGSTOP');
  const resume = (): void => signal('SIGCONT');
  const stop = (): Promise<void> => {
    resume();
    return endGroup(child);
  };
  const processes = async (): Promise<number[]> => [child.pid as number, ...descendants(child.pid as number)];
  try {
    await until(`${name} answers`, () => child.exitCode !== null || answers(url, workload), READY_MS);
    if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}: ${complaints}`);
  } catch (error) {
    await stop();
    throw error;
  }
  return { name, version, urls: { [workload]: url }, processes, pause, resume, stop };
}

async function answers(url: string, workload: WorkloadName): Promise<boolean> {
  const { body, contentType } = WORKLOADS[workload];
  const headers = { 'content-type': contentType };
  const response = await fetch(url, { method: 'POST', body: new Uint8Array(Buffer.from(body)), headers }).catch(
    () => null,
  );
  await response?.arrayBuffer();
  return response?.status === 200;
}

async function endGroup(child: ChildProcess): Promise<void> {
  const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : Promise.resolve();
  const family = descendants(child.pid as number);
  try {
    process.kill(-(child.pid as number), 'SIGTERM');
  } catch {
    // All of the group have ended.
  }
  await ended;
  await until('all processes have ended', () => family.every((pid) => !existsSync(`/proc/${pid}/cmdline`)), READY_MS);
}

/** A Node-RED, and its ways to answer, each a server of the comparison. */
export interface NodeRedOf {
  readonly red: NodeRedProcess;
  readonly flows: readonly FlowNode[];
  readonly servers: readonly Server[];
}

export type Way = 'drawn' | 'listener';

/** Each way has a Node-RED for itself: its memory under load must not count for another way. */
export interface NodeReds extends Readonly<Record<Way, NodeRedOf>> {
  /** Without a pipeline. */
  readonly plain: NodeRedOf;
}

/** Draws a flow without a pipeline, drawn endpoints, and endpoints of the engine's listener. */
export async function startNodeReds(workloads: readonly WorkloadName[], models: ModelFolders): Promise<NodeReds> {
  const listen = `127.0.0.1:${await freePort()}`;
  const plain = await startNodeRed('plain', [
    // The stage tells when the flows have started. No request comes to it.
    { id: 'runtime-plain', type: 'modelet-runtime', name: 'plain' },
    ...pipeline('plain-lone', 'lone', 'runtime-plain', models),
    ...httpPair('noop', 'noop-out'),
    ...httpPair('function', 'function-node'),
    functionNode('function-node', 'function-out', `msg.payload = { sum: ${SUM_OF_PAYLOAD} };\nreturn msg;`),
  ]);
  const drawn = await startNodeRed('drawn', pipelines('drawn', workloads, models));
  const listener = await startNodeRed('listener', pipelines('listener', workloads, models, { listen }));
  const urls = (origin: string, way: Way): Server['urls'] =>
    Object.fromEntries(workloads.map((workload) => [workload, `${origin}/${way}-${workload}`]));
  return {
    plain: {
      ...plain,
      servers: [
        nodeRedServer(plain.red, 'Node-RED, http in -> http response', { batch: `${plain.red.url}/noop` }),
        nodeRedServer(plain.red, 'Node-RED, http in -> function -> http response', {
          batch: `${plain.red.url}/function`,
        }),
      ],
    },
    drawn: { ...drawn, servers: [nodeRedServer(drawn.red, 'drawn endpoint', urls(drawn.red.url, 'drawn'), 'drawn')] },
    listener: {
      ...listener,
      servers: [
        nodeRedServer(
          listener.red,
          "drawn endpoint, engine's listener",
          urls(`http://${listen}`, 'listener'),
          'listener',
        ),
      ],
    },
  };
}

async function startNodeRed(name: string, nodes: readonly FlowNode[]): Promise<Omit<NodeRedOf, 'servers'>> {
  const flows: FlowNode[] = [{ id: 'bench', type: 'tab', label: name }, ...nodes];
  return { red: await NodeRedProcess.start(flows), flows };
}

function pipelines(way: Way, workloads: readonly WorkloadName[], models: ModelFolders, more: object = {}): FlowNode[] {
  const runtime = { id: `runtime-${way}`, type: 'modelet-runtime', name: way, ...more };
  return [runtime, ...workloads.flatMap((workload) => pipeline(`${way}-${workload}`, workload, runtime.id, models))];
}

/** @param way absent: no engine takes part */
function nodeRedServer(red: NodeRedProcess, name: string, urls: Server['urls'], way?: Way): Server {
  return {
    name,
    version: '',
    urls,
    processes: async (workload) => [red.pid, ...(way ? await pipelineProcesses(red, way, workload) : [])],
    // Its flows are next to idle between their rounds.
    pause: () => {},
    resume: () => {},
    stop: async () => {},
  };
}

/** Returns the engine of a runtime and the workers of a workload's stages. */
async function pipelineProcesses(red: NodeRedProcess, name: string, workload: WorkloadName): Promise<number[]> {
  const { runtimes } = await red.snapshot();
  const runtime = runtimes.find((each) => each.name === name);
  const stages = runtime?.stages.filter((each) => each.id.startsWith(`${name}-${workload}-`)) ?? [];
  return [runtime?.engine.pid, ...stages.flatMap((each) => each.workers.map(({ pid }) => pid))].filter(
    (pid) => !!pid,
  ) as number[];
}

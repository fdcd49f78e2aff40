/**
 * The benchmark against peers: the same workloads on mosec, LitServe, bare `node:http`, Node-RED without a pipeline, a drawn
 * endpoint and the engine's listener, in one run, in turns. Started by scripts/bench.mjs.
 *
 *   node dist/test/bench/peers/main.js [--quick] [--json FILE] [--only batch,single,...]
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { LOAD_GENERATOR, loadHttp } from '../http-load.ts';
import { busyShare, interleave, medianOf, ownMb, processCpu } from '../measure.ts';
import { atLeast, atMost, type Budget, budgetTable, figure, ratio, renderTable, type Table } from '../report.ts';
import { disturbances } from './disturbances.ts';
import { ModelFolders } from './models.ts';
import { pythonOfPeers, type Server, startLitServe, startMosec, startNodeHttp, startNodeReds } from './servers.ts';
import { WORKLOADS, type WorkloadName } from './workloads.ts';

interface Figures {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  /** CPU of all processes of the server, in microseconds per request. The load generator does not count. */
  readonly cpu: number;
  readonly megabytes: number;
}

/** Rows of one workload, by the server's name. */
type Rows = Readonly<Record<string, readonly Figures[]>>;

const MOSEC = 'mosec';
const DRAWN = 'drawn endpoint';
const LISTENER = "drawn endpoint, engine's listener";
const FUNCTION = 'Node-RED, http in -> function -> http response';

async function measure(server: Server, name: WorkloadName, seconds: number): Promise<Figures> {
  const workload = WORKLOADS[name];
  const family = await server.processes(name);
  const cpu = (): number => family.reduce((total, pid) => total + processCpu(pid), 0);
  const before = cpu();
  const figures = await loadHttp({ ...workload, url: server.urls[name] as string, seconds });
  if (figures.failed > 0) {
    const failed = `${server.name}, ${workload.title}: ${figures.failed} of ${figures.answered} requests failed`;
    if (server.name === DRAWN || server.name === LISTENER) throw new Error(failed);
    console.error(failed);
  }
  return {
    ...figures,
    cpu: (cpu() - before) / figures.answered,
    megabytes: family.reduce((total, pid) => total + ownMb(pid), 0),
  };
}

function tableOf(name: WorkloadName, rows: Rows, versions: ReadonlyMap<string, string>): Table {
  const rate = (server: string): number => medianOf(rows[server] ?? [], ({ perSecond }) => perSecond);
  const cells = ([server, figures]: [string, readonly Figures[]]): string[] => {
    const rates = figures.map(({ perSecond }) => perSecond);
    const median = (read: (figures: Figures) => number): string => figure(medianOf(figures, read));
    return [
      `${server} ${versions.get(server) ?? ''}`.trim(),
      String(Math.round(rate(server))),
      `${Math.round(Math.min(...rates))} to ${Math.round(Math.max(...rates))}`,
      ratio(rate(server) / rate(MOSEC)),
      median(({ p50 }) => p50),
      median(({ p99 }) => p99),
      median(({ p999 }) => p999),
      median(({ cpu }) => cpu),
      median(({ megabytes }) => megabytes),
    ];
  };
  return {
    title: WORKLOADS[name].title,
    columns: ['server', 'requests/s', 'spread', 'of mosec', 'p50 ms', 'p99 ms', 'p99.9 ms', 'µs CPU', 'MB'],
    rows: Object.entries(rows).map(cells),
  };
}

/** Ratios that the product promises, as far as this run has measured them. */
function budgetsOf(all: Readonly<Partial<Record<WorkloadName, Rows>>>): Budget[] {
  const of = (name: WorkloadName, server: string, read: (figures: Figures) => number): number =>
    medianOf(all[name]?.[server] ?? [], read);
  const rate = (name: WorkloadName, server: string, against: string): number =>
    of(name, server, ({ perSecond }) => perSecond) / of(name, against, ({ perSecond }) => perSecond);
  const p99 = (name: WorkloadName, server: string): number =>
    of(name, server, (figures) => figures.p99) / of(name, MOSEC, (figures) => figures.p99);
  const least = (what: string, value: number, limit: number): Budget =>
    atLeast({ what: `${what}, requests/s`, value, limit, unit: 'x', gates: true });
  const most = (what: string, value: number, limit: number): Budget =>
    atMost({ what, value, limit, unit: 'x', gates: true });
  const budgets: Partial<Record<WorkloadName, () => Budget[]>> = {
    batch: () => [
      least('drawn endpoint, batches, against a function node', rate('batch', DRAWN, FUNCTION), 2.5),
      least('drawn endpoint, batches, against mosec', rate('batch', DRAWN, MOSEC), 1.2),
      most('drawn endpoint, batches, p99 against mosec', p99('batch', DRAWN), 1.5),
      least('listener, batches, against mosec', rate('batch', LISTENER, MOSEC), 1.4),
      most('listener, batches, p99 against mosec', p99('batch', LISTENER), 1.3),
      most(
        'listener, batches, CPU of all processes against mosec',
        of('batch', LISTENER, ({ cpu }) => cpu) / of('batch', MOSEC, ({ cpu }) => cpu),
        0.75,
      ),
      ...[DRAWN, LISTENER].map((server) =>
        atMost({
          what: `${server}, batches, memory of Node-RED, engine and worker`,
          value: of('batch', server, ({ megabytes }) => megabytes),
          limit: 350,
          unit: ' MB',
          gates: false,
        }),
      ),
    ],
    single: () => [
      least('drawn endpoint, single items, against mosec', rate('single', DRAWN, MOSEC), 1.8),
      least('listener, single items, against mosec', rate('single', LISTENER, MOSEC), 2),
    ],
    two: () => [
      least('drawn endpoint, two stages, against mosec', rate('two', DRAWN, MOSEC), 1.2),
      least('listener, two stages, against mosec', rate('two', LISTENER, MOSEC), 1.3),
    ],
    python: () => [least('listener, Python, against mosec', rate('python', LISTENER, MOSEC), 1.1)],
    schema: () => [
      least('listener, Python with a schema, against mosec without', rate('schema', LISTENER, MOSEC), 0.7),
    ],
    lone: () => [
      most(
        'listener, one connection, p50 against mosec',
        of('lone', LISTENER, ({ p50 }) => p50) / of('lone', MOSEC, ({ p50 }) => p50),
        1,
      ),
    ],
    vectors: () => [least('listener, vectors of texts, against mosec', rate('vectors', LISTENER, MOSEC), 1)],
    detector: () => [least('listener, objects in pictures, against mosec', rate('detector', LISTENER, MOSEC), 1)],
    bytes: () => [least('listener, 150 KB, against mosec', rate('bytes', LISTENER, MOSEC), 1)],
    echo: () => [least('listener, 150 KB there and back, against mosec', rate('echo', LISTENER, MOSEC), 0.9)],
    megabyte: () => [least('listener, 1 MB, against mosec', rate('megabyte', LISTENER, MOSEC), 1)],
    megabytes: () => [least('listener, 8 MB, against mosec', rate('megabytes', LISTENER, MOSEC), 1)],
  };
  return Object.keys(all).flatMap((name) => budgets[name as WorkloadName]?.() ?? []);
}

function versionOf(command: string, args: readonly string[]): string {
  const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return (stdout || stderr || '').trim().split('\n')[0] ?? '';
}

const { values: options } = parseArgs({
  options: { quick: { type: 'boolean' }, json: { type: 'string' }, only: { type: 'string' } },
});
const names = (options.only?.split(',') ?? Object.keys(WORKLOADS)) as WorkloadName[];
const unknown = names.filter((name) => !(name in WORKLOADS));
if (unknown.length > 0) {
  console.error(`no workload ${unknown.join(', ')}: ${Object.keys(WORKLOADS).join(', ')}`);
  process.exit(2);
}
/** V8 compiles the code of an endpoint in its first seconds under load. */
const WARM_UP_SECONDS = 3;
/** How much longer the rounds of the workloads with models are. */
const MODEL_ROUNDS = 3;
const { rounds, seconds } = options.quick ? { rounds: 2, seconds: 2 } : { rounds: 5, seconds: 4 };

const python = pythonOfPeers();
const head = [
  `${cpus()[0]?.model.trim()}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GB, Node ${process.versions.node}, ${versionOf(python, ['--version'])}`,
  `Load from ${LOAD_GENERATOR}, ${rounds} rounds of ${seconds} s in turns; medians and spread.`,
  `Other jobs took ${Math.round((await busyShare()) * 100)} % of the cores just before.`,
];
console.log(`${head.join('\n')}\n`);

const models = new ModelFolders();
const nodeReds = await startNodeReds(names, models);
const ways = [nodeReds.plain, nodeReds.drawn, nodeReds.listener];
const tables: Table[] = [];
const budgets: Budget[] = [];
const results: Partial<Record<WorkloadName, Rows>> = {};
try {
  for (const name of names) {
    // Peers run only in their own rounds: LitServe takes CPU even when it has nothing to do.
    const model = name === 'vectors' || name === 'detector' ? models.of(name) : '';
    const peers = [await startMosec(python, name, model)];
    try {
      if (name === 'batch') peers.push(await startNodeHttp());
      if (name === 'batch' || name === 'single' || name === 'vectors')
        peers.push(await startLitServe(python, name, model));
      const servers = [...peers, ...ways.flatMap((way) => way.servers)].filter(({ urls }) => urls[name] !== undefined);
      const alone = async (server: Server, length: number): Promise<Figures> => {
        server.resume();
        try {
          return await measure(server, name, length);
        } finally {
          server.pause();
        }
      };
      for (const server of peers) server.pause();
      for (const server of servers) await alone(server, WARM_UP_SECONDS);
      // A batch of a model takes a second on a busy machine, and a round begins and ends with a part of one.
      const length = model === '' ? seconds : MODEL_ROUNDS * seconds;
      const subjects = servers.map((server) => [server.name, () => alone(server, length)] as const);
      results[name] = await interleave(rounds, Object.fromEntries(subjects));
      const versions = new Map(servers.map(({ name: server, version }) => [server, version]));
      tables.push(tableOf(name, results[name], versions));
      console.log(renderTable(tables.at(-1) as Table));
    } finally {
      for (const peer of peers) await peer.stop();
    }
  }
  budgets.push(...budgetsOf(results));
  if (!options.only) {
    const disturbed = await disturbances(nodeReds, options.quick ? 4 : 10);
    tables.push(...disturbed.tables);
    for (const table of disturbed.tables) console.log(renderTable(table));
    budgets.push(...disturbed.budgets);
  }
} finally {
  for (const { red } of ways) await red.end();
  models.remove();
}
console.log(renderTable(budgetTable(budgets)));
if (options.json) writeFileSync(options.json, `${JSON.stringify({ head, results, tables, budgets }, null, 2)}\n`);
process.exit(0);

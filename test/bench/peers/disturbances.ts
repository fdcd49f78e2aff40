/** The endpoints while Node-RED is busy with something else: with a node that blocks its loop, and with deploys. */
import type { FlowNode } from '../../fixtures/node-red.ts';
import type { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { functionNode, node } from '../flows.ts';
import { type HttpFigures, loadHttp } from '../http-load.ts';
import { sleep } from '../measure.ts';
import { atMost, type Budget, figure, type PartResult } from '../report.ts';
import type { NodeRedOf, NodeReds, Server } from './servers.ts';
import { WORKLOADS } from './workloads.ts';

const EVERY_MS = 100;
const BLOCKED_MS = 80;
const DEPLOYS = 10;

/** Blocks Node-RED's loop for four fifths of the time. */
const BLOCKER: readonly FlowNode[] = [
  node('tick', 'inject', ['block'], { repeat: String(EVERY_MS / 1000), once: true, onceDelay: 0.1, props: [] }),
  functionNode('block', 'nowhere', `const end = Date.now() + ${BLOCKED_MS}; while (Date.now() < end);`),
  node('nowhere', 'debug', [], { active: false }),
];

export async function disturbances({ drawn, listener }: NodeReds, seconds: number): Promise<PartResult> {
  const results = [
    await whileDeploying(drawn, seconds),
    await whileDeploying(listener, seconds),
    await whileBlocked(listener, seconds),
  ];
  const columns = ['server', 'meanwhile', 'requests/s', 'p50 ms', 'p99 ms', 'p99.9 ms', 'other answers'];
  const rows = results.flatMap((result) => result.rows);
  return {
    tables: [{ title: 'Batches of 32 while Node-RED is busy', columns, rows }],
    budgets: results.flatMap((result) => result.budgets),
  };
}

interface Disturbed {
  readonly rows: readonly (readonly string[])[];
  readonly budgets: readonly Budget[];
}

async function whileDeploying({ red, flows, servers }: NodeRedOf, seconds: number): Promise<Disturbed> {
  const [{ name, urls }] = servers as [Server];
  const load = { ...WORKLOADS.batch, url: urls.batch as string, seconds };
  const calm = await loadHttp(load);
  const [busy] = await Promise.all([loadHttp(load), deploys(red, flows, seconds)]);
  const meanwhile = `${DEPLOYS} Full deploys`;
  return {
    rows: [row(name, 'nothing', calm), row(name, meanwhile, busy)],
    budgets: [
      none(`${name}, ${meanwhile}`, busy),
      atMost({ what: `${name}, ${meanwhile}, p99`, value: busy.p99, limit: 50, unit: ' ms', gates: false }),
    ],
  };
}

async function whileBlocked({ red, flows, servers }: NodeRedOf, seconds: number): Promise<Disturbed> {
  const [{ name, urls }] = servers as [Server];
  const load = { ...WORKLOADS.batch, url: urls.batch as string, seconds };
  const half = { ...load, rate: Math.round((await loadHttp(load)).perSecond / 2) };
  const calm = await loadHttp(half);
  await red.deploy([...flows, ...BLOCKER]);
  const busy = await loadHttp(half);
  await red.deploy(flows);
  const what = `${name}, Node-RED's loop blocked 80 %`;
  return {
    rows: [row(name, 'half of its rate', calm), row(name, 'half of its rate, loop blocked 80 %', busy)],
    budgets: [
      none(what, busy),
      atMost({ what: `${what}, p99 against free`, value: busy.p99 / calm.p99, limit: 1.5, unit: 'x', gates: false }),
    ],
  };
}

async function deploys(red: NodeRedProcess, flows: readonly FlowNode[], seconds: number): Promise<void> {
  for (let deploy = 0; deploy < DEPLOYS; deploy += 1) {
    await red.deploy(flows);
    await sleep((seconds * 1000 * 0.8) / DEPLOYS);
  }
}

function row(server: string, meanwhile: string, figures: HttpFigures): string[] {
  const { perSecond, p50, p99, p999, failed } = figures;
  return [server, meanwhile, String(Math.round(perSecond)), figure(p50), figure(p99), figure(p999), String(failed)];
}

function none(what: string, { failed }: HttpFigures): Budget {
  return atMost({ what: `${what}, answers other than 200`, value: failed, limit: 0, unit: '', gates: true });
}

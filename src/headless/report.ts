/** Says what is served and what is not: as a table for people, and as records for a log. */
import type { StageConfig } from '../config/compile-stage.ts';
import { formatCpus } from '../config/formats/pins.ts';
import type { EndpointSpec } from '../core/endpoints.ts';
import type { LogRecord } from '../core/model.ts';
import { writeLeg } from '../observe/views/why.ts';
import type { HeadlessFlows } from './compile-flows.ts';
import type { Judgement, Unserved } from './refusals.ts';

/** An endpoint as people see it. */
interface EndpointRow {
  readonly method: string;
  readonly path: string;
  readonly runtime: string;
  readonly stages: string;
  readonly workers: string;
}

/** Returns the text that `check` prints. @param endpoints those that are served */
export function reportOf(flows: HeadlessFlows, endpoints: readonly EndpointSpec[], verdict: Judgement): string {
  const rows = endpoints.map((endpoint) => servedBy(flows, endpoint));
  return [
    ...section('Served', ['METHOD', 'PATH', 'RUNTIME', 'STAGES', 'WORKERS'], rows.map(Object.values)),
    ...notServed(flows, verdict).flatMap(({ title, nodes }) => {
      const lines = nodes.map(({ node, reason }) => [node, reason]);
      return section(title, ['NODE', 'REASON'], lines);
    }),
  ].join('\n');
}

/** Returns the same as records, one for each endpoint and each node. */
export function recordsOf(flows: HeadlessFlows, endpoints: readonly EndpointSpec[], verdict: Judgement): LogRecord[] {
  const served = endpoints.map((endpoint): LogRecord => {
    const { method, path, stages, workers } = servedBy(flows, endpoint);
    return { level: 'info', message: `serves ${method} ${path}`, fields: { method, path, stages, workers } };
  });
  const others = notServed(flows, verdict).flatMap(({ level, done, nodes }) =>
    nodes.map(({ node, reason }) => ({ level, message: `${done} ${node}: ${reason}`, fields: { node, reason } })),
  );
  return [...served, ...others];
}

/** Nodes that share a fate: its title for people, and its level and words in the log. */
interface Fate {
  readonly title: string;
  readonly level: 'warn' | 'info';
  readonly done: string;
  readonly nodes: readonly Unserved[];
}

function notServed({ plan }: HeadlessFlows, { refused, leftOut }: Judgement): Fate[] {
  const unasked = 'Left out, because nothing but a person or an error sets it going';
  const idle = plan.idle.map(({ id, text }) => ({ node: plan.stageNames.get(id) ?? id, reason: text }));
  return [
    { title: 'Refused', level: 'warn', done: 'refuses', nodes: refused },
    { title: unasked, level: 'info', done: 'leaves out', nodes: leftOut },
    { title: 'Settings without effect', level: 'warn', done: 'does not use all settings of', nodes: idle },
  ];
}

/** Returns the name of a runtime, or its id if it has none. */
export function runtimeName({ nodes }: HeadlessFlows, id: string): string {
  return nodes.settings('runtime', id)?.name || id;
}

function servedBy(flows: HeadlessFlows, { method, path, runtime, entry }: EndpointSpec): EndpointRow {
  const { plan, nodes } = flows;
  const route = plan.routes.get(entry);
  const stages = route?.stages ?? [];
  const nameOf = (id: string): string => plan.stageNames.get(id) ?? (nodes.get(id)?.node.name || id);
  return {
    method: method.toUpperCase(),
    path,
    runtime: runtimeName(flows, runtime),
    stages: route ? writeLeg(route.leg, nameOf, ' > ') : '',
    workers: stages.map((id) => workersOf(nodes.settings('stage', id))).join(' > '),
  };
}

/** Returns the number of workers, and their cores if they are pinned: `2 (0, 1)`, or `0-4`. */
function workersOf(stage: StageConfig | undefined): string {
  const { workers, scaling } = stage ?? { workers: [], scaling: null };
  const count = scaling ? `${scaling.min}-${workers.length}` : String(workers.length);
  const pins = workers.flatMap(({ cpus }) => (cpus ? [formatCpus(cpus)] : []));
  return pins.length === 0 ? count : `${count} (${pins.join(', ')})`;
}

export function section(title: string, head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return [];
  const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd();
  return [`${title}:`, line(head), ...rows.map(line), ''];
}

/** What is odd about a gate's settings: it works, but hardly as meant. In words, for the editor and the log. */
import type { GateConfig } from '../../config/compile-gate.ts';
import type { StageConfig } from '../../config/compile-stage.ts';
import { ModeletError } from '../../core/errors.ts';
import type { Batching } from '../../core/model.ts';
import type { Graph } from '../../flow/graph.ts';
import { nearest } from '../../flow/reach.ts';
import type { LiveNodes } from '../live-nodes.ts';
import type { DeployedGate } from './gate-deployment.ts';

export interface Drawn {
  readonly graph: Graph;
  readonly live: LiveNodes;
  /** By stage. */
  readonly batching: ReadonlyMap<string, Batching>;
  /** What people call a tab or an instance of a subflow, by its id. */
  tabName(id: string): string;
}

export function warningsOf(gate: Omit<DeployedGate, 'warnings'>, drawn: Drawn): string[] {
  return [
    neverOpens(gate),
    neverCloses(gate, drawn),
    ...timesOf(gate),
    endless(gate, drawn),
    severalStages(gate, drawn),
    gate.elsewhere === null ? null : `it counts what is on another tab: ${gate.elsewhere}; select one of its own tab`,
  ].filter((warning) => warning !== null);
}

/** D is at most 1, and of a constant what it says. */
function neverOpens({ config }: Pick<DeployedGate, 'config'>): string | null {
  const { source, baseline, maxSys, rounding, atLeastOne } = config;
  if (source.kind === 'composite') return null;
  const mostD = source.kind === 'constant' ? source.budget : 1;
  if (mostD <= baseline) return `it never opens: D is at most ${mostD}, and the baseline is ${baseline}`;
  if (maxSys === 0) return 'it never opens: max_SYS is 0';
  const mostN = maxSys === null ? Number.POSITIVE_INFINITY : maxSys * (mostD - baseline);
  if (mostN >= 1 || atLeastOne || rounding === 'ceil') return null;
  return `it never opens: N is at most ${round(mostN)}, which is rounded down to 0`;
}

/** A stage's own queue refuses before its saturation comes near what would close the gate. */
function neverCloses({ config, stage }: Pick<DeployedGate, 'config' | 'stage'>, drawn: Drawn): string | null {
  const found = stage === null ? undefined : drawn.live.get(stage)?.config;
  if (config.source.kind !== 'saturation' || stage === null || !found || found instanceof ModeletError) return null;
  const { capacity, workers, name } = found as StageConfig;
  const batchSize = drawn.batching.get(stage)?.maxBatchSize ?? 1;
  const most = capacity + workers.length * batchSize;
  const maxSys = config.maxSys ?? workers.length * config.maxConcurrency;
  if (most >= maxSys * (1 - config.baseline)) return null;
  const holds = `stage ${name || stage} holds at most ${most}: ${capacity} that wait and ${workers.length * batchSize} that run`;
  return `it never closes: max_SYS is ${round(maxSys)}, and ${holds}; lower maxConcurrency or max_SYS`;
}

function timesOf({ config, limits }: Pick<DeployedGate, 'config' | 'limits'>): (string | null)[] {
  const { staleMs, intervalMs, leaseMs, source } = config;
  const longest = Math.max(limits.timeoutMs, limits.flowTimeoutMs);
  return [
    staleMs < intervalMs && source.kind !== 'composite'
      ? `it closes between readings: a sample is stale after ${staleMs} ms, and the next is read after ${intervalMs} ms`
      : null,
    leaseMs < longest
      ? `an admitted request counts as gone after ${leaseMs} ms (leaseMs), and may take ${longest} ms: more run than it counts`
      : null,
  ];
}

function endless({ id, config }: Pick<DeployedGate, 'id' | 'config'>, { graph }: Drawn): string | null {
  if (nearest(graph, id, 'stage').length > 0 || nearest(graph, id, 'collector').length > 0) return null;
  return `nothing behind it tells when a request has ended: each counts for ${config.leaseMs} ms; wire a result collector`;
}

function severalStages(
  { id, config, stage }: Pick<DeployedGate, 'id' | 'config' | 'stage'>,
  drawn: Drawn,
): string | null {
  const near = config.stage === '' ? nearest(drawn.graph, id, 'stage') : [];
  if (near.length < 2 || config.source.kind !== 'saturation') return null;
  const name = drawn.live.get(stage ?? '')?.node.name || stage;
  return `${near.length} stages are equally near: the workers of ${name} count; select one`;
}

/**
 * The selected stage or members that are on other tabs, in words; null where none is. Mostly they are meant; but a gate
 * that was copied without them refers to those it was copied from.
 */
export function elsewhereOf(id: string, { stage, source }: GateConfig, { live, tabName }: Drawn): string | null {
  const tab = live.get(id)?.node.z;
  const chosen = source.kind === 'composite' ? source.members : [stage];
  const found = chosen.flatMap((other) => {
    const node = other === id ? undefined : live.get(other)?.node;
    if (!node || node.z === tab) return [];
    return [`${node.name || node.id} on ${tabName(node.z)}`];
  });
  return found.length === 0 ? null : found.join(', ');
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Compiles the gates of a deploy: rejects unusable gates, picks the stage whose workers count, collects warnings. */
import { whyNoBroker } from '../../broker/broker-packages.ts';
import { type BrokerConfig, DEFAULT_LIMITS, type RuntimeConfig } from '../../config/compile.ts';
import type { GateConfig } from '../../config/compile-gate.ts';
import { ModeletError } from '../../core/errors.ts';
import type { Graph } from '../../flow/graph.ts';
import { type NodeWarning, uniqueNames } from '../../flow/names.ts';
import { nearest, walk } from '../../flow/walk.ts';
import type { FlowFacts, GateTerms } from '../../node-red/gate-port.ts';
import type { LiveGate, LiveNodes } from '../../node-red/live-nodes.ts';
import { whyNoSqlite } from '../store/work-queue.ts';

export interface DeployedGate extends GateTerms {
  readonly id: string;
  readonly name: string;
  readonly config: GateConfig;
  /** Id of the stage whose workers count; null: none. */
  readonly stage: string | null;
  /** The broker that keeps what waits at a durable gate; null: none. */
  readonly broker: { readonly id: string; readonly config: BrokerConfig } | null;
  /** Names of the selected stage or members that are on other tabs, in words; null: none. */
  readonly elsewhere: string | null;
}

type UsableGate = LiveGate & { readonly config: GateConfig };

interface DeployedGates {
  readonly gates: ReadonlyMap<string, DeployedGate>;
  /** Why gates cannot be used, by id. */
  readonly invalid: ReadonlyMap<string, string>;
  /** Gates whose names are taken. */
  readonly doubled: readonly NodeWarning[];
}

export function deployGates(flows: FlowFacts): DeployedGates {
  const invalid = new Map<string, string>();
  const { graph, live } = flows;
  const gates: UsableGate[] = [];
  for (const gate of live.of('gate')) {
    if (gate.config instanceof ModeletError) invalid.set(gate.node.id, gate.config.message);
    else gates.push(gate as UsableGate);
  }
  const { names, doubled } = uniqueNames(
    'gate',
    gates.map(({ node, config }) => [node.id, config.name || node.id]),
  );
  const deployed = new Map<string, DeployedGate>();
  for (const { node, config } of gates) {
    try {
      const placed = placeGate(node.id, config, graph, live);
      const elsewhere = elsewhereOf(node.id, config, flows);
      const gate = { id: node.id, name: names.get(node.id) ?? node.id, config, elsewhere, ...placed };
      deployed.set(node.id, { ...gate, warnings: warningsOf(gate, flows) });
    } catch (thrown) {
      invalid.set(node.id, (thrown as Error).message);
    }
  }
  rejectMembers(deployed, invalid);
  return { gates: deployed, invalid, doubled };
}

function placeGate(
  id: string,
  config: GateConfig,
  graph: Graph,
  live: LiveNodes,
): Pick<DeployedGate, 'limits' | 'runtime' | 'stage' | 'broker'> {
  if (config.store === 'durable' && nearest(graph, id, 'collector').length === 0) {
    throw new Error('Stored on disk: this needs a result collector behind the gate, to learn when an item is done');
  }
  const stage = stageOf(id, config, graph, live);
  const runtime = runtimeOf(config, stage, live);
  const found = runtime === null ? undefined : live.get(runtime)?.config;
  if (found instanceof ModeletError) throw new Error(`its runtime cannot be used: ${found.message}`);
  const broker = config.store === 'durable' ? brokerOf(found as RuntimeConfig | undefined, live) : null;
  const why = config.store !== 'durable' ? null : broker ? whyNoBroker() : whyNoSqlite();
  if (why !== null) throw new Error(`Stored: ${why}`);
  return { stage, runtime, broker, limits: (found as RuntimeConfig | undefined) ?? DEFAULT_LIMITS };
}

function brokerOf(runtime: RuntimeConfig | undefined, live: LiveNodes): DeployedGate['broker'] {
  if (!runtime || runtime.broker === '') return null;
  const found = live.get(runtime.broker);
  if (found?.kind !== 'broker') throw new Error('the broker of its runtime does not exist or is disabled');
  if (found.config instanceof ModeletError) throw new Error(`the broker of its runtime: ${found.config.message}`);
  return { id: found.node.id, config: found.config };
}

function stageOf(id: string, config: GateConfig, graph: Graph, live: LiveNodes): string | null {
  if (config.stage !== '') {
    if (live.get(config.stage)?.kind === 'stage') return config.stage;
    throw new Error('the stage whose workers it counts does not exist');
  }
  const [stage] = nearest(graph, id, 'stage');
  if (stage === undefined && config.source.kind === 'saturation') {
    throw new Error('no stage is selected or wired behind it, whose saturation it could measure');
  }
  return stage ?? null;
}

/** Returns the selected runtime, else the stage's runtime, else the only runtime that exists; null otherwise. */
function runtimeOf(config: GateConfig, stage: string | null, live: LiveNodes): string | null {
  if (config.runtime !== '') {
    if (live.get(config.runtime)?.kind === 'runtime') return config.runtime;
    throw new Error('its runtime does not exist or is disabled');
  }
  const ofStage = live.settings('stage', stage ?? '')?.runtime ?? '';
  if (live.get(ofStage)?.kind === 'runtime') return ofStage;
  const [only, ...others] = live.of('runtime');
  return only && others.length === 0 ? only.node.id : null;
}

/** Rejects composites whose members are missing or lead back to them, and then every composite that contains those. */
function rejectMembers(deployed: Map<string, DeployedGate>, invalid: Map<string, string>): void {
  for (const { id } of [...deployed.values()].filter((gate) => isOnCircle(gate, deployed))) {
    invalid.set(id, 'its members lead back to itself: a gate cannot be part of itself');
    deployed.delete(id);
  }
  for (let found = true; found; ) {
    found = false;
    for (const { id, config } of deployed.values()) {
      const missing = membersOf(config).find((member) => !deployed.has(member));
      if (missing === undefined) continue;
      found = true;
      const reason = invalid.get(missing);
      invalid.set(
        id,
        `member ${missing} ${reason === undefined ? 'is no gate of these flows' : `cannot be used: ${reason}`}`,
      );
      deployed.delete(id);
    }
  }
}

export function membersOf({ source }: GateConfig): readonly string[] {
  return source.kind === 'composite' ? source.members : [];
}

function isOnCircle({ id, config }: DeployedGate, deployed: ReadonlyMap<string, DeployedGate>): boolean {
  const behind = (member: string): readonly string[] => {
    const gate = deployed.get(member);
    return gate ? membersOf(gate.config) : [];
  };
  return [...walk(membersOf(config), behind)].includes(id);
}

function warningsOf(gate: Omit<DeployedGate, 'warnings'>, flows: FlowFacts): string[] {
  return [
    neverOpens(gate),
    neverCloses(gate, flows),
    ...timesOf(gate),
    endless(gate, flows),
    severalStages(gate, flows),
    gate.elsewhere === null
      ? null
      : `it counts what is on another tab: ${gate.elsewhere}; select a gate on the same tab`,
  ].filter((warning) => warning !== null);
}

/** Warns if the gate never opens. D is at most the set budget for a constant source, and at most 1 for any other. */
function neverOpens({ config }: Pick<DeployedGate, 'config'>): string | null {
  const { source, baseline, maxSys, rounding, atLeastOne } = config;
  if (source.kind === 'composite') return null;
  const mostD = source.kind === 'constant' ? source.budget : 1;
  if (mostD <= baseline) return `it never opens: D is at most ${mostD}, and ${baseline} is kept free for others`;
  if (maxSys === 0) return 'it never opens: max_SYS is 0';
  const mostN = maxSys === null ? Number.POSITIVE_INFINITY : maxSys * (mostD - baseline);
  if (mostN >= 1 || atLeastOne || rounding === 'ceil') return null;
  return `it never opens: N is at most ${round(mostN)}, which is rounded down to 0`;
}

/** Warns if the gate never closes: the stage's queue is full before the saturation reaches the closing level. */
function neverCloses({ config, stage }: Pick<DeployedGate, 'config' | 'stage'>, flows: FlowFacts): string | null {
  const found = flows.live.settings('stage', stage ?? '');
  if (config.source.kind !== 'saturation' || stage === null || !found) return null;
  const { capacity, workers, concurrency, name } = found;
  const batchSize = flows.batching.get(stage)?.maxBatchSize ?? 1;
  const running = workers.length * concurrency * batchSize;
  const most = capacity + running;
  const maxSys = config.maxSys ?? workers.length * config.maxConcurrency;
  if (most >= maxSys * (1 - config.baseline)) return null;
  const holds = `stage ${name || stage} holds at most ${most}: ${capacity} that wait and ${running} that run`;
  return `it never closes: max_SYS is ${round(maxSys)}, and ${holds}; lower "Concurrency per worker" or "Total capacity"`;
}

function timesOf({ config, limits }: Pick<DeployedGate, 'config' | 'limits'>): (string | null)[] {
  const { staleMs, intervalMs, leaseMs, source } = config;
  const longest = Math.max(limits.timeoutMs, limits.flowTimeoutMs);
  return [
    staleMs < intervalMs && source.kind !== 'composite'
      ? `it closes between readings: a sample is stale after ${staleMs} ms, and the next is read after ${intervalMs} ms`
      : null,
    leaseMs < longest
      ? `an admitted request counts as gone after ${leaseMs} ms ("Lease time"), but may take ${longest} ms: more run than it counts`
      : null,
  ];
}

function endless({ id, config }: Pick<DeployedGate, 'id' | 'config'>, { graph }: FlowFacts): string | null {
  if (nearest(graph, id, 'stage').length > 0 || nearest(graph, id, 'collector').length > 0) return null;
  return `nothing behind it tells when a request has ended: each counts for ${config.leaseMs} ms; wire a result collector`;
}

function severalStages(
  { id, config, stage }: Pick<DeployedGate, 'id' | 'config' | 'stage'>,
  flows: FlowFacts,
): string | null {
  const near = config.stage === '' ? nearest(flows.graph, id, 'stage') : [];
  if (near.length < 2 || config.source.kind !== 'saturation') return null;
  const name = flows.live.get(stage ?? '')?.node.name || stage;
  return `${near.length} stages are equally near: the workers of ${name} count; select one`;
}

/**
 * Returns the selected stage or members that are on other tabs, in words, or null. This is usually
 * intended, but a gate that was copied without its stage still refers to the stage on the original tab.
 */
function elsewhereOf(id: string, { stage, source }: GateConfig, { live, tabName }: FlowFacts): string | null {
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

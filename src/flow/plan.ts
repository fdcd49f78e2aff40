/** Plans runtimes: from the compiled nodes and their graph to the stages and routes that each runtime gets. Pure. */
import type { BrokerConfig, RuntimeConfig } from '../config/compile.ts';
import type { StageConfig } from '../config/compile-stage.ts';
import { type ModeletDefinition, type PlannedStage, settingsFor } from '../config/stage-definition.ts';
import { ModeletError } from '../core/errors.ts';
import { type Batching, BYTES_PER_MB, type RemotePlace } from '../core/model.ts';
import { Queues } from './dropping.ts';
import { type Graph, stageAt } from './graph.ts';
import { type PlannedJoin, planJoins } from './joins.ts';
import { type NodeWarning, nameStages } from './names.ts';
import { type CompiledNode, type CompiledNodes, faultOfKeys } from './read/compiled-nodes.ts';
import { type CompiledGraph, type CompiledRoute, compileRoutes } from './routes.ts';
import { basesOf, unusableVersions } from './versions.ts';

/** The stages and usable routes of one runtime. */
export interface RuntimePlan {
  readonly stages: readonly PlannedStage[];
  readonly routes: readonly CompiledRoute[];
}

export interface FlowPlan {
  /** Ids of the stages that can run. */
  readonly stages: readonly string[];
  readonly stageNames: ReadonlyMap<string, string>;
  /** Stages whose names are taken, versions that cannot be used, and what `idle` has. */
  readonly warnings: readonly NodeWarning[];
  /** Settings that have no effect. */
  readonly idle: readonly NodeWarning[];
  /** The base of each version, by the ids of their nodes. */
  readonly bases: ReadonlyMap<string, string>;
  readonly batching: ReadonlyMap<string, Batching>;
  /** Usable nodes that gather branches. */
  readonly joins: ReadonlyMap<string, PlannedJoin>;
  /** Usable routes, by entry. */
  readonly routes: ReadonlyMap<string, CompiledRoute>;
  /** Reasons why no route begins at HTTP-in nodes that fan out, by the node. */
  readonly apart: ReadonlyMap<string, string>;
  /** Reasons why nodes cannot be used, by node. */
  readonly invalid: ReadonlyMap<string, string>;
  of(runtime: string): RuntimePlan;
}

/** Folders in which workers look up modules. */
interface ModuleFolders {
  readonly modules: string;
  /** For Python. */
  readonly user: string;
}

/** The values of a broker that are secret or in another node, so that its settings do not hold them. */
export type BrokerSecrets = Pick<RemotePlace, 'username' | 'password' | 'secret' | 'tls'>;

/** How the flows are run, as far as plans depend on it. */
export interface PlanSettings extends ModuleFolders {
  secretsOf(broker: string, config: BrokerConfig): BrokerSecrets;
}

type UsableStage = Extract<CompiledNode, { kind: 'stage' }> & { readonly config: StageConfig };

export function planFlows(graph: Graph, nodes: CompiledNodes, settings: PlanSettings): FlowPlan {
  const unusable = new Map<string, string>();
  const stages = nodes.of('stage').filter((stage): stage is UsableStage => {
    if (stage.config instanceof ModeletError) return false;
    const missing = reasonForNoRuntime(stage.config, nodes) ?? reasonForNoBroker(stage.config, nodes);
    if (missing) unusable.set(stage.node.id, missing);
    return missing === null;
  });
  const { names, doubled } = nameStages(stages);
  const { joins: planned, invalid: unusableJoins } = planJoins(graph, names);
  const compiled = compileRoutes(graph, planned);
  const { unlisted } = compiled;
  const joins = new Map([...planned].filter(([id]) => !unlisted.has(id)));
  const invalid = new Map([...compiled.invalid, ...unusable, ...unusableJoins, ...unlisted]);
  const { routes, apart } = usableRoutes(compiled, invalid);
  const usable = new Set(stages.map(({ node }) => node.id));
  const configs = new Map(stages.map(({ node, config }) => [node.id, config]));
  const queues = new Queues({ graph, configs, batching: compiled.batching, routes });
  return {
    stages: [...usable],
    stageNames: names,
    warnings: [...doubled, ...unusableVersions(graph, usable), ...queues.idle],
    idle: queues.idle,
    bases: basesOf(graph),
    batching: compiled.batching,
    joins,
    ...{ routes, apart, invalid },
    of: (runtime) => ({
      stages: stages
        .filter(({ config }) => config.runtime === runtime)
        .map((stage) => ({
          ...planStage(stage, names, compiled, settings),
          ...queues.of(stage.node.id),
          ...planVersions(graph, stage, usable),
          requestTimeoutMs: runtimeOf(stage.config, nodes).timeoutMs,
          remote: remotePlace(stage.config, nodes, settings),
        })),
      routes: [...routes.values()].filter((route) => route.runtime === runtime),
    }),
  };
}

function reasonForNoRuntime(config: StageConfig, nodes: CompiledNodes): string | null {
  const runtime = nodes.get(config.runtime);
  if (runtime?.kind !== 'runtime')
    return 'no runtime is selected, or it is disabled: select one in the dialog of the stage';
  if (runtime.config instanceof ModeletError) return `its runtime cannot be used: ${runtime.config.message}`;
  // Without its keys, any client could use the stage.
  return faultOfKeys(nodes, runtime.config);
}

/** Returns the runtime of a stage that has a usable one. */
function runtimeOf({ runtime }: Pick<StageConfig, 'runtime'>, nodes: CompiledNodes): RuntimeConfig {
  return nodes.settings('runtime', runtime) as RuntimeConfig;
}

function reasonForNoBroker({ placement, runtime }: StageConfig, nodes: CompiledNodes): string | null {
  if (placement === 'local') return null;
  const found = nodes.get(runtimeOf({ runtime }, nodes).broker);
  if (found?.kind !== 'broker') {
    return 'Placement: worker hosts are reached over the broker of the runtime, and its runtime has none';
  }
  return found.config instanceof ModeletError ? `the broker of its runtime: ${found.config.message}` : null;
}

/** Returns where worker hosts find the stage; null for a stage with local workers. The stage is usable. */
function remotePlace(config: StageConfig, nodes: CompiledNodes, { secretsOf }: PlanSettings): RemotePlace | null {
  if (config.placement === 'local') return null;
  const runtime = runtimeOf(config, nodes);
  const broker = nodes.get(runtime.broker)?.config as BrokerConfig;
  const { url, prefix } = broker;
  return { url, prefix, ...secretsOf(runtime.broker, broker), runtime: runtime.name || config.runtime };
}

/** Returns the routes of which every stage can run. @param invalid also gets the entries of the others */
function usableRoutes(compiled: CompiledGraph, invalid: Map<string, string>): Pick<CompiledGraph, 'routes' | 'apart'> {
  const routes = new Map<string, CompiledRoute>();
  const apart = new Map(compiled.apart);
  for (const [entry, route] of compiled.routes) {
    const broken = route.stages.find((stage) => invalid.has(stage));
    if (broken === undefined) routes.set(entry, route);
    // Only messages know an HTTP-in node: it has no route, and is no invalid node.
    else if (route.leg.stages.length === 0)
      apart.set(entry, `output leads to a node that cannot be used: ${invalid.get(broken)}`);
    else invalid.set(entry, invalid.get(broken) as string);
  }
  return { routes, apart };
}

function planStage(
  { node, config }: UsableStage,
  names: ReadonlyMap<string, string>,
  compiled: CompiledGraph,
  folders: ModuleFolders,
): Omit<PlannedStage, 'remote' | 'overflow' | 'requestTimeoutMs'> {
  const { cache, cacheMb, cacheTtlMs } = config;
  const batching = compiled.batching.get(node.id);
  if (!batching) throw new Error(`stage ${node.id} was not compiled`);
  return {
    id: node.id,
    name: names.get(node.id) ?? node.id,
    modelet: planModelet(config, folders),
    ...(config.scaling ? { scaling: config.scaling } : {}),
    ...settingsFor('engine', config),
    batching,
    cache: { entries: cache, maxBytes: cacheMb * BYTES_PER_MB, ttlMs: cacheTtlMs },
  };
}

/** Returns the versions of a stage, without those that cannot run. */
function planVersions(
  graph: Graph,
  { node, config }: UsableStage,
  usable: ReadonlySet<string>,
): Pick<PlannedStage, 'versions'> {
  const { versions = [] } = stageAt(graph, node.id) ?? {};
  if (versions.length === 0) return {};
  return { versions: { list: versions.filter(({ stage }) => usable.has(stage)), rollbackAbove: config.rollback } };
}

export function planModelet(config: StageConfig, folders: ModuleFolders): ModeletDefinition {
  const { source, init, inputSchema, outputSchema, workers } = config;
  return {
    ...settingsFor('modelet', config),
    source,
    init,
    inputSchema,
    outputSchema,
    requireFrom: 'python' in source ? folders.user : folders.modules,
    workers,
  };
}

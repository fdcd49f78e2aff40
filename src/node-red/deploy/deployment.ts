/**
 * Compiles the running nodes of one deploy: a plan for each runtime, and all data needed to handle arriving messages.
 * Each `flows:started` compiles everything again. This file changes nothing itself: pipeline.ts applies the result.
 */
import type { Node, NodeAPI } from 'node-red';
import type { CollectorConfig, RuntimeConfig } from '../../config/compile.ts';
import type { StageConfig } from '../../config/compile-stage.ts';
import { settingsFor } from '../../config/schemas/stage-definition.ts';
import { ModeletError } from '../../core/errors.ts';
import type { ListenerSpec } from '../../core/model.ts';
import { flawOf } from '../../endpoint/served-endpoint.ts';
import { type CompiledEndpoints, compileEndpoints } from '../../flow/endpoints.ts';
import type { Graph, HttpResponseNode } from '../../flow/graph.ts';
import { directResponse } from '../../flow/http-ways.ts';
import { type CompiledGraph, type CompiledRoute, compileRoutes } from '../../flow/routes.ts';
import { type ErrorHandler, findHandler, nearest, targetsOf } from '../../flow/walk.ts';
import type { PlannedStage } from '../../server/planner.ts';
import type { Service } from '../../server/service.ts';
import { modulesFolder, userFolder } from '../files.ts';
import type { LiveNodes, LiveStage } from '../live-nodes.ts';
import { type Endpoint, endpointsTo, entryTerms } from './endpoints.ts';
import { type DeployedGate, deployGates } from './gate-deployment.ts';
import { readGraph } from './graph-reader.ts';
import { httpFacts } from './http-facts.ts';
import { listenersOf } from './listeners.ts';
import { nameStages, tabNames } from './names.ts';
import type { RunningNode } from './running-nodes.ts';

export interface DeployedRoute {
  readonly route: CompiledRoute;
  readonly service: Service;
  /** The first stage. Its input property and code decide which parts of the message are sent. */
  readonly first: StageConfig;
  /** Whether a stage of the route reads more of the message than its payload. */
  readonly wantsMeta: boolean;
}

export interface Deployment {
  /** All running nodes. */
  readonly graph: Graph;
  readonly routes: ReadonlyMap<string, DeployedRoute>;
  readonly invalid: ReadonlyMap<string, string>;
  readonly gates: ReadonlyMap<string, DeployedGate>;
  /** Stages with a collector downstream. */
  readonly collected: ReadonlySet<string>;
  /** Error handlers, by the id of the stage or gate. */
  readonly handlers: ReadonlyMap<string, ErrorHandler>;
  readonly stageIdByName: ReadonlyMap<string, string>;
  readonly stageNames: ReadonlyMap<string, string>;
  /** Collectors wired directly to a stage that keep the order of arrival, by stage. */
  readonly ordering: ReadonlyMap<string, readonly string[]>;
  /** Collectors wired directly to a stage that pass on results in parts, by stage. */
  readonly parting: ReadonlyMap<string, readonly string[]>;
  /** HTTP responses that can send a stage's result without the flow, by stage. */
  readonly answers: ReadonlyMap<string, HttpResponseNode>;
  /** HTTP-in nodes that lead to a pipeline. */
  readonly endpoints: readonly Endpoint[];
  /** The HTTP-in nodes among them that are compiled, and the reasons why others are not. */
  readonly compiled: CompiledEndpoints;
  /** Paths under which runtimes publish metrics, health and OpenAPI beside the user's endpoints, by runtime. */
  readonly publicPaths: ReadonlyMap<string, string>;
}

export const NOTHING_DEPLOYED: Deployment = {
  graph: new Map(),
  routes: new Map(),
  invalid: new Map(),
  gates: new Map(),
  collected: new Set(),
  handlers: new Map(),
  stageIdByName: new Map(),
  stageNames: new Map(),
  ordering: new Map(),
  parting: new Map(),
  answers: new Map(),
  endpoints: [],
  compiled: { endpoints: [], uncompiled: [] },
  publicPaths: new Map(),
};

/** Returns the runtimes that must run: those with stages. */
export function usedRuntimes(live: LiveNodes): Map<string, RuntimeConfig> {
  const used = new Set(live.of('stage').map(({ config }) => (config instanceof ModeletError ? '' : config.runtime)));
  const runtimes = new Map<string, RuntimeConfig>();
  for (const { node, config } of live.of('runtime')) {
    // These are excluded: changing them must not restart the engine.
    const others = { publicPath: '', listen: null, tls: '' };
    if (used.has(node.id) && !(config instanceof ModeletError)) runtimes.set(node.id, { ...config, ...others });
  }
  return runtimes;
}

const MB = 1024 * 1024;

type UsableStage = LiveStage & { readonly config: StageConfig };

/** The stages and routes of one runtime. */
interface RuntimePlan {
  readonly stages: readonly PlannedStage[];
  readonly routes: readonly CompiledRoute[];
  /** null: the engine does not listen. */
  readonly listener: ListenerSpec | null;
}

/** The result of a deploy: plans by runtime, and warnings by node. */
export interface Deployed {
  readonly deployment: Deployment;
  readonly plans: ReadonlyMap<string, RuntimePlan>;
  readonly warnings: readonly { readonly node: Node; readonly text: string }[];
}

type Services = ReadonlyMap<string, Service>;

/**
 * Compiles the running nodes.
 * @param running all running nodes
 * @param services the service of each runtime in use, by its id
 */
export function deploy(RED: NodeAPI, running: readonly RunningNode[], live: LiveNodes, services: Services): Deployed {
  const folders = { modules: modulesFolder(RED), user: userFolder(RED) };
  const graph = readGraph(RED, running, live);
  const compiled = compileRoutes(graph);
  const invalid = new Map(compiled.invalid);
  const stages = live.of('stage').filter((stage): stage is UsableStage => {
    if (stage.config instanceof ModeletError) return false;
    const missing = reasonForNoRuntime(stage.config, live);
    if (missing) invalid.set(stage.node.id, missing);
    return missing === null;
  });
  const stageNames = nameStages(stages);
  const planFor = (runtime: string): Omit<RuntimePlan, 'listener'> => ({
    stages: stages
      .filter(({ config }) => config.runtime === runtime)
      .map((stage) => planStage(stage, stageNames, compiled, folders)),
    routes: [...compiled.routes.values()].filter((route) => route.runtime === runtime),
  });
  const routes = deployRoutes(graph, compiled, live, services, invalid);
  const gates = deployGates({ graph, live, batching: compiled.batching, tabName: tabNames(RED) }, invalid);
  const failing = [...stages, ...live.of('gate')].map(({ node }) => node);
  const handlers = new Map(failing.map((node) => [node.id, findHandler(graph, node.id)]));
  const deployment: Deployment = {
    graph,
    routes,
    invalid,
    gates,
    collected: new Set(
      stages.flatMap(({ node }) => (nearest(graph, node.id, 'collector').length > 0 ? [node.id] : [])),
    ),
    handlers,
    stageIdByName: new Map([...stageNames].map(([id, name]) => [name, id])),
    stageNames,
    ordering: collectorsBehind(graph, stages, live, ({ order }) => order === 'arrival'),
    parting: collectorsBehind(graph, stages, live, ({ results }) => results === 'parts'),
    answers: new Map(
      stages.flatMap(({ node }) => {
        const answer = directResponse(graph, node.id);
        return answer ? [[node.id, answer] as const] : [];
      }),
    ),
    compiled: compileEndpoints(graph, {
      routes: new Map([...routes].map(([id, { route }]) => [id, route])),
      invalid,
      flawOf,
      ...httpFacts(RED, graph),
    }),
    endpoints: endpointsTo(graph, entryTerms(live, services, routes, gates)),
    publicPaths: new Map(
      live.of('runtime').flatMap(({ node, config }) => {
        const shown = !(config instanceof ModeletError) && config.publicPath !== '';
        return shown ? [[node.id, config.publicPath] as const] : [];
      }),
    ),
  };
  const listeners = listenersOf(RED, live, deployment.compiled.endpoints);
  return {
    deployment,
    plans: new Map(
      [...services.keys()].map((runtime) => [
        runtime,
        { ...planFor(runtime), listener: listeners.get(runtime) ?? null },
      ]),
    ),
    warnings: failing.flatMap((node) => {
      const handler = handlers.get(node.id);
      if (handler?.kind !== 'catch' || handler.tie.length === 0) return [];
      return [{ node, text: `${handler.tie.length} collectors are equally near: its errors go to Catch nodes` }];
    }),
  };
}

/** Returns, by stage, the collectors wired directly to it whose settings satisfy `isSet`. */
function collectorsBehind(
  graph: Graph,
  stages: readonly UsableStage[],
  live: LiveNodes,
  isSet: (config: CollectorConfig) => boolean,
): Map<string, string[]> {
  const chosen = new Set(
    live.of('collector').flatMap(({ node, config }) => {
      return !(config instanceof ModeletError) && isSet(config) ? [node.id] : [];
    }),
  );
  return new Map(
    stages.map(({ node: { id } }) => {
      const node = graph.get(id);
      const targets = node ? targetsOf(graph, node) : [];
      return [id, targets.flatMap((target) => (chosen.has(target.id) ? [target.id] : []))];
    }),
  );
}

function reasonForNoRuntime(config: StageConfig, live: LiveNodes): string | null {
  const runtime = live.get(config.runtime);
  if (runtime?.kind !== 'runtime') return 'no runtime is selected, or it is disabled';
  return runtime.config instanceof ModeletError ? `its runtime cannot be used: ${runtime.config.message}` : null;
}

function planStage(
  { node, config }: UsableStage,
  names: ReadonlyMap<string, string>,
  compiled: CompiledGraph,
  folders: Readonly<Record<'modules' | 'user', string>>,
): PlannedStage {
  const { source, init, inputSchema, outputSchema, workers, overflow, cache, cacheMb, cacheTtlMs } = config;
  const batching = compiled.batching.get(node.id);
  if (!batching) throw new Error(`stage ${node.id} was not compiled`);
  return {
    id: node.id,
    name: names.get(node.id) ?? node.id,
    modelet: {
      ...settingsFor('modelet', config),
      source,
      init,
      inputSchema,
      outputSchema,
      requireFrom: source.kind === 'python' ? folders.user : folders.modules,
      workers,
    },
    ...settingsFor('engine', config),
    batching,
    overflow: overflow === 'drop-oldest' ? 'drop-oldest' : 'refuse',
    cache: { entries: cache, maxBytes: cacheMb * MB, ttlMs: cacheTtlMs },
  };
}

function deployRoutes(
  graph: Graph,
  compiled: CompiledGraph,
  live: LiveNodes,
  services: Services,
  invalid: Map<string, string>,
): Map<string, DeployedRoute> {
  const routes = new Map<string, DeployedRoute>();
  for (const [entry, route] of compiled.routes) {
    const unusable = route.stages.find((stage) => invalid.has(stage));
    const service = services.get(route.runtime);
    const configs = route.stages.flatMap((id) => stageConfig(live, id) ?? []);
    const [first] = configs;
    if (unusable !== undefined || !service || !first) {
      invalid.set(entry, (unusable && invalid.get(unusable)) ?? 'its stage has no runtime');
      continue;
    }
    routes.set(entry, { route, service, first, wantsMeta: route.stages.some((id) => readsMore(graph, id)) });
  }
  return routes;
}

function stageConfig(live: LiveNodes, id: string): StageConfig | undefined {
  const stage = live.get(id);
  return stage?.kind === 'stage' && !(stage.config instanceof ModeletError) ? stage.config : undefined;
}

/** Whether a stage reads more of the message than its input. */
function readsMore(graph: Graph, id: string): boolean {
  const stage = graph.get(id);
  return stage?.kind === 'stage' && stage.readsAlso !== null;
}

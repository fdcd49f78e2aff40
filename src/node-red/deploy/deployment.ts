/**
 * Compiles the running nodes of one deploy: a plan for each runtime, and all data needed to handle arriving messages.
 * Each `flows:started` compiles everything again. This file changes nothing itself: deployer.ts applies the result.
 */
import type { NodeAPI } from 'node-red';
import type { StageConfig } from '../../config/compile-stage.ts';
import { modulesFolder, userFolder } from '../../config/folders.ts';
import type { ListenerSpec } from '../../core/endpoints.ts';
import type { MessageUse } from '../../core/whole-messages.ts';
import type { CollectorNode, Graph, HttpResponseNode } from '../../flow/graph.ts';
import { type CompiledEndpoints, compileEndpoints } from '../../flow/http/endpoints.ts';
import { directResponse, type PartsExit, streamingResponse } from '../../flow/http/http-ways.ts';
import type { PlannedJoin } from '../../flow/joins.ts';
import type { NodeWarning } from '../../flow/names.ts';
import { type FlowPlan, planFlows, type RuntimePlan } from '../../flow/plan.ts';
import { pathsOf } from '../../flow/read/compiled-nodes.ts';
import { readGraph, useOf } from '../../flow/read/graph-reader.ts';
import type { CompiledRoute } from '../../flow/routes.ts';
import { withVersions } from '../../flow/versions.ts';
import { type ErrorHandler, findHandler, nearest, targetsOf } from '../../flow/walk.ts';
import type { AccessTable, Clients } from '../../http/access.ts';
import { flawOf } from '../../http/served-endpoint.ts';
import { MessageCostMeter } from '../../observe/meters/message-costs.ts';
import type { Service } from '../../runtime/service/service.ts';
import type { GatePort, GateTerms } from '../gate-port.ts';
import { type LiveFlows, type LiveNode, type LiveNodes, tabNames } from '../live-nodes.ts';
import { brokerSecrets, listenerOf } from './config-nodes.ts';
import { endpointWarnings, rowWarnings } from './dead-ends.ts';
import { type Endpoint, endpointsTo, entryTerms, type ServedRuntimes } from './endpoints.ts';
import { httpFacts } from './http-facts.ts';

export interface DeployedRoute {
  readonly route: CompiledRoute;
  readonly service: Service;
  /** The clients that may use the runtime; null: every client may. */
  readonly clients: Clients | null;
  /** The first stage. Its input property and code decide which parts of the message are sent. */
  readonly first: StageConfig;
  /** Whether a stage of the route, or a version of one, reads more of the message than its input. */
  readonly wantsMeta: boolean;
  /** null: the code of its stages needs payloads alone. */
  readonly whole: WholeMessageTerms | null;
}

/** How a stage gets whole messages. */
export interface WholeMessageTerms {
  /** The use that its code makes of them, and of the context. */
  readonly use: MessageUse;
  /** Whether each message waits until the one before it has left, so that a run sees the context that the last left. */
  readonly takesTurns: boolean;
  readonly costs: MessageCostMeter;
}

/** The nodes to which the results of a stage, or of a node that gathers branches, go. */
export interface ResultExit {
  readonly isCollected: boolean;
  /** Collectors wired directly to a stage that keep the order of arrival. */
  readonly ordering: readonly string[];
  /** Collectors wired directly to a stage that pass on results in parts. */
  readonly parting: readonly string[];
  /** The HTTP response that can send a result without the flow; null: none. */
  readonly response: HttpResponseNode | null;
  /** The node whose answers are written part by part; null: none. */
  readonly streaming: PartsExit | null;
}

/** A node of this package, as a deploy has compiled it. */
export interface DeployedNode {
  /** The name of a stage that can run; else null. */
  readonly name: string | null;
  /** Why the node cannot be used; null if it can. */
  readonly invalid: string | null;
  /** The stage of which it is a version; null: none. */
  readonly base: string | null;
  /** The handler of its errors; null if it has no separate handler. */
  readonly handler: ErrorHandler | null;
  /** The plan of a usable node that gathers branches; else null. */
  readonly join: PlannedJoin | null;
  /** null: the node sends no results. */
  readonly exit: ResultExit | null;
}

export interface Deployment {
  /** All running nodes. */
  readonly graph: Graph;
  readonly nodes: ReadonlyMap<string, DeployedNode>;
  /** Usable routes, by the node at which messages or requests enter. */
  readonly routes: ReadonlyMap<string, DeployedRoute>;
  readonly gates: ReadonlyMap<string, GateTerms>;
  /** The nodes of stages, by their names. */
  readonly stageIds: ReadonlyMap<string, string>;
  /** HTTP-in nodes that lead to a pipeline. */
  readonly endpoints: readonly Endpoint[];
  /** The HTTP-in nodes among them that are compiled, and the reasons why others are not. */
  readonly compiled: CompiledEndpoints;
  /** Paths under which runtimes publish metrics, health and OpenAPI beside the user's endpoints, by runtime. */
  readonly publicPaths: ReadonlyMap<string, string>;
}

export const NOTHING_DEPLOYED: Deployment = {
  graph: new Map(),
  nodes: new Map(),
  routes: new Map(),
  gates: new Map(),
  stageIds: new Map(),
  endpoints: [],
  compiled: { endpoints: [], uncompiled: [] },
  publicPaths: new Map(),
};

interface ServicePlan extends RuntimePlan {
  /** null: the engine does not listen. */
  readonly listener: ListenerSpec | null;
}

/** The result of a deploy: plans by runtime, and warnings by node. */
export interface Deployed {
  readonly deployment: Deployment;
  readonly plans: ReadonlyMap<string, ServicePlan>;
  readonly warnings: readonly NodeWarning[];
  /** Returns, by id, why a gate could not be created. */
  applyGates(): ReadonlyMap<string, string>;
}

type Services = ReadonlyMap<string, Service>;

/**
 * Compiles the running nodes.
 * @param flows the running flows
 * @param services the service of each runtime in use, by its id
 * @param access who may use each service; changed only when the result is applied
 */
export function deploy(
  RED: NodeAPI,
  flows: LiveFlows,
  live: LiveNodes,
  services: Services,
  access: AccessTable,
  port: Pick<GatePort, 'compile'>,
): Deployed {
  const graph = readGraph(flows, live);
  const plan = planFlows(graph, live, {
    modules: modulesFolder(RED.settings),
    user: userFolder(RED.settings),
    secretsOf: (broker, config) => brokerSecrets(RED, broker, config),
  });
  const served = { services, access };
  const routes = deployRoutes(graph, plan, live, served);
  const compiledGates = port.compile({ graph, live, batching: plan.batching, tabName: tabNames(flows.definitions) });
  const gates = compiledGates.usable;
  const invalid = new Map([...plan.invalid, ...compiledGates.invalid]);
  const nodes = new Map([...live].map(({ node: { id }, kind }) => [id, deployedNode(graph, plan, invalid, id, kind)]));
  const compiled = compileEndpoints(graph, {
    ...{ routes: plan.routes, apart: plan.apart },
    invalid,
    v2Paths: pathsOf(live, 'v2Path'),
    flawOf,
    ...httpFacts(RED, graph),
  });
  const deployment: Deployment = {
    ...{ graph, nodes, routes, gates },
    stageIds: new Map([...plan.stageNames].map(([id, name]) => [name, id])),
    endpoints: endpointsTo(graph, entryTerms(live, served, routes, gates), served),
    compiled,
    publicPaths: pathsOf(live, 'publicPath'),
  };
  return {
    deployment,
    plans: new Map(
      [...services.keys()].map((runtime) => {
        const listener = listenerOf(RED, live, runtime, compiled.endpoints);
        return [runtime, { ...plan.of(runtime), listener }];
      }),
    ),
    warnings: [
      ...plan.warnings,
      ...compiledGates.doubled,
      ...endpointWarnings(graph, [...compiled.endpoints, ...compiled.uncompiled]),
      ...rowWarnings(graph, compiled.uncompiled),
      ...[...nodes].flatMap(([id, { handler }]) => {
        if (handler?.kind !== 'catch' || handler.tie.length === 0) return [];
        return [{ id, text: `${handler.tie.length} collectors are equally near: its errors go to Catch nodes` }];
      }),
    ],
    applyGates: () => compiledGates.apply(),
  };
}

function deployedNode(
  graph: Graph,
  plan: FlowPlan,
  invalid: ReadonlyMap<string, string>,
  id: string,
  kind: LiveNode['kind'],
): DeployedNode {
  const name = plan.stageNames.get(id) ?? null;
  const join = plan.joins.get(id) ?? null;
  const canFail = plan.stages.includes(id) || kind === 'gate' || kind === 'join';
  return {
    ...{ name, join },
    invalid: invalid.get(id) ?? null,
    base: plan.bases.get(id) ?? null,
    handler: canFail ? findHandler(graph, id) : null,
    exit: plan.stages.includes(id) || join ? exitOf(graph, id) : null,
  };
}

function exitOf(graph: Graph, id: string): ResultExit {
  const node = graph.get(id);
  const targets = node?.kind === 'stage' ? targetsOf(graph, node) : [];
  const collectors = targets.filter((target) => target.kind === 'collector' && target.invalid === null);
  const idsOf = (isMeant: (collector: CollectorNode) => boolean): string[] =>
    collectors.filter((target): target is CollectorNode => isMeant(target as CollectorNode)).map((one) => one.id);
  return {
    isCollected: nearest(graph, id, 'collector').length > 0,
    ordering: idsOf(({ order }) => order === 'arrival'),
    parting: idsOf(({ inParts }) => inParts),
    response: directResponse(graph, id),
    streaming: streamingResponse(graph, id),
  };
}

function deployRoutes(
  graph: Graph,
  { routes: planned }: FlowPlan,
  live: LiveNodes,
  { services, access }: ServedRuntimes,
): Map<string, DeployedRoute> {
  const routes = new Map<string, DeployedRoute>();
  for (const [entry, route] of planned) {
    const service = services.get(route.runtime);
    const first = live.settings('stage', route.stages[0] as string);
    if (!service || !first) throw new Error(`the runtime of ${entry} was not started`);
    const stages = withVersions(graph, route.stages);
    const use = mergedUse(
      stages.flatMap(({ id }) => {
        const config = live.settings('stage', id);
        return (config && useOf(config)) ?? [];
      }),
    );
    const whole = use && { use, takesTurns: takesTurns(use, first), costs: new MessageCostMeter() };
    const { clients: known } = access.of(service);
    const clients = known.areNeeded ? known : null;
    const wantsMeta = stages.some(({ readsAlso }) => readsAlso !== null);
    routes.set(entry, { route, service, clients, first, wantsMeta, whole });
  }
  return routes;
}

function takesTurns({ keys, stores, writes, updates }: MessageUse, { workers, concurrency }: StageConfig): boolean {
  const isAlone = workers.length * concurrency === 1;
  return writes && keys.length + stores.length > 0 && (isAlone || updates);
}

/** Returns all that a stage and its versions use. */
function mergedUse(uses: readonly MessageUse[]): MessageUse | null {
  const [first, ...others] = uses;
  if (!first) return null;
  if (others.length === 0) return first;
  const all = uses.map(({ properties }) => properties);
  return {
    ...first,
    properties: all.includes(null) ? null : [...new Set(all.flatMap((names) => names ?? []))],
    keys: uses.flatMap(({ keys }) => keys),
    stores: uses.flatMap(({ stores }) => stores),
    sends: uses.some(({ sends }) => sends),
    writes: uses.some(({ writes }) => writes),
    updates: uses.some(({ updates }) => updates),
  };
}

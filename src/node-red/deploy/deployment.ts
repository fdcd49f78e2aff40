/**
 * Compiles the running nodes of one deploy: a plan for each runtime, and all data needed to handle arriving messages.
 * Each `flows:started` compiles everything again. This file changes nothing itself: pipeline.ts applies the result.
 */
import type { NodeAPI } from 'node-red';
import type { StageConfig } from '../../config/compile-stage.ts';
import { modulesFolder, userFolder } from '../../config/folders.ts';
import type { ListenerSpec } from '../../core/endpoints.ts';
import { ModeletError } from '../../core/errors.ts';
import type { AccessTable, Clients } from '../../endpoint/clients/clients.ts';
import { flawOf } from '../../endpoint/served-endpoint.ts';
import type { CollectorNode, Graph, HttpResponseNode } from '../../flow/graph.ts';
import { type CompiledEndpoints, compileEndpoints } from '../../flow/http/endpoints.ts';
import { directResponse, type PartsExit, streamingResponse } from '../../flow/http/http-ways.ts';
import type { PlannedJoin } from '../../flow/joins.ts';
import { type FlowPlan, planFlows, type RuntimePlan } from '../../flow/plan.ts';
import { stageConfig, v2Paths } from '../../flow/read/compiled-nodes.ts';
import { readGraph } from '../../flow/read/graph-reader.ts';
import type { CompiledRoute } from '../../flow/routes.ts';
import { withVersions } from '../../flow/versions.ts';
import { type ErrorHandler, findHandler, nearest, targetsOf } from '../../flow/walk.ts';
import type { Service } from '../../server/service.ts';
import { type LiveFlows, type LiveNodes, tabNames } from '../live-nodes.ts';
import { brokerSecrets } from './broker-access.ts';
import { type Endpoint, endpointsTo, entryTerms, type ServedRuntimes } from './endpoints.ts';
import { type DeployedGate, deployGates } from './gate-deployment.ts';
import { httpFacts } from './http-facts.ts';
import { listenersOf } from './listeners.ts';

export interface DeployedRoute {
  readonly route: CompiledRoute;
  readonly service: Service;
  /** The clients that may use the runtime; null: every client may. */
  readonly clients: Clients | null;
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
  /** Usable nodes that gather branches. */
  readonly joins: ReadonlyMap<string, PlannedJoin>;
  /** Stages, and nodes that gather branches, with a collector downstream. */
  readonly collected: ReadonlySet<string>;
  /** Error handlers, by the id of the stage or gate. */
  readonly handlers: ReadonlyMap<string, ErrorHandler>;
  readonly stageIdByName: ReadonlyMap<string, string>;
  readonly stageNames: ReadonlyMap<string, string>;
  /** The base of each version of a stage, by the ids of their nodes. */
  readonly bases: ReadonlyMap<string, string>;
  /** Collectors wired directly to a stage that keep the order of arrival, by stage. */
  readonly ordering: ReadonlyMap<string, readonly string[]>;
  /** Collectors wired directly to a stage that pass on results in parts, by stage. */
  readonly parting: ReadonlyMap<string, readonly string[]>;
  /** HTTP responses that can send a result without the flow, by the stage or gathering node that makes it. */
  readonly answers: ReadonlyMap<string, HttpResponseNode>;
  /** Nodes whose answers are written part by part, by stage. */
  readonly streaming: ReadonlyMap<string, PartsExit>;
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
  joins: new Map(),
  collected: new Set(),
  handlers: new Map(),
  stageIdByName: new Map(),
  stageNames: new Map(),
  bases: new Map(),
  ordering: new Map(),
  parting: new Map(),
  answers: new Map(),
  streaming: new Map(),
  endpoints: [],
  compiled: { endpoints: [], uncompiled: [] },
  publicPaths: new Map(),
};

/** All that the service of one runtime gets. */
interface ServicePlan extends RuntimePlan {
  /** null: the engine does not listen. */
  readonly listener: ListenerSpec | null;
}

/** The result of a deploy: plans by runtime, and warnings by node. */
export interface Deployed {
  readonly deployment: Deployment;
  readonly plans: ReadonlyMap<string, ServicePlan>;
  readonly warnings: readonly { readonly id: string; readonly text: string }[];
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
): Deployed {
  const graph = readGraph(flows, flows.running, live);
  const plan = planFlows(graph, live, {
    modules: modulesFolder(RED.settings),
    user: userFolder(RED.settings),
    secretsOf: (broker, config) => brokerSecrets(RED, broker, config),
  });
  const invalid = new Map(plan.invalid);
  const { stages, stageNames, joins } = plan;
  const routes = deployRoutes(graph, plan, live, { services, access });
  const { gates, doubled } = deployGates(
    { graph, live, batching: plan.batching, tabName: tabNames(flows.definitions) },
    invalid,
  );
  /** The nodes that can send the result of a route. */
  const exits = [...stages, ...joins.keys()];
  const failing = [
    ...stages,
    ...live.of('gate').map(({ node }) => node.id),
    ...live.of('join').map(({ node }) => node.id),
  ];
  const handlers = new Map(failing.map((id) => [id, findHandler(graph, id)]));
  const deployment: Deployment = {
    graph,
    routes,
    invalid,
    gates,
    joins,
    collected: new Set(exits.filter((id) => nearest(graph, id, 'collector').length > 0)),
    handlers,
    stageIdByName: new Map([...stageNames].map(([id, name]) => [name, id])),
    ...{ stageNames, bases: plan.bases },
    ordering: collectorsBehind(graph, stages, ({ order }) => order === 'arrival'),
    parting: collectorsBehind(graph, stages, ({ inParts }) => inParts),
    answers: responsesBy(exits, (id) => directResponse(graph, id)),
    streaming: responsesBy(stages, (id) => streamingResponse(graph, id)),
    compiled: compileEndpoints(graph, {
      ...{ routes: plan.routes, apart: plan.apart },
      invalid,
      v2Paths: v2Paths(live),
      flawOf,
      ...httpFacts(RED, graph),
    }),
    endpoints: endpointsTo(graph, entryTerms(live, { services, access }, routes, gates), { services, access }),
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
        { ...plan.of(runtime), listener: listeners.get(runtime) ?? null },
      ]),
    ),
    warnings: [
      ...plan.doubled,
      ...doubled,
      ...failing.flatMap((id) => {
        const handler = handlers.get(id);
        if (handler?.kind !== 'catch' || handler.tie.length === 0) return [];
        return [{ id, text: `${handler.tie.length} collectors are equally near: its errors go to Catch nodes` }];
      }),
    ],
  };
}

function responsesBy<Response>(
  stages: readonly string[],
  find: (stage: string) => Response | null,
): Map<string, Response> {
  return new Map(
    stages.flatMap((id) => {
      const response = find(id);
      return response ? [[id, response] as const] : [];
    }),
  );
}

/** Returns, by stage, the usable collectors wired directly to it for which `isMeant` holds. */
function collectorsBehind(
  graph: Graph,
  stages: readonly string[],
  isMeant: (collector: CollectorNode) => boolean,
): Map<string, string[]> {
  return new Map(
    stages.map((id) => {
      const node = graph.get(id);
      const targets = node ? targetsOf(graph, node) : [];
      const isChosen = (target: (typeof targets)[number]): boolean =>
        target.kind === 'collector' && target.invalid === null && isMeant(target);
      return [id, targets.filter(isChosen).map((target) => target.id)];
    }),
  );
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
    const first = stageConfig(live, route.stages[0] as string);
    if (!service || !first) throw new Error(`the runtime of ${entry} was not started`);
    const { clients: known } = access.of(service);
    const clients = known.areNeeded ? known : null;
    routes.set(entry, { route, service, clients, first, wantsMeta: readMore(graph, route.stages) });
  }
  return routes;
}

/** Whether a stage, or a version of one, reads more of the message than its input. */
function readMore(graph: Graph, stages: readonly string[]): boolean {
  return withVersions(graph, stages).some(({ readsAlso }) => readsAlso !== null);
}

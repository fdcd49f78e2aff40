/** The admin routes for the editor's dialogs and for people with curl. Each route requires a permission. */
import type { NodeAPI } from 'node-red';
import { BYTES_PER_MB } from '../../core/model.ts';
import { isVersionAction } from '../../core/versions.ts';
import { whyRouteEnds, writeLeg } from '../../observe/views/why.ts';
import { visibleCpus } from '../../process/affinity.ts';
import { memoryLimit } from '../../process/container-limits.ts';
import type { Service } from '../../runtime/service/service.ts';
import type { DeployedNode } from '../deploy/deployment.ts';
import { serveInstall } from '../install/install-route.ts';
import { serveModels } from '../install/model-routes.ts';
import type { Pipeline } from '../pipeline.ts';
import { serveCompiler } from './compiler-routes.ts';
import { DashboardPage } from './dashboard-page.ts';
import { serveFiles } from './file-routes.ts';
import { endpointViews, serveLiveView } from './live-view.ts';
import { Observation } from './observation.ts';
import { nameOwnAddress } from './own-address.ts';
import { serveTrials } from './trial-route.ts';

/** Actions on a stage, with the log message for each. */
const STAGE_ACTIONS = {
  restart: 'new workers were asked for',
  flush: 'what waits was told to leave at once',
  promote: 'promoted: it answers all requests of the stage whose version it is',
  rollback: 'rolled back: it gets no requests of the stage whose version it is',
  restore: 'the stage whose version it is divides its requests as the flow says again',
} as const;

const registered: WeakSet<object> = new WeakSet();

export function registerAdminRoutes(RED: NodeAPI, pipeline: Pipeline): void {
  if (registered.has(RED.httpAdmin)) return;
  registered.add(RED.httpAdmin);
  const mayRead = RED.auth.needsPermission('modelets.read');
  const mayWrite = RED.auth.needsPermission('modelets.write');

  RED.httpAdmin.get('/modelets/snapshot', mayRead, (_request, response) => {
    const told = (of: (node: DeployedNode) => unknown): object => {
      const all = [...pipeline.deployment.nodes].map(([id, node]) => [id, of(node)]);
      return Object.fromEntries(all.filter(([, value]) => value !== null));
    };
    response.json({
      runtimes: pipeline.services.map((service) => service.snapshot()),
      gates: pipeline.gates.measured.map(({ snapshot }) => snapshot),
      loop: pipeline.loop.snapshot,
      routes: [...pipeline.deployment.routes.values()].map(({ route }) => ({
        ...route,
        why: whyRouteEnds(route),
        taps: Object.fromEntries(route.taps),
      })),
      endpoints: endpointViews(pipeline),
      handlers: told(({ handler }) => handler),
      invalid: told(({ invalid }) => invalid),
    });
  });

  new Observation(RED, pipeline).serve(mayRead);
  serveLiveView(RED, pipeline, mayRead);
  new DashboardPage(pipeline).serve(RED, mayRead);
  pipeline.previews.serve(RED, mayRead);

  RED.httpAdmin.get('/modelets/cpus', mayRead, (_request, response) => {
    const engine = pipeline.services.find((service) => service.config.engineCpus)?.config.engineCpus ?? null;
    const allowed = visibleCpus(pipeline.machine.allowedCpus);
    const memoryMb = Math.floor((memoryLimit() ?? 0) / BYTES_PER_MB) || null;
    response.json({ allowed, engine, workers: pinnedWorkers(pipeline, allowed), memoryMb });
  });

  serveFiles(RED, pipeline, { mayRead, mayWrite });
  serveTrials(RED, pipeline);
  serveInstall(RED, mayWrite, (id, source) => {
    const [, deployed] = pipeline.live.allSettings('stage').find(([stage]) => stage === id) ?? [];
    const isDeployed = deployed?.source.kind === source;
    // Other stages may have waited for the same package.
    const stages = new Set([...(isDeployed ? [id] : []), ...notStarting(pipeline)]);
    for (const stage of stages) actOnStage(pipeline, stage, 'restart');
    return isDeployed;
  });
  serveModels(RED, pipeline.models, mayWrite);
  serveCompiler(RED);
  nameOwnAddress(RED);

  for (const action of Object.keys(STAGE_ACTIONS) as (keyof typeof STAGE_ACTIONS)[]) {
    RED.httpAdmin.post(`/modelets/stages/:id/${action}`, mayWrite, (request, response) => {
      response.status(actOnStage(pipeline, String(request.params['id']), action) ? 204 : 404).end();
    });
  }

  RED.httpAdmin.post('/modelets/seen', mayWrite, (_request, response) => {
    for (const service of pipeline.services) service.markRead();
    response.status(204).end();
  });

  RED.httpAdmin.get('/modelets/nodes/:id', mayRead, (request, response) => {
    const told = tellOf(pipeline, String(request.params['id']));
    if (told) response.json(told);
    else response.status(404).end();
  });
}

/** Returns whether there is such a stage. */
function actOnStage(pipeline: Pipeline, id: string, action: keyof typeof STAGE_ACTIONS): boolean {
  const { name: stage = null, base = null } = pipeline.deployment.nodes.get(id) ?? {};
  const service = serviceOf(pipeline, id);
  if (stage === null || !service || (isVersionAction(action) && base === null)) return false;
  service.log({ level: 'info', message: STAGE_ACTIONS[action], stage });
  service.actOnStage(id, action);
  return true;
}

/** Returns the service of a stage. A version without wires is on no route. */
function serviceOf({ deployment }: Pipeline, id: string): Service | undefined {
  const { routes, nodes } = deployment;
  return (routes.get(id) ?? routes.get(nodes.get(id)?.base ?? ''))?.service;
}

/** Returns the details that a node's dialog shows; undefined if there is no such node. */
function tellOf(pipeline: Pipeline, id: string): object | undefined {
  const { deployment, live } = pipeline;
  const { routes, nodes, gates } = deployment;
  const route = routes.get(id)?.route;
  const warnings = gates.get(id)?.warnings;
  const base = route ? null : (nodes.get(id)?.base ?? null);
  if (base !== null && routes.has(base)) return { handler: handlerOf(pipeline, base), base: nodes.get(base)?.name };
  // An unusable node exists and shows its error on its badge, so answer with an empty object, not with 404.
  if (!route && !warnings) return live.get(id) ? {} : undefined;
  const told = { handler: handlerOf(pipeline, id) };
  if (!route) return { ...told, warnings };
  const chain = writeLeg(route.leg, (stage) => nodes.get(stage)?.name ?? (live.get(stage)?.node.name || stage));
  const endpoints = endpointViews(pipeline).filter(({ stages }) => stages.includes(id));
  return { ...told, route: { text: `${chain}; ends there because ${route.end}` }, endpoints };
}

/** Returns the node that gets the errors of a node. */
function handlerOf({ deployment, live }: Pipeline, id: string): object {
  const handler = deployment.nodes.get(id)?.handler ?? { kind: 'catch' };
  const name = handler.kind === 'collector' || handler.kind === 'join' ? live.get(handler.id)?.node.name : undefined;
  return { ...handler, name };
}

/** Returns the stages whose workers, or whose new code, did not start. */
function notStarting(pipeline: Pipeline): string[] {
  const stages = pipeline.services.flatMap((service) => service.snapshot().stages);
  return stages
    .filter(({ doesNotStart, successorError, workers }) => {
      return doesNotStart || successorError !== null || workers.some(({ error }) => error !== null);
    })
    .map(({ id }) => id);
}

/** Returns the workers that are pinned to some of the available cores. */
function pinnedWorkers(pipeline: Pipeline, allowed: readonly number[]): object[] {
  const stages = pipeline.services.flatMap((service) => service.snapshot().stages);
  return stages.flatMap(({ id, name, workers }) =>
    workers.flatMap(({ index, cpus }) =>
      cpus === null || allowed.every((core) => cpus.includes(core)) ? [] : { stage: id, name, worker: index, cpus },
    ),
  );
}

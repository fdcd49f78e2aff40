/**
 * The live view of the editor's sidebar. An editor asks for it once a second while its sidebar is visible. Measures the
 * runtimes only when asked, so that the view costs nothing while no page watches.
 */
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import { type Clock, type Deadline, systemClock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { MessageCosts } from '../../observe/meters/message-costs.ts';
import type { UnusableNode } from '../../observe/views/findings.ts';
import type { Measurement } from '../../observe/views/interval.ts';
import { type Around, type EndpointView, type View, viewBetween } from '../../observe/views/view.ts';
import { whyRouteEnds, writeLeg } from '../../observe/views/why.ts';
import { allowedCpus, visibleCpus } from '../../process/affinity.ts';
import { isDeadEnd, isSecond } from '../deploy/dead-ends.ts';
import type { Pipeline } from '../pipeline.ts';

/** Age up to which a view is shared, so that several editors cost little more than one. */
export const FRESH_MS = 500;
/** Time that rates and quantiles cover. With less, the figures would flicker. */
export const LOOKED_BACK_MS = 5500;

interface ViewHost {
  readonly clock: Clock;
  measure(): readonly Measurement[];
  around(): Around;
}

interface Look {
  readonly at: Deadline;
  readonly measurements: readonly Measurement[];
}

export class LiveView {
  readonly #host: ViewHost;
  /** The measurements of the last `LOOKED_BACK_MS`, oldest first. */
  #looks: readonly Look[] = [];
  #view: View | null = null;

  constructor(host: ViewHost) {
    this.#host = host;
  }

  /** Returns the present view. Its rates need an earlier call within `LOOKED_BACK_MS`. */
  now(): View {
    const at = this.#host.clock.now();
    const latest = this.#looks.at(-1);
    if (this.#view && latest && at - latest.at < FRESH_MS) return this.#view;
    const earlier = this.#looks.filter((look) => at - look.at <= LOOKED_BACK_MS);
    const measurements = this.#host.measure();
    this.#looks = [...earlier, { at, measurements }];
    this.#view = viewBetween(earlier[0]?.measurements ?? [], measurements, this.#host.around());
    return this.#view;
  }
}

/** Serves the live view. Call once per Node-RED process. */
export function serveLiveView(RED: NodeAPI, pipeline: Pipeline, mayRead: RequestHandler): void {
  const live = new LiveView({
    clock: systemClock,
    measure: () => pipeline.services.map((service) => service.measure()),
    around: () => aroundOf(pipeline),
  });
  RED.httpAdmin.get('/modelets/view', mayRead, (_request, response) => {
    response.set('Cache-Control', 'no-store').json({
      ...live.now(),
      blocking: pipeline.functions.blocking,
      wholeMessages: messageCostsOf(pipeline),
    });
  });
}

/** Returns the costs of stages with whole messages, by their nodes. */
export function messageCostsOf({ deployment }: Pipeline): Record<string, MessageCosts> {
  const all = [...deployment.routes.values()].flatMap(({ route: { exit }, whole }) =>
    whole ? [[exit, whole.costs.reading] as const] : [],
  );
  return Object.fromEntries(all);
}

/** @param runtime id of the runtime to look at, without the endpoints and gates of others; null: all */
export function aroundOf(pipeline: Pipeline, runtime: string | null = null): Around {
  const endpoints = endpointViews(pipeline);
  const nameOf = (id: string): string =>
    pipeline.deployment.nodes.get(id)?.name ?? (pipeline.live.get(id)?.node.name || id);
  return {
    chains: [...pipeline.deployment.routes.values()].map(({ route }) => ({
      runtime: route.runtime,
      stages: route.stages,
      way: route.leg.next ? writeLeg(route.leg, nameOf) : null,
      why: whyRouteEnds(route),
      unfused: route.unfused,
    })),
    endpoints:
      runtime === null
        ? endpoints
        : endpoints.filter(({ runtimes }) => runtimes.length === 0 || runtimes.includes(runtime)),
    gates: pipeline.gates.viewsFor(runtime),
    unusable: unusableNodes(pipeline),
    loop: pipeline.loop.snapshot,
    allowedCpus: visibleCpus(pipeline.machine.allowedCpus),
    serverCpus: maskOf('self'),
    engineCpus: maskOf,
  };
}

/** Returns the nodes that cannot be used, without those that only lead to one. */
function unusableNodes({ live, deployment }: Pipeline): UnusableNode[] {
  const found = [...live].flatMap((one) => {
    const { kind, node, config } = one;
    const reason = config instanceof ModeletError ? config.message : deployment.nodes.get(node.id)?.invalid;
    if (!reason) return [];
    const isStage = kind === 'stage' && !(config instanceof ModeletError);
    const lacksRuntime = isStage && live.get(config.runtime)?.kind !== 'runtime';
    return [{ id: node.id, name: node.name || kind, reason, lacksRuntime, kind }];
  });
  const ofStages = new Set(found.flatMap(({ kind, reason }) => (kind === 'stage' ? [reason] : [])));
  return found
    .filter(({ kind, reason }) => kind === 'stage' || !ofStages.has(reason))
    .map(({ kind: _kind, ...shown }) => shown);
}

function maskOf(pid: number | 'self'): readonly number[] | null {
  const cpus = allowedCpus(pid);
  return cpus.length > 0 ? cpus : null;
}

/** Lists the HTTP-in nodes that lead to pipelines: which are compiled, why others are not, and which get no answer. */
export function endpointViews({ deployment, barred }: Pick<Pipeline, 'deployment' | 'barred'>): EndpointView[] {
  const { compiled, routes, graph } = deployment;
  const behind = (entries: readonly string[]): Pick<EndpointView, 'stages' | 'runtimes'> => {
    const reached = entries.flatMap((entry) => routes.get(entry)?.route ?? []);
    return {
      stages: [...new Set(reached.flatMap(({ stages }) => stages))],
      runtimes: [...new Set(reached.map(({ runtime }) => runtime))],
    };
  };
  const served = compiled.endpoints.map((endpoint) => ({ ...endpoint, entries: [endpoint.entry], reason: barred }));
  return [...served, ...compiled.uncompiled].map(({ id, method, path, entries, reason }) => ({
    id,
    method: method.toUpperCase(),
    path,
    ...behind(entries),
    reason,
    isDeadEnd: isDeadEnd(graph, id),
    isSecond: isSecond(graph, id),
  }));
}

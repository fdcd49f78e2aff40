/** What the running flows say of their HTTP endpoints, for their OpenAPI document. */
import { createRequire } from 'node:module';
import type { Node, NodeAPI } from 'node-red';
import type { Api, ApiAnswer, ApiEndpoint, Service } from '../../src/index.ts';
import { inputOf, type Stages, stageAnswer } from './api-stages.ts';
import { isDurable, type Reached, type Ways, waysFrom } from './http-ways.ts';
import type { Pipeline } from './pipeline.ts';

const { version } = createRequire(import.meta.url)('@modelet/node-red-pipeline/package.json') as { version: string };

/** What flows have of an HTTP-in node, or of a tab. */
interface Definition {
  readonly id: string;
  readonly type: string;
  readonly z?: string;
  readonly name?: string;
  readonly info?: string;
  readonly label?: string;
}

interface HttpIn {
  readonly id: string;
  readonly method: string;
  readonly url: string;
  readonly upload: boolean;
  readonly name: string;
  readonly info: string;
  readonly tab: ApiEndpoint['tab'];
}

/** All that is behind one HTTP-in node. */
interface Behind {
  readonly first: Ways;
  /** By stage: what is behind it. */
  readonly stages: ReadonlyMap<string, Ways>;
  /** The same without the stages that nobody waits for any more. */
  readonly answering: ReadonlyMap<string, Ways>;
  readonly gates: ReadonlySet<string>;
}

/**
 * The endpoints that lead to a pipeline of these services, in the order of the flows.
 * @param services null: those of all, and what no runtime belongs to.
 */
export function apiOf(pipeline: Pipeline, services: readonly Service[] | null): Api {
  const { RED, deployment } = pipeline;
  const stages: Stages = { live: pipeline.live, names: deployment.stageNames, services: pipeline.services };
  const shown = new Set(services?.map(({ id }) => id));
  const endpoints = httpIns(RED).flatMap((httpIn) => {
    const behind = lookBehind(pipeline, httpIn.id);
    if (behind.stages.size + behind.gates.size === 0) return [];
    const runtimes = [
      ...[...behind.stages.keys()].map((id) => deployment.routes.get(id)?.service.id),
      ...[...behind.gates].map((id) => deployment.gates.get(id)?.runtime),
    ];
    const isShown = services === null || runtimes.some((runtime) => shown.has(runtime ?? ''));
    return isShown ? [endpointOf(pipeline, stages, httpIn, behind)] : [];
  });
  return { title: titleOf(services ?? pipeline.services, endpoints), version, root: rootOf(RED), endpoints };
}

/** Those that run. */
function httpIns(RED: NodeAPI): HttpIn[] {
  const definitions: Definition[] = [];
  const tabs = new Map<string, Definition>();
  RED.nodes.eachNode((one) => {
    const definition = one as unknown as Definition;
    if (definition.type === 'http in') definitions.push(definition);
    else if (definition.type === 'tab') tabs.set(definition.id, definition);
  });
  return definitions.flatMap(({ id, z = '', name = '', info = '' }) => {
    // Its settings are those of the node that runs: variables of the environment have been put in.
    const node = RED.nodes.getNode(id) as (Node & { method?: string; url?: string; upload?: boolean }) | null;
    if (!node?.method || !node.url) return [];
    const { label = '', info: about = '' } = tabs.get(z) ?? {};
    const { method, url, upload = false } = node;
    return [{ id, method, url, upload, name, info, tab: { label, info: about } }];
  });
}

function lookBehind(pipeline: Pipeline, httpIn: string): Behind {
  const first = waysFrom(pipeline, httpIn);
  const stages = follow(pipeline, first, () => true);
  const gates = [first, ...stages.values()].flatMap((ways) => ways.gates.map(({ id }) => id));
  return { first, stages, answering: follow(pipeline, first, ({ stored }) => !stored), gates: new Set(gates) };
}

/** The stages that are reached from each other, as far as `wanted`, and what is behind each. */
function follow(pipeline: Pipeline, first: Ways, wanted: (reached: Reached) => boolean): Map<string, Ways> {
  const stages = new Map<string, Ways>();
  const pending = first.stages.filter(wanted);
  for (let at = pending.pop(); at; at = pending.pop()) {
    if (stages.has(at.id)) continue;
    const ways = waysFrom(pipeline, at.id);
    stages.set(at.id, ways);
    pending.push(...ways.stages.filter(wanted));
  }
  return stages;
}

function endpointOf(pipeline: Pipeline, stages: Stages, httpIn: HttpIn, behind: Behind): ApiEndpoint {
  const { method, url, name, info, tab, upload } = httpIn;
  const isGated = behind.gates.size > 0;
  const isStored = [...behind.gates].some((id) => isDurable(pipeline.live.get(id)));
  return {
    method,
    url,
    name,
    info,
    tab,
    inputs: behind.first.stages.map((reached) => inputOf(stages, reached)),
    answers: answersOf(pipeline, stages, method, behind),
    gates: isStored ? 'durable' : isGated ? 'memory' : 'none',
    takesFiles: upload,
  };
}

function answersOf({ RED, live }: Pipeline, stages: Stages, method: string, behind: Behind): ApiAnswer[] {
  const { first, answering } = behind;
  const durable = [first, ...answering.values()].flatMap(({ gates }) =>
    gates.filter(({ id, stored }) => !stored && isDurable(live.get(id))),
  );
  // What lies before the gate may ask it for an item instead.
  const states = durable.some(({ direct }) => !direct) ? [{ kind: 'state' } as const] : [];
  const stored = durable.some(({ direct }) => direct || method === 'post') ? [{ kind: 'stored' } as const] : [];
  const statusOf = ({ id }: Reached): number | undefined =>
    (RED.nodes.getNode(id) as (Node & { statusCode?: number }) | null)?.statusCode || undefined;
  const inParts = [...answering.values()].some((ways) => ways.inParts) ? [{ kind: 'parts' } as const] : [];
  const results = [...answering].flatMap(([stage, ways]) =>
    ways.responses.flatMap((response) =>
      response.stored || ways.inParts ? [] : [stageAnswer(stages, stage, response, statusOf(response) ?? OK)],
    ),
  );
  const known = [...states, ...stored, ...inParts, ...results];
  // Where the flow answers by itself beside all that: in which cases, and with what, is not known here.
  const plain = first.responses.flatMap((response): ApiAnswer[] => {
    const status = statusOf(response) ?? (known.length === 0 ? OK : null);
    if (status === null || response.stored || results.some((result) => result.status === status)) return [];
    return [{ kind: 'result', status, stage: null }];
  });
  return [...known, ...plain];
}

const OK = 200;

function titleOf(services: readonly Service[], endpoints: readonly ApiEndpoint[]): string {
  const [service, ...others] = services;
  if (service && others.length === 0 && service.config.name !== '') return service.config.name;
  const [label, ...more] = new Set(endpoints.map(({ tab }) => tab.label));
  return label && more.length === 0 ? label : 'Inference endpoints';
}

function rootOf(RED: NodeAPI): string {
  const root = (RED.settings as { httpNodeRoot?: string | false }).httpNodeRoot || '/';
  return `/${root.split('/').filter(Boolean).join('/')}`;
}

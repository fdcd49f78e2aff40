/** Derives the description of the HTTP endpoints from the running flows, for the OpenAPI document. */
import { createRequire } from 'node:module';
import type { StageConfig } from '../../config/compile-stage.ts';
import type { EndpointSpec, StreamSpec } from '../../core/endpoints.ts';
import { type Graph, type HttpInNode, type HttpResponseNode, nodesOf } from '../../flow/graph.ts';
import { type Reached, streamingResponse, type Ways, waysFrom } from '../../flow/http/http-ways.ts';
import type { CompiledNodes } from '../../flow/read/compiled-nodes.ts';
import { walk } from '../../flow/walk.ts';
import type { Service } from '../../runtime/service/service.ts';
import { JSON_TYPE, mediaTypeOf } from '../request-head.ts';
import { EVENTS_TYPE, LINES_TYPE } from '../streaming/stream-form.ts';
import type { Api, ApiAnswer, ApiEndpoint, ApiInput, ApiStage } from './endpoint.ts';

const { version } = createRequire(import.meta.url)('@modelet/node-red-pipeline/package.json') as { version: string };

/** The flows that run, and their services. */
export interface Described {
  readonly graph: Graph;
  readonly nodes: CompiledNodes;
  readonly services: readonly Service[];
  readonly compiled: readonly EndpointSpec[];
  /** Path below which HTTP-in nodes listen. */
  readonly root: string;
  nameOf(id: string): string;
  /** Returns the runtime of a usable stage or gate. */
  runtimeOf(id: string): string | null | undefined;
  needsKey(service: Service): boolean;
}

/** A stage, and the ways that lead on from it. */
interface PassedStage {
  readonly stage: string;
  readonly ways: Ways;
}

/** All pipeline nodes downstream of one HTTP-in node. */
interface Behind {
  readonly first: Ways;
  readonly stages: readonly PassedStage[];
  /** `stages` without those behind a durable gate, whose results no HTTP client waits for. */
  readonly answering: readonly PassedStage[];
  readonly gates: ReadonlySet<string>;
}

/**
 * Returns the endpoints that lead to a pipeline of these services, in the order of the flows.
 * @param services null: all services, and endpoints that belong to no runtime.
 * @param isWanted whether to include an HTTP-in node, by its id
 */
export function apiOf(
  described: Described,
  services: readonly Service[] | null,
  isWanted: (httpIn: string) => boolean = () => true,
): Api {
  const { graph, root } = described;
  const shown = new Set(services?.map(({ id }) => id));
  const endpoints = nodesOf(graph, 'http in').flatMap((httpIn) => {
    const behind = lookBehind(graph, httpIn.id);
    if (!isWanted(httpIn.id) || behind.stages.length + behind.gates.size === 0) return [];
    const runtimes = [...behind.stages.map(({ stage }) => stage), ...behind.gates].map((id) => described.runtimeOf(id));
    const isShown = services === null || runtimes.some((runtime) => shown.has(runtime ?? ''));
    return isShown ? [endpointOf(described, httpIn, behind)] : [];
  });
  return { title: titleOf(services ?? described.services, endpoints), version, root, endpoints };
}

function lookBehind(graph: Graph, httpIn: string): Behind {
  const first = waysFrom(graph, { id: httpIn, calls: [] });
  const stages = follow(graph, first, () => true);
  const gates = [first, ...stages.map(({ ways }) => ways)].flatMap((ways) => ways.gates.map(({ id }) => id));
  return { first, stages, answering: follow(graph, first, ({ stored }) => !stored), gates: new Set(gates) };
}

/** Follows the ways from stage to stage. Returns all stages reached; does not enter stages that are not `wanted`. */
function follow(graph: Graph, first: Ways, wanted: (reached: Reached) => boolean): PassedStage[] {
  const passed: PassedStage[] = [];
  const next = (at: Reached): Reached[] => {
    const ways = waysFrom(graph, at);
    passed.push({ stage: at.id, ways });
    return ways.stages.filter(wanted);
  };
  Array.from(walk(first.stages.filter(wanted), next, ({ id, calls }) => JSON.stringify([id, calls])));
  return passed;
}

function endpointOf(described: Described, httpIn: HttpInNode, behind: Behind): ApiEndpoint {
  const { id: httpInId, method, url, name, info, tab, upload } = httpIn;
  const isGated = behind.gates.size > 0;
  const isStored = [...behind.gates].some((id) => isDurable(described.graph, id));
  const runtime = described.runtimeOf(behind.stages[0]?.stage ?? [...behind.gates][0] ?? '') ?? '';
  return {
    ...{ method, url, name, info },
    tab,
    inputs: behind.first.stages.map((reached) => inputOf(described, reached)),
    answers: answersOf(described, method, behind),
    gates: isStored ? 'durable' : isGated ? 'memory' : 'none',
    baseUrl: described.nodes.settings('runtime', runtime)?.baseUrl ?? '',
    needsKey: behind.stages.some(({ stage }) => needsKey(described, stage)),
    maxRows: described.compiled.find(({ id }) => id === httpInId)?.maxRows ?? 0,
    // The HTTP-in node uses its `upload` property for POST only.
    takesFiles: upload && method === 'post',
  };
}

function needsKey(described: Described, stage: string): boolean {
  const runtime = described.runtimeOf(stage);
  return described.services.some((service) => service.id === runtime && described.needsKey(service));
}

function answersOf(described: Described, method: string, behind: Behind): ApiAnswer[] {
  const { graph } = described;
  const { first, answering } = behind;
  const durable = [first, ...answering.map(({ ways }) => ways)].flatMap(({ gates }) =>
    gates.filter(({ id, stored }) => !stored && isDurable(graph, id)),
  );
  // A node before the gate may turn the request into a query about an item.
  const states = durable.some(({ direct }) => !direct) ? [{ kind: 'state' } as const] : [];
  const stored = durable.some(({ direct }) => direct || method === 'post') ? [{ kind: 'stored' } as const] : [];
  const inParts = answering.flatMap(({ stage, ways }): ApiAnswer[] => (ways.inParts ? [partsBy(graph, stage)] : []));
  const results = answering.flatMap(({ stage, ways }) =>
    ways.responses.flatMap((response) =>
      response.stored || ways.inParts
        ? []
        : [{ ...sentBy(response.node), stage: outputOf(described, stage, response.direct) }],
    ),
  );
  const known = [...states, ...stored, ...inParts, ...results];
  // Responses that the flow sends without a stage. Their conditions and content are unknown here.
  const plain = first.responses.flatMap((response): ApiAnswer[] => {
    const sent = sentBy(response.node);
    const isKnown = known.length > 0 && (!sent.setsStatus || results.some(({ status }) => status === sent.status));
    return isKnown || response.stored ? [] : [{ ...sent, stage: null }];
  });
  return [...known, ...plain];
}

function isDurable(graph: Graph, id: string): boolean {
  const node = graph.get(id);
  return node?.kind === 'gate' && node.durable;
}

/** Returns the status and content type that an HTTP response node sends. */
function sentBy({
  statusCode,
  headers,
}: HttpResponseNode): Omit<ResultAnswer, 'stage'> & { readonly setsStatus: boolean } {
  const type = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type')?.[1];
  const contentType = typeof type === 'string' ? mediaTypeOf(type) : null;
  return {
    kind: 'result',
    status: statusCode ?? OK,
    contentType,
    setsStatus: statusCode !== null,
  };
}

/** Describes the answer with the parts of a stage's result. */
function partsBy(graph: Graph, stage: string): ApiAnswer {
  const response = streamingResponse(graph, stage);
  if (!response) return { kind: 'parts' };
  if (response.kind === 'stream') return { kind: 'stream', status: OK, contentTypes: TYPES[response.stream.format] };
  const { status, contentType } = sentBy(response);
  return { kind: 'stream', status, contentTypes: contentType === null ? TYPES_BY_ACCEPT : [contentType] };
}

/** Types of a result in parts if the flow sets none. */
const TYPES_BY_ACCEPT = [EVENTS_TYPE, LINES_TYPE];
const TYPES: Readonly<Record<StreamSpec['format'], readonly string[]>> = {
  sse: [EVENTS_TYPE],
  openai: [EVENTS_TYPE, JSON_TYPE],
  jsonl: [LINES_TYPE],
  websocket: [LINES_TYPE],
  raw: ['text/plain', 'application/octet-stream'],
};

type ResultAnswer = Extract<ApiAnswer, { kind: 'result' }>;

const OK = 200;

/** Describes the input of a stage, as far as its settings and modelet declare it. */
function inputOf(described: Described, { id, direct }: Reached): ApiInput {
  const config = described.nodes.settings('stage', id);
  const examples = descriptionOf(described, id, config)?.examples ?? [];
  return {
    ...stageOf(described, id, direct, 'input'),
    mediaTypes: config?.mediaTypes ?? [],
    examples: examples.map((text) => JSON.parse(text) as unknown),
  };
}

/** Describes a stage's output. @param direct whether no node behind the stage can change its result */
function outputOf(described: Described, id: string, direct: boolean): ApiStage {
  return stageOf(described, id, direct, 'output');
}

function stageOf(described: Described, id: string, direct: boolean, side: 'input' | 'output'): ApiStage {
  const config = described.nodes.settings('stage', id);
  // The workers' schema counts once they have reported it; until then, the configured one.
  const told = descriptionOf(described, id, config)?.[`${side}Schema`] ?? null;
  return {
    name: described.nameOf(id),
    property: config?.[side] ?? 'payload',
    schema: told === null ? (config?.[`${side}Schema`] ?? null) : JSON.parse(told),
    direct,
  };
}

function descriptionOf(
  { services }: Described,
  id: string,
  config: StageConfig | undefined,
): ReturnType<Service['description']> {
  return services.find((service) => service.id === config?.runtime)?.description(id) ?? null;
}

function titleOf(services: readonly Service[], endpoints: readonly ApiEndpoint[]): string {
  const [service, ...others] = services;
  if (service && others.length === 0 && service.config.name !== '') return service.config.name;
  const [label, ...more] = new Set(endpoints.map(({ tab }) => tab.label));
  return label && more.length === 0 ? label : 'Inference endpoints';
}

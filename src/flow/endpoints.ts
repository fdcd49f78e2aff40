/**
 * Compiles HTTP-in nodes, the routes behind them and the HTTP responses at their ends to endpoints, whose requests never
 * become messages. Any HTTP-in node that leads to a pipeline and cannot be compiled gets the first reason why. Pure.
 */
import type { AnswerSpec, EndpointSpec } from '../core/model.ts';
import { describe, describeAll } from './describe.ts';
import type { BatcherNode, CollectorNode, Graph, GraphNode, HttpInNode, StageNode, StreamNode } from './graph.ts';
import { nodesOf } from './graph.ts';
import { entriesFrom, type PartsExit, streamingResponse, writesParts } from './http-ways.ts';
import type { CompiledRoute } from './routes.ts';
import { withVersions } from './versions.ts';
import { findHandler, targetsOf } from './walk.ts';

/** An HTTP-in node whose requests go through the flow. */
export interface Uncompiled {
  readonly id: string;
  readonly method: string;
  /** The path or pattern, `httpNodeRoot` included. */
  readonly path: string;
  /** Stages and batchers that its messages reach first, also behind gates. */
  readonly entries: readonly string[];
  /** The first reason, for people. */
  readonly reason: string;
}

export interface CompiledEndpoints {
  readonly endpoints: readonly EndpointSpec[];
  readonly uncompiled: readonly Uncompiled[];
}

/** Everything about the flows that the graph does not have. */
export interface EndpointFacts {
  /** Path below which the HTTP-in nodes listen; begins with a slash. */
  readonly root: string;
  /** Usable routes, by entry. */
  readonly routes: ReadonlyMap<string, CompiledRoute>;
  /** Reasons why nodes cannot be used. */
  readonly invalid: ReadonlyMap<string, string>;
  /** Reason why no HTTP-in node may be compiled; null if there is none. */
  readonly barred: string | null;
  /** Reasons why the HTTP server must see the requests of HTTP-in nodes itself. */
  readonly taken: ReadonlyMap<string, string>;
  /** Paths below which runtimes serve their endpoints by the KServe v2 protocol, without `root`. Others are absent. */
  readonly v2Paths: ReadonlyMap<string, string>;
  /** Returns why HTTP cannot carry an answer; null if it can. */
  readonly flawOf: (answer: AnswerSpec) => string | null;
}

/** A value, or the reason why there is none. */
type Result<T> = { readonly ok: true; readonly value: T } | No;
interface No {
  readonly ok: false;
  readonly reason: string;
}

const METHODS: ReadonlySet<string> = new Set(['post', 'put', 'patch'] satisfies EndpointSpec['method'][]);

/** A path in which Express sees no pattern. */
const FIXED = /^[\w\-.~!@&=,;'%/]*$/;

/** Compiles the HTTP-in nodes that lead to a pipeline, in the order of the flows. */
export function compileEndpoints(graph: Graph, facts: EndpointFacts): CompiledEndpoints {
  const endpoints: EndpointSpec[] = [];
  const uncompiled: Uncompiled[] = [];
  for (const httpIn of nodesOf(graph, 'http in')) {
    const { id, method } = httpIn;
    if (entriesFrom(graph, id, (node) => isEntry(graph.get(node))).length === 0) continue;
    const compiled = compileEndpoint(graph, httpIn, facts);
    if (compiled.ok) {
      endpoints.push(compiled.value);
      continue;
    }
    const entries = entriesFrom(graph, id, (node) => isRouted(graph.get(node)));
    uncompiled.push({ id, method, path: pathOf(httpIn, facts.root), entries, reason: compiled.reason });
  }
  return { endpoints, uncompiled };
}

function compileEndpoint(graph: Graph, httpIn: HttpInNode, facts: EndpointFacts): Result<EndpointSpec> {
  const against = againstRequests(graph, httpIn, facts);
  if (against !== null) return no(against);
  const entry = entryBehind(graph, httpIn, facts.invalid);
  if (!entry.ok) return entry;
  const route = facts.routes.get(entry.value.id);
  if (!route) return no(`${named(entry.value)} cannot be used: it belongs to no route`);
  const stages = route.stages.flatMap((id) => stageWith(graph, id) ?? []);
  const [first, last] = [stages[0], stages.at(-1)];
  if (!first || !last) return no('its route has no stage');
  const inRoute = againstRoute(graph, route, entry.value, stages);
  if (inRoute !== null) return no(inRoute);
  const exit = exitOf(graph, last);
  if (!exit.ok) return exit;
  const failure = failureOf(graph, stages, exit.value.collector);
  if (!failure.ok) return failure;
  const answers = [answerOf(exit.value.response), ...(failure.value ? [failure.value] : [])];
  const flaw = answers.map(facts.flawOf).find((found) => found !== null);
  if (flaw) return no(`the HTTP response node cannot answer: ${flaw}`);
  return yes({
    id: httpIn.id,
    method: httpIn.method as EndpointSpec['method'],
    path: pathOf(httpIn, facts.root),
    model: modelOf(httpIn, facts, route.runtime),
    runtime: route.runtime,
    entry: entry.value.id,
    mediaTypes: first.mediaTypes,
    patient: first.patient,
    answer: answerOf(exit.value.response),
    failure: failure.value,
    errorPayload: errorPayloadOf(graph, exit.value.collector),
    copies: exit.value.copies,
    parts: exit.value.parts,
    sticky: headerOf(route.sticky),
  });
}

/** Returns the reason why the HTTP-in node's requests cannot be taken in front of it; null if there is none. */
function againstRequests(graph: Graph, httpIn: HttpInNode, { barred, taken }: EndpointFacts): string | null {
  const { id, method, url, upload, raw } = httpIn;
  if (!METHODS.has(method))
    return `the HTTP-in node takes ${method.toUpperCase()} requests; only POST, PUT and PATCH can be`;
  if (!FIXED.test(url)) return `the path ${url} is a pattern`;
  // Node-RED uses the setting for POST only.
  if (upload && method === 'post') return 'the HTTP-in node takes file uploads';
  if (raw) return 'the HTTP-in node leaves bodies as they came';
  const rival = nodesOf(graph, 'http in').find((other) => other !== httpIn && isRival(other, httpIn));
  if (rival) return `the HTTP-in node ${rival.name || rival.id} may take the same requests`;
  return barred ?? taken.get(id) ?? null;
}

/** Whether Node-RED may give an HTTP-in node's requests to another node, depending on which was deployed first. */
function isRival(other: HttpInNode, { method, url }: HttpInNode): boolean {
  if (other.method !== method) return false;
  const wanted = segmentsOf(url);
  const pattern = segmentsOf(other.url);
  const ends = pattern.findIndex((segment) => !isPlain(segment));
  if (ends < 0 && pattern.length !== wanted.length) return false;
  // If a pattern has more than names in place of segments, only the part before it counts.
  return (ends < 0 ? pattern : pattern.slice(0, ends)).every(
    (segment, at) => segment.startsWith(':') || segment === wanted[at],
  );
}

function segmentsOf(url: string): string[] {
  return url
    .toLowerCase()
    .replace(/^\/+|\/$/g, '')
    .split('/');
}

function isPlain(segment: string): boolean {
  return FIXED.test(segment) || /^:\w+$/.test(segment);
}

/** Returns the stage or batcher that gets the messages of the HTTP-in node, if no other node does. */
function entryBehind(
  graph: Graph,
  httpIn: HttpInNode,
  invalid: ReadonlyMap<string, string>,
): Result<StageNode | BatcherNode> {
  const targets = targetsOf(graph, httpIn);
  if (targets.some(isDebug)) return no('a debug node gets the whole message in front of the first stage');
  const [target, ...others] = targets;
  if (!target || others.length > 0) return no(`the HTTP-in node's ${describeAll(targets).replace(/^its /, '')}`);
  if (target.kind !== 'stage' && target.kind !== 'batcher')
    return no(`${describe(target)} stands before the first stage`);
  const broken = invalid.get(target.id);
  return broken === undefined ? yes(target) : no(`${named(target)} cannot be used: ${broken}`);
}

/** Returns the reason why requests cannot pass the route as bare payloads; null if there is none. */
function againstRoute(
  graph: Graph,
  { taps, unfused, end, sticky }: CompiledRoute,
  entry: StageNode | BatcherNode,
  stages: readonly StageNode[],
): string | null {
  const [first, last] = [stages[0] as StageNode, stages.at(-1) as StageNode];
  if (first.input !== 'payload') return `${named(first)} reads msg.${first.input}`;
  if (last.output !== 'payload') return `${named(last)} writes msg.${last.output}`;
  if (first.dropKey !== '') return `${named(first)} sorts its queue by msg.${first.dropKey}`;
  const reader = withVersions(
    graph,
    stages.map(({ id }) => id),
  ).find(({ readsAlso }) => readsAlso !== null);
  if (reader) return `${named(reader)} reads msg.${reader.readsAlso}`;
  if (sticky !== '' && headerOf(sticky) === null) return `its versions are chosen by msg.${sticky}, which is no header`;
  const watched = [entry, ...stages].find((node) => node.watched);
  if (watched) return `a Complete node watches ${named(watched)}`;
  for (const [id, targets] of taps) {
    const found = targets.flatMap((target) => graph.get(target) ?? []);
    const stage = stageWith(graph, id);
    if (stage) return `the output of ${named(stage)} also goes to ${found.map(describe).join(' and ')}`;
  }
  return unfused ? `the route ends behind ${named(last)}: ${end}` : null;
}

/** The way from the last stage of a route to its HTTP response. */
interface Exit {
  readonly collector: CollectorNode | null;
  readonly response: PartsExit;
  readonly copies: readonly string[];
  readonly parts: EndpointSpec['parts'];
}

function exitOf(graph: Graph, last: StageNode): Result<Exit> {
  const behindStage = onwards(graph, last, 0);
  if (!behindStage.ok) return behindStage;
  const { next, copies } = behindStage.value;
  if (next.kind === 'join') return no(`the branches behind ${named(last)} are gathered in Node-RED`);
  if (next.kind === 'http response') return yes({ collector: null, response: next, copies, parts: null });
  if (next.kind === 'stream') return streamed(next, null, copies, []);
  if (next.kind !== 'collector') return no(`${describe(next)} stands behind ${named(last)}`);
  const against = againstCollector(next);
  if (against !== null) return no(against);
  const behindCollector = onwards(graph, next, 0);
  if (!behindCollector.ok) return behindCollector;
  const { next: response, copies: later } = behindCollector.value;
  if (response.kind === 'stream') return streamed(response, next, [...copies, ...later], later);
  if (response.kind !== 'http response') return no(`${describe(response)} stands behind the result collector`);
  if (next.inParts && !streamingResponse(graph, last.id))
    return no(`results in parts need a body, and an answer with status ${response.statusCode} has none`);
  const parts = next.inParts ? { copies: later, stream: null } : null;
  return yes({ collector: next, response, copies: [...copies, ...later], parts });
}

function streamed(
  response: StreamNode,
  collector: CollectorNode | null,
  copies: readonly string[],
  later: readonly string[],
): Result<Exit> {
  const { invalid, stream } = response;
  if (invalid !== null) return no(`the stream response cannot be used: ${invalid}`);
  return yes({ collector, response, copies, parts: { copies: later, stream } });
}

function againstCollector({ invalid, watched, order }: CollectorNode): string | null {
  if (invalid !== null) return `the result collector cannot be used: ${invalid}`;
  if (watched) return 'a Complete node watches the result collector';
  return order === 'arrival' ? 'the result collector keeps the order of arrival' : null;
}

/** Returns the only node behind an output that is no debug node, and the debug nodes. */
function onwards(
  graph: Graph,
  node: StageNode | CollectorNode,
  output: number,
): Result<{ readonly next: GraphNode; readonly copies: readonly string[] }> {
  const targets = targetsOf(graph, node, output);
  const watched = targets.find((target) => target.watched && target.kind !== 'collector');
  if (watched) return no(`a Complete node watches ${describe(watched)} behind ${named(node)}`);
  const copies = targets.filter(isDebug).map(({ id }) => id);
  const [next, ...others] = targets.filter((target) => !isDebug(target));
  if (!next) return no(`no HTTP response node is wired behind ${named(node)}`);
  if (others.length > 0)
    return no(`the output of ${named(node)} goes to ${[next, ...others].map(describe).join(' and ')}`);
  return yes({ next, copies });
}

/** Returns the answer for errors; null if only the client itself gets them. */
function failureOf(
  graph: Graph,
  stages: readonly StageNode[],
  collector: CollectorNode | null,
): Result<AnswerSpec | null> {
  for (const stage of stages) {
    const handler = findHandler(graph, stage.id);
    if (handler.kind === 'collector' && handler.id === collector?.id) continue;
    if (handler.kind === 'collector') return no(`another result collector handles the errors of ${named(stage)}`);
    if (stage.caught) return no(`a Catch node handles the errors of ${named(stage)}`);
  }
  if (!collector || findHandler(graph, (stages[0] as StageNode).id).kind !== 'collector') return yes(null);
  const other = stages.find(({ input }) => input !== 'payload');
  if (collector.errorPayload === 'keep' && other) {
    return no(`the result collector keeps payloads of failed requests, and ${named(other)} reads msg.${other.input}`);
  }
  const behind = onwards(graph, collector, 1);
  if (!behind.ok) return no(`errors: ${behind.reason}`);
  const { next, copies } = behind.value;
  if (!writesParts(next)) return no(`${describe(next)} gets the errors`);
  return copies.length > 0 ? no('a debug node gets the errors') : yes(answerOf(next));
}

/** A stream response writes what the error says, whatever the payload is. */
function errorPayloadOf(graph: Graph, collector: CollectorNode | null): EndpointSpec['errorPayload'] {
  const streams = collector && targetsOf(graph, collector, 1).some(({ kind }) => kind === 'stream');
  return collector && !streams ? collector.errorPayload : 'body';
}

function answerOf(response: PartsExit): AnswerSpec {
  if (response.kind === 'stream') return { statusCode: null, headers: {} };
  const { statusCode, headers } = response;
  return { statusCode, headers };
}

/** Returns the path of an HTTP-in node. @param root path below which HTTP-in nodes listen */
export function pathOf({ url }: Pick<HttpInNode, 'url'>, root: string): string {
  return `${root === '/' ? '' : root}${url.startsWith('/') ? '' : '/'}${url}`;
}

/** Returns the endpoint as a model, whose name is the path; null if it is none. */
function modelOf(
  { method, url }: HttpInNode,
  { root, v2Paths }: EndpointFacts,
  runtime: string,
): EndpointSpec['model'] {
  const below = v2Paths.get(runtime);
  const name = url.replace(/^\/+|\/+$/g, '');
  if (below === undefined || method !== 'post' || name === '') return null;
  return { base: pathOf({ url: `${below === '/' ? '' : below}/v2` }, root), name };
}

/** A header of the request, as a property of a message. */
const HEADER = /^req\.headers(?:\.([\w-]+)|\[(["'])([\w-]+)\2\])$/;

/** Returns the header that a property of a message stands for, in lower case; null if it is none. */
function headerOf(property: string): string | null {
  const found = HEADER.exec(property);
  return (found?.[1] ?? found?.[3])?.toLowerCase() ?? null;
}

function isEntry(node: GraphNode | undefined): boolean {
  return isRouted(node) || node?.kind === 'gate';
}

function isRouted(node: GraphNode | undefined): boolean {
  return node?.kind === 'stage' || node?.kind === 'batcher';
}

function isDebug({ type }: GraphNode): boolean {
  return type === 'debug';
}

function stageWith(graph: Graph, id: string): StageNode | undefined {
  const node = graph.get(id);
  return node?.kind === 'stage' ? node : undefined;
}

function named(node: StageNode | BatcherNode | CollectorNode): string {
  if (node.kind === 'stage') return `stage ${node.name}`;
  return node.kind === 'batcher' ? 'the batcher' : 'the result collector';
}

function yes<T>(value: T): Result<T> {
  return { ok: true, value };
}

function no(reason: string): No {
  return { ok: false, reason };
}

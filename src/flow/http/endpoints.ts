/**
 * Compiles HTTP-in nodes, the routes behind them and the HTTP responses at their ends to endpoints, whose requests never
 * become messages. Any HTTP-in node that leads to a pipeline and cannot be compiled gets the first reason why. Pure.
 */
import type { AnswerSpec, EndpointSpec } from '../../core/endpoints.ts';
import { firstStages, type Leg } from '../../core/routes/route.ts';
import type { EntryReads } from '../entry-reads.ts';
import {
  type BatcherNode,
  type Graph,
  type GraphNode,
  type HttpInNode,
  isStep,
  type JoinNode,
  nodesOf,
  type StageNode,
  stageAt,
} from '../graph.ts';
import { describe, describeAll } from '../names.ts';
import type { CompiledRoute } from '../routes.ts';
import { wholeUse, withVersions } from '../versions.ts';
import { targetsOf } from '../walk.ts';
import { answerOf, exitOf, failureOf, isDebug, named } from './exits.ts';
import { entriesFrom } from './http-ways.ts';

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
  /** Reasons why no route begins at HTTP-in nodes that fan out, by the node. */
  readonly apart: ReadonlyMap<string, string>;
  /** Reasons why nodes cannot be used. */
  readonly invalid: ReadonlyMap<string, string>;
  /** Reason why no HTTP-in node may be compiled, or null. */
  readonly barred: string | null;
  /** Reasons why the HTTP server must see the requests of HTTP-in nodes itself. */
  readonly taken: ReadonlyMap<string, string>;
  /** Paths below which runtimes serve their endpoints by the KServe v2 protocol, without `root`. Others are absent. */
  readonly v2Paths: ReadonlyMap<string, string>;
  /** Returns why HTTP cannot carry an answer; null if it can. */
  readonly flawOf: (answer: AnswerSpec) => string | null;
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
    if (typeof compiled !== 'string') {
      endpoints.push(compiled);
      continue;
    }
    const entries = entriesFrom(graph, id, (node) => isStep(graph.get(node)));
    uncompiled.push({ id, method, path: pathOf(httpIn, facts.root), entries, reason: compiled });
  }
  return { endpoints, uncompiled };
}

/** Returns the endpoint, or the reason why requests go through the flow. */
function compileEndpoint(graph: Graph, httpIn: HttpInNode, facts: EndpointFacts): EndpointSpec | string {
  const against = againstRequests(graph, httpIn, facts);
  if (against !== null) return against;
  const found = routeBehind(graph, httpIn, facts);
  if (typeof found === 'string') return found;
  const { route, entry } = found;
  const firsts = firstStages(route.leg).flatMap((id) => stageAt(graph, id) ?? []);
  const last = graph.get(route.exit);
  const [first] = firsts;
  if (!first || (last?.kind !== 'stage' && last?.kind !== 'join')) return 'its route has no stage';
  const inRoute = againstRoute(graph, route, entry, firsts, last);
  if (inRoute !== null) return inRoute;
  const exit = exitOf(graph, last);
  if (typeof exit === 'string') return exit;
  const failure = failureOf(graph, route, exit.collector);
  if (typeof failure === 'string') return failure;
  const answers = [answerOf(exit.response), ...(failure.answer ? [failure.answer] : [])];
  const flaw = answers.map(facts.flawOf).find((one) => one !== null);
  if (flaw) return `the HTTP response node cannot answer: ${flaw}`;
  return {
    id: httpIn.id,
    method: httpIn.method as EndpointSpec['method'],
    path: pathOf(httpIn, facts.root),
    model: modelOf(httpIn, facts, route.runtime),
    runtime: route.runtime,
    entry: route.entry,
    describedBy: { first: firsts.length === 1 ? first.id : null, last: lastStageOf(route.leg) },
    mediaTypes: first.mediaTypes,
    maxRows: Math.min(...firsts.map(({ maxRows }) => maxRows)),
    patient: first.patient,
    answer: answerOf(exit.response),
    failure: failure.answer,
    errorPayload: failure.errorPayload,
    copies: exit.copies,
    parts: exit.parts,
    sticky: headerOf(route.sticky),
    key: headerOf(route.keyBy),
    cost: headerOf(route.costBy),
  };
}

/** Returns the stage that makes every result of a leg; null if there are several, or a node that gathers them. */
function lastStageOf({ stages, next }: Leg<string>): string | null {
  if (!next) return stages.at(-1) ?? null;
  if (next.kind === 'fork') return lastStageOf(next.after);
  const [last = null, ...others] = new Set(next.ways.map(lastStageOf));
  return others.length === 0 ? last : null;
}

/** Returns the reason why the HTTP-in node's requests cannot be taken in front of it, or null. */
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

interface FoundEndpoint {
  readonly route: CompiledRoute;
  /** The node at which the route begins. */
  readonly entry: StageNode | BatcherNode | HttpInNode;
}

/** Returns the route that gets the requests of the HTTP-in node; the reason if none does, or if another node gets them too. */
function routeBehind(
  graph: Graph,
  httpIn: HttpInNode,
  { routes, apart, invalid }: EndpointFacts,
): FoundEndpoint | string {
  const forked = routes.get(httpIn.id);
  if (forked) return { route: forked, entry: httpIn };
  const targets = targetsOf(graph, httpIn);
  if (targets.some(isDebug)) return 'a debug node gets the whole message in front of the first stage';
  const reason = apart.get(httpIn.id);
  if (reason !== undefined) return `the HTTP-in node's ${reason.replace(/^its /, '')}`;
  const [target, ...others] = targets;
  if (!target || others.length > 0) return `the HTTP-in node's ${describeAll(targets).replace(/^its /, '')}`;
  if (!isStep(target)) return `${describe(target)} stands before the first stage`;
  const broken = invalid.get(target.id);
  if (broken !== undefined) return `${named(target)} cannot be used: ${broken}`;
  const route = routes.get(target.id);
  return route ? { route, entry: target } : `${named(target)} cannot be used: it belongs to no route`;
}

/** Returns the reason why requests cannot pass the route as bare payloads, or null. */
function againstRoute(
  graph: Graph,
  route: CompiledRoute,
  entry: FoundEndpoint['entry'],
  firsts: readonly StageNode[],
  last: StageNode | JoinNode,
): string | null {
  const { taps, unfused, end, dropKey, stages } = route;
  const entrance = againstEntrance(firsts);
  if (entrance !== null) return entrance;
  if (last.kind === 'stage' && last.output !== 'payload') return `${named(last)} writes msg.${last.output}`;
  const use = stages.map((id) => wholeUse(graph, id)).find((one) => one !== null);
  if (use) return `${use}, and only Node-RED has whole messages`;
  const reader = withVersions(graph, stages).find(({ readsAlso }) => readsAlso !== null);
  if (reader) return `${named(reader)} reads msg.${reader.readsAlso}`;
  const unknown = noHeader(route);
  if (unknown !== null) return unknown;
  if (dropKey !== '') return `a queue of its route is sorted by msg.${dropKey}`;
  const watched = [entry, ...stages.flatMap((id) => stageAt(graph, id) ?? [])].find((node) => node.watched);
  if (watched) return `a Complete node watches ${named(watched)}`;
  for (const [id, targets] of taps) {
    const found = targets.flatMap((target) => graph.get(target) ?? []);
    const node = graph.get(id);
    if (node?.kind === 'stage' || node?.kind === 'join')
      return `the output of ${named(node)} also goes to ${found.map(describe).join(' and ')}`;
  }
  return unfused ? `the route ends behind ${named(last)}: ${end}` : null;
}

/** Returns why only a message has the values that are read at the entry; null if headers do. */
function noHeader({ sticky, keyBy, costBy }: EntryReads): string | null {
  const isMissing = (property: string): boolean => property !== '' && headerOf(property) === null;
  if (isMissing(sticky)) return `its versions are chosen by msg.${sticky}, which is no header`;
  if (isMissing(keyBy)) return `its keys are msg.${keyBy}, which is no header`;
  return isMissing(costBy) ? `its costs are msg.${costBy}, which is no header` : null;
}

/** Returns why requests cannot enter at these stages without a message; null if they can. */
function againstEntrance(firsts: readonly StageNode[]): string | null {
  for (const stage of firsts) {
    if (stage.input !== 'payload') return `${named(stage)} reads msg.${stage.input}`;
    if (stage.dropKey !== '') return `${named(stage)} sorts its queue by msg.${stage.dropKey}`;
    if (firsts.length > 1 && stage.patient) return `${named(stage)} lets requests wait in front of a full queue`;
    const [first = stage] = firsts;
    if (stage.mediaTypes.join() !== first.mediaTypes.join())
      return `${named(first)} and ${named(stage)} take different media types`;
  }
  return null;
}

/** Returns the path of an HTTP-in node. @param root path below which HTTP-in nodes listen */
export function pathOf({ url }: Pick<HttpInNode, 'url'>, root: string): string {
  return `${root === '/' ? '' : root}${url.startsWith('/') ? '' : '/'}${url}`;
}

/** Returns the endpoint as a model, whose name is the path; null if it is not one. */
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

/** Returns the header that a property of a message stands for, in lower case; null for other properties. */
function headerOf(property: string): string | null {
  const found = HEADER.exec(property);
  return (found?.[1] ?? found?.[3])?.toLowerCase() ?? null;
}

function isEntry(node: GraphNode | undefined): boolean {
  return isStep(node) || node?.kind === 'gate';
}

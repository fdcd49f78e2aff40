/**
 * Says which nodes of the flows do not run without Node-RED. A node is refused if something in the flows sends it
 * messages by itself. Nodes that only a person or another node's error sets going, such as an inject button, are left out.
 */
import { type Graph, type GraphNode, nodesOf } from '../flow/graph.ts';
import { describe } from '../flow/names.ts';
import type { FileNode } from '../flow/read/expand.ts';
import type { RunningNode } from '../flow/read/running-nodes.ts';
import { walk } from '../flow/walk.ts';
import type { HeadlessFlows } from './compile-flows.ts';

/** A node that does not run. */
export interface Unserved {
  /** Name of the node, or its type and id. */
  readonly node: string;
  readonly reason: string;
}

export interface Judgement {
  readonly refused: readonly Unserved[];
  /** Nodes that nothing in the flows sends messages to. */
  readonly leftOut: readonly Unserved[];
}

/** Types whose nodes do nothing by themselves, or only tell people what happens. */
const PASSIVE: ReadonlySet<string> = new Set([
  ...['comment', 'debug', 'catch', 'status', 'complete', 'junction', 'link in', 'link out', 'http response'],
  ...['modelet-stage', 'modelet-batcher', 'modelet-collector', 'modelet-join', 'modelet-stream', 'modelet-metrics'],
  'modelet-view',
]);
/** Types that are not worth a line: they go with the nodes that they join. */
const SILENT: ReadonlySet<string> = new Set(['comment', 'junction', 'link in', 'link out', 'http response']);

export function judge({ flows, graph, plan, compiled }: HeadlessFlows): Judgement {
  // Their ways end at an HTTP response, and lead nowhere else.
  const served = reachedFrom(graph, compiled.endpoints);
  const why = new Map(compiled.uncompiled.map(({ id, reason }) => [id, reason]));
  const drawn = flows.running.filter(({ node }) => isDrawn(node, graph));
  const busy = busyNodes(graph, drawn, served);
  const refused: Unserved[] = [];
  const leftOut: Unserved[] = [];
  for (const { node } of drawn) {
    const isServed = served.has(node.id) && node.type !== 'debug';
    if (isServed || SILENT.has(node.type) || node.type.startsWith('subflow:')) continue;
    const at = graph.get(node.id) as GraphNode;
    const reason = plan.invalid.get(node.id) ?? why.get(node.id) ?? reasonFor(at, node);
    const isRefused = plan.invalid.has(node.id) || busy.has(node.id) || isOwn(at);
    (isRefused && node.type !== 'debug' ? refused : leftOut).push({ node: labelOf(node, at), reason });
  }
  return { refused, leftOut };
}

/**
 * Returns the ids of the nodes that invalid settings keep from serving, among those behind HTTP-in nodes.
 * @param chosen ids of the runtimes that are meant to serve, because stages of others do not matter; null: all
 */
export function brokenBehindEndpoints(
  { flows, graph, plan }: HeadlessFlows,
  chosen: Pick<ReadonlySet<string>, 'has'> | null,
): string[] {
  const behind = reachedFrom(graph, nodesOf(graph, 'http in'));
  const runtimes = new Map(flows.running.map(({ node }) => [node.id, node['runtime']]));
  const isMeant = (runtime: unknown): boolean => !chosen || typeof runtime !== 'string' || chosen.has(runtime);
  return [...plan.invalid.keys()].filter((id) => behind.has(id) && isMeant(runtimes.get(id)));
}

/** Returns these nodes, and all behind them. */
function reachedFrom(graph: Graph, nodes: readonly { readonly id: string }[]): Set<string> {
  const ids = nodes.map(({ id }) => id);
  return new Set(walk(ids, (id) => onwards(graph, id)));
}

function onwards(graph: Graph, id: string): readonly string[] {
  const node = graph.get(id);
  const versions = node?.kind === 'stage' ? node.versions.map(({ stage }) => stage) : [];
  return node ? [...node.wires.flat(), ...versions, ...(node.kind === 'link call' ? node.calls : [])] : [];
}

/** Returns the nodes that get messages without a person: those that begin them, and all behind these. */
function busyNodes(graph: Graph, drawn: readonly RunningNode<FileNode>[], served: ReadonlySet<string>): Set<string> {
  const reached = new Set(drawn.flatMap(({ node }) => onwards(graph, node.id)));
  const first = drawn.filter(({ node }) => !served.has(node.id) && !reached.has(node.id) && begins(node));
  return reachedFrom(
    graph,
    first.map(({ node }) => node),
  );
}

function begins(node: FileNode): boolean {
  if (node.type !== 'inject') return !PASSIVE.has(node.type) && !node.type.startsWith('subflow:');
  const { repeat, crontab, once } = node;
  return Boolean(repeat) || Boolean(crontab) || once === true;
}

/** Whether a node belongs to the pipeline or takes requests, so that a user expects it to run. */
function isOwn({ kind, type }: GraphNode): boolean {
  return kind === 'http in' || (type.startsWith('modelet-') && type !== 'modelet-metrics' && type !== 'modelet-view');
}

/** Whether a node stands in the workspace. Configuration nodes have no wires. */
function isDrawn({ id, wires, z, x }: FileNode, graph: Graph): boolean {
  return graph.has(id) && z !== undefined && z !== '' && (x !== undefined || (wires ?? []).length > 0);
}

function reasonFor(at: GraphNode, node: FileNode): string {
  switch (node.type) {
    case 'http in':
      return 'it leads to no modelet stage';
    case 'modelet-gate':
      return 'a dispatch gate does not run without Node-RED in this version';
    case 'modelet-feed':
      return 'a paced split does not run without Node-RED';
    case 'modelet-metrics':
      return 'the listener serves its figures at /metrics';
    case 'modelet-view':
      return 'a picture preview shows pictures in the editor only';
    case 'modelet-stage':
    case 'modelet-batcher':
    case 'modelet-collector':
    case 'modelet-join':
    case 'modelet-stream':
      return 'no endpoint that is served leads to it';
    default:
      return `${describe(at)} runs in Node-RED only`;
  }
}

function labelOf({ id, type, name, method, url }: FileNode, at: GraphNode): string {
  if (at.kind === 'http in') return `${String(method).toUpperCase()} ${String(url)}`;
  return name ? `${type} "${name}"` : `${type} ${id}`;
}

/** Finds the HTTP-in nodes of pipelines whose clients get no answer, or whose requests, or rows of them, go elsewhere. */
import { type Graph, type GraphNode, nodesOf } from '../../flow/graph.ts';
import type { Uncompiled } from '../../flow/http/endpoints.ts';
import type { NodeWarning } from '../../flow/names.ts';
import { targetsOf } from '../../flow/walk.ts';
import { type WaysOut, waysOut } from '../../flow/ways-out.ts';
import { addressTwice, noAnswer } from '../../observe/views/findings.ts';

/** Types of nodes that answer no client. Any other node may, as a function node can. */
const SILENT: ReadonlySet<string> = new Set([
  ...['debug', 'change', 'delay', 'json', 'switch', 'template', 'split', 'join', 'range', 'rbe', 'trigger'],
  ...['catch', 'complete', 'status', 'junction', 'link in', 'link out', 'link call', 'http in'],
]);

/** The ways of the last graph: a deploy makes another. */
let known: { readonly graph: Graph; readonly ways: WaysOut } | null = null;

/** Whether no result can reach an HTTP response node, and no other node behind may answer the client. */
export function isDeadEnd(graph: Graph, id: string): boolean {
  if (known?.graph !== graph) known = { graph, ways: waysOut(graph) };
  if (known.ways.canAnswer(id)) return false;
  return [...known.ways.reachedFrom(id)].every((reached) => {
    const node = graph.get(reached);
    if (!node || SILENT.has(node.type)) return true;
    return node.type.startsWith('modelet-') && !(node.kind === 'gate' && node.durable);
  });
}

/** Whether an HTTP-in node before it has the same method and URL. */
export function isSecond(graph: Graph, id: string): boolean {
  const all = nodesOf(graph, 'http in');
  const own = all.find((node) => node.id === id);
  return own !== undefined && all.find(({ method, url }) => method === own.method && url === own.url) !== own;
}

/** @returns a warning for each of these endpoints that does not work, at its HTTP-in node */
export function endpointWarnings(
  graph: Graph,
  endpoints: readonly { readonly id: string; readonly method: string; readonly path: string }[],
): NodeWarning[] {
  return endpoints.flatMap(({ id, method, path }) => {
    const address = `${method.toUpperCase()} ${path}`;
    const isDead = isDeadEnd(graph, id) ? [{ id, text: noAnswer(address) }] : [];
    return isSecond(graph, id) ? [...isDead, { id, text: addressTwice(address) }] : isDead;
  });
}

/** @returns a warning for each stage that takes rows of an endpoint which is not compiled */
export function rowWarnings(graph: Graph, uncompiled: readonly Uncompiled[]): NodeWarning[] {
  return uncompiled.flatMap(({ method, path, entries, reason }) => {
    const first = entries.flatMap((id): readonly GraphNode[] => {
      const node = graph.get(id);
      return node?.kind === 'batcher' ? targetsOf(graph, node) : node ? [node] : [];
    });
    const text = `${method.toUpperCase()} ${path} refuses rows: only a compiled endpoint takes them, and ${reason}`;
    return first.flatMap((node) => (node.kind === 'stage' && node.maxRows > 0 ? [{ id: node.id, text }] : []));
  });
}

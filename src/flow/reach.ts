/** Finds nodes downstream of a node. Pure. */
import { type Graph, type GraphNode, nextHops, targetsOf } from './graph.ts';

/** Yields the nodes behind the first output of a node, hop by hop, each once, in wire order. Omits the node itself. */
export function* hopsBehind(graph: Graph, from: string): Generator<readonly string[], void> {
  const start = graph.get(from);
  const seen = new Set([from]);
  let frontier = start ? targetsOf(graph, start).map(({ id }) => id) : [];
  while (frontier.length > 0) {
    const fresh = [...new Set(frontier)].filter((id) => !seen.has(id));
    for (const id of fresh) seen.add(id);
    yield fresh;
    frontier = fresh.flatMap((id) => nextHops(graph, id));
  }
}

/** Returns the nodes of a kind that are the fewest hops downstream; an empty array if there are none. */
export function nearest(graph: Graph, from: string, kind: GraphNode['kind']): string[] {
  for (const hop of hopsBehind(graph, from)) {
    const found = hop.filter((id) => graph.get(id)?.kind === kind);
    if (found.length > 0) return found;
  }
  return [];
}

/** Lists the HTTP-in nodes that lead to pipelines, for people: which are compiled, why others are not, and which get no answer. */
import { type Graph, nodesOf } from '../../flow/graph.ts';
import { type WaysOut, waysOut } from '../../flow/ways-out.ts';
import type { EndpointView } from '../../observe/views/view.ts';
import type { Pipeline } from '../pipeline.ts';

/** Types of nodes that answer no client. Any other node may, as a function node can. */
const SILENT: ReadonlySet<string> = new Set([
  ...['debug', 'change', 'delay', 'json', 'switch', 'template', 'split', 'join', 'range', 'rbe', 'trigger'],
  ...['catch', 'complete', 'status', 'junction', 'link in', 'link out', 'link call', 'http in'],
]);

/** The ways of the last graph: a deploy makes another. */
let known: { readonly graph: Graph; readonly ways: WaysOut } | null = null;

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

/** Whether no result can reach an HTTP response node, and no other node behind may answer the client. */
function isDeadEnd(graph: Graph, id: string): boolean {
  if (known?.graph !== graph) known = { graph, ways: waysOut(graph) };
  if (known.ways.canAnswer(id)) return false;
  return [...known.ways.reachedFrom(id)].every((reached) => {
    const node = graph.get(reached);
    if (!node || SILENT.has(node.type)) return true;
    return node.type.startsWith('modelet-') && !(node.kind === 'gate' && node.durable);
  });
}

function isSecond(graph: Graph, id: string): boolean {
  const all = nodesOf(graph, 'http in');
  const own = all.find((node) => node.id === id);
  return own !== undefined && all.find(({ method, url }) => method === own.method && url === own.url) !== own;
}

/** Who gets a stage's errors: exactly one handler, fixed at deploy. Pure. */
import { type Graph, targetsOf } from './graph.ts';

export type ErrorHandler =
  | { readonly kind: 'collector'; readonly id: string }
  /** Node-RED's Catch nodes; `tie` names collectors that were equally near. */
  | { readonly kind: 'catch'; readonly tie: readonly string[] };

/** The wired catch output of the nearest collector downstream; a tie and none go to Catch nodes. */
export function findHandler(graph: Graph, stage: string): ErrorHandler {
  const seen = new Set([stage]);
  let frontier = [stage];
  while (frontier.length > 0) {
    const next: string[] = [];
    for (const id of frontier) {
      for (const target of downstream(graph, id)) {
        if (seen.has(target)) continue;
        seen.add(target);
        next.push(target);
      }
    }
    const catching = next.filter((id) => isCatching(graph, id));
    if (catching.length === 1) return { kind: 'collector', id: catching[0] as string };
    if (catching.length > 1) return { kind: 'catch', tie: catching };
    frontier = next;
  }
  return { kind: 'catch', tie: [] };
}

/** One hop further, whatever the wires run through. */
function downstream(graph: Graph, id: string): string[] {
  const node = graph.get(id);
  return node ? node.wires.flatMap((_, output) => targetsOf(graph, node, output).map((target) => target.id)) : [];
}

function isCatching(graph: Graph, id: string): boolean {
  const node = graph.get(id);
  return node?.kind === 'collector' && node.catches && (node.wires[1]?.length ?? 0) > 0;
}

/** Finds the handler for the errors of a stage or gate: exactly one, fixed at deploy. Pure. */
import type { Graph } from './graph.ts';
import { hopsBehind } from './reach.ts';

export type ErrorHandler =
  /** The node's own catch output. */
  | { readonly kind: 'output' }
  | { readonly kind: 'collector'; readonly id: string }
  /** Node-RED's Catch nodes; `tie` lists collectors at equal distance. */
  | { readonly kind: 'catch'; readonly tie: readonly string[] };

/**
 * Returns a gate's own catch output if it is wired; else the nearest collector downstream with a wired catch output. If
 * there is none, or a tie, returns Catch nodes.
 */
export function findHandler(graph: Graph, failing: string): ErrorHandler {
  const node = graph.get(failing);
  if (node?.kind === 'gate' && (node.wires[1]?.length ?? 0) > 0) return { kind: 'output' };
  for (const hop of hopsBehind(graph, failing)) {
    const catching = hop.filter((id) => isCatching(graph, id));
    if (catching.length === 1) return { kind: 'collector', id: catching[0] as string };
    if (catching.length > 1) return { kind: 'catch', tie: catching };
  }
  return { kind: 'catch', tie: [] };
}

function isCatching(graph: Graph, id: string): boolean {
  const node = graph.get(id);
  return node?.kind === 'collector' && node.catches && (node.wires[1]?.length ?? 0) > 0;
}

/** Follows the wires of a graph: which nodes a message reaches, and which of them handles an error. Pure. */
import { type Graph, type GraphNode, isPipelineNode, type JoinNode, type TransparentNode } from './graph.ts';

/** Any node that a message stops at. */
export type Target = Exclude<GraphNode, TransparentNode>;

/**
 * Yields every step that can be reached, nearest first, each once.
 * @param next returns the steps that follow a step
 * @param keyOf steps with the same key are one step
 */
export function* walk<Step>(
  first: Iterable<Step>,
  next: (step: Step) => Iterable<Step>,
  keyOf: (step: Step) => unknown = (step) => step,
): Generator<Step, void> {
  const seen = new Set<unknown>();
  let frontier = [...first];
  while (frontier.length > 0) {
    const reached: Step[] = [];
    for (const step of frontier) {
      const key = keyOf(step);
      if (seen.has(key)) continue;
      seen.add(key);
      yield step;
      reached.push(...next(step));
    }
    frontier = reached;
  }
}

/**
 * Returns the nodes that get a message sent on `output`, once for each path to them. Follows wires through transparent
 * nodes. A circle of transparent nodes leads nowhere. (`walk` would report a node with two paths only once.)
 */
export function targetsOf(graph: Graph, node: GraphNode, output = 0): Target[] {
  const behind = (wires: readonly string[], passed: readonly string[]): Target[] =>
    wires.flatMap((id) => {
      const target = graph.get(id);
      if (!target || passed.includes(id)) return [];
      return target.kind === 'transparent' ? behind(target.wires.flat(), [...passed, id]) : [target];
    });
  return behind(node.wires[output] ?? [], []);
}

/** Returns the nodes whose messages reach another node. */
export function sendersTo(graph: Graph, to: Target): GraphNode[] {
  return [...graph.values()].filter(
    (node) =>
      node.kind !== 'transparent' && node.wires.some((_, output) => targetsOf(graph, node, output).includes(to)),
  );
}

/** Returns the nodes one hop downstream, from all outputs and through transparent nodes. */
function nextHops(graph: Graph, node: GraphNode): Target[] {
  return node.wires.flatMap((_, output) => targetsOf(graph, node, output));
}

/**
 * Returns the wanted nodes that are the fewest hops behind the first output of a node; an empty array if there are
 * none. The node itself does not count.
 */
function nearestWhere(graph: Graph, from: string, isWanted: (node: Target) => boolean): string[] {
  const start = graph.get(from);
  const first = (start ? targetsOf(graph, start) : []).map((node) => ({ node, hops: 1 }));
  const steps = walk(
    first,
    ({ node, hops }) =>
      node.id === from ? [] : nextHops(graph, node).map((after) => ({ node: after, hops: hops + 1 })),
    ({ node }) => node.id,
  );
  const found: { readonly id: string; readonly hops: number }[] = [];
  for (const { node, hops } of steps) {
    if (found[0] && hops > found[0].hops) break;
    if (node.id !== from && isWanted(node)) found.push({ id: node.id, hops });
  }
  return found.map(({ id }) => id);
}

/** Returns the nodes of a kind that are the fewest hops downstream; an empty array if there is no such node. */
export function nearest(graph: Graph, from: string, kind: GraphNode['kind']): string[] {
  return nearestWhere(graph, from, (node) => node.kind === kind);
}

/** The handler for the errors of a stage, a gate or a node that gathers branches: exactly one, fixed at deploy. */
export type ErrorHandler =
  /** The node's own catch output. */
  | { readonly kind: 'output' }
  | { readonly kind: 'collector'; readonly id: string }
  /** The node that gathers the branch: the error is the outcome of the branch. */
  | { readonly kind: 'join'; readonly id: string }
  /** Node-RED's Catch nodes; `tie` lists collectors at equal distance. */
  | { readonly kind: 'catch'; readonly tie: readonly string[] };

/**
 * Returns the own catch output of a gate or a node that gathers branches, if it is wired; else the nearest node
 * downstream that gathers its branches or is a collector with a wired catch output. Without such a node, or with a tie,
 * returns Catch nodes.
 */
export function findHandler(graph: Graph, failing: string): ErrorHandler {
  const node = graph.get(failing);
  if ((node?.kind === 'gate' || node?.kind === 'join') && hasCatchOutput(node)) return { kind: 'output' };
  const [id, ...others] = nearestWhere(
    graph,
    failing,
    (at) => (at.kind === 'collector' && at.catches && hasCatchOutput(at)) || gathersFor(graph, failing, at),
  );
  if (id === undefined) return { kind: 'catch', tie: [] };
  if (others.length > 0) return { kind: 'catch', tie: [id, ...others] };
  return { kind: graph.get(id)?.kind === 'join' ? 'join' : 'collector', id };
}

function isUsableJoin(node: Target): node is JoinNode {
  return node.kind === 'join' && node.invalid === null;
}

/**
 * Whether a node can gather what comes of a failing one. It cannot if it stands in one of several branches: then the node
 * that gathers these branches stands around it, and can be reached past it.
 */
function gathersFor(graph: Graph, failing: string, node: Target): boolean {
  if (!isUsableJoin(node)) return false;
  const start = graph.get(failing);
  const around = joinsBehind(graph, nextHops(graph, node)).filter((at) => at !== node);
  const past = around.length === 0 || !start ? [] : joinsBehind(graph, targetsOf(graph, start), node);
  return !around.some((at) => past.includes(at) && !joinsBehind(graph, nextHops(graph, at)).includes(node));
}

/** Returns the usable nodes that gather branches on the ways from some nodes. @param end where ways end */
function joinsBehind(graph: Graph, from: readonly Target[], end?: Target): JoinNode[] {
  return [...walk(from, (at) => (at === end ? [] : nextHops(graph, at)))].filter(isUsableJoin);
}

/** Returns the stages and gathering nodes that are the last of each branch in front of a node that gathers branches. */
export function branchesOf(graph: Graph, join: string): string[] {
  const isEnd = (node: Target): boolean => node.kind === 'stage' || node.kind === 'join';
  return [...graph.values()].flatMap((node) => {
    if (node.kind !== 'stage' && node.kind !== 'join') return [];
    const steps = walk(targetsOf(graph, node), (at) => (isEnd(at) ? [] : resultTargets(graph, at)));
    for (const { id } of steps) if (id === join) return [node.id];
    return [];
  });
}

/** The second output of a pipeline node is for errors. */
function resultTargets(graph: Graph, node: Target): Target[] {
  return isPipelineNode(node) ? targetsOf(graph, node) : nextHops(graph, node);
}

/** Returns the branches that a node leads to: those that have no outcome if it fails. */
export function branchesBehind(graph: Graph, failing: string, branches: readonly string[]): string[] {
  if (branches.includes(failing)) return [failing];
  const start = graph.get(failing);
  const first = start ? targetsOf(graph, start) : [];
  const steps = walk(first, (at) => (branches.includes(at.id) ? [] : nextHops(graph, at)));
  return [...steps].map(({ id }) => id).filter((id) => branches.includes(id));
}

function hasCatchOutput({ wires }: GraphNode): boolean {
  return (wires[1]?.length ?? 0) > 0;
}

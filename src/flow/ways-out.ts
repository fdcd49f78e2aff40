/** Finds out where messages can go in the running flows: to an HTTP response, to a pipeline, or to neither. Pure. */
import { type Graph, type GraphNode, isPipelineNode, nodesOf } from './graph.ts';
import { walk } from './walk.ts';

export interface WaysOut {
  /** Whether results reach an HTTP response from a node. Paths of errors do not count. */
  canAnswer(id: string): boolean;
  /** Whether an HTTP response or a pipeline node is reachable: a message that ends here is a loss. */
  leadsOn(id: string): boolean;
  /** Returns all nodes that a message can reach from a node, itself included, also through Catch nodes. */
  reachedFrom(id: string): ReadonlySet<string>;
}

type Wires = ReadonlyMap<string, readonly string[]>;

export function waysOut(graph: Graph): WaysOut {
  const behindCalls = nodesOf(graph, 'link call').flatMap(({ wires }) => wires.flat());
  const catches = catchNodes(graph);
  const results: Map<string, readonly string[]> = new Map();
  const all: Map<string, readonly string[]> = new Map();
  for (const node of graph.values()) {
    const { id, wires } = node;
    const linked = linksOf(node, behindCalls);
    // The second output of a pipeline node is for errors.
    results.set(id, [...(isPipelineNode(node) ? (wires[0] ?? []) : wires.flat()), ...linked]);
    all.set(id, [...wires.flat(), ...linked, ...(catches.get(node.flow) ?? [])]);
  }
  const backwards = turned(results);
  const responses = [...nodesOf(graph, 'http response'), ...nodesOf(graph, 'stream')].map(({ id }) => id);
  const answering = reach(responses, backwards);
  const pipeline = [...graph.values()].filter(isPipelineNode).map(({ id }) => id);
  const leading = reach([...responses, ...pipeline], backwards);
  const reached = new Map<string, ReadonlySet<string>>();
  return {
    canAnswer: (id) => answering.has(id),
    leadsOn: (id) => leading.has(id),
    reachedFrom: (id) => {
      const known = reached.get(id) ?? reach([id], all);
      reached.set(id, known);
      return known;
    },
  };
}

/** Returns the targets of a link call; for a link return, the nodes wired to any link call. */
function linksOf(node: GraphNode, behindCalls: readonly string[]): readonly string[] {
  if (node.kind === 'link call') return node.calls;
  return node.kind === 'link return' ? behindCalls : [];
}

/** Returns the ids of the Catch nodes, by flow. */
function catchNodes(graph: Graph): Map<string, string[]> {
  const catches = new Map<string, string[]>();
  for (const { id, type, flow } of graph.values()) if (type === 'catch' && flow !== '') add(catches, flow, id);
  return catches;
}

function add(lists: Map<string, string[]>, key: string, value: string): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

function turned(wires: Wires): Wires {
  const backwards = new Map<string, string[]>();
  for (const [from, targets] of wires) for (const to of targets) add(backwards, to, from);
  return backwards;
}

function reach(from: readonly string[], wires: Wires): Set<string> {
  return new Set(walk(from, (id) => wires.get(id) ?? []));
}

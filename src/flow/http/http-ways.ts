/** Traces HTTP requests through the flows: from an HTTP-in node to stages, and from a stage to responses. Pure. */
import type { Graph, GraphNode, HttpResponseNode, StreamNode } from '../graph.ts';
import { targetsOf, walk } from '../walk.ts';

export interface Reached {
  readonly id: string;
  /** Whether no node in between can change the message. */
  readonly direct: boolean;
  /** Whether the message has passed a durable gate, and so has lost its HTTP client. */
  readonly stored: boolean;
  /** Link call nodes that the message must return to, innermost last. */
  readonly calls: readonly string[];
}

/** Nodes that a message can reach before it passes another stage. */
export interface Ways {
  readonly stages: readonly Reached[];
  readonly gates: readonly Reached[];
  readonly responses: readonly (Reached & { readonly node: HttpResponseNode })[];
  /** Whether a collector on the way passes on results in parts, or a stream response writes them. */
  readonly inParts: boolean;
}

/** Deepest nesting of link calls to follow. Deeper nesting is taken for a cycle. */
const MOST_NESTED = 8;

/** Returns the ways from the first output of a node to the next stages and HTTP responses. */
export function waysFrom(graph: Graph, { id: from, calls }: Pick<Reached, 'id' | 'calls'>): Ways {
  const stages: Reached[] = [];
  const gates: Reached[] = [];
  const responses: (Reached & { readonly node: HttpResponseNode })[] = [];
  let inParts = false;
  const next = (at: Reached): Reached[] => {
    const node = graph.get(at.id);
    return node ? behind(graph, at, node) : [];
  };
  const first = wiresOf(graph, from, 0).map((id) => ({ id, direct: true, stored: false, calls }));
  for (const at of walk(first, next, (step) => JSON.stringify(step))) {
    const node = graph.get(at.id);
    if (node?.kind === 'stage') stages.push(at);
    if (node?.kind === 'gate') gates.push(at);
    if (node?.kind === 'http response') responses.push({ ...at, node });
    if (node?.kind === 'stream' || (node?.kind === 'collector' && node.inParts)) inParts = true;
  }
  return { stages, gates, responses, inParts };
}

/** Returns the steps behind a node. Stages and HTTP responses end the way. */
function behind(graph: Graph, at: Reached, node: GraphNode): Reached[] {
  const { calls } = at;
  const to = (ids: readonly string[], changed: Partial<Reached> = {}): Reached[] =>
    ids.map((id) => ({ ...at, ...changed, id }));
  switch (node.kind) {
    case 'stage':
    case 'http response':
    case 'stream':
      return [];
    // The second output of a pipeline node is for errors.
    case 'batcher':
    case 'collector':
    case 'join':
      return to(wiresOf(graph, at.id, 0));
    case 'gate':
      return to(wiresOf(graph, at.id, 0), { stored: at.stored || node.durable });
    case 'link call': {
      if (node.dynamic) return to(wiresOf(graph, at.id), { direct: false });
      return calls.length < MOST_NESTED ? to(node.calls, { calls: [...calls, at.id] }) : [];
    }
    case 'link return': {
      const caller = calls.at(-1);
      return caller === undefined ? [] : to(wiresOf(graph, caller, 0), { calls: calls.slice(0, -1) });
    }
    case 'transparent':
      return to(wiresOf(graph, at.id));
    case 'http in':
    case 'switch':
    case 'other':
      return to(wiresOf(graph, at.id), { direct: false });
  }
}

function wiresOf(graph: Graph, id: string, output?: number): readonly string[] {
  const wires = graph.get(id)?.wires ?? [];
  return output === undefined ? wires.flat() : (wires[output] ?? []);
}

/** Returns the entries that messages from a node reach first. @param isEntry whether the node with an id is one */
export function entriesFrom(graph: Graph, from: string, isEntry: (id: string) => boolean): string[] {
  const next = (id: string): readonly string[] => {
    const node = isEntry(id) ? undefined : graph.get(id);
    return [...(node?.wires.flat() ?? []), ...(node?.kind === 'link call' && !node.dynamic ? node.calls : [])];
  };
  return [...walk([from], next)].filter(isEntry);
}

/** Statuses whose answers have no body. */
const BODILESS: ReadonlySet<number | null> = new Set([204, 205, 304]);

/** A node that writes a result in parts. */
export type PartsExit = HttpResponseNode | StreamNode;

/**
 * Returns the node that writes a stage's result part by part: the only HTTP response directly behind a collector that
 * passes on parts, which is directly behind the stage, or the only stream response there or directly behind the stage.
 * Null if there is no such node.
 */
export function streamingResponse(graph: Graph, id: string): PartsExit | null {
  const stage = graph.get(id);
  if (stage?.kind !== 'stage' || stage.output !== 'payload') return null;
  const exits = targetsOf(graph, stage).flatMap((node): PartsExit[] => {
    if (node.kind === 'stream') return [node];
    return node.kind === 'collector' && node.inParts ? targetsOf(graph, node).filter(writesParts) : [];
  });
  const [exit, ...others] = exits;
  if (!exit || others.length > 0) return null;
  const isUsable = exit.kind === 'stream' ? exit.invalid === null : !BODILESS.has(exit.statusCode);
  return isUsable ? exit : null;
}

/** Whether a node can be the end of a result in parts. */
export function writesParts(node: GraphNode): node is PartsExit {
  return node.kind === 'http response' || node.kind === 'stream';
}

/** Returns the HTTP response behind a stage if only junctions, links and collectors lie between; null otherwise. */
export function directResponse(graph: Graph, stage: string): HttpResponseNode | null {
  const next = (id: string): readonly string[] => {
    const node = graph.get(id);
    return node?.kind === 'transparent' || node?.kind === 'collector' ? (node.wires[0] ?? []) : [];
  };
  for (const id of walk(graph.get(stage)?.wires[0] ?? [], next)) {
    const node = graph.get(id);
    if (node?.kind === 'http response') return node;
  }
  return null;
}

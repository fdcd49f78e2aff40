/** The flows as plain data: what the compiler needs to know of nodes and wires, without Node-RED. */
import type { Batching } from '../core/model.ts';

interface AnyNode {
  readonly id: string;
  /** Per output, the ids of the nodes it is wired to. */
  readonly wires: readonly (readonly string[])[];
}

export interface StageNode extends AnyNode {
  readonly kind: 'stage';
  readonly runtime: string;
  readonly name: string;
  readonly input: string;
  readonly output: string;
  /** A Complete node wants to hear when this node is done, so a message must come back from here. */
  readonly watched: boolean;
  /** Why the node cannot be used; null if it can. */
  readonly invalid: string | null;
}

export interface BatcherNode extends AnyNode {
  readonly kind: 'batcher';
  readonly batching: Batching;
  readonly invalid: string | null;
}

export interface CollectorNode extends AnyNode {
  readonly kind: 'collector';
  readonly catches: boolean;
}

/** A dispatch gate: messages wait in it, so a chain ends before it. */
export interface GateNode extends AnyNode {
  readonly kind: 'gate';
}

/** Junctions, link nodes and the borders of subflows: wires run through them as if they were not there. */
export interface TransparentNode extends AnyNode {
  readonly kind: 'transparent';
}

/** Any other node: a chain ends before it. */
export interface OtherNode extends AnyNode {
  readonly kind: 'other';
  readonly type: string;
}

export type GraphNode = StageNode | BatcherNode | CollectorNode | GateNode | TransparentNode | OtherNode;

export type Graph = ReadonlyMap<string, GraphNode>;

/**
 * The nodes that a message sent on `output` is delivered to, once for each way that leads there. Transparent nodes
 * are passed through; one on a circle of its like leads nowhere.
 */
export function targetsOf(graph: Graph, node: GraphNode, output = 0): Exclude<GraphNode, TransparentNode>[] {
  const behind = (wires: readonly string[], passed: readonly string[]): Exclude<GraphNode, TransparentNode>[] =>
    wires.flatMap((id) => {
      const target = graph.get(id);
      if (!target || passed.includes(id)) return [];
      return target.kind === 'transparent' ? behind(target.wires.flat(), [...passed, id]) : [target];
    });
  return behind(node.wires[output] ?? [], []);
}

/** The nodes one hop further, whatever the wires run through and from whichever output. */
export function nextHops(graph: Graph, id: string): string[] {
  const node = graph.get(id);
  return node ? node.wires.flatMap((_, output) => targetsOf(graph, node, output).map((target) => target.id)) : [];
}

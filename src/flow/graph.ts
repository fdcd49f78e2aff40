/** The flows as plain data: the nodes and wires that the compiler needs, without Node-RED. */
import type { Batching } from '../core/model.ts';

interface AnyNode {
  readonly id: string;
  /** Ids of the nodes that each output is wired to, by output. */
  readonly wires: readonly (readonly string[])[];
}

export interface StageNode extends AnyNode {
  readonly kind: 'stage';
  readonly runtime: string;
  readonly name: string;
  readonly input: string;
  readonly output: string;
  /** Whether a Complete node watches this node. If so, a message must enter and leave the engine here. */
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

/** A junction, a link node or the border of a subflow. Wires run through it as if it were not there. */
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
 * Returns the nodes that get a message sent on `output`, once for each path to them. Follows wires through transparent
 * nodes. A circle of transparent nodes leads nowhere.
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

/** Returns the nodes one hop downstream, from all outputs and through transparent nodes. */
export function nextHops(graph: Graph, id: string): string[] {
  const node = graph.get(id);
  return node ? node.wires.flatMap((_, output) => targetsOf(graph, node, output).map((target) => target.id)) : [];
}

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

/** Any other node: a wire may lead through it, and that ends a chain. */
export interface OtherNode extends AnyNode {
  readonly kind: 'other';
  readonly type: string;
}

export type GraphNode = StageNode | BatcherNode | CollectorNode | OtherNode;

export type Graph = ReadonlyMap<string, GraphNode>;

export function targetsOf(node: GraphNode, output = 0): readonly string[] {
  return node.wires[output] ?? [];
}

/** Reads the running nodes and their wires into the plain graph that the compiler takes. */
import type { Node, NodeAPI } from 'node-red';
import { type Graph, type GraphNode, ModeletError } from '../../src/index.ts';
import type { LiveNode, LiveNodes } from './live-nodes.ts';

/** A running node's wires: in the instance, not in the types. */
type WiredNode = Node & { readonly wires?: readonly (readonly string[])[] };

/** Everything downstream of the pipeline nodes, themselves included. */
export function readGraph(RED: NodeAPI, live: LiveNodes): Graph {
  const graph = new Map<string, GraphNode>();
  const pending: string[] = [];
  const add = (node: GraphNode): void => {
    graph.set(node.id, node);
    pending.push(...node.wires.flat());
  };
  for (const entry of live) {
    const node = toGraphNode(entry);
    if (node) add(node);
  }
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    if (graph.has(id)) continue;
    const node = RED.nodes.getNode(id) as WiredNode | null;
    if (node) add({ kind: 'other', id, type: node.type, wires: node.wires ?? [] });
  }
  return graph;
}

function toGraphNode({ kind, node, config }: LiveNode): GraphNode | null {
  const wires = (node as WiredNode).wires ?? [];
  const invalid = config instanceof ModeletError ? config.message : null;
  const { id } = node;
  switch (kind) {
    case 'runtime':
      return null;
    case 'stage': {
      const usable = config instanceof ModeletError ? { runtime: '', input: '', output: '' } : config;
      const { runtime, input, output } = usable;
      return { kind, id, wires, runtime, input, output, name: node.name || id, invalid };
    }
    case 'batcher': {
      const batching =
        config instanceof ModeletError ? { policy: 'greedy' as const, maxBatchSize: 1, maxWaitMs: 0 } : config;
      const { policy, maxBatchSize, maxWaitMs } = batching;
      return { kind, id, wires, batching: { policy, maxBatchSize, maxWaitMs }, invalid };
    }
    case 'collector':
      return { kind, id, wires, catches: !(config instanceof ModeletError) && config.catch === 'upstream' };
  }
}

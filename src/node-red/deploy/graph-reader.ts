/** Reads the running nodes and their wires into the plain graph that the compiler expects. */
import type { Node, NodeAPI } from 'node-red';
import { ModeletError } from '../../core/errors.ts';
import type { Graph, GraphNode } from '../../flow/graph.ts';
import type { LiveNode, LiveNodes } from '../live-nodes.ts';

/** A running node. Its instance has `wires`, but the Node-RED types omit them. */
type WiredNode = Node & { readonly wires?: readonly (readonly string[])[] };

/** Returns the graph of the pipeline nodes and all nodes downstream of them. */
export function readGraph(RED: NodeAPI, live: LiveNodes): Graph {
  const graph = new Map<string, GraphNode>();
  const pending: string[] = [];
  const add = (node: GraphNode): void => {
    graph.set(node.id, node);
    pending.push(...node.wires.flat());
  };
  const watched = watchedNodes(RED);
  for (const entry of live) {
    const node = toGraphNode(entry, watched);
    if (node) add(node);
  }
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    if (graph.has(id)) continue;
    const node = RED.nodes.getNode(id) as WiredNode | null;
    if (node) add(toForeignNode(id, node));
  }
  return graph;
}

/** Converts a node of another type. Running nodes' wires already lead through subflow instances and links. */
function toForeignNode(id: string, { type, wires = [] }: WiredNode): GraphNode {
  const transparent = type === 'junction' || type === 'link in' || type === 'link out' || type.startsWith('subflow:');
  return transparent ? { kind: 'transparent', id, wires } : { kind: 'other', id, type, wires };
}

/** Returns a lookup from the id of a tab or a subflow instance (a node's `z`) to its label. */
export function tabNames(RED: NodeAPI): (id: string) => string {
  const names = new Map<string, string>();
  RED.nodes.eachNode((node) => {
    const { id, type, label, name } = node as { id: string; type: string; label?: string; name?: string };
    if (type === 'tab' || type.startsWith('subflow:')) names.set(id, label || name || id);
  });
  return (id) => names.get(id) ?? id;
}

/** Returns the ids of the nodes that a Complete node watches. Inside subflows these are the ids in the template. */
function watchedNodes(RED: NodeAPI): Set<string> {
  const watched = new Set<string>();
  RED.nodes.eachNode((node) => {
    const { type, scope, d: disabled } = node as { type: string; scope?: readonly string[]; d?: boolean };
    if (type === 'complete' && !disabled) for (const id of scope ?? []) watched.add(id);
  });
  return watched;
}

function toGraphNode({ kind, node, config }: LiveNode, watched: ReadonlySet<string>): GraphNode | null {
  const wires = (node as WiredNode).wires ?? [];
  const invalid = config instanceof ModeletError ? config.message : null;
  const { id } = node;
  switch (kind) {
    case 'runtime':
      return null;
    case 'stage': {
      const usable = config instanceof ModeletError ? { runtime: '', input: '', output: '' } : config;
      const { runtime, input, output } = usable;
      const isWatched = watched.has(id) || watched.has(node._alias ?? '');
      return { kind, id, wires, runtime, input, output, name: node.name || id, watched: isWatched, invalid };
    }
    case 'batcher': {
      const batching =
        config instanceof ModeletError ? { policy: 'greedy' as const, maxBatchSize: 1, maxWaitMs: 0 } : config;
      const { policy, maxBatchSize, maxWaitMs } = batching;
      return { kind, id, wires, batching: { policy, maxBatchSize, maxWaitMs }, invalid };
    }
    case 'gate':
      return { kind, id, wires };
    case 'collector':
      return { kind, id, wires, catches: !(config instanceof ModeletError) && config.catch === 'upstream' };
  }
}

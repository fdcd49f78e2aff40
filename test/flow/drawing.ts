/** Flows in a few words: `drawing(stage('a', ['b']), stage('b', ['http']), other('http'))`. */
import type { Batching } from '../../src/core/model.ts';
import type {
  BatcherNode,
  CollectorNode,
  GateNode,
  Graph,
  GraphNode,
  OtherNode,
  StageNode,
  TransparentNode,
} from '../../src/flow/graph.ts';

export const TEN: Batching = { policy: 'oldest', maxBatchSize: 10, maxWaitMs: 5 };

/** Ids per wire of the first output; an array of arrays gives each output its own. */
type Wires = readonly string[] | readonly (readonly string[])[];

function outputs(wires: Wires): readonly (readonly string[])[] {
  return wires.every((wire) => Array.isArray(wire))
    ? (wires as readonly (readonly string[])[])
    : [wires as readonly string[]];
}

export function stage(id: string, wires: Wires = [], overrides: Partial<StageNode> = {}): StageNode {
  const settings = { runtime: 'r1', input: 'payload', output: 'payload', watched: false, invalid: null };
  return { kind: 'stage', id, name: id.toUpperCase(), wires: outputs(wires), ...settings, ...overrides };
}

export function batcher(id: string, wires: Wires, overrides: Partial<BatcherNode> = {}): BatcherNode {
  return { kind: 'batcher', id, wires: outputs(wires), batching: TEN, invalid: null, ...overrides };
}

/** A collector with both outputs: results, then errors. */
export function collector(
  id: string,
  results: readonly string[],
  errors: readonly string[],
  catches = true,
): CollectorNode {
  return { kind: 'collector', id, wires: [results, errors], catches };
}

/** A gate with both outputs: admitted, then catch. */
export function gate(id: string, admitted: readonly string[], errors: readonly string[] = []): GateNode {
  return { kind: 'gate', id, wires: [admitted, errors] };
}

export function other(id: string, wires: Wires = [], type = 'function'): OtherNode {
  return { kind: 'other', id, wires: outputs(wires), type };
}

export function junction(id: string, wires: Wires): TransparentNode {
  return { kind: 'transparent', id, wires: outputs(wires) };
}

export function drawing(...nodes: readonly GraphNode[]): Graph {
  return new Map(nodes.map((node) => [node.id, node]));
}

/**
 * From the graph to routes: which stages a message passes inside the engine from each place where it can enter,
 * and why each chain ends where it does. Pure.
 */
import { type Batching, SINGLE_ITEMS } from '../core/model.ts';
import { type BatcherNode, type Graph, type GraphNode, type StageNode, targetsOf } from './graph.ts';

export interface CompiledRoute {
  /** The stage or batcher at which messages enter. */
  readonly entry: string;
  readonly runtime: string;
  /** Ids of the stages in order; at least one. The last one's node sends the result. */
  readonly stages: readonly string[];
  /** Why the chain goes no further, for people. */
  readonly end: string;
}

export interface CompiledGraph {
  /** By entry node: every usable stage and batcher is one, messages may be wired to any of them. */
  readonly routes: ReadonlyMap<string, CompiledRoute>;
  /** Batching of each stage. */
  readonly batching: ReadonlyMap<string, Batching>;
  /** Nodes that cannot be used as they are wired or configured, with the reason. */
  readonly invalid: ReadonlyMap<string, string>;
}

export function compileRoutes(graph: Graph): CompiledGraph {
  const invalid = new Map<string, string>();
  const batching = new Map<string, Batching>();
  for (const node of graph.values()) {
    if ((node.kind === 'stage' || node.kind === 'batcher') && node.invalid !== null) invalid.set(node.id, node.invalid);
    if (node.kind === 'stage') batching.set(node.id, SINGLE_ITEMS);
  }
  assignBatchers(graph, batching, invalid);
  const routes = new Map<string, CompiledRoute>();
  for (const node of graph.values()) {
    const first = stageBehind(graph, node);
    if (!first || invalid.has(node.id) || invalid.has(first.id)) continue;
    routes.set(node.id, { entry: node.id, runtime: first.runtime, ...chainFrom(graph, first, invalid) });
  }
  return { routes, batching, invalid };
}

/** A batcher sets how one stage's queue forms batches; it must stand directly in front of it. */
function assignBatchers(graph: Graph, batching: Map<string, Batching>, invalid: Map<string, string>): void {
  const chosenBy = new Map<string, BatcherNode>();
  for (const node of graph.values()) {
    if (node.kind !== 'batcher' || node.invalid !== null) continue;
    const stage = stageBehind(graph, node);
    if (!stage) {
      invalid.set(node.id, 'a batcher must be wired to exactly one modelet stage and nothing else');
      continue;
    }
    const other = chosenBy.get(stage.id);
    if (other && !sameBatching(other.batching, node.batching)) {
      const reason = `two batchers with different settings feed stage ${stage.name}`;
      invalid.set(other.id, reason).set(node.id, reason);
      batching.set(stage.id, SINGLE_ITEMS);
      continue;
    }
    chosenBy.set(stage.id, node);
    batching.set(stage.id, node.batching);
  }
}

function sameBatching(a: Batching, b: Batching): boolean {
  return a.policy === b.policy && a.maxBatchSize === b.maxBatchSize && a.maxWaitMs === b.maxWaitMs;
}

/** The stage at which a message that enters `node` begins: itself, or the one behind a batcher. */
function stageBehind(graph: Graph, node: GraphNode): StageNode | undefined {
  if (node.kind === 'stage') return node;
  if (node.kind !== 'batcher') return undefined;
  const [target, ...others] = targetsOf(node);
  const stage = target === undefined || others.length > 0 ? undefined : graph.get(target);
  return stage?.kind === 'stage' ? stage : undefined;
}

function chainFrom(
  graph: Graph,
  first: StageNode,
  invalid: ReadonlyMap<string, string>,
): { stages: string[]; end: string } {
  const stages = [first.id];
  for (let stage = first; ; ) {
    const step = nextInChain(graph, stage, invalid);
    if (typeof step === 'string') return { stages, end: step };
    if (stages.includes(step.id)) return { stages, end: `the wires lead back to stage ${step.name}` };
    stages.push(step.id);
    stage = step;
  }
}

/** The next stage of the chain, or the reason why there is none. */
function nextInChain(graph: Graph, stage: StageNode, invalid: ReadonlyMap<string, string>): StageNode | string {
  const targets = targetsOf(stage).flatMap((id) => graph.get(id) ?? []);
  const [target, ...others] = targets;
  if (!target) return 'nothing is wired to its output';
  const next = stageBehind(graph, target);
  if (!next) return `its output goes to a ${describe(target)}`;
  if (others.length > 0) return `its output goes to ${targets.length} nodes`;
  if (invalid.has(target.id) || invalid.has(next.id))
    return `stage ${next.name} cannot be used: ${invalid.get(target.id) ?? invalid.get(next.id)}`;
  if (next.runtime !== stage.runtime) return `stage ${next.name} belongs to another runtime`;
  if (next.input !== stage.output)
    return `stage ${next.name} reads msg.${next.input}, this one writes msg.${stage.output}`;
  return next;
}

function describe(node: GraphNode): string {
  switch (node.kind) {
    case 'other':
      return `${node.type} node`;
    case 'collector':
      return 'result collector';
    case 'batcher':
      return 'batcher that is not in front of one stage';
    case 'stage':
      return 'stage';
  }
}

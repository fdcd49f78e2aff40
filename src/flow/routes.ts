/**
 * Compiles the graph to routes. A route lists the stages that a message passes inside the engine from one entry, and
 * the reason why its chain ends. Pure.
 */
import { type Batching, SINGLE_ITEMS } from '../core/model.ts';
import { describeAll } from './describe.ts';
import type { BatcherNode, Graph, GraphNode, StageNode } from './graph.ts';
import { rejectVersions, unwiredVersions } from './versions.ts';
import { targetsOf, walk } from './walk.ts';

export interface CompiledRoute {
  /** The stage or batcher at which messages enter. */
  readonly entry: string;
  readonly runtime: string;
  /** Ids of the stages in order; at least one. The node of the last stage sends the result. */
  readonly stages: readonly string[];
  /** Nodes that also get a stage's intermediate result, by stage. */
  readonly taps: ReadonlyMap<string, readonly string[]>;
  /** Reason why the chain ends, for people. */
  readonly end: string;
  /** Message property whose value stays on one version, for all stages of the route with versions; '' if none does. */
  readonly sticky: string;
  /** Whether another stage or batcher follows, which `end` keeps out of the chain. */
  readonly unfused: boolean;
}

export interface CompiledGraph {
  /**
   * Routes by entry node. Every usable stage and batcher is an entry, because messages may be wired to any of them. No
   * entry is a version without wires: its base has its requests.
   */
  readonly routes: ReadonlyMap<string, CompiledRoute>;
  /** Batching by stage. */
  readonly batching: ReadonlyMap<string, Batching>;
  /** Reason why a node cannot be used as it is wired or configured, by node. */
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
  rejectCircles(graph, invalid);
  rejectVersions(graph, invalid);
  const unwired = unwiredVersions(graph);
  const routes = new Map<string, CompiledRoute>();
  for (const node of graph.values()) {
    const first = stageBehind(graph, node);
    if (!first || invalid.has(node.id) || unwired.has(first.id)) continue;
    const broken = invalid.get(first.id);
    if (broken !== undefined) {
      invalid.set(node.id, `the stage behind it cannot be used: ${broken}`);
      continue;
    }
    routes.set(node.id, { entry: node.id, runtime: first.runtime, ...chainFrom(graph, first, invalid) });
  }
  return { routes, batching, invalid };
}

/** Sets the batching of stages from their batchers. A batcher must stand directly in front of exactly one stage. */
function assignBatchers(graph: Graph, batching: Map<string, Batching>, invalid: Map<string, string>): void {
  const batchersOf = new Map<StageNode, BatcherNode[]>();
  for (const node of graph.values()) {
    if (node.kind !== 'batcher' || node.invalid !== null) continue;
    const stage = stageBehind(graph, node);
    if (stage) batchersOf.set(stage, [...(batchersOf.get(stage) ?? []), node]);
    else invalid.set(node.id, 'a batcher must be wired to exactly one modelet stage and nothing else');
  }
  for (const [stage, [first, ...others]] of batchersOf) {
    if (!first) continue;
    if (others.every((other) => sameBatching(first.batching, other.batching))) {
      batching.set(stage.id, first.batching);
      continue;
    }
    const reason = `batchers with different settings feed stage ${stage.name}: give them equal settings, or keep one`;
    for (const { id } of [first, ...others]) invalid.set(id, reason);
  }
}

function sameBatching(a: Batching, b: Batching): boolean {
  return a.policy === b.policy && a.maxBatchSize === b.maxBatchSize && a.maxWaitMs === b.maxWaitMs;
}

/** Returns the first stage of a message that enters `node`: the node itself, or the stage behind a batcher. */
function stageBehind(graph: Graph, node: GraphNode): StageNode | undefined {
  if (node.kind === 'stage') return node;
  if (node.kind !== 'batcher') return undefined;
  const [target, ...others] = targetsOf(graph, node);
  return others.length === 0 && target?.kind === 'stage' ? target : undefined;
}

/** Marks stages as invalid whose results return to them through stages alone: a request would never end there. */
function rejectCircles(graph: Graph, invalid: Map<string, string>): void {
  const reason = 'its results lead back to itself through stages alone: no request would end';
  const remedy = 'Take a wire out of the loop, or put a node into it that ends it, such as a switch';
  for (const node of graph.values()) {
    if (node.kind !== 'stage') continue;
    const behind = [...walk(nextStages(graph, node), (stage) => nextStages(graph, stage))];
    if (behind.includes(node)) invalid.set(node.id, `${reason}. ${remedy}`);
  }
}

function nextStages(graph: Graph, stage: StageNode): StageNode[] {
  return targetsOf(graph, stage).flatMap((target) => stageBehind(graph, target) ?? []);
}

interface Chain {
  readonly stages: string[];
  readonly taps: Map<string, readonly string[]>;
  readonly sticky: string;
  readonly end: string;
  readonly unfused: boolean;
}

function chainFrom(graph: Graph, first: StageNode, invalid: ReadonlyMap<string, string>): Chain {
  const stages = [first.id];
  const taps = new Map<string, readonly string[]>();
  let { sticky } = first;
  for (let stage = first; ; ) {
    const targets = targetsOf(graph, stage);
    const inPipeline = targets.filter(({ kind }) => kind === 'stage' || kind === 'batcher');
    if (inPipeline.length === 0) return { stages, taps, sticky, end: describeAll(targets), unfused: false };
    const step = nextInChain(graph, stage, inPipeline, invalid);
    const end = typeof step === 'string' ? step : againstKey(step, sticky);
    if (typeof step === 'string' || end !== null) return { stages, taps, sticky, end: end as string, unfused: true };
    const lookingOn = targets.filter((target) => !inPipeline.includes(target)).map(({ id }) => id);
    if (lookingOn.length > 0) taps.set(stage.id, lookingOn);
    stages.push(step.id);
    sticky ||= step.sticky;
    stage = step;
  }
}

/** Returns the next stage of the chain, or the reason for its end. `inPipeline`: the pipeline nodes behind `stage`. */
function nextInChain(
  graph: Graph,
  stage: StageNode,
  inPipeline: readonly GraphNode[],
  invalid: ReadonlyMap<string, string>,
): StageNode | string {
  const [target, ...others] = inPipeline;
  if (!target || others.length > 0) return `its output goes to ${inPipeline.length} stages`;
  if (stage.watched) return 'a Complete node watches it';
  const next = stageBehind(graph, target);
  const broken = invalid.get(target.id) ?? (next && invalid.get(next.id));
  if (!next || broken !== undefined) return `the next node cannot be used: ${broken ?? 'a batcher without a stage'}`;
  if (next.watched) return `a Complete node watches stage ${next.name}, which has to take messages in itself`;
  if (next.runtime !== stage.runtime) return `stage ${next.name} belongs to another runtime`;
  if (next.input !== stage.output)
    return `stage ${next.name} reads msg.${next.input}, this one writes msg.${stage.output}`;
  return next;
}

/** Returns why a stage cannot join a route whose requests bear the hash of a property; null if it can. */
function againstKey({ name, sticky }: StageNode, taken: string): string | null {
  if (sticky === '' || taken === '' || sticky === taken) return null;
  return `stage ${name} chooses versions by msg.${sticky}, a stage before it by msg.${taken}`;
}

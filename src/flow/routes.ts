/**
 * Compiles the graph to routes. A route has the stages that a message passes inside the engine from one entry, and the
 * reason why it ends. Pure.
 */
import { isDeepStrictEqual } from 'node:util';
import { type Batching, SINGLE_ITEMS } from '../core/model.ts';
import { gathersOf, stagesOf } from '../core/routes/route.ts';
import type { EntryReads } from './entry-reads.ts';
import { type BatcherNode, type Graph, type GraphNode, isStep, nodesOf, type StageNode, stageAt } from './graph.ts';
import type { PlannedJoin } from './joins.ts';
import { Legs, type Trail } from './legs.ts';
import { rejectVersions, unwiredVersions } from './versions.ts';
import { targetsOf, walk } from './walk.ts';

/** See `Trail` for the other properties. */
export interface CompiledRoute extends EntryReads, Pick<Trail, 'leg' | 'taps' | 'end' | 'unfused'> {
  /**
   * The stage or batcher at which messages enter. An HTTP-in node if the route begins with a fork or a choice: messages do
   * not enter there, but requests that never become messages.
   */
  readonly entry: string;
  readonly runtime: string;
  /** Ids of all stages, as drawn; at least one. */
  readonly stages: readonly string[];
  /** Message property that divides its queues: that of the first stage that drops its oldest items by one. '': none. */
  readonly dropKey: string;
  /** The node that sends the result: a stage, or a node that gathers branches. */
  readonly exit: string;
}

export interface CompiledGraph {
  /**
   * Routes by entry node. Every usable stage and batcher is an entry, because messages may be wired to any of them. No
   * entry is a version without wires: its base has its requests.
   */
  readonly routes: ReadonlyMap<string, CompiledRoute>;
  /** Reasons why no route begins at HTTP-in nodes that fan out, by the node. */
  readonly apart: ReadonlyMap<string, string>;
  /** Reasons why no route gathers the items of lists at nodes that are for that, by the node. */
  readonly unlisted: ReadonlyMap<string, string>;
  readonly batching: ReadonlyMap<string, Batching>;
  /** Reason why a node cannot be used as it is wired or configured, by node. */
  readonly invalid: ReadonlyMap<string, string>;
}

/** @param joins the usable nodes that gather branches */
export function compileRoutes(graph: Graph, joins: ReadonlyMap<string, PlannedJoin>): CompiledGraph {
  const invalid = new Map<string, string>();
  const batching = new Map<string, Batching>();
  for (const node of graph.values()) {
    if (isStep(node) && node.invalid !== null) invalid.set(node.id, node.invalid);
    if (node.kind === 'stage') batching.set(node.id, SINGLE_ITEMS);
  }
  assignBatchers(graph, batching, invalid);
  rejectCircles(graph, invalid);
  rejectVersions(graph, batching, invalid);
  return { ...routesOf(graph, joins, batching, invalid), batching, invalid };
}

/** @param invalid also gets the batchers whose stage cannot be used */
function routesOf(
  graph: Graph,
  joins: ReadonlyMap<string, PlannedJoin>,
  batching: ReadonlyMap<string, Batching>,
  invalid: Map<string, string>,
): Pick<CompiledGraph, 'routes' | 'apart' | 'unlisted'> {
  const unwired = unwiredVersions(graph);
  const legs = new Legs({ graph, joins, invalid, batching, stageBehind: (node) => stageBehind(graph, node) });
  const routes = new Map<string, CompiledRoute>();
  for (const node of graph.values()) {
    const first = stageBehind(graph, node);
    if (!first || invalid.has(node.id) || unwired.has(first.id)) continue;
    const broken = invalid.get(first.id);
    if (broken === undefined) routes.set(node.id, routeOf(graph, node.id, first.runtime, legs.from(first)));
    else invalid.set(node.id, `the stage behind it cannot be used: ${broken}`);
  }
  const apart = new Map<string, string>();
  for (const httpIn of nodesOf(graph, 'http in')) {
    const { id } = httpIn;
    const found = legs.behind(httpIn);
    if (typeof found === 'string') apart.set(id, found);
    else if (found) routes.set(id, routeOf(graph, id, found.runtime, found.trail));
  }
  const gathering = new Set([...routes.values()].flatMap(({ leg }) => gathersOf(leg)));
  const forLists = [...joins].flatMap(([id, { terms }]) => (terms.list && !gathering.has(id) ? [id] : []));
  const unlisted = new Map(
    forLists.map((id) => [id, `only the engine gathers the items of lists: ${legs.unlisted.get(id) ?? NO_LISTS}`]),
  );
  return { routes, apart, unlisted };
}

const NO_LISTS = 'no stage that emits lists leads to it through stages alone';

function routeOf(graph: Graph, entry: string, runtime: string, trail: Trail): CompiledRoute {
  const { leg, exit, taps, reads, end, unfused } = trail;
  const stages = stagesOf(leg);
  const divided = stages.map((id) => stageAt(graph, id)).find((stage) => stage?.drops && stage.dropKey !== '');
  const dropKey = divided?.dropKey ?? '';
  return { entry, runtime, stages, leg, dropKey, exit: exit?.id ?? '', taps, ...reads, end, unfused };
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
    if (others.every((other) => isDeepStrictEqual(first.batching, other.batching))) {
      batching.set(stage.id, first.batching);
      continue;
    }
    const reason = `batchers with different settings feed stage ${stage.name}: give them equal settings, or keep one`;
    for (const { id } of [first, ...others]) invalid.set(id, reason);
  }
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

/**
 * Plans the nodes that gather branches: the branches of each, how many of them it needs, and whether it can gather the items
 * of a list. Pure.
 */
import type { JoinConfig } from '../config/compile.ts';
import { counted } from '../core/figures.ts';
import { type GatherTerms, neededOf } from '../core/routes/gather.ts';
import { failingOn, type Leg, listDepth } from '../core/routes/route.ts';
import { type Graph, type GraphNode, isStep, type JoinNode, nodesOf } from './graph.ts';
import { branchesOf, findHandler, sendersTo } from './walk.ts';

export interface PlannedJoin {
  readonly config: JoinConfig;
  readonly terms: GatherTerms;
  /** Names of the drawn branches, by the node that ends each. */
  readonly branches: ReadonlyMap<string, string>;
  /** Changes with everything that a gather in progress depends on. */
  readonly revision: string;
}

export interface PlannedJoins {
  /** The usable ones, by node. */
  readonly joins: ReadonlyMap<string, PlannedJoin>;
  /** Reasons why others cannot be used, by node. */
  readonly invalid: ReadonlyMap<string, string>;
}

export function planJoins(graph: Graph, stageNames: ReadonlyMap<string, string>): PlannedJoins {
  const joins = new Map<string, PlannedJoin>();
  const invalid = new Map<string, string>();
  for (const { id, settings: config, invalid: reason } of nodesOf(graph, 'join')) {
    if (reason !== null || !config) {
      invalid.set(id, reason ?? 'its settings are invalid');
      continue;
    }
    const branches = new Map(branchesOf(graph, id).map((end) => [end, branchName(graph, end, stageNames)]));
    const terms = termsOf(config, [...branches.values()]);
    const fault = faultOf(config, terms);
    if (fault === null) joins.set(id, { config, terms, branches, revision: JSON.stringify([config, [...branches]]) });
    else if (isFed(graph, id)) invalid.set(id, fault);
  }
  return { joins, invalid };
}

/** A branch has the name of the stage, or of the gathering node, that ends it. */
function branchName(graph: Graph, end: string, stageNames: ReadonlyMap<string, string>): string {
  const node = graph.get(end);
  return stageNames.get(end) ?? (node?.kind === 'join' || node?.kind === 'stage' ? node.name : end);
}

function termsOf(config: JoinConfig, drawn: readonly string[]): GatherTerms {
  const { mode, quorum, partial, key, form, maxItems } = config;
  const common = { mode, quorum, partial };
  if (mode === 'list') return { ...common, total: 1, names: [''], list: { form, maxItems } };
  if (key === '') return { ...common, total: drawn.length, names: drawn };
  const isCounted = mode === 'all' && quorum > 0;
  return { ...common, total: isCounted ? quorum : Math.max(drawn.length, quorum), names: [] };
}

function faultOf({ key, mode }: JoinConfig, terms: GatherTerms): string | null {
  if (mode === 'list') return null;
  const { total } = terms;
  if (total === 0) {
    return key === ''
      ? 'no branch with a modelet stage leads to it: wire the stages to it, or name the branches by a key'
      : 'no branch with a modelet stage leads to it: set the number of branches';
  }
  const needed = neededOf(terms);
  return needed > total ? `quorum: ${needed} results cannot come from ${counted(total, 'branch', 'branches')}` : null;
}

/** Whether any wire leads to the node. One without wires has only just been put there. */
function isFed(graph: Graph, id: string): boolean {
  return [...graph.values()].some(({ wires }) => wires.some((output) => output.includes(id)));
}

/** How deep lists may stand in lists. */
const MOST_DEPTH = 3;

/** The way of the items of a list, or a branch, to the node that gathers them. */
interface GatheredWay {
  readonly leg: Leg<string>;
  readonly exit: GraphNode | null;
  readonly senders: readonly string[];
  readonly targets: readonly GraphNode[];
}

/**
 * Returns why the engine cannot gather these branches as the node would; null if it can.
 * @param before the stages in front of the fork
 */
export function againstBranches(
  graph: Graph,
  gather: JoinNode,
  { config, branches: drawn }: PlannedJoin,
  branches: readonly GatheredWay[],
  before: readonly string[],
): string | null {
  const name = nameOf(gather);
  if (config.mode === 'list') return `${name} gathers the items of lists, and no branches`;
  if (config.key !== '') return `${name} takes their names from msg.${config.key}`;
  if (gather.watched) return `a Complete node watches ${name}`;
  if (branches.some(({ senders }) => senders.length > 1)) return 'a branch ends at one of several stages';
  const ends = branches.map(({ senders: [end = ''] }) => end);
  if (branches.some(goesBeside)) return 'the result of a branch also goes to another stage';
  if (new Set(ends).size < ends.length) return 'two wires lead to one branch';
  const isWhole = drawn.size === ends.length && ends.every((end) => drawn.has(end));
  if (!isWhole || !sendersTo(graph, gather).every(({ id }) => ends.includes(id)))
    return `${name} also gathers messages from elsewhere`;
  const written = branches.map(againstWriter).find((one) => one !== null);
  if (written) return written;
  const astray = [...before, ...branches.flatMap(({ leg }) => failingOn(leg))].find((id) => {
    const handler = findHandler(graph, id);
    return handler.kind !== 'join' || handler.id !== gather.id;
  });
  return astray === undefined ? null : astrayErrors(graph, astray, gather);
}

/**
 * Returns why the engine cannot gather the items that come to a node; null if it can.
 * @param before the stages in front of the list, and all nodes before
 */
export function againstItems(
  graph: Graph,
  gather: JoinNode,
  way: GatheredWay,
  before: { readonly leg: readonly string[]; readonly nodes: readonly string[] },
): string | null {
  const name = nameOf(gather);
  if (gather.watched) return `a Complete node watches ${name}`;
  if (before.nodes.includes(gather.id)) return 'they are gathered in a loop';
  if (goesBeside(way)) return 'the result of an item also goes to another stage';
  const written = againstWriter(way);
  if (written !== null) return written;
  if (listDepth(way.leg) >= MOST_DEPTH) return `lists in lists are at most ${MOST_DEPTH} deep`;
  if (!sendersTo(graph, gather).every(({ id }) => way.senders.includes(id)))
    return `${name} also gathers messages from elsewhere`;
  const astray = [...before.leg, ...failingOn(way.leg)].find((id) => findHandler(graph, id).kind !== 'join');
  return astray === undefined ? null : astrayErrors(graph, astray, gather);
}

/** Without a name, a node has its id as such. */
function nameOf({ id, name }: JoinNode): string {
  return name === id ? 'the node that gathers them' : `the node ${name}`;
}

function goesBeside({ targets }: GatheredWay): boolean {
  return targets.some((target) => isStep(target) || target.kind === 'switch');
}

function againstWriter({ exit }: GatheredWay): string | null {
  return exit?.kind === 'stage' && exit.output !== 'payload' ? `stage ${exit.name} writes msg.${exit.output}` : null;
}

/** Says that the errors of a stage, or of a node that gathers branches, do not go to the node that gathers its results. */
function astrayErrors(graph: Graph, id: string, gather: JoinNode): string {
  const node = graph.get(id);
  const whose =
    node?.kind === 'stage' ? `the errors of stage ${node.name}` : 'the errors of a node that gathers branches';
  return `${whose} do not go to ${nameOf(gather)}`;
}

/** Plans the nodes that gather branches: the branches of each, and how many of them it needs. Pure. */
import type { JoinConfig } from '../config/compile.ts';
import { type GatherTerms, neededOf } from '../core/routes/gather.ts';
import { type Graph, nodesOf } from './graph.ts';
import { branchesOf } from './walk.ts';

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

function termsOf({ mode, quorum, partial, key }: JoinConfig, drawn: readonly string[]): GatherTerms {
  const common = { mode, quorum, partial };
  if (key === '') return { ...common, total: drawn.length, names: drawn };
  const isCounted = mode === 'all' && quorum > 0;
  return { ...common, total: isCounted ? quorum : Math.max(drawn.length, quorum), names: [] };
}

function faultOf({ key }: JoinConfig, terms: GatherTerms): string | null {
  const { total } = terms;
  if (total === 0) {
    return key === ''
      ? 'no branch with a modelet stage leads to it: wire the stages to it, or name the branches by a key'
      : 'no branch with a modelet stage leads to it: set the number of branches';
  }
  const needed = neededOf(terms);
  return needed > total ? `quorum: ${needed} results cannot come from ${total} branches` : null;
}

/** Whether any wire leads to the node. One without wires has only just been put there. */
function isFed(graph: Graph, id: string): boolean {
  return [...graph.values()].some(({ wires }) => wires.some((output) => output.includes(id)));
}

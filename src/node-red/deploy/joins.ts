/** Compiles the nodes that gather branches: the branches that are drawn in front of each, and how many of them it needs. Pure. */
import type { JoinConfig } from '../../config/compile.ts';
import { ModeletError } from '../../core/errors.ts';
import type { Graph } from '../../flow/graph.ts';
import { branchesOf } from '../../flow/walk.ts';
import { type GatherTerms, neededOf } from '../../ledger/gathers.ts';
import type { LiveNodes } from '../live-nodes.ts';

export interface DeployedJoin {
  readonly config: JoinConfig;
  readonly terms: GatherTerms;
  /** Names of the drawn branches, by the node that ends each. */
  readonly branches: ReadonlyMap<string, string>;
  /** Changes with everything that a gather under way depends on. */
  readonly revision: string;
}

/** @param invalid also gets the reasons why nodes cannot be used */
export function deployJoins(
  graph: Graph,
  live: LiveNodes,
  stageNames: ReadonlyMap<string, string>,
  invalid: Map<string, string>,
): Map<string, DeployedJoin> {
  const joins = new Map<string, DeployedJoin>();
  for (const { node, config } of live.of('join')) {
    if (config instanceof ModeletError) {
      invalid.set(node.id, config.message);
      continue;
    }
    const branches = new Map(
      branchesOf(graph, node.id).map((id) => [id, stageNames.get(id) ?? (live.get(id)?.node.name || id)]),
    );
    const terms = termsOf(config, [...branches.values()]);
    const fault = faultOf(config, terms);
    if (fault === null)
      joins.set(node.id, { config, terms, branches, revision: JSON.stringify([config, [...branches]]) });
    else if (isFed(graph, node.id)) invalid.set(node.id, fault);
  }
  return joins;
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

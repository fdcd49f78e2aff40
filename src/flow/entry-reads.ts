/**
 * The message properties that are read where a request enters its route, for all its stages. A stage that needs another
 * property there, or a value that a stage before it changes, cannot be on the route. Pure.
 */
import { type Batching, COST_IN_BYTES } from '../core/model.ts';
import { type Graph, type StageNode, stageAt } from './graph.ts';

export interface EntryReads {
  /** Message property whose value stays on one version, for all stages with versions; '' if none does. */
  readonly sticky: string;
  /** Message property that is the key of a message, for all stages with keys; '' if none has. */
  readonly keyBy: string;
  /** Message property that has the cost of a message, for all stages that count costs; '' if none needs it. */
  readonly costBy: string;
}

export const NO_READS: EntryReads = { sticky: '', keyBy: '', costBy: '' };

/** Returns the message property that has the cost of an item; '' if a stage with this batching needs none. */
export function costPropertyOf(batching: Batching | undefined): string {
  const by = batching?.costs?.by ?? COST_IN_BYTES;
  return by === COST_IN_BYTES ? '' : by;
}

/** @param costBy property of the stage, see `costPropertyOf` */
export function withStage(reads: EntryReads, { sticky, keyBy }: StageNode, costBy: string): EntryReads {
  return { sticky: reads.sticky || sticky, keyBy: reads.keyBy || keyBy, costBy: reads.costBy || costBy };
}

/** Returns why the values that are read at the entry of a request are not those of a further stage; null if they are. */
export function againstReads(
  graph: Graph,
  { name, sticky, keyBy }: StageNode,
  costBy: string,
  reads: EntryReads,
  passed: readonly string[],
): string | null {
  if (reads.sticky !== '' && sticky !== '' && reads.sticky !== sticky)
    return `stage ${name} chooses versions by msg.${sticky}, a stage before it by msg.${reads.sticky}`;
  if (costBy !== '' && passed.some((id) => stageAt(graph, id)?.emits === 'list'))
    return `stage ${name} has the costs msg.${costBy}, which the items of a list do not have: bytes would do`;
  return (
    againstValue(graph, `stage ${name} has the keys`, keyBy, reads.keyBy, passed) ??
    againstValue(graph, `stage ${name} has the costs`, costBy, reads.costBy, passed)
  );
}

function againstValue(
  graph: Graph,
  has: string,
  property: string,
  earlier: string,
  passed: readonly string[],
): string | null {
  if (property === '') return null;
  if (earlier !== '' && earlier !== property) return `${has} msg.${property}, a stage before it msg.${earlier}`;
  const isWritten = passed.some((id) => rootOf(stageAt(graph, id)?.output ?? 'payload') === rootOf(property));
  return isWritten ? `${has} msg.${property}, which a stage before it writes` : null;
}

/** Returns the first name of a property: `payload` of `payload.key`. */
function rootOf(property: string): string {
  return /^(?:msg\.)?\[?["']?([^.[\]"']+)/.exec(property)?.[1] ?? property;
}

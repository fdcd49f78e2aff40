/**
 * Says what is wrong with flows that are not deployed yet, and which settings of stages have no effect, in the words of a
 * deploy: the triangles of the editor. A false alarm is worse than none, so a node without a certain verdict gets none.
 * Pure.
 */
import { type Graph, type GraphNode, nodesOf } from './graph.ts';
import type { CompiledDefinitions } from './read/compile-definitions.ts';
import type { FileDefinition } from './read/expand.ts';
import { walk } from './walk.ts';

const NOWHERE = 'its result goes nowhere: wire its output to the next node, or let a Complete node watch the stage';

/**
 * Returns the reasons by the id of the definition. A node of a subflow has a fault if it has one in each instance: what
 * one instance lacks may be right in another.
 */
export function wiringFaults({ flows, graph, plan, unread }: CompiledDefinitions): Map<string, string> {
  const reasons = new Map<string, string | null>();
  const sending = withWires(flows.definitions as readonly FileDefinition[]);
  const fed = new Set([...graph.values()].flatMap(({ wires }) => wires.flat()));
  const stored = behindDurableGates(graph);
  // The wires of a stage decide whether its settings have an effect.
  const settingsOf = (id: string): string =>
    plan.idle
      .filter((one) => one.id === id)
      .map(({ text }) => text)
      .join('; ');
  const reasonForStage = ({ id, watched }: GraphNode, isSending: boolean): string | null => {
    if (!fed.has(id)) return null;
    return isSending || watched || stored.has(id) ? settingsOf(id) || null : NOWHERE;
  };
  const reasonFor = (id: string, definition: string): string | null => {
    const node = graph.get(id);
    const isSending = sending.has(definition);
    // A batcher without any wire has only just been put there.
    if (node?.kind === 'batcher') return isSending || fed.has(id) ? (plan.invalid.get(id) ?? null) : null;
    return node?.kind === 'stage' ? (plan.invalid.get(id) ?? reasonForStage(node, isSending)) : null;
  };
  for (const { node, definition } of flows.running) {
    const reason = reasonFor(node.id, definition.id);
    // A variable that only a running Node-RED can read may make the node right.
    const isKnown = reason !== null && ![...unread].some((problem) => reason.includes(problem));
    reasons.set(definition.id, isKnown && reasons.get(definition.id) !== null ? reason : null);
  }
  return new Map([...reasons].flatMap(([id, reason]) => (reason === null ? [] : [[id, reason] as const])));
}

/** Returns the ids of the definitions with a wire at an output, also one to an output of the subflow around them. */
function withWires(definitions: readonly FileDefinition[]): Set<string> {
  return new Set(
    definitions.flatMap(({ id, wires, out }) => [
      ...(Array.isArray(wires) && wires.flat().length > 0 ? [id] : []),
      ...((out ?? []) as readonly { wires?: readonly { id: string }[] }[]).flatMap(({ wires: ends = [] }) =>
        ends.map((end) => end.id),
      ),
    ]),
  );
}

/** Returns the nodes whose work may be all that is wanted: the client has its answer from the gate. */
function behindDurableGates(graph: Graph): Set<string> {
  const gates = nodesOf(graph, 'gate').filter(({ durable }) => durable);
  return new Set(
    walk(
      gates.map(({ id }) => id),
      (id) => graph.get(id)?.wires.flat() ?? [],
    ),
  );
}

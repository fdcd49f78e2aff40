/**
 * Checks which stages can be versions of others. A version takes the place of its base inside the engine, so it must
 * belong to the same runtime and read and write the same properties. Pure.
 */
import type { Batching } from '../core/model.ts';
import { costPropertyOf } from './entry-reads.ts';
import { type Graph, nodesOf, type StageNode, stageAt } from './graph.ts';
import type { NodeWarning } from './names.ts';

/** Adds the reasons why stages cannot be used with their versions. */
export function rejectVersions(
  graph: Graph,
  batching: ReadonlyMap<string, Batching>,
  invalid: Map<string, string>,
): void {
  const bases = new Map<string, StageNode>();
  for (const base of nodesOf(graph, 'stage')) {
    for (const { stage } of base.versions) {
      const reason =
        faultOf(graph, base, stage, bases.get(stage)) ??
        costFault(costPropertyOf(batching.get(stage)), costPropertyOf(batching.get(base.id)));
      bases.set(stage, bases.get(stage) ?? base);
      if (reason !== null && !invalid.has(base.id)) invalid.set(base.id, `Versions: ${reason}`);
    }
  }
}

function faultOf(graph: Graph, base: StageNode, id: string, other: StageNode | undefined): string | null {
  const version = graph.get(id);
  if (version === base) return 'a stage cannot be a version of itself';
  if (version?.kind !== 'stage') return `the stage ${id} does not exist, or is disabled`;
  if (other) return `stage ${version.name} is a version of stage ${other.name} already`;
  // Its settings are not known. It gets no requests, and its own badge says why.
  if (version.invalid !== null) return null;
  if (version.versions.length > 0) return `stage ${version.name} lists versions itself`;
  if (version.runtime !== base.runtime) return `stage ${version.name} belongs to another runtime`;
  if (version.input !== base.input)
    return `stage ${version.name} reads msg.${version.input}, this one reads msg.${base.input}`;
  if (version.output !== base.output)
    return `stage ${version.name} writes msg.${version.output}, this one writes msg.${base.output}`;
  if (version.keyBy !== base.keyBy)
    return `stage ${version.name} ${keysOf(version)}, this one ${keysOf(base)}: the messages of a key would get apart`;
  if (base.keyBy !== '' && base.sticky !== base.keyBy)
    return `Sticky by must be ${base.keyBy}, as Key is: the messages of a key must get to one version`;
  return null;
}

/** The costs of requests are read by the property of the base. */
function costFault(ofVersion: string, ofBase: string): string | null {
  if (ofVersion === '' || ofVersion === ofBase) return null;
  return `the batcher of a version has the costs msg.${ofVersion}, that of this stage ${ofBase === '' ? 'none' : `msg.${ofBase}`}`;
}

function keysOf({ keyBy }: StageNode): string {
  return keyBy === '' ? 'has no keys' : `has the keys msg.${keyBy}`;
}

/** Returns the base of each version, by the ids of their nodes. */
export function basesOf(graph: Graph): Map<string, string> {
  return new Map(
    nodesOf(graph, 'stage').flatMap(({ id, versions }) => versions.map(({ stage }) => [stage, id] as const)),
  );
}

export function withVersions(graph: Graph, stages: readonly string[]): StageNode[] {
  return stages.flatMap((id) => {
    const stage = stageAt(graph, id);
    if (!stage) return [];
    const versions = stage.versions.map((version) => version.stage);
    return [stage, ...withVersions(graph, versions)];
  });
}

/** Returns what a stage, or a version of it, does with whole messages; null: they need their input alone. */
export function wholeUse(graph: Graph, id: string): string | null {
  const found = withVersions(graph, [id]).find(({ whole }) => whole !== null);
  return found ? `stage ${found.name} ${found.whole}` : null;
}

/** Returns the versions that only their bases can give requests to: no wire leads to them, but from idle batchers. */
export function unwiredVersions(graph: Graph): Set<string> {
  const reached = new Set([...graph.values()].flatMap(({ wires }) => wires.flat()));
  const sending = [...graph.values()].filter(({ kind, id }) => kind !== 'batcher' || reached.has(id));
  const fed = new Set(sending.flatMap(({ wires }) => wires.flat()));
  return new Set([...basesOf(graph).keys()].filter((id) => !fed.has(id)));
}

/** Returns a warning for each version that gets no requests, at its base. @param usable ids of the stages that can run */
export function unusableVersions(graph: Graph, usable: ReadonlySet<string>): NodeWarning[] {
  return [...basesOf(graph)].flatMap(([version, base]) => {
    if (!usable.has(base) || usable.has(version)) return [];
    const name = stageAt(graph, version)?.name ?? version;
    return [{ id: base, text: `version ${name} cannot be used, see its badge: this stage answers its requests` }];
  });
}

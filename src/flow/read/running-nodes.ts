/** Lists the running nodes with their definitions. A node inside a subflow runs once in each of its instances. */
import { walk } from '../walk.ts';

/** A node's definition in the flows. */
export interface Definition {
  readonly id: string;
  readonly type: string;
  readonly z?: string;
  /** Id of the group that contains the node. */
  readonly g?: string;
  readonly name?: string;
  readonly info?: string;
  readonly label?: string;
  /** Ids of the other ends of a link node. */
  readonly links?: readonly string[] | string;
  readonly linkType?: string;
  readonly mode?: string;
  /** The nodes that a Complete, Catch or Status node watches. */
  readonly scope?: readonly string[] | string | null;
}

/** A running node, as far as the compiler reads it. */
export interface WiredNode {
  readonly id: string;
  readonly type: string;
  readonly wires?: readonly (readonly string[])[];
}

/** A place where the nodes of a tab or a subflow run: the tab itself, or an instance of the subflow. */
export interface FlowPlace {
  /** Prefix of the ids of the nodes that run there. */
  readonly prefix: string;
  /** The tab, or that of the instance; undefined for nodes that all flows share. */
  readonly tab: Definition | undefined;
  /** The subflow instances around the nodes, from the inside out. */
  readonly instances: readonly Definition[];
}

export interface RunningNode<Node extends WiredNode = WiredNode> extends FlowPlace {
  readonly node: Node;
  readonly definition: Definition;
}

/** Begins the type of a subflow's instance. */
export const SUBFLOW = 'subflow:';

/** @param find returns the node that runs at a place; null if it does not run there */
export function runningNodes<Node extends WiredNode>(
  definitions: readonly Definition[],
  find: (definition: Definition, place: FlowPlace) => Node | null,
): RunningNode<Node>[] {
  const tabs = new Map<string, Definition>();
  const instances = new Map<string, Definition[]>();
  for (const definition of definitions) {
    const { id, type } = definition;
    if (type === 'tab') tabs.set(id, definition);
    if (!type.startsWith(SUBFLOW)) continue;
    const subflow = type.slice(SUBFLOW.length);
    instances.set(subflow, [...(instances.get(subflow) ?? []), definition]);
  }
  const placesOf = (z = ''): FlowPlace[] => {
    const of = instances.get(z);
    if (!of) return [{ prefix: '', tab: tabs.get(z), instances: [] }];
    return of.flatMap((instance) =>
      placesOf(instance.z).map(({ prefix, tab, instances: around }) => ({
        prefix: `${prefix}${instance.id}-`,
        tab,
        instances: [instance, ...around],
      })),
    );
  };
  return definitions.flatMap((definition) =>
    placesOf(definition.z).flatMap((place) => {
      const node = find(definition, place);
      return node ? [{ node, definition, ...place }] : [];
    }),
  );
}

/** Returns the nodes of all flows that contain a wanted node, and of all flows joined to these by links. */
export function flowsWith<Node extends WiredNode>(
  running: readonly RunningNode<Node>[],
  isWanted: (node: Node) => boolean,
): RunningNode<Node>[] {
  const linked = linkedFlows(running);
  const first = running.flatMap(({ node, tab }) => (tab && isWanted(node) ? [tab.id] : []));
  const chosen = new Set(walk(first, (id) => linked.get(id) ?? []));
  return running.filter(({ tab }) => tab && chosen.has(tab.id));
}

/** Returns for each flow the flows that links join to it, in either direction. */
function linkedFlows(running: readonly RunningNode[]): ReadonlyMap<string, ReadonlySet<string>> {
  const tabs = new Map(running.map(({ definition, tab }) => [definition.id, tab?.id]));
  const linked = new Map<string, Set<string>>();
  const join = (one: string, other: string): unknown => linked.set(one, (linked.get(one) ?? new Set()).add(other));
  const linkIns = running.flatMap(({ definition: { id, type } }) => (type === 'link in' ? [id] : []));
  for (const { definition, tab } of running) {
    // The target of a dynamic link call is in the message.
    const isDynamic = definition.type === 'link call' && definition.linkType === 'dynamic';
    for (const end of isDynamic ? linkIns : [definition.links ?? []].flat()) {
      const other = tabs.get(end);
      if (!tab || other === undefined) continue;
      join(tab.id, other);
      join(other, tab.id);
    }
  }
  return linked;
}

/** Returns the place in which the innermost subflow instance of a place runs. */
export function outerPlace({ prefix, tab, instances }: FlowPlace): FlowPlace {
  const [instance, ...around] = instances;
  return instance
    ? { prefix: prefix.slice(0, -(instance.id.length + 1)), tab, instances: around }
    : { prefix, tab, instances };
}

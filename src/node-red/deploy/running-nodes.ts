/** Lists the running nodes with their definitions. A node inside a subflow runs once in each of its instances. */
import type { Node, NodeAPI } from 'node-red';
import { walk } from '../../flow/walk.ts';

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

export type WiredNode = Node & { readonly wires?: readonly (readonly string[])[] };

export interface RunningNode {
  readonly node: WiredNode;
  readonly definition: Definition;
  /** The flow that contains the node or its subflow's instance; undefined for a node that all flows share. */
  readonly tab: Definition | undefined;
  /** The subflow instances around the node, from the inside out. */
  readonly instances: readonly Definition[];
}

/** A place where the nodes of a tab or a subflow run: the tab itself, or an instance of the subflow. */
interface Place {
  /** Prefix of the ids of the nodes that run there. */
  readonly prefix: string;
  readonly tab: Definition | undefined;
  readonly instances: readonly Definition[];
}

/** Begins the type of a subflow's instance. */
export const SUBFLOW = 'subflow:';

export function runningNodes(RED: NodeAPI): RunningNode[] {
  const definitions: Definition[] = [];
  const tabs = new Map<string, Definition>();
  const instances = new Map<string, Definition[]>();
  RED.nodes.eachNode((one) => {
    const definition = one as unknown as Definition;
    const { id, type } = definition;
    definitions.push(definition);
    if (type === 'tab') tabs.set(id, definition);
    if (!type.startsWith(SUBFLOW)) return;
    const subflow = type.slice(SUBFLOW.length);
    instances.set(subflow, [...(instances.get(subflow) ?? []), definition]);
  });
  const placesOf = (z = ''): Place[] => {
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
    placesOf(definition.z).flatMap(({ prefix, tab, instances: around }) => {
      const node = RED.nodes.getNode(prefix + definition.id) as WiredNode | null;
      return node ? [{ node, definition, tab, instances: around }] : [];
    }),
  );
}

/** Returns the nodes of all flows that contain a wanted node, and of all flows joined to these by links. */
export function flowsWith(running: readonly RunningNode[], isWanted: (node: Node) => boolean): RunningNode[] {
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

/** The HTTP-in nodes that run, those of subflows' instances too. */
import type { Node, NodeAPI } from 'node-red';

/** What flows have of a node. */
interface Definition {
  readonly id: string;
  readonly type: string;
  readonly z?: string;
  readonly name?: string;
  readonly info?: string;
  readonly label?: string;
}

type RunningHttpIn = Node & { readonly method?: string; readonly url?: string; readonly upload?: boolean };

export interface HttpIn {
  readonly id: string;
  readonly method: string;
  /** As Express takes it. */
  readonly url: string;
  /** Files may be sent to it. */
  readonly upload: boolean;
  /** '' where it has none. */
  readonly name: string;
  readonly info: string;
  /** The flow that it is in, or that its subflow's instance is in. */
  readonly tab: { readonly label: string; readonly info: string };
}

/** Where nodes of a tab or a subflow run: once on a tab, once in each instance of a subflow. */
interface Place {
  /** What their ids begin with. */
  readonly prefix: string;
  readonly tab: HttpIn['tab'];
}

const SUBFLOW = 'subflow:';

export function httpIns(RED: NodeAPI): HttpIn[] {
  const definitions: Definition[] = [];
  const tabs = new Map<string, Definition>();
  const instances = new Map<string, Definition[]>();
  RED.nodes.eachNode((one) => {
    const definition = one as unknown as Definition;
    const { id, type } = definition;
    if (type === 'http in') definitions.push(definition);
    if (type === 'tab') tabs.set(id, definition);
    if (!type.startsWith(SUBFLOW)) return;
    const subflow = type.slice(SUBFLOW.length);
    instances.set(subflow, [...(instances.get(subflow) ?? []), definition]);
  });
  const placesOf = (z = ''): Place[] => {
    const of = instances.get(z);
    const { label = '', info = '' } = tabs.get(z) ?? {};
    if (!of) return [{ prefix: '', tab: { label, info } }];
    return of.flatMap((instance) =>
      placesOf(instance.z).map(({ prefix, tab }) => ({ prefix: `${prefix}${instance.id}-`, tab })),
    );
  };
  return definitions.flatMap((definition) =>
    placesOf(definition.z).flatMap((place) => running(RED, definition, place)),
  );
}

function running(RED: NodeAPI, { id, name = '', info = '' }: Definition, { prefix, tab }: Place): HttpIn[] {
  // Its settings are those of the node that runs: variables of the environment have been put in.
  const node = RED.nodes.getNode(prefix + id) as RunningHttpIn | null;
  if (!node?.method || !node.url) return [];
  const { method, url, upload = false } = node;
  return [{ id: node.id, method, url, upload, name, info, tab }];
}

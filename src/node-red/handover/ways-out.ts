/** Finds out where messages can go in the running flows: to an HTTP response, to a pipeline, or to neither. */
import type { Definition, RunningNode, WiredNode } from './running-nodes.ts';

export interface WaysOut {
  /** Whether results reach an HTTP response from a node. Paths of errors do not count. */
  canAnswer(id: string): boolean;
  /** Whether an HTTP response or a pipeline node is reachable: a message that ends here is a loss. */
  leadsOn(id: string): boolean;
  /** Whether `leadsOn` holds and messages reach the node by a wire or link, so that they do not begin there. */
  isPassed(id: string): boolean;
  /** Returns all nodes that a message can reach from a node, itself included, also through Catch nodes. */
  reachedFrom(id: string): ReadonlySet<string>;
}

export const NO_WAYS: WaysOut = {
  canAnswer: () => false,
  leadsOn: () => false,
  isPassed: () => false,
  reachedFrom: () => new Set(),
};

type Wires = ReadonlyMap<string, readonly string[]>;

export function isPipelineNode({ type }: Pick<Definition, 'type'>): boolean {
  return type.startsWith('modelet-');
}

export function waysOut(running: readonly RunningNode[]): WaysOut {
  const links = new Links(running);
  const results: Map<string, readonly string[]> = new Map();
  const all: Map<string, readonly string[]> = new Map();
  for (const one of running) {
    const { id, wires = [] } = one.node;
    const linked = links.from(one);
    // The second output of a pipeline node is for errors.
    results.set(id, [...(isPipelineNode(one.node) ? (wires[0] ?? []) : wires.flat()), ...linked]);
    all.set(id, [...wires.flat(), ...linked, ...links.catches(one)]);
  }
  const idsOf = (isWanted: (node: WiredNode) => boolean): string[] =>
    running.flatMap(({ node }) => (isWanted(node) ? [node.id] : []));
  const backwards = turned(results);
  const responses = idsOf(({ type }) => type === 'http response');
  const answering = reach(responses, backwards);
  const leading = reach([...responses, ...idsOf(isPipelineNode)], backwards);
  const reached = new Map<string, ReadonlySet<string>>();
  return {
    canAnswer: (id) => answering.has(id),
    leadsOn: (id) => leading.has(id),
    isPassed: (id) => leading.has(id) && backwards.has(id),
    reachedFrom: (id) => {
      const known = reached.get(id) ?? reach([id], all);
      reached.set(id, known);
      return known;
    },
  };
}

/** The paths that are not wires: links and Catch nodes. */
class Links {
  /** Ids of the running nodes, by the id of their definition. */
  readonly #running: Map<string, string[]> = new Map();
  readonly #linkIns: string[] = [];
  /** Ids of the nodes wired to the outputs of link calls. */
  readonly #behindCalls: string[] = [];
  readonly #catches: Map<string, string[]> = new Map();

  constructor(running: readonly RunningNode[]) {
    for (const { node, definition, tab } of running) {
      add(this.#running, definition.id, node.id);
      if (node.type === 'link call') this.#behindCalls.push(...(node.wires ?? []).flat());
      if (node.type === 'link in') this.#linkIns.push(node.id);
      if (node.type === 'catch' && tab) add(this.#catches, tab.id, node.id);
    }
  }

  /** Returns the targets of a link call; for a link out in return mode, the nodes wired to any link call. */
  from({ node: { type }, definition: { links = [], linkType, mode } }: RunningNode): readonly string[] {
    // The message names the target of a dynamic link call, so any link in may be it.
    if (type === 'link call' && linkType === 'dynamic') return this.#linkIns;
    if (type === 'link call') return [links].flat().flatMap((id) => this.#running.get(id) ?? []);
    return type === 'link out' && mode === 'return' ? this.#behindCalls : [];
  }

  catches({ tab }: RunningNode): readonly string[] {
    return (tab && this.#catches.get(tab.id)) ?? [];
  }
}

function add(lists: Map<string, string[]>, key: string, value: string): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

function turned(wires: Wires): Wires {
  const backwards = new Map<string, string[]>();
  for (const [from, targets] of wires) for (const to of targets) add(backwards, to, from);
  return backwards;
}

function reach(from: readonly string[], wires: Wires): Set<string> {
  const seen = new Set<string>();
  const pending = [...from];
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    if (seen.has(id)) continue;
    seen.add(id);
    pending.push(...(wires.get(id) ?? []));
  }
  return seen;
}

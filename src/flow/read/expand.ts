/**
 * Makes running nodes of the definitions in a flow file, as Node-RED does when it starts flows: leaves out what is
 * disabled, expands the instances of subflows, wires their borders and links, and replaces `${NAME}`.
 */
import { walk } from '../walk.ts';
import type { Environment } from './environment.ts';
import type { Flows } from './graph-reader.ts';
import {
  type Definition,
  type FlowPlace,
  outerPlace,
  type RunningNode,
  runningNodes,
  SUBFLOW,
  type WiredNode,
} from './running-nodes.ts';

/** A node as the file has it. */
export type FileDefinition = Definition & Readonly<Record<string, unknown>>;

/** A node that would run in Node-RED, with its properties. */
export type FileNode = WiredNode &
  Readonly<Record<string, unknown>> & {
    readonly name?: string;
    /** Why a property has no value; absent if all have. */
    readonly problem?: string;
  };

export interface FileFlows extends Flows {
  readonly running: readonly RunningNode<FileNode>[];
}

interface SubflowPort {
  readonly wires?: readonly { readonly id: string; readonly port?: number }[];
}
type Subflow = Definition & { readonly in?: readonly SubflowPort[]; readonly out?: readonly SubflowPort[] };
type NodeOutputs = readonly (readonly string[])[];

/** Types of definitions that no node runs for. */
const NO_NODES: ReadonlySet<string> = new Set(['tab', 'subflow', 'group']);
/** Properties that hold no references and no variables. */
const AS_THEY_ARE: ReadonlySet<string> = new Set(['id', 'type', 'z', 'wires', 'env', 'scope']);

/** @throws Error if a subflow contains itself */
export function expand(definitions: readonly FileDefinition[], environment: Environment): FileFlows {
  rejectCircles(definitions);
  const expansion = new Expansion(definitions, environment);
  const running = runningNodes(definitions, (definition, place) =>
    expansion.nodeAt(definition as FileDefinition, place),
  );
  const nodes = new Map(running.map(({ node }) => [node.id, node]));
  return { definitions, running, getNode: (id) => nodes.get(id) ?? null };
}

function rejectCircles(definitions: readonly Definition[]): void {
  const inside = (subflow: string): string[] =>
    definitions.flatMap(({ z, type }) =>
      z === subflow && type.startsWith(SUBFLOW) ? [type.slice(SUBFLOW.length)] : [],
    );
  for (const { id, type, name } of definitions) {
    if (type === 'subflow' && [...walk(inside(id), inside)].includes(id)) {
      throw new Error(`the subflow ${name || id} contains itself`);
    }
  }
}

class Expansion {
  readonly #environment: Environment;
  readonly #subflows: Map<string, Subflow> = new Map();
  /** Ids of the definitions in a subflow, by its id. */
  readonly #inside: Map<string, Set<string>> = new Map();
  /** Targets of link-out nodes, by the id of their definition. */
  readonly #links: Map<string, Set<string>> = new Map();

  constructor(definitions: readonly FileDefinition[], environment: Environment) {
    this.#environment = environment;
    for (const definition of definitions) {
      const { id, type, z = '', links = [] } = definition;
      if (type === 'subflow') this.#subflows.set(id, definition);
      addTo(this.#inside, z, id);
      // Either end of a link may name the other.
      if (type === 'link out') for (const target of [links].flat()) addTo(this.#links, id, target);
      if (type === 'link in') for (const source of [links].flat()) addTo(this.#links, source, id);
    }
  }

  /** Returns the node that runs at a place; null if none does. */
  nodeAt(definition: FileDefinition, place: FlowPlace): FileNode | null {
    const isOff = [definition, ...place.instances].some((one) => (one as FileDefinition)['d'] === true);
    const isTemplate = place.instances.length === 0 && this.#subflows.has(definition.z ?? '');
    if (NO_NODES.has(definition.type) || isOff || isTemplate) return null;
    if ((place.tab as FileDefinition | undefined)?.['disabled'] === true) return null;
    const { id, type } = definition;
    const wires = this.#wires(definition, place);
    const fixed = { id: place.prefix + id, type, wires };
    try {
      return { ...this.#properties(definition, place), ...fixed };
    } catch (thrown) {
      return { ...fixed, name: definition.name ?? '', problem: (thrown as Error).message };
    }
  }

  #properties(definition: FileDefinition, place: FlowPlace): Record<string, unknown> {
    const replaced = (value: unknown): unknown => {
      if (typeof value === 'string') {
        const name = /^\$(?:\{(\S+)\}|\((\S+)\))$/.exec(value);
        if (!name) return value;
        return this.#environment.lookUp(definition, place, (name[1] ?? name[2]) as string) ?? value;
      }
      if (Array.isArray(value)) return value.map(replaced);
      if (value === null || typeof value !== 'object') return value;
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, replaced(inner)]));
    };
    const properties = Object.entries(definition).map(([name, value]) => {
      if (AS_THEY_ARE.has(name)) return [name, value] as const;
      return [
        name,
        replaced(typeof value === 'string' ? (this.#local(definition, place, value) ?? value) : value),
      ] as const;
    });
    return asRun(Object.fromEntries(properties));
  }

  /** Returns the wires of a node. Those of a subflow's instance lead to the nodes inside. */
  #wires(definition: FileDefinition, place: FlowPlace): NodeOutputs {
    const outputs = this.#outputs(definition, place);
    const subflow = this.#subflows.get(definition.type.slice(SUBFLOW.length));
    if (!definition.type.startsWith(SUBFLOW) || !subflow) return outputs;
    return (subflow.in ?? []).map(({ wires = [] }, input) => [
      ...wires.filter(({ id }) => id !== subflow.id).map(({ id }) => `${place.prefix}${definition.id}-${id}`),
      // An input may be wired straight to outputs.
      ...(subflow.out ?? []).flatMap((out, output) =>
        (out.wires ?? []).some(({ id, port = 0 }) => id === subflow.id && port === input)
          ? (outputs[output] ?? [])
          : [],
      ),
    ]);
  }

  /** Returns the nodes behind each output of a node, also those behind the outputs of the subflow around it. */
  #outputs(definition: FileDefinition, place: FlowPlace): NodeOutputs {
    const drawn = this.#drawn(definition);
    const [instance] = place.instances;
    const subflow = this.#subflows.get(definition.z ?? '');
    if (!instance || !subflow) return drawn;
    const outputs = drawn.map((ids) => ids.flatMap((id) => this.#local(definition, place, id) ?? []));
    const beyond = this.#outputs(instance as FileDefinition, outerPlace(place));
    for (const [output, { wires = [] }] of (subflow.out ?? []).entries()) {
      for (const { id, port = 0 } of wires) {
        if (id === definition.id) outputs[port] = [...(outputs[port] ?? []), ...(beyond[output] ?? [])];
      }
    }
    return outputs;
  }

  #drawn({ id, type, wires }: FileDefinition): NodeOutputs {
    if (type === 'link out') return [[...(this.#links.get(id) ?? [])]];
    return Array.isArray(wires) ? (wires as NodeOutputs) : [];
  }

  /** Returns the id, at a place, of a node beside another in its subflow; undefined if it is not beside it. */
  #local({ z = '' }: Definition, { prefix, instances }: FlowPlace, id: string): string | undefined {
    return instances.length > 0 && this.#inside.get(z)?.has(id) ? prefix + id : undefined;
  }
}

/** Returns the properties as the nodes of Node-RED have them when they run. */
function asRun(properties: Record<string, unknown>): Record<string, unknown> {
  const { type, url, statusCode } = properties;
  if (type === 'http in' && typeof url === 'string' && url !== '' && !url.startsWith('/')) {
    return { ...properties, url: `/${url}` };
  }
  return type === 'http response' ? { ...properties, statusCode: Number.parseInt(String(statusCode), 10) } : properties;
}

function addTo(sets: Map<string, Set<string>>, key: string, id: string): void {
  sets.set(key, (sets.get(key) ?? new Set()).add(id));
}

/**
 * Looks up `${NAME}` as Node-RED does: in the groups around a node, its subflow instances, its tab, the global
 * environment variables of the flows and at last in the environment of the process. Credentials are not read.
 */
import { type Definition, type FlowPlace, outerPlace } from './running-nodes.ts';

interface EnvEntry {
  readonly name: string;
  readonly value?: unknown;
  readonly type?: string;
}

/** A definition that sets environment variables. */
export type WithEnv = Definition & { readonly env?: unknown };

/** A place in which variables are set. */
type Scope =
  | { readonly kind: 'group'; readonly group: WithEnv; readonly place: FlowPlace }
  | { readonly kind: 'flow'; readonly place: FlowPlace }
  | { readonly kind: 'global' };

/** The value of a variable that cannot be had here. Only a node that needs it is refused. */
class UnreadableVariable {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }
}

const PARENT = '$parent.';

export class Environment {
  readonly #definitions: ReadonlyMap<string, WithEnv>;
  readonly #ofProcess: Readonly<Record<string, string | undefined>>;
  /** Why values could not be had, of all that were looked up. */
  readonly unread: Set<string> = new Set();
  readonly #known: Map<string, ReadonlyMap<string, unknown>> = new Map();

  constructor(definitions: readonly WithEnv[], ofProcess: Readonly<Record<string, string | undefined>> = process.env) {
    this.#definitions = new Map(definitions.map((definition) => [definition.id, definition]));
    this.#ofProcess = ofProcess;
  }

  /**
   * Returns the value of a variable for a node; undefined if it is not set.
   * @throws Error if its value cannot be had without Node-RED
   */
  lookUp(definition: Definition, place: FlowPlace, name: string): unknown {
    if (name === 'NR_NODE_NAME') return definition.name;
    if (name === 'NR_NODE_ID') return place.prefix + definition.id;
    if (name === 'NR_NODE_PATH') return `${pathOf(place)}/${definition.id}`;
    const found = this.#find(this.#around(definition, place), name);
    if (!(found instanceof UnreadableVariable)) return found;
    const problem = `the environment variable ${name} ${found.reason}`;
    this.unread.add(problem);
    throw new Error(problem);
  }

  /** Returns the scope that a definition at a place looks in first. */
  #around({ g }: Definition, place: FlowPlace): Scope {
    const group = g === undefined ? undefined : this.#definitions.get(g);
    return group ? { kind: 'group', group, place } : { kind: 'flow', place };
  }

  #parentOf(scope: Exclude<Scope, { kind: 'global' }>): Scope {
    if (scope.kind === 'group') return this.#around(scope.group, scope.place);
    const [instance] = scope.place.instances;
    return instance ? this.#around(instance, outerPlace(scope.place)) : { kind: 'global' };
  }

  #find(scope: Scope, name: string): unknown {
    const isOfParent = name.startsWith(PARENT);
    if (!isOfParent) {
      const special = ownNames(scope);
      if (Object.hasOwn(special, name)) return special[name];
      const env = this.#variables(scope);
      if (env.has(name)) return env.get(name);
    }
    const key = isOfParent ? name.slice(PARENT.length) : name;
    return scope.kind === 'global' ? this.#ofProcess[key] : this.#find(this.#parentOf(scope), key);
  }

  #variables(scope: Scope): ReadonlyMap<string, unknown> {
    const key = keyOf(scope);
    const known = this.#known.get(key);
    if (known) return known;
    const entries = this.#entriesOf(scope);
    const variables = new Map<string, unknown>();
    for (const { name, value, type = 'str' } of entries) variables.set(name, this.#read(scope, value, type));
    // Those that refer to others come last, as in Node-RED.
    for (const { name, value, type } of entries) {
      if (type === 'env') variables.set(name, this.#refer(scope, variables, name, String(value)));
    }
    this.#known.set(key, variables);
    return variables;
  }

  #entriesOf(scope: Scope): readonly EnvEntry[] {
    if (scope.kind === 'group') return entriesOf(scope.group);
    if (scope.kind === 'global') {
      return [...this.#definitions.values()].filter(({ type }) => type === 'global-config').flatMap(entriesOf);
    }
    const [instance] = scope.place.instances;
    if (!instance) return scope.place.tab ? entriesOf(scope.place.tab) : [];
    const template = this.#definitions.get(instance.type.slice('subflow:'.length));
    const all = [...(template ? entriesOf(template) : []), ...entriesOf(instance)];
    return [...new Map(all.map((entry) => [entry.name, entry])).values()];
  }

  #read(scope: Scope, value: unknown, type: string): unknown {
    switch (type) {
      case 'str':
        return String(value);
      case 'num':
        return Number(value);
      case 'bool':
        return value === true || value === 'true';
      case 'json':
        return parsed(String(value));
      case 'cred':
        return new UnreadableVariable('is a credential, and credentials are not read without Node-RED');
      case 'conf-type': {
        const name = /^\$\{([^}]+)\}$/.exec(String(value))?.[1];
        return name === undefined ? value : this.#find(scope.kind === 'global' ? scope : this.#parentOf(scope), name);
      }
      case 'env':
        return value;
      default:
        return new UnreadableVariable(`has a value of type ${type}, which only Node-RED works out`);
    }
  }

  /** Returns the value of a variable that refers to another. */
  #refer(scope: Scope, own: ReadonlyMap<string, unknown>, name: string, text: string): unknown {
    const value = text === name ? `${PARENT}${name}` : text;
    if (own.has(value)) return own.get(value);
    const look = (asked: string): unknown => {
      if (own.has(asked)) return own.get(asked);
      if (scope.kind === 'global') return this.#ofProcess[asked.replace(PARENT, '')];
      return this.#find(this.#parentOf(scope), asked.replace(PARENT, ''));
    };
    const whole = /^\$\{([^}]+)\}$/.exec(value)?.[1];
    if (whole !== undefined) return look(whole) ?? '';
    if (!/\$\{\S+\}/.test(value)) return look(value) ?? '';
    return value.replace(/\$\{([^}]+)\}/g, (_, asked: string) => String(look(asked) ?? ''));
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return new UnreadableVariable('is not valid JSON');
  }
}

function entriesOf({ env }: WithEnv): readonly EnvEntry[] {
  return Array.isArray(env) ? (env as EnvEntry[]) : [];
}

/** Returns the variables that Node-RED itself sets. */
function ownNames(scope: Scope): Readonly<Record<string, string | undefined>> {
  if (scope.kind === 'global') return {};
  const { prefix, tab, instances } = scope.place;
  if (scope.kind === 'group') {
    const { id, name } = scope.group;
    return { NR_GROUP_NAME: name, NR_GROUP_ID: prefix + id };
  }
  const [instance] = instances;
  if (!instance) return { NR_FLOW_NAME: tab?.label, NR_FLOW_ID: tab?.id };
  const id = prefix.slice(0, -1);
  return { NR_SUBFLOW_NAME: instance.name, NR_SUBFLOW_ID: id, NR_SUBFLOW_PATH: pathOf(scope.place) };
}

/** Returns the ids of a place's tab and instances, from the outside in. */
function pathOf({ tab, instances }: FlowPlace): string {
  return [...instances.map(({ id }) => id), tab?.id ?? 'global'].reverse().join('/');
}

function keyOf(scope: Scope): string {
  if (scope.kind === 'global') return 'global';
  const { prefix, tab } = scope.place;
  return `${scope.kind} ${prefix} ${tab?.id} ${scope.kind === 'group' ? scope.group.id : ''}`;
}

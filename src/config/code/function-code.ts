/**
 * Reads code that has the habits of a function node's: finds what it uses besides the payload, and what a stage's worker
 * does not have, or does otherwise. Errs on the side of finding too much: code without an obstacle behaves in a worker as
 * in Node-RED.
 */
import type { AnyNode, CallExpression, Identifier, MemberExpression, Program, ReturnStatement } from 'acorn';
import { full } from 'acorn-walk';
import {
  type ContextKey,
  type ContextPlace,
  type ContextScope,
  isSamePlace,
  type MessageUse,
} from '../../core/whole-messages.ts';
import { canEnd } from './reachable-end.ts';
import {
  isChanged,
  isFunction,
  isPromise,
  keysTaken,
  mayRunLater,
  memberKey,
  parseBody,
  type Scopes,
  scopesOf,
  walkCode,
} from './scopes.ts';

/** Why code cannot move as it is. The editor has a sentence for each. */
export type Reason =
  | 'syntax'
  | 'context'
  | 'util'
  | 'send'
  | 'node'
  | 'client'
  | 'drops'
  | 'outputs'
  | 'returns'
  | 'env'
  | 'timer'
  | 'source'
  | 'batch'
  | 'ctx'
  | 'require';

export interface Obstacle {
  readonly tab: 'setup' | 'code' | 'teardown';
  /** Counted from 1. */
  readonly line: number;
  readonly reason: Reason;
  /** The expression in question, for example `flow.get`, or the message of a syntax error. */
  readonly name: string;
}

/** The things that code uses, as far as its text shows. */
export interface CodeReading extends Pick<MessageUse, 'keys' | 'stores' | 'writes' | 'updates' | 'sends' | 'waits'> {
  readonly obstacles: readonly Obstacle[];
  /** Names that the code gives to `env.get` as text. */
  readonly variables: ReadonlySet<string>;
  /** Properties of the message besides the payload, in the order of the code. */
  readonly properties: ReadonlySet<string>;
  /** Uses that give a stage whole messages, as a text for people. */
  readonly whys: readonly string[];
  /** Whether it uses the context stores, or sends, reports or ends by `node`: only function nodes had these before. */
  readonly isOfFunctionNode: boolean;
  /** Whether something may read or change any property. */
  readonly isWhole: boolean;
  /** Kinds of values that it returns, outside of inner functions. */
  readonly returns: ReadonlySet<'message' | 'nothing' | 'array' | 'other'>;
  /** Whether it uses `input`, as code of a stage does. */
  readonly takesInput: boolean;
}

type Found = { -readonly [Name in keyof CodeReading]: CodeReading[Name] } & {
  readonly obstacles: Obstacle[];
  readonly variables: Set<string>;
  readonly properties: Set<string>;
  readonly whys: string[];
  readonly keys: ContextKey[];
  readonly stores: ContextPlace[];
  readonly returns: Set<'message' | 'nothing' | 'array' | 'other'>;
};

/** Members of RED.util that a worker has, see src/runtime/worker/sources/message-tools.ts. */
export const UTIL_NAMES: readonly string[] = [
  ...['cloneMessage', 'generateId', 'ensureString', 'ensureBuffer', 'compareObjects'],
  ...['getMessageProperty', 'setMessageProperty', 'getObjectProperty', 'setObjectProperty'],
];

const MEMBERS_OF_NODE: ReadonlySet<string> = new Set([
  ...['log', 'warn', 'error', 'debug', 'trace', 'name', 'send', 'status', 'done'],
]);
const SCHEDULES: ReadonlySet<string> = new Set(['setTimeout', 'setInterval', 'setImmediate']);
const SCOPES: ReadonlySet<string> = new Set(['context', 'flow', 'global'] satisfies ContextScope[]);

/** The methods of a context that a worker has, and the place of the store among their arguments. */
const STORE_AT: ReadonlyMap<string, number> = new Map([
  ...([
    ['get', 1],
    ['set', 2],
    ['increment', 2],
    ['update', 2],
    ['keys', 0],
  ] as const),
]);

/** Returns the line of each name that code uses, the first one; empty for code that is not valid. */
export function namesIn(text: string): ReadonlyMap<string, number> {
  const names = new Map<string, number>();
  try {
    full(parseBody(text), (node) => {
      if (node.type !== 'Identifier') return;
      const { name, loc } = node as Identifier;
      names.set(name, Math.min(names.get(name) ?? Number.POSITIVE_INFINITY, loc?.start.line ?? 1));
    });
  } catch {
    // Then nothing can be said of it. The editor marks the error.
  }
  return names;
}

/** Reads one tab. Its obstacles are in order of lines. */
export function readFunctionCode(text: string, tab: Obstacle['tab']): CodeReading {
  const found: Found = {
    ...{ obstacles: [], variables: new Set(), properties: new Set(), whys: [], keys: [], stores: [] },
    ...{ returns: new Set(), isOfFunctionNode: false, isWhole: false, writes: false, updates: false, sends: false },
    ...{ waits: false, takesInput: false },
  };
  try {
    new CodeReader(found, text, tab).read(parseBody(text));
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    const { line = 1 } = (thrown as SyntaxError & { loc?: { line: number } }).loc ?? {};
    found.obstacles.push({ tab, line, reason: 'syntax', name: thrown.message });
  }
  found.obstacles.sort((a, b) => a.line - b.line);
  return found;
}

class CodeReader {
  readonly #found: Found;
  readonly #text: string;
  readonly #tab: Obstacle['tab'];
  #scopes: Scopes = new Map();

  constructor(found: Found, text: string, tab: Obstacle['tab']) {
    this.#found = found;
    this.#text = text;
    this.#tab = tab;
  }

  read(program: Program): void {
    this.#scopes = scopesOf(program);
    // Whether a run lasts until `node.done()` decides what its timers may do.
    this.#found.waits = /\bnode\s*\.\s*done\b/.test(this.#text);
    walkCode(program, {
      Identifier: (node, ancestors) => this.#identifier(node as Identifier, ancestors),
      ReturnStatement: (node, ancestors) => {
        if (this.#tab === 'code' && !ancestors.some(isFunction))
          this.#returned((node as ReturnStatement).argument ?? null, node);
      },
      // The walker does not take the target of an assignment for an Identifier.
      VariablePattern: (node, ancestors) => this.#identifier(node as Identifier, ancestors),
    });
    if (this.#tab === 'code' && canEnd(program.body)) this.#found.returns.add('nothing');
  }

  #add(reason: Reason, at: AnyNode, named: AnyNode = at): void {
    const { line } = at.loc?.start ?? { line: 1 };
    const name = this.#text.slice(named.start, named.end);
    const { obstacles } = this.#found;
    const isKnown = obstacles.some((one) => one.line === line && one.reason === reason && one.name === name);
    if (!isKnown) obstacles.push({ tab: this.#tab, line, reason, name });
  }

  #identifier(node: Identifier, ancestors: readonly AnyNode[]): void {
    const { name } = node;
    if (ancestors.some((outer) => this.#scopes.get(outer)?.has(name))) return;
    const parent = ancestors.at(-2);
    const member = parent?.type === 'MemberExpression' && parent.object === node ? parent : null;
    if (SCOPES.has(name)) this.#context(node, member, ancestors);
    else if (name === 'RED') this.#util(node, member, ancestors);
    else if (name === 'node') this.#node(node, member, ancestors);
    else if (name === 'msg') this.#message(node, member, ancestors);
    else if (name === 'env') this.#env(node, member, ancestors);
    else if (name === 'input') this.#found.takesInput = true;
    else if (SCHEDULES.has(name) && !this.#found.waits && !ancestors.some(isPromise)) this.#add('timer', node);
  }

  /** Only a run has values of the context stores, and only those that its code names. */
  #context(node: Identifier, member: MemberExpression | null, ancestors: readonly AnyNode[]): void {
    const method = member && memberKey(member);
    const call = callOf(member, ancestors);
    const at = STORE_AT.get(method ?? '');
    if (this.#tab !== 'code' || !call || at === undefined) {
      this.#add('context', node, member ?? node);
      return;
    }
    this.#usesOfFunctionNode(`${node.name}.${method}`);
    const scope = node.name as ContextScope;
    if (method !== 'get' && method !== 'keys') this.#found.writes = true;
    if (method === 'update') this.#found.updates = true;
    if (method === 'set') return;
    const last = call.arguments[at];
    const [store = last && mayBeStore(last) ? null : ''] = textsIn(last);
    if (store === null) this.#add('context', node, call);
    else this.#reads({ scope, store }, method === 'keys' ? [] : textsIn(call.arguments[0]));
  }

  /** @param keys empty: any */
  #reads(at: ContextPlace, keys: readonly string[]): void {
    const { keys: known, stores } = this.#found;
    if (keys.length === 0 && !stores.some((one) => isSamePlace(one, at))) stores.push(at);
    for (const key of keys)
      if (!known.some((one) => isSamePlace(one, at) && one.key === key)) known.push({ ...at, key });
  }

  #util(node: Identifier, member: MemberExpression | null, ancestors: readonly AnyNode[]): void {
    const outer = ancestors.at(-3);
    const tool = outer?.type === 'MemberExpression' && outer.object === member ? outer : null;
    const isKnown = member && memberKey(member) === 'util' && tool && UTIL_NAMES.includes(memberKey(tool) ?? '');
    if (!isKnown) this.#add('util', node, tool ?? member ?? node);
  }

  #node(node: Identifier, member: MemberExpression | null, ancestors: readonly AnyNode[]): void {
    const key = member && memberKey(member);
    if (key === null || !MEMBERS_OF_NODE.has(key)) {
      this.#add('node', node, member ?? node);
      return;
    }
    const reports = key === 'error' && (callOf(member, ancestors)?.arguments.length ?? 0) > 1;
    if (!reports && key !== 'send' && key !== 'status' && key !== 'done') return;
    if (this.#tab !== 'code' || (!this.#found.waits && mayRunLater(ancestors))) this.#add('send', node, member ?? node);
    else this.#usesOfFunctionNode(`node.${key}`);
    if (key === 'send' || key === 'status') this.#found.sends = true;
  }

  #message(node: Identifier, member: MemberExpression | null, ancestors: readonly AnyNode[]): void {
    if (member) {
      const key = memberKey(member);
      if (key === 'req' || key === 'res') this.#add('client', node, member);
      else this.#uses(key, isChanged(member, ancestors));
      return;
    }
    const taken = keysTaken(node, ancestors.at(-2));
    if (taken) for (const key of taken) this.#uses(key, false);
    else if (!isResult(node, ancestors) && !isSent(ancestors.at(-2))) this.#uses(null, false);
  }

  #usesOfFunctionNode(member: string): void {
    this.#found.isOfFunctionNode = true;
    this.#found.whys.push(`uses ${member}`);
  }

  /** @param key null: any */
  #uses(key: string | null, changes: boolean): void {
    if (key === 'payload' || key === 'modelet') return;
    if (key === null) this.#found.isWhole = true;
    else this.#found.properties.add(key);
    // All inline code has the topic and the id.
    if (!changes && (key === 'topic' || key === '_msgid')) return;
    this.#found.whys.push(key === null ? 'uses the whole message' : `${changes ? 'changes' : 'reads'} msg.${key}`);
  }

  #env(node: Identifier, member: MemberExpression | null, ancestors: readonly AnyNode[]): void {
    const call = callOf(member, ancestors);
    const [name] = call ? textsIn(call.arguments[0]) : [];
    if (name !== undefined && /^\w+$/.test(name) && member && memberKey(member) === 'get')
      this.#found.variables.add(name);
    else this.#add('env', node, call ?? node);
  }

  #returned(value: AnyNode | null, at: AnyNode): void {
    const { returns } = this.#found;
    if (value === null || isNothing(value)) returns.add('nothing');
    else if (value.type === 'ConditionalExpression') {
      this.#returned(value.consequent, value.consequent);
      this.#returned(value.alternate, value.alternate);
    } else if (isMessage(value)) returns.add('message');
    else if (value.type === 'ArrayExpression') {
      returns.add(value.elements.some((one) => one && holdsMessage(one)) ? 'message' : 'array');
      // Code that returns no message at all returns values.
      this.#add('returns', at);
    } else {
      returns.add('other');
      this.#add('returns', at);
    }
  }
}

function callOf(member: MemberExpression | null, ancestors: readonly AnyNode[]): CallExpression | null {
  const call = ancestors.at(-3);
  return member && call?.type === 'CallExpression' && call.callee === member ? call : null;
}

/** Returns the text of a literal, or the texts of an array of literals; empty for anything else. */
function textsIn(value: AnyNode | undefined): string[] {
  if (value?.type === 'Literal') return typeof value.value === 'string' ? [value.value] : [];
  if (value?.type !== 'ArrayExpression') return [];
  const texts = value.elements.flatMap((one) => textsIn(one ?? undefined));
  return texts.length === value.elements.length ? texts : [];
}

/** Whether an argument may name a store, which the code then has to name as text. A plain name may be that of a callback. */
function mayBeStore({ type }: AnyNode): boolean {
  return !/^(Identifier|FunctionExpression|ArrowFunctionExpression)$/.test(type);
}

function isNothing(value: AnyNode): boolean {
  return (
    (value.type === 'Literal' && value.value === null) || (value.type === 'Identifier' && value.name === 'undefined')
  );
}

/** `msg`, or `Object.assign(msg, ...)`. */
function isMessage(value: AnyNode): boolean {
  if (value.type === 'Identifier') return value.name === 'msg';
  if (value.type !== 'CallExpression' || value.callee.type !== 'MemberExpression') return false;
  const { object } = value.callee;
  const isAssign = object.type === 'Identifier' && object.name === 'Object' && memberKey(value.callee) === 'assign';
  return isAssign && value.arguments[0] !== undefined && isMessage(value.arguments[0]);
}

function holdsMessage(value: AnyNode): boolean {
  return (
    isMessage(value) || (value.type === 'ArrayExpression' && value.elements.some((one) => one && holdsMessage(one)))
  );
}

/** Whether a node is a call of `node.send` or `node.error`, which take messages. */
function isSent(node: AnyNode | undefined): boolean {
  if (node?.type !== 'CallExpression' || node.callee.type !== 'MemberExpression') return false;
  const { object } = node.callee;
  return object.type === 'Identifier' && object.name === 'node' && /^(send|error)$/.test(memberKey(node.callee) ?? '');
}

/** Whether `msg` itself is what a return statement returns, one of its alternatives, or in the array that it returns. */
function isResult(node: AnyNode, ancestors: readonly AnyNode[]): boolean {
  let inner = node;
  for (const outer of ancestors.slice(0, -1).toReversed()) {
    if (outer.type === 'ReturnStatement' || isSent(outer)) return true;
    const passes = outer.type === 'ArrayExpression' || (outer.type === 'ConditionalExpression' && outer.test !== inner);
    if (!passes) return false;
    inner = outer;
  }
  return false;
}

/**
 * Reads the code of a function node and finds what a stage's worker does not have, or does otherwise. Errs on the side of
 * finding too much: code without an obstacle behaves in a worker as in Node-RED.
 */
import { type AnyNode, type Identifier, type MemberExpression, type Program, parse, type ReturnStatement } from 'acorn';
import { type AncestorVisitors, ancestor, full } from 'acorn-walk';
import { canEnd } from './reachable-end.ts';

/** Why code cannot move as it is. The editor has a sentence for each. */
export type Reason =
  | 'syntax'
  | 'context'
  | 'util'
  | 'send'
  | 'status'
  | 'node'
  | 'catch'
  | 'client'
  | 'reads'
  | 'writes'
  | 'message'
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

interface Findings {
  readonly obstacles: Obstacle[];
  /** Names that the code gives to `env.get` as text. */
  readonly variables: Set<string>;
}

const MEMBERS_OF_NODE: ReadonlySet<string> = new Set(['log', 'warn', 'error', 'debug', 'trace', 'name']);
const READABLE: ReadonlySet<string> = new Set(['payload', 'topic', '_msgid']);
const PATTERNS: ReadonlySet<string> = new Set([
  ...['ArrayPattern', 'ObjectPattern', 'AssignmentPattern', 'RestElement', 'Property'],
]);
const SCHEDULES: ReadonlySet<string> = new Set(['setTimeout', 'setInterval', 'setImmediate']);

/** Parses code as the body of an async function. @throws SyntaxError */
function parseBody(text: string): Program {
  return parse(text, {
    ecmaVersion: 'latest',
    locations: true,
    allowReturnOutsideFunction: true,
    allowAwaitOutsideFunction: true,
  });
}

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

/** Finds the obstacles in one tab, in order of lines. */
export function readFunctionCode(text: string, tab: Obstacle['tab']): Findings {
  const findings: Findings = { obstacles: [], variables: new Set() };
  try {
    new CodeReader(findings, text, tab).read(parseBody(text));
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    const { line = 1 } = (thrown as SyntaxError & { loc?: { line: number } }).loc ?? {};
    findings.obstacles.push({ tab, line, reason: 'syntax', name: thrown.message });
  }
  findings.obstacles.sort((a, b) => a.line - b.line);
  return findings;
}

type Visit = (node: AnyNode, ancestors: readonly AnyNode[]) => void;

/** Calls visitors by the type of a node, or `VariablePattern` for a name that is declared or assigned to. */
function walk(program: Program, visitors: Readonly<Record<string, Visit>>): void {
  const named = Object.entries(visitors).map(([type, visit]) => [
    type,
    (node: AnyNode, _state: unknown, ancestors: readonly AnyNode[]) => visit(node, ancestors),
  ]);
  // Its types do not know the patterns.
  ancestor(program, Object.fromEntries(named) as AncestorVisitors<unknown>);
}

class CodeReader {
  readonly #findings: Findings;
  readonly #text: string;
  readonly #tab: Obstacle['tab'];
  #scopes: Scopes = new Map();

  constructor(findings: Findings, text: string, tab: Obstacle['tab']) {
    this.#findings = findings;
    this.#text = text;
    this.#tab = tab;
  }

  read(program: Program): void {
    this.#scopes = scopesOf(program);
    walk(program, {
      Identifier: (node, ancestors) => this.#identifier(node as Identifier, ancestors),
      ReturnStatement: (node, ancestors) => {
        if (this.#tab === 'code' && !ancestors.some(isFunction))
          this.#returned((node as ReturnStatement).argument ?? null, node);
      },
      // The walker does not take the target of an assignment for an Identifier.
      VariablePattern: (node, ancestors) => this.#identifier(node as Identifier, ancestors),
    });
    if (this.#tab === 'code' && canEnd(program.body)) {
      const line = this.#text.trimEnd().split('\n').length;
      this.#findings.obstacles.push({ tab: this.#tab, line, reason: 'drops', name: '' });
    }
  }

  #add(reason: Reason, at: AnyNode, named: AnyNode = at): void {
    const { line } = at.loc?.start ?? { line: 1 };
    const name = this.#text.slice(named.start, named.end);
    const { obstacles } = this.#findings;
    const isKnown = obstacles.some((one) => one.line === line && one.reason === reason && one.name === name);
    if (!isKnown) obstacles.push({ tab: this.#tab, line, reason, name });
  }

  #identifier(node: Identifier, ancestors: readonly AnyNode[]): void {
    const { name } = node;
    if (ancestors.some((outer) => this.#scopes.get(outer)?.has(name))) return;
    const parent = ancestors.at(-2);
    const member = parent?.type === 'MemberExpression' && parent.object === node ? parent : null;
    if (name === 'flow' || name === 'global' || name === 'context') this.#add('context', node, member ?? node);
    else if (name === 'RED') this.#add('util', node, member ?? node);
    else if (name === 'node') this.#node(node, member, ancestors);
    else if (name === 'msg') this.#message(node, member, ancestors);
    else if (name === 'env') this.#env(node, member, ancestors);
    else if (SCHEDULES.has(name) && !ancestors.some(isPromise)) this.#add('timer', node);
  }

  #node(node: Identifier, member: MemberExpression | null, ancestors: readonly AnyNode[]): void {
    const key = member && keyOf(member);
    if (key === 'send') this.#add('send', node, member ?? node);
    else if (key === 'status') this.#add('status', node, member ?? node);
    else if (key === null || !MEMBERS_OF_NODE.has(key)) this.#add('node', node, member ?? node);
    else if (key === 'error') {
      const call = ancestors.at(-3);
      if (call?.type === 'CallExpression' && call.arguments.length > 1) this.#add('catch', node, member ?? node);
    }
  }

  #message(node: Identifier, member: MemberExpression | null, ancestors: readonly AnyNode[]): void {
    if (!member) {
      if (!isResult(node, ancestors) && !isSent(ancestors.at(-2))) this.#add('message', node);
      return;
    }
    const key = keyOf(member);
    if (key === 'payload') return;
    if (key === null) this.#add('message', node, member);
    else if (key === 'req' || key === 'res') this.#add('client', node, member);
    else if (isChanged(member, ancestors)) this.#add('writes', node, member);
    else if (!READABLE.has(key)) this.#add('reads', node, member);
  }

  #env(node: Identifier, member: MemberExpression | null, ancestors: readonly AnyNode[]): void {
    const call = ancestors.at(-3);
    const [name] = call?.type === 'CallExpression' && call.callee === member ? call.arguments : [];
    const isNamed = name?.type === 'Literal' && typeof name.value === 'string' && /^\w+$/.test(name.value);
    if (isNamed && member && keyOf(member) === 'get') this.#findings.variables.add(String(name.value));
    else this.#add('env', node, call ?? node);
  }

  /** A worker sends the payload of the message that the code returns, and keeps the rest of the message as it came. */
  #returned(value: AnyNode | null, at: AnyNode): void {
    if (value === null || isNothing(value)) this.#add('drops', at);
    else if (value.type === 'ConditionalExpression') {
      this.#returned(value.consequent, value.consequent);
      this.#returned(value.alternate, value.alternate);
    } else if (value.type === 'ArrayExpression') this.#add('outputs', at);
    else if (value.type !== 'Identifier' || value.name !== 'msg') this.#add('returns', at);
  }
}

/** Returns the name that a member expression reads; null if it is computed. */
function keyOf({ property, computed }: MemberExpression): string | null {
  if (!computed && property.type === 'Identifier') return property.name;
  return property.type === 'Literal' ? String(property.value) : null;
}

function isFunction({ type }: AnyNode): boolean {
  return type === 'FunctionExpression' || type === 'FunctionDeclaration' || type === 'ArrowFunctionExpression';
}

/** Code that waits for a timer in a promise is over when the run is. */
function isPromise(node: AnyNode): boolean {
  return node.type === 'NewExpression' && node.callee.type === 'Identifier' && node.callee.name === 'Promise';
}

function isNothing(value: AnyNode): boolean {
  return (
    (value.type === 'Literal' && value.value === null) || (value.type === 'Identifier' && value.name === 'undefined')
  );
}

/** Whether a node is a call of `node.send` or `node.error`, which are obstacles themselves. */
function isSent(node: AnyNode | undefined): boolean {
  if (node?.type !== 'CallExpression' || node.callee.type !== 'MemberExpression') return false;
  const { object } = node.callee;
  return object.type === 'Identifier' && object.name === 'node' && /^(send|error)$/.test(keyOf(node.callee) ?? '');
}

/** Whether `msg` itself is what a return statement returns, or one of its alternatives. */
function isResult(node: AnyNode, ancestors: readonly AnyNode[]): boolean {
  let inner = node;
  for (const outer of ancestors.slice(0, -1).toReversed()) {
    if (outer.type === 'ReturnStatement') return true;
    // An array that code returns is an obstacle itself.
    if (outer.type === 'ArrayExpression') return true;
    if (outer.type !== 'ConditionalExpression' || outer.test === inner) return false;
    inner = outer;
  }
  return false;
}

/** Whether code assigns to a property of the message, or to a part of it. */
function isChanged(member: MemberExpression, ancestors: readonly AnyNode[]): boolean {
  let inner: AnyNode = member;
  for (const outer of ancestors.slice(0, -2).toReversed()) {
    if (outer.type === 'MemberExpression' && outer.object === inner) inner = outer;
    else if (outer.type === 'AssignmentExpression') return outer.left === inner;
    else return outer.type === 'UpdateExpression' || (outer.type === 'UnaryExpression' && outer.operator === 'delete');
  }
  return false;
}

/** The names that each function, and the code outside of functions, declares: these hide what a function node has. */
type Scopes = ReadonlyMap<AnyNode, ReadonlySet<string>>;

function scopesOf(program: Program): Scopes {
  const scopes = new Map<AnyNode, Set<string>>();
  walk(program, {
    VariablePattern: (node, ancestors) => {
      const outer = ancestors.slice(0, -1);
      const within = outer.at(-1);
      if (outer.findLast(({ type }) => !PATTERNS.has(type))?.type === 'AssignmentExpression') return;
      // The name of a function belongs to the code around it.
      const isName = within?.type === 'FunctionDeclaration' && within.id?.start === node.start;
      const scope = (isName ? outer.slice(0, -1) : outer).findLast(isFunction) ?? program;
      scopes.set(scope, (scopes.get(scope) ?? new Set()).add((node as Identifier).name));
    },
  });
  return scopes;
}

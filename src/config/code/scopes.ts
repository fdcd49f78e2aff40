/** Finds which names code declares itself, and what surrounds a node of its syntax tree. */
import {
  type AnyNode,
  type AssignmentExpression,
  type Identifier,
  type MemberExpression,
  type Program,
  parse,
} from 'acorn';
import { type AncestorVisitors, ancestor } from 'acorn-walk';

const PATTERNS: ReadonlySet<string> = new Set([
  ...['ArrayPattern', 'ObjectPattern', 'AssignmentPattern', 'RestElement', 'Property'],
]);
/** Methods that call a function before they return. */
const AT_ONCE =
  /^(forEach|map|filter|reduce|reduceRight|some|every|find|findIndex|findLast|flatMap|sort|replace|from)$/;

/** Parses code as the body of an async function. @throws SyntaxError */
export function parseBody(text: string): Program {
  return parse(text, {
    ecmaVersion: 'latest',
    locations: true,
    allowReturnOutsideFunction: true,
    allowAwaitOutsideFunction: true,
  });
}

type Visit = (node: AnyNode, ancestors: readonly AnyNode[]) => void;

/** Calls visitors by the type of a node, or `VariablePattern` for a name that is declared or assigned to. */
export function walkCode(program: Program, visitors: Readonly<Record<string, Visit>>): void {
  const named = Object.entries(visitors).map(([type, visit]) => [
    type,
    (node: AnyNode, _state: unknown, ancestors: readonly AnyNode[]) => visit(node, ancestors),
  ]);
  // Its types do not know the patterns.
  ancestor(program, Object.fromEntries(named) as AncestorVisitors<unknown>);
}

/** The names that each function, and the code outside of functions, declares: these hide what a function node has. */
export type Scopes = ReadonlyMap<AnyNode, ReadonlySet<string>>;

export function scopesOf(program: Program): Scopes {
  const scopes = new Map<AnyNode, Set<string>>();
  walkCode(program, {
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

/** Returns the name that a member expression reads; null if it is computed. */
export function memberKey({ property, computed }: MemberExpression): string | null {
  if (!computed && property.type === 'Identifier') return property.name;
  return property.type === 'Literal' ? String(property.value) : null;
}

export function isFunction({ type }: AnyNode): boolean {
  return type === 'FunctionExpression' || type === 'FunctionDeclaration' || type === 'ArrowFunctionExpression';
}

/** Code that waits for a timer in a promise is over when the run is. */
export function isPromise(node: AnyNode): boolean {
  return node.type === 'NewExpression' && node.callee.type === 'Identifier' && node.callee.name === 'Promise';
}

/** Whether a function around a node may be called after the run: it is given to something which calls it later. */
export function mayRunLater(ancestors: readonly AnyNode[]): boolean {
  return ancestors.some((node, at) => {
    const call = ancestors[at - 1];
    if (!isFunction(node) || call?.type !== 'CallExpression' || call.callee === node) return false;
    const method = call.callee.type === 'MemberExpression' ? memberKey(call.callee) : null;
    if (method !== null && AT_ONCE.test(method)) return false;
    return !ancestors.slice(0, at).some((outer) => isPromise(outer) || isAwaited(outer));
  });
}

function isAwaited({ type }: AnyNode): boolean {
  return type === 'AwaitExpression' || type === 'ReturnStatement';
}

/** Whether code assigns to a property of the message, or to a part of it. */
export function isChanged(member: MemberExpression, ancestors: readonly AnyNode[]): boolean {
  let inner: AnyNode = member;
  for (const outer of ancestors.slice(0, -2).toReversed()) {
    if (outer.type === 'MemberExpression' && outer.object === inner) inner = outer;
    else if (outer.type === 'AssignmentExpression') return (outer as AssignmentExpression).left === inner;
    else return outer.type === 'UpdateExpression' || (outer.type === 'UnaryExpression' && outer.operator === 'delete');
  }
  return false;
}

/** Returns the keys of `const { topic, payload } = msg`; null if a node is not taken apart like that. */
export function keysTaken(node: AnyNode, parent: AnyNode | undefined): string[] | null {
  if (parent?.type !== 'VariableDeclarator' || parent.init !== node || parent.id.type !== 'ObjectPattern') return null;
  const keys: string[] = [];
  for (const property of parent.id.properties) {
    if (property.type !== 'Property' || property.computed || property.key.type !== 'Identifier') return null;
    keys.push(property.key.name);
  }
  return keys;
}

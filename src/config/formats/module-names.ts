/** Names of npm modules, as Node-RED takes them, of the variables that inline code has for them, and of Python packages. */
import { unreadable } from './unreadable.ts';

/** `name`, `@scope/name` or `name/part`, with or without `@version`. */
const MODULE = /^(((?:@[\w.~-]+\/)?[\w~-][\w.~-]*)(?:\/[\w.~-]+)*)(?:@([\w.^~*|<>= -]+))?$/;

/** Names that all inline code has, in the order of its parameters. */
export const INLINE_NAMES: readonly string[] = [
  ...['msg', 'input', 'state', 'init', 'ctx', 'node', 'env', 'require', 'flow', 'global', 'context', 'RED'],
];

const RESERVED: ReadonlySet<string> = new Set([
  ...INLINE_NAMES,
  ...'console arguments await break case catch class const continue debugger default delete do else enum'.split(' '),
  ...'eval export extends false finally for function if implements import in instanceof interface let'.split(' '),
  ...'new null package private protected public return static super switch this throw true try typeof'.split(' '),
  ...'var void while with yield'.split(' '),
]);

const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

interface ModuleName {
  /** As an `import` has it: without the version. */
  readonly module: string;
  /** Without the part. */
  readonly package: string;
  /** '' if absent. */
  readonly version: string;
}

/** Returns the package of a module, without its part and version. */
export function packageOf(module: string): string {
  return MODULE.exec(module)?.[2] ?? module;
}

/** @throws Unreadable */
export function splitModule(text: string): ModuleName {
  const [, module, name, version = ''] = MODULE.exec(text.trim()) ?? [];
  if (module === undefined || name === undefined) {
    throw unreadable(`"${text.trim()}" is not the name of an npm module`, 'module');
  }
  return { module, package: name, version };
}

/**
 * Checks the variables of modules, in order.
 * @throws Unreadable for a variable that is not valid, or taken; it names the variable, or the module that has none
 */
export function checkVariables(libs: readonly { readonly var: string; readonly module: string }[]): void {
  const taken = new Set<string>();
  for (const { var: given, module } of libs) {
    const name = given.trim();
    const fail = (message: string, reason: string): Error =>
      unreadable(message, reason, { name: name || module.trim() });
    if (name === '') throw fail(`the module ${module.trim()} needs a variable`, 'noVariable');
    if (!IDENTIFIER.test(name)) throw fail(`"${name}" cannot name a variable`, 'variable');
    if (RESERVED.has(name)) {
      throw fail(`the name ${name} is a word of JavaScript or a variable that the code has anyway`, 'reserved');
    }
    if (taken.has(name)) throw fail(`two modules have the variable ${name}`, 'twice');
    taken.add(name);
  }
}

/** A name, perhaps with extras, and then versions, a marker or `@` with an address. It begins no option of pip. */
const REQUIREMENT = /^[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?(?:\s*\[[\w\s.,-]*\])?(?:\s*[<>=!~;@(][^\r\n\0]*)?$/;

/**
 * Returns the packages, without blank ones.
 * @throws Unreadable for text that is not a requirement of pip
 */
export function parseRequirements(texts: readonly string[]): string[] {
  const named = texts.map((text) => text.trim()).filter((text) => text !== '');
  for (const name of named)
    if (!REQUIREMENT.test(name))
      throw unreadable(`"${name}" is not the name of a Python package`, 'requirement', { name });
  return named;
}

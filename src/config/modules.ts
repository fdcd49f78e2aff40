/**
 * Parses names of npm modules as Node-RED takes them: `name`, `@scope/name` or `name/part`, with or without `@version`.
 * Inline code names its modules in `libs` as in the function node, each with its variable.
 */

import { isBuiltin } from 'node:module';
import type { ModuleBinding } from '../core/model.ts';

const NAME = /^(((?:@[\w.~-]+\/)?[\w~-][\w.~-]*)(?:\/[\w.~-]+)*)(?:@[\w.^~*|<>= -]+)?$/;

/**
 * Returns the module's name for an `import`: without its version.
 * @throws Error for text that is not a name, and for modules of Node.js itself.
 */
export function parseModuleName(text: string): string {
  const name = parseImportName(text);
  if (isBuiltin(name)) throw new Error(`${name} is a part of Node.js, not an npm module`);
  return name;
}

/**
 * Does the same as `parseModuleName`, but also accepts modules of Node.js, with or without `node:`.
 * @throws Error for text that is not a name.
 */
export function parseImportName(text: string): string {
  const given = text.trim();
  if (given === '') throw new Error('the name of the npm module is missing');
  if (isBuiltin(given)) return given;
  const name = NAME.exec(given)?.[1];
  if (name === undefined) throw new Error(`"${given}" is not the name of an npm module`);
  return name;
}

/** Returns the package of a module: its name without the part. */
export function packageOf(module: string): string {
  return NAME.exec(module)?.[2] ?? module;
}

/** Names that all inline code has, in the order of its parameters. */
export const INLINE_NAMES: readonly string[] = [
  'msg',
  'input',
  'state',
  'init',
  'ctx',
  'node',
  'env',
  'require',
  'flow',
  'global',
  'context',
  'RED',
];

const RESERVED: ReadonlySet<string> = new Set([
  ...INLINE_NAMES,
  'console',
  ...'arguments await break case catch class const continue debugger default delete do else enum eval export'.split(
    ' ',
  ),
  ...'extends false finally for function if implements import in instanceof interface let new null package'.split(' '),
  ...'private protected public return static super switch this throw true try typeof var void while with'.split(' '),
  'yield',
]);

const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/**
 * Parses the variables and modules.
 * @throws Error for an invalid or taken variable, and for text that is not the name of a module.
 */
export function parseLibs(libs: readonly ModuleBinding[]): ModuleBinding[] {
  const taken = new Set<string>();
  return libs.map(({ var: given, module }) => {
    const name = given.trim();
    if (name === '') throw new Error(`the module ${module.trim()} needs a variable`);
    if (!IDENTIFIER.test(name)) throw new Error(`"${name}" cannot name a variable`);
    if (RESERVED.has(name))
      throw new Error(`the name ${name} is a word of JavaScript or a variable that the code has anyway`);
    if (taken.has(name)) throw new Error(`two modules have the variable ${name}`);
    taken.add(name);
    return { var: name, module: parseImportName(module) };
  });
}

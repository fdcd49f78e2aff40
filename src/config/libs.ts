/** Parses the modules of inline code: `libs` as in the function node, each module with its variable. */
import type { ModuleBinding } from '../core/model.ts';
import { parseImportName } from './module-name.ts';

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
    if (RESERVED.has(name)) throw new Error(`the name ${name} is taken by JavaScript or by what the code has anyway`);
    if (taken.has(name)) throw new Error(`two modules have the variable ${name}`);
    taken.add(name);
    return { var: name, module: parseImportName(module) };
  });
}

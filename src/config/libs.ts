/** The modules of inline code, as the function node has them: `libs`, each with the variable that stands for it. */
import type { ModuleBinding } from '../core/model.ts';
import { parseImportName } from './module-name.ts';

/** Names that inline code has anyway, in the order in which it gets them. */
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

/** @throws Error for a variable that there cannot be, or that is there already, and for what is no module. */
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

/** Names of modules on the server, which knows the modules of Node.js itself. */
import { isBuiltin } from 'node:module';
import { checkVariables, splitModule } from './formats/module-names.ts';
import type { ModuleBinding } from './stage-source.ts';

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
  return isBuiltin(given) ? given : splitModule(given).module;
}

/**
 * Parses the variables and modules.
 * @throws Error for an invalid or taken variable, and for text that is not the name of a module.
 */
export function parseLibs(libs: readonly ModuleBinding[]): ModuleBinding[] {
  checkVariables(libs);
  return libs.map(({ var: name, module }) => ({ var: name.trim(), module: parseImportName(module) }));
}

/** Parses names of npm modules for Node-RED: `name`, `@scope/name` or `name/part`, with or without `@version`. */
import { isBuiltin } from 'node:module';

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

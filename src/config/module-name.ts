/** Names of npm modules as Node-RED installs them: `name`, `@scope/name`, `name/part`, each with `@version` or without. */
import { isBuiltin } from 'node:module';

const NAME = /^(((?:@[\w.~-]+\/)?[\w~-][\w.~-]*)(?:\/[\w.~-]+)*)(?:@[\w.^~*|<>= -]+)?$/;

/**
 * What an `import` names: the module without its version.
 * @throws Error for what is no name, and for modules that are part of Node.js.
 */
export function parseModuleName(text: string): string {
  const name = parseImportName(text);
  if (isBuiltin(name)) throw new Error(`${name} is a part of Node.js, not an npm module`);
  return name;
}

/**
 * The same, and Node's own modules as well, with `node:` or without.
 * @throws Error for what is no name.
 */
export function parseImportName(text: string): string {
  const given = text.trim();
  if (given === '') throw new Error('the name of the npm module is missing');
  if (isBuiltin(given)) return given;
  const name = NAME.exec(given)?.[1];
  if (name === undefined) throw new Error(`"${given}" is not the name of an npm module`);
  return name;
}

/** The package that has a module: its name without the part. */
export function packageOf(module: string): string {
  return NAME.exec(module)?.[2] ?? module;
}

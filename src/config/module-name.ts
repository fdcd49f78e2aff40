/** Names of npm modules as Node-RED installs them: `name`, `@scope/name`, `name/part`, each with `@version` or without. */
import { isBuiltin } from 'node:module';

const NAME = /^((?:@[\w.~-]+\/)?[\w~-][\w.~-]*(?:\/[\w.~-]+)*)(?:@[\w.^~*|<>= -]+)?$/;

/**
 * What an `import` names: the module without its version.
 * @throws Error for what is no name.
 */
export function parseModuleName(text: string): string {
  const given = text.trim();
  if (given === '') throw new Error('the name of the npm module is missing');
  const name = NAME.exec(given)?.[1];
  if (name === undefined) throw new Error(`"${given}" is not the name of an npm module`);
  if (isBuiltin(name)) throw new Error(`${name} is a part of Node.js, not an npm module`);
  return name;
}

/** Loads a modelet from an npm module among those that the user has installed, where Node-RED puts them. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { compileFunction, constants } from 'node:vm';
import type { StageSource } from '../../core/model.ts';
import { modeletOf } from './file.ts';
import type { LoadSource } from './source.ts';

export const loadModule: LoadSource<Extract<StageSource, { kind: 'module' }>> = async (source, definition, context) =>
  modeletOf(await importFrom(definition.requireFrom, source.module), source.module, definition, context);

async function importFrom(folder: string, module: string): Promise<object> {
  try {
    const file = createRequire(join(folder, 'package.json')).resolve(module);
    return await import(pathToFileURL(file).href);
  } catch (thrown) {
    const { code, message } = thrown as { code?: unknown; message: string };
    // It is there, for `import` alone, which looks things up from where the code is.
    if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') return importAsIn(folder, module);
    if (code !== 'MODULE_NOT_FOUND' || !message.includes(`'${module}'`)) throw thrown;
    throw new Error(`the module ${module} is not installed in ${folder}`, { cause: thrown });
  }
}

function importAsIn(folder: string, module: string): Promise<object> {
  const code = compileFunction('return import(module);', ['module'], {
    filename: join(folder, 'modelet.js'),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER as never,
  });
  return code(module) as Promise<object>;
}

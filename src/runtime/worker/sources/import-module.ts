/** Imports a module by name from a folder outside this package. */
import { createRequire, isBuiltin } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { compileFunction, constants } from 'node:vm';
import { packageOf } from '../../../config/formats/module-names.ts';
import { ModeletError } from '../../../core/errors.ts';

/**
 * Looks the module up in `folder` and its parent folders. CommonJS arrives as `default`.
 * @throws ModeletError `config_invalid` if the module is not installed, else the error that keeps it from loading.
 */
export async function importFrom(folder: string, module: string): Promise<object> {
  if (isBuiltin(module)) return import(module);
  try {
    const file = createRequire(join(folder, 'package.json')).resolve(module);
    return await import(pathToFileURL(file).href);
  } catch (thrown) {
    const { code, message } = thrown as { code?: unknown; message: string };
    // The module is installed but exports only for `import`, which resolves names from the importing file's folder.
    if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') return importAsIn(folder, module);
    if (code !== 'MODULE_NOT_FOUND' || !message.includes(`'${module}'`)) throw thrown;
    throw notInstalled(folder, module, thrown);
  }
}

function importAsIn(folder: string, module: string): Promise<object> {
  const code = compileFunction('return import(module);', ['module'], {
    filename: join(folder, 'modelet.js'),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER as never,
  });
  return code(module) as Promise<object>;
}

function notInstalled(folder: string, module: string, cause: unknown): ModeletError {
  const name = packageOf(module);
  return new ModeletError(
    'config_invalid',
    `the module ${module} is not installed: run "npm install ${name}" in ${folder}, then restart the stage's workers; or deploy the stage from its dialog: Node-RED installs the module then, unless externalModules in its settings forbids it`,
    { cause },
  );
}

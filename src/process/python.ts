/**
 * Finds the interpreter that runs a stage's Python. The worker itself loads a file, in python/modelet_worker/modelet.py, or
 * code of the dialog, in typed.py.
 */
import { dirname, isAbsolute, join } from 'node:path';
import type { StageConfig } from '../config/compile-stage.ts';
import type { StageSource } from '../config/stage-source.ts';
import { asError, ModeletError } from '../core/errors.ts';
import { placesOf, standingOf } from './search-path.ts';

/** Code of the dialog has no path. */
type PythonSource = Pick<Extract<StageSource, { readonly python: string }>, 'python'> & { readonly path?: string };

const IN_VENV = join('.venv', 'bin', 'python');
const IN_PATH = 'python3';

/**
 * Returns the path of the interpreter: the stage's, else that of the virtual environment `.venv`
 * beside the file, else the one of `.venv` in the user directory, else `python3` in PATH. Does not resolve a symbolic
 * link at the end of the path, because an interpreter finds its virtual environment by that link.
 * @throws ModeletError `config_invalid` that lists the searched places, or the interpreter that must not be run.
 */
export function findPython({ path, python }: PythonSource, userDir: string, searchPath: string): string {
  if (isAbsolute(python)) return firstRunnable([python], `no Python at ${python}`);
  if (python !== '') {
    return firstRunnable(placesOf(python, searchPath), `no Python called ${python} in PATH`);
  }
  const folders = path === undefined ? [userDir] : [dirname(path), userDir];
  const venvs = folders.map((folder) => join(folder, IN_VENV));
  const looked = `looked for ${venvs.join(', ')} and ${IN_PATH} in PATH`;
  return firstRunnable([...venvs, ...placesOf(IN_PATH, searchPath)], `no Python found: ${looked}`);
}

/**
 * Returns the first file that this user may run. Like the system, skips files that this user may not run; reports one
 * only if there is no other.
 */
function firstRunnable(places: readonly string[], missing: string): string {
  const found = places.find((place) => standingOf(place) === 'runnable');
  if (found !== undefined) return found;
  const forbidden = places.find((place) => standingOf(place) === 'forbidden');
  if (forbidden === undefined)
    throw new ModeletError('config_invalid', `${missing}. Modelets in Python need Python 3.9 or newer`);
  throw new ModeletError('config_invalid', `no permission to run the Python at ${forbidden}`);
}

/** The channel of a worker is an inherited file descriptor, and its memory is read from the module `resource`. */
const NOT_ON_WINDOWS =
  'stages in Python do not run on Windows, where a worker cannot take over its channel: run Node-RED in WSL or in a container, or the stage on a worker host with Linux';

/**
 * Checks that the Python interpreter of a stage exists. Looks in each worker's own PATH, as the workers will.
 * @throws ModeletError `config_invalid` if there is no interpreter, it may not be run, or the platform runs no workers of it
 */
export function checkInterpreter(
  userDir: string,
  { source, workers }: Pick<StageConfig, 'source' | 'workers'>,
  platform: string = process.platform,
): void {
  if (!('python' in source)) return;
  if (platform === 'win32') throw new ModeletError('config_invalid', `python: ${NOT_ON_WINDOWS}`);
  const searchPaths = new Set(workers.map(({ env }) => env['PATH'] ?? process.env['PATH'] ?? ''));
  try {
    for (const searchPath of searchPaths) findPython(source, userDir, searchPath);
  } catch (thrown) {
    throw new ModeletError('config_invalid', `python: ${asError(thrown).message}`);
  }
}

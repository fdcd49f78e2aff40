/**
 * Which interpreter runs a stage's Python file. The file itself is loaded by python/modelet_worker/modelet.py, in the
 * worker.
 */
import { dirname, isAbsolute, join } from 'node:path';
import { ModeletError } from '../core/errors.ts';
import type { StageSource } from '../core/model.ts';
import { placesOf, standingOf } from './search-path.ts';

const IN_VENV = join('.venv', 'bin', 'python');
const IN_PATH = 'python3';

/**
 * What the stage names, else that of the virtual environment `.venv` beside the file, else of the one in the user
 * directory, else `python3`. A path keeps its last link: by that an interpreter knows its environment.
 * @throws ModeletError `config_invalid` that says where it looked, or which interpreter may not be run.
 */
export function findPython(
  { path, python }: Extract<StageSource, { kind: 'python' }>,
  userDir: string,
  searchPath: string,
): string {
  if (isAbsolute(python)) return firstRunnable([python], `no Python at ${python}`);
  if (python !== '') {
    return firstRunnable(placesOf(python, searchPath), `no Python called ${python} in PATH`);
  }
  const venvs = [join(dirname(path), IN_VENV), join(userDir, IN_VENV)];
  const looked = `looked for ${venvs.join(', ')} and ${IN_PATH} in PATH`;
  return firstRunnable([...venvs, ...placesOf(IN_PATH, searchPath)], `no Python found: ${looked}`);
}

/** One that is there and may not be run is passed over, as the system does it, and told of where there is no other. */
function firstRunnable(places: readonly string[], missing: string): string {
  const found = places.find((place) => standingOf(place) === 'runnable');
  if (found !== undefined) return found;
  const forbidden = places.find((place) => standingOf(place) === 'forbidden');
  if (forbidden === undefined)
    throw new ModeletError('config_invalid', `${missing}. Modelets in Python need Python 3.9 or newer`);
  throw new ModeletError('config_invalid', `no permission to run the Python at ${forbidden}`);
}

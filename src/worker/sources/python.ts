/**
 * Which interpreter runs a stage's Python file. The file itself is loaded by python/modelet_worker/modelet.py, in the
 * worker.
 */
import { dirname, isAbsolute, join } from 'node:path';
import type { StageSource } from '../../core/model.ts';
import { inSearchPath, isRunnable } from '../../lifecycle/search-path.ts';

const IN_VENV = join('.venv', 'bin', 'python');
const IN_PATH = 'python3';

/**
 * What the stage names, else that of the virtual environment `.venv` beside the file, else of the one in the user
 * directory, else `python3`. A path keeps its last link: by that an interpreter knows its environment.
 * @throws Error that says where it looked.
 */
export function findPython(
  { path, python }: Extract<StageSource, { kind: 'python' }>,
  userDir: string,
  searchPath: string,
): string {
  if (isAbsolute(python)) return runnable(python, `no Python at ${python}`);
  if (python !== '')
    return inSearchPath(python, searchPath) ?? notFound(`no Python called ${python} in PATH (${searchPath})`);
  const venvs = [join(dirname(path), IN_VENV), join(userDir, IN_VENV)];
  const looked = `looked for ${venvs.join(', ')} and ${IN_PATH} in PATH (${searchPath})`;
  return venvs.find(isRunnable) ?? inSearchPath(IN_PATH, searchPath) ?? notFound(`no Python found: ${looked}`);
}

function runnable(file: string, otherwise: string): string {
  return isRunnable(file) ? file : notFound(otherwise);
}

function notFound(message: string): never {
  throw new Error(`${message}. Modelets in Python need Python 3.9 or newer`);
}

/** Finds the folders of this Node-RED in which a stage's files and modules are looked up. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { NodeAPI } from 'node-red';
import type { StageConfig } from '../config/compile-stage.ts';
import { liesIn, resolveFile } from '../config/paths.ts';
import { asError, ModeletError } from '../core/errors.ts';
import { findPython } from '../process/python.ts';

/**
 * Returns a stage's path as an absolute path. The base is `fileWorkingDirectory`, else the active project's folder,
 * else the user directory.
 */
export function resolveModeletFile(RED: NodeAPI, path: string): string {
  return resolveFile(path, baseFolder(RED));
}

/** Whether a file lies in one of the folders for files of flows: base folder, modules folder or user directory. */
export function isFileOfFlows(RED: NodeAPI, file: string): boolean {
  return liesIn(file, [baseFolder(RED), modulesFolder(RED), userFolder(RED)]);
}

/** Returns the user directory, in which Node-RED installs the modules that flows need. */
export function userFolder(RED: NodeAPI): string {
  return RED.settings.userDir ?? process.cwd();
}

/**
 * Returns the folder from which modules are looked up, upwards: the active project's folder, which is below the user
 * directory, else the user directory itself.
 */
export function modulesFolder(RED: NodeAPI): string {
  const userDir = userFolder(RED);
  return activeProject(userDir) ?? userDir;
}

function baseFolder(RED: NodeAPI): string {
  const { fileWorkingDirectory } = RED.settings as { fileWorkingDirectory?: string };
  return fileWorkingDirectory ?? modulesFolder(RED);
}

function activeProject(userDir: string): string | undefined {
  const file = join(userDir, '.config.projects.json');
  if (!existsSync(file)) return undefined;
  try {
    const { activeProject: name } = JSON.parse(readFileSync(file, 'utf8')) as { activeProject?: string };
    const folder = name ? join(userDir, 'projects', name) : undefined;
    return folder && existsSync(folder) ? folder : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Checks that the Python interpreter of a stage exists. Looks in each worker's own PATH, as the workers will.
 * @throws ModeletError `config_invalid` if there is no interpreter, or it may not be run
 */
export function checkInterpreter(RED: NodeAPI, { source, workers }: Pick<StageConfig, 'source' | 'workers'>): void {
  if (source.kind !== 'python') return;
  const searchPaths = new Set(workers.map(({ env }) => env['PATH'] ?? process.env['PATH'] ?? ''));
  try {
    for (const searchPath of searchPaths) findPython(source, userFolder(RED), searchPath);
  } catch (thrown) {
    throw new ModeletError('config_invalid', `python: ${asError(thrown).message}`);
  }
}

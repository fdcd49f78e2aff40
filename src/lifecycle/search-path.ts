/** Looks up programs as the system does, but in a PATH of the caller's choice. */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';

/** The absolute path of the program of this name that comes first in `searchPath`; its last link is kept. */
export function inSearchPath(name: string, searchPath: string): string | undefined {
  return searchPath
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => resolve(folder, name))
    .find(isRunnable);
}

export function isRunnable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

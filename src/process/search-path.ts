/** Looks up programs as the system does, but in a PATH of the caller's choice. */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';

/** `forbidden`: it is there, or may be there, and this user may not run it. */
export type Standing = 'runnable' | 'forbidden' | 'missing';

/** The absolute path of the program of this name that comes first in `searchPath`; its last link is kept. */
export function inSearchPath(name: string, searchPath: string): string | undefined {
  return placesOf(name, searchPath).find((file) => standingOf(file) === 'runnable');
}

/** Where a program of this name may be, as absolute paths, in the order of looking. */
export function placesOf(name: string, searchPath: string): string[] {
  return searchPath
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => resolve(folder, name));
}

export function standingOf(file: string): Standing {
  try {
    if (!statSync(file).isFile()) return 'missing';
  } catch (thrown) {
    // A folder on the way, or the target of a link, is closed to this user.
    return isRefusal(thrown) ? 'forbidden' : 'missing';
  }
  try {
    accessSync(file, constants.X_OK);
    return 'runnable';
  } catch {
    return 'forbidden';
  }
}

function isRefusal(thrown: unknown): boolean {
  const { code } = thrown as NodeJS.ErrnoException;
  return code === 'EACCES' || code === 'EPERM';
}

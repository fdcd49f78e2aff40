/** Looks up programs as the system does, but in a PATH that the caller gives. */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';

/** Whether this user can run a file. `forbidden`: the file exists, or may exist, but this user may not run it. */
export type PathStanding = 'runnable' | 'forbidden' | 'missing';

/**
 * Returns the absolute path of the first runnable program of this name in `searchPath`. Does not resolve a symbolic
 * link at the end of the path.
 */
export function inSearchPath(name: string, searchPath: string): string | undefined {
  return placesOf(name, searchPath).find((file) => standingOf(file) === 'runnable');
}

/**
 * Returns the absolute path of a launch helper, or its bare name if it is not found. Searches the PATH of this process,
 * because users set the PATH of a child for the child alone.
 */
export function programPath(name: 'setpriv' | 'taskset'): string {
  return inSearchPath(name, process.env['PATH'] ?? '') ?? name;
}

/** Returns the absolute paths where a program of this name may be, in search order. */
export function placesOf(name: string, searchPath: string): string[] {
  return searchPath
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => resolve(folder, name));
}

export function standingOf(file: string): PathStanding {
  try {
    if (!statSync(file).isFile()) return 'missing';
  } catch (thrown) {
    // This user may not open a folder on the path, or the target of a link.
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

/** Resolves paths of files. They never depend on the folder that Node-RED was started in. */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A path with this prefix is a file of this package, wherever the package is installed. */
const OWN_NAME = '@modelet/node-red-pipeline/';
export const OWN_ROOT: string = fileURLToPath(new URL('../../../../', import.meta.url));
const EXAMPLES = join(OWN_ROOT, 'examples');

/**
 * Makes the path of a modelet's file absolute. Looks for a relative path in `base`. If there is no such file, resolves
 * the path as a module seen from `base` (`some-package/file.js`).
 * @throws Error that says where it looked.
 */
export function resolveFile(path: string, base: string): string {
  if (path.startsWith(OWN_NAME)) return ownFile(path);
  const direct = isAbsolute(path) ? path : resolve(base, path);
  const own = ownNameOf(direct);
  if (own !== null) return ownFile(own);
  if (existsSync(direct) || isAbsolute(path) || path.startsWith('.')) return existing(direct, path);
  try {
    return realpathSync(createRequire(join(base, 'package.json')).resolve(path));
  } catch {
    return existing(direct, path);
  }
}

/**
 * Makes the path of a folder absolute. Relative ones start at `base`.
 * @throws Error if there is no such folder.
 */
export function resolveFolder(path: string, base: string): string {
  const folder = path.startsWith(OWN_NAME) ? join(OWN_ROOT, path.slice(OWN_NAME.length)) : resolve(base, path);
  if (!existsSync(folder)) throw new Error(`no folder ${folder}${folder === path ? '' : ` (from "${path}")`}`);
  return folder;
}

/** Whether an existing file or folder lies in one of the folders, or is one of them, after all links are resolved. */
export function liesIn(file: string, folders: readonly string[]): boolean {
  const place = realpathSync(file);
  return folders.some((folder) => {
    if (!existsSync(folder)) return false;
    const way = relative(realpathSync(folder), place);
    return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
  });
}

/** Resolves a file of this package. Before there was `assets`, all of its files lay in `examples`. */
function ownFile(path: string): string {
  const name = path.slice(OWN_NAME.length);
  const file = join(OWN_ROOT, name);
  const earlier = join(OWN_ROOT, name.replace(/^examples\//, 'assets/'));
  return existing(existsSync(file) || !existsSync(earlier) ? file : earlier, path);
}

/** Returns the name in this package of a missing file below its `examples`; null for all other files. */
function ownNameOf(file: string): string | null {
  const parent = file.lastIndexOf(`${sep}examples${sep}`);
  if (parent < 0 || existsSync(file)) return null;
  const folder = join(file.slice(0, parent), 'examples');
  if (!existsSync(folder) || realpathSync(folder) !== EXAMPLES) return null;
  return OWN_NAME + file.slice(parent + 1).replaceAll(sep, '/');
}

function existing(file: string, asked: string): string {
  if (!existsSync(file)) throw new Error(`no file ${file}${file === asked ? '' : ` (from "${asked}")`}`);
  if (!statSync(file).isFile()) throw new Error(`${file} is not a file`);
  return file;
}

/** Paths of files, which never depend on the folder that Node-RED was started in, and of URLs. */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** This package finds its own files by its name, wherever it is installed. */
const OWN_NAME = '@modelet/node-red-pipeline/';
const OWN_ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const EXAMPLES = join(OWN_ROOT, 'examples');

/**
 * Makes the path of a modelet's file absolute. A relative path is looked up in `base`; one that names a package
 * (`some-package/file.js`) and is not there, as a module seen from `base`.
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

/** Whether a file that exists lies in one of the folders, or in this package, wherever links lead on the way. */
export function liesIn(file: string, folders: readonly string[]): boolean {
  const place = realpathSync(file);
  return [OWN_ROOT, ...folders].some((folder) => {
    if (!existsSync(folder)) return false;
    const way = relative(realpathSync(folder), place);
    return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
  });
}

/**
 * The path of a URL with its first slash and none at its end; `/`, or blank for none. As in an HTTP-in node the first
 * slash may be missing.
 * @throws Error for one that is not fixed.
 */
export function parsePublicPath(text: string): string {
  const segments = text
    .trim()
    .replace(/^\/|\/$/g, '')
    .split('/');
  if (segments.join('') === '') return text.trim() === '' ? '' : '/';
  // What has a meaning in URLs, or in the patterns of Express, is none of a fixed path.
  const isFixed = segments.every((segment) => /^[\w.~-]+$/.test(segment) && !/^\.+$/.test(segment));
  if (!isFixed) throw new Error(`must be a path of letters, digits and any of . _ ~ -; got "${text}"`);
  return `/${segments.join('/')}`;
}

/** The `exports` of package.json map the places that files had in earlier versions to those that they have now. */
function ownFile(path: string): string {
  try {
    return createRequire(import.meta.url).resolve(path);
  } catch {
    return existing(join(OWN_ROOT, path.slice(OWN_NAME.length)), path);
  }
}

/** The name that a missing file below this package's own `examples` has in the package; null for all other files. */
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

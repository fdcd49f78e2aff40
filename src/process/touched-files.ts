/**
 * Records which files of its user a worker reads, or looks for in vain, while it loads its modelet: the engine watches
 * them. Meanwhile it stands in front of the functions of `node:fs`, through which Node.js loads modules, too.
 */
import fs, { statSync } from 'node:fs';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { dirname, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TouchedFile } from '../wire/frames/bodies.ts';

type FileCall = (...args: unknown[]) => unknown;
type FileCalls = Record<string, FileCall>;

const READ = ['readFile', 'readFileSync', 'existsSync', 'access', 'accessSync'];
/** The mode says whether they read or write. */
const OPEN = ['open', 'openSync'];
const WRITE = ['writeFile', 'writeFileSync', 'appendFile', 'appendFileSync'];
/** More files are not watched. */
const MOST = 100;
const OWN_CODE = fileURLToPath(new URL('../', import.meta.url));
/** Packages change by an installation, and these folders hold no files. */
const NOT_WATCHED = /[\\/]node_modules[\\/]|^\/(?:proc|sys|dev)\//;
/** The endings that a `require` may leave out. */
const ENDINGS = ['', '.js', '.json', '.node', `${sep}index.js`];

export class TouchedFiles {
  /** Stamps by path, of the files as they were when they were first touched. */
  readonly #stamps: Map<string, string> = new Map();
  /** Files that the modelet writes itself must not make it start again. */
  readonly #written: Set<string> = new Set();
  readonly #restore: (() => void)[] = [];

  /** Records until `end` is called. */
  begin(): void {
    for (const owner of [fs, fs.promises] as unknown as FileCalls[]) {
      for (const name of READ) this.#before(owner, name, (path) => this.#read(path));
      for (const name of OPEN) this.#before(owner, name, (path, mode) => this.#opened(path, mode));
      for (const name of WRITE) this.#before(owner, name, (path) => this.#wrote(path));
    }
    syncBuiltinESMExports();
  }

  end(): void {
    for (const restore of this.#restore.splice(0)) restore();
    syncBuiltinESMExports();
    // Node.js 20 reads CommonJS modules by other functions.
    for (const path of Object.keys(createRequire(import.meta.url).cache)) this.#read(path);
  }

  get all(): readonly TouchedFile[] {
    return [...this.#stamps].filter(([path]) => !this.#written.has(path));
  }

  /** Adds the file for want of which the code did not load. */
  missed(thrown: unknown): void {
    for (let error = thrown; error instanceof Error; error = error.cause) {
      const { code, path, url, requireStack } = error as NodeJS.ErrnoException &
        Record<'url' | 'requireStack', unknown>;
      if (code === 'ENOENT') this.#read(path);
      else if (code === 'ERR_MODULE_NOT_FOUND') this.#read(url);
      else if (code === 'MODULE_NOT_FOUND' && Array.isArray(requireStack)) {
        const asked = /^Cannot find module '(\.[^']*)'/.exec(error.message)?.[1];
        const folder = dirname(String(requireStack[0]));
        for (const ending of asked === undefined ? [] : ENDINGS) this.#read(resolve(folder, `${asked}${ending}`));
      }
    }
  }

  #before(owner: FileCalls, name: string, note: (path: unknown, mode: unknown) => void): void {
    const original = owner[name];
    // Some are only in one of both.
    if (typeof original !== 'function') return;
    owner[name] = function (this: unknown, ...args: unknown[]) {
      note(args[0], args[1]);
      return original.apply(this, args);
    };
    this.#restore.push(() => {
      owner[name] = original;
    });
  }

  #opened(path: unknown, mode: unknown): void {
    const writes = typeof mode === 'number' ? mode % 4 !== 0 : typeof mode === 'string' && !/^rs?$/.test(mode);
    if (writes) this.#wrote(path);
    else this.#read(path);
  }

  #wrote(given: unknown): void {
    const path = pathOf(given);
    if (path !== null) this.#written.add(path);
  }

  #read(given: unknown): void {
    const path = pathOf(given);
    if (path === null || this.#stamps.has(path) || this.#stamps.size >= MOST) return;
    if (NOT_WATCHED.test(path) || path.startsWith(OWN_CODE)) return;
    this.#stamps.set(path, stampOf(path));
  }
}

/** Differs when the file has another content; blank for a file that is missing or empty. Python makes the same. */
export function stampOf(path: string): string {
  try {
    const { size, mtimeNs } = statSync(path, { bigint: true });
    return size > 0n ? `${size},${mtimeNs}` : '';
  } catch {
    return '';
  }
}

/** Returns null for what is no path of a file, such as a descriptor. */
function pathOf(given: unknown): string | null {
  try {
    if (given instanceof URL || String(given).startsWith('file:')) return fileURLToPath(given as URL | string);
  } catch {
    return null;
  }
  return typeof given === 'string' || Buffer.isBuffer(given) ? resolve(String(given)) : null;
}

/**
 * Decides which failed starts would fail again in the same way. The supervisor does not retry them until something
 * changes.
 *
 * A failure is lasting if it occurred while the code was loaded, before `setup` and without a death of the process, and
 * if the error shows that the code cannot be loaded as it is: it does not parse, refers to something that does not
 * exist, or is not a modelet. Every other failure may be temporary: a `setup` that did not reach its network service, a
 * death, a time-out, or a lack of memory.
 */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { TouchedFile } from '../../wire/frames/bodies.ts';

const LFS_START = 'version https://git-lfs.github.com/spec/';
/** Pointers are shorter, by their specification. */
const LONGEST_POINTER = 1024;

/** Names of lasting errors in JavaScript and Python. */
const NAMES: ReadonlySet<string> = new Set([
  'SyntaxError',
  'IndentationError',
  'TabError',
  'ReferenceError',
  'NameError',
  'AttributeError',
  'ImportError',
  'ModuleNotFoundError',
  'FileNotFoundError',
  'NotADirectoryError',
  'IsADirectoryError',
]);

/**
 * Codes of lasting errors. This package's own loaders throw `config_invalid` for a model, a module, an interpreter or
 * an export.
 */
const CODES: ReadonlySet<unknown> = new Set([
  'config_invalid',
  'MODULE_NOT_FOUND',
  'ERR_MODULE_NOT_FOUND',
  'ERR_PACKAGE_PATH_NOT_EXPORTED',
  'ERR_PACKAGE_IMPORT_NOT_DEFINED',
  'ERR_INVALID_MODULE_SPECIFIER',
  'ERR_INVALID_PACKAGE_CONFIG',
  'ERR_INVALID_PACKAGE_TARGET',
  'ERR_UNKNOWN_BUILTIN_MODULE',
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_UNKNOWN_MODULE_FORMAT',
  'ERR_UNSUPPORTED_DIR_IMPORT',
  'ERR_UNSUPPORTED_ESM_URL_SCHEME',
  'ERR_REQUIRE_ESM',
  'ERR_REQUIRE_ASYNC_MODULE',
  'ENOENT',
  'ENOTDIR',
  'EISDIR',
]);

/** The death of a child whose replacement would die for the same reason. */
export class LastingFailure extends Error {
  /** The error as it was thrown. */
  readonly failure: Error;
  /** The files that the child had touched. */
  readonly files: readonly TouchedFile[];

  constructor(failure: Error, files: readonly TouchedFile[] = []) {
    super(failure.message, { cause: failure });
    this.name = 'LastingFailure';
    this.failure = failure;
    this.files = files;
  }
}

/**
 * Wraps the error of a start in a `LastingFailure` unless a retry may succeed. Its message then names a file of which only
 * Git's pointer is there.
 * @param loading as in `StateReport`
 */
export function startFailure(error: Error, loading: boolean, files: readonly TouchedFile[]): Error {
  const [pointer] = pointersIn(files);
  if (pointer === undefined) return loading && isLasting(error) ? new LastingFailure(error, files) : error;
  error.message = `${pointer} (${error.message})`;
  return new LastingFailure(error, files);
}

/** Says of each file that is a pointer of Git LFS, instead of the file itself, how to fetch it. */
export function pointersIn(files: readonly TouchedFile[]): string[] {
  return files.flatMap(([path, stamp]) => {
    const size = Number.parseInt(stamp, 10);
    return size >= LFS_START.length && size <= LONGEST_POINTER && isPointer(path)
      ? [`${path} is a pointer of Git LFS, not the file itself: run "git lfs pull" in ${dirname(path)}`]
      : [];
  });
}

function isPointer(path: string): boolean {
  try {
    return readFileSync(path, 'latin1').startsWith(LFS_START);
  } catch {
    return false;
  }
}

function isLasting(error: Error): boolean {
  // Without a network, `fetch` fails with a TypeError that has a cause.
  const isOwnTypeError = error.name === 'TypeError' && error.cause === undefined;
  return isOwnTypeError || NAMES.has(error.name) || CODES.has((error as { readonly code?: unknown }).code);
}

/** Returns the error as it was thrown, without the `LastingFailure` around it. */
export function asThrown(error: Error): Error {
  return error instanceof LastingFailure ? error.failure : error;
}

/**
 * Decides which failed starts would fail again in the same way. The supervisor does not retry them until something
 * changes.
 *
 * A failure is lasting if it occurred while the code was loaded, before `setup` and without a death of the process, and
 * if the error shows that the code cannot be loaded as it is: it does not parse, refers to something that does not
 * exist, or is not a modelet. Every other failure may be temporary: a `setup` that did not reach its network service, a
 * death, a time-out, or a lack of memory.
 */

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

  constructor(failure: Error) {
    super(failure.message, { cause: failure });
    this.name = 'LastingFailure';
    this.failure = failure;
  }
}

/** Wraps an error of loading in a `LastingFailure`, or returns it unchanged if a retry may succeed. */
export function loadFailure(error: Error): Error {
  return isLasting(error) ? new LastingFailure(error) : error;
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

/**
 * Which failed starts would fail again just so, and are not tried again until something changes.
 *
 * The rule: it came while the code was loaded, before `setup` and without the process's end, and the error itself says that
 * the code cannot be loaded as it is: it does not parse, names what is not there, or is no modelet. All else may be over
 * the next time, above all a `setup` that found its network service away, a death, a time-out, and memory that ran out.
 */

/** Names of errors of JavaScript and of Python. */
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

/** `config_invalid`: of this package's own loaders, for a model, a module, an interpreter or an export. */
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

/** The death of a child whose next one would die of the same. */
export class LastingFailure extends Error {
  /** As it was thrown. */
  readonly failure: Error;

  constructor(failure: Error) {
    super(failure.message, { cause: failure });
    this.name = 'LastingFailure';
    this.failure = failure;
  }
}

/** `error`: what loading failed with. It comes back as it is where another try may do better. */
export function loadFailure(error: Error): Error {
  return isLasting(error) ? new LastingFailure(error) : error;
}

function isLasting(error: Error): boolean {
  // A `fetch` without a network fails with a TypeError that has a cause.
  const isOwnTypeError = error.name === 'TypeError' && error.cause === undefined;
  return isOwnTypeError || NAMES.has(error.name) || CODES.has((error as { readonly code?: unknown }).code);
}

/** The error as it was thrown. */
export function asThrown(error: Error): Error {
  return error instanceof LastingFailure ? error.failure : error;
}

/**
 * The closed list of error codes, their HTTP statuses, and the one error class that carries them.
 *
 * The steps of a request, with the errors of each:
 *
 *   message -> key (unauthorized, forbidden, rate_limited)
 *           -> decode (bad_request, unsupported_media, payload_too_large)
 *           -> encode (invalid_input)
 *           -> admit (capacity_exceeded, gate_refused, store_unavailable, config_invalid, shutting_down)
 *           -> queue (deadline_exceeded, cancelled, dropped, stage_unavailable)
 *           -> predict (invalid_input, modelet_failed, bad_batch_length, worker_lost)
 *           -> back (engine_lost, protocol_error)
 */

/** HTTP status of each error code. A request that ends with the code is answered with this status. */
export const HTTP_STATUS = {
  unauthorized: 401,
  forbidden: 403,
  rate_limited: 429,
  invalid_input: 422,
  bad_request: 400,
  payload_too_large: 413,
  unsupported_media: 415,
  capacity_exceeded: 429,
  dropped: 503,
  gate_refused: 429,
  deadline_exceeded: 408,
  cancelled: 499,
  modelet_failed: 500,
  bad_batch_length: 500,
  worker_lost: 503,
  engine_lost: 503,
  stage_unavailable: 503,
  shutting_down: 503,
  store_unavailable: 503,
  config_invalid: 503,
  protocol_error: 500,
} as const;

export type ErrorCode = keyof typeof HTTP_STATUS;

export const ERROR_CODES: readonly ErrorCode[] = Object.keys(HTTP_STATUS) as ErrorCode[];

const LASTING: ReadonlySet<ErrorCode> = new Set([
  'modelet_failed',
  'bad_batch_length',
  'config_invalid',
  'protocol_error',
]);

/** Whether a request that ended with the code would end so again, although its status lets clients repeat it. */
export function isLasting(code: ErrorCode): boolean {
  return LASTING.has(code);
}

export interface ModeletErrorOptions {
  /** Name of the stage at which the request failed. */
  readonly stage?: string;
  /** The underlying error, for example the one a modelet threw. */
  readonly cause?: unknown;
  /** Seconds after which a caller may retry; becomes the `Retry-After` header. */
  readonly retryAfterSeconds?: number;
  /** Details of the failure, as plain data that a client may see. */
  readonly details?: unknown;
}

/** The class of every failure that leaves the runtime. Match on `code`, never on the text: errors cross processes. */
export class ModeletError extends Error {
  readonly code: ErrorCode;
  stage: string | undefined;
  retryAfterSeconds: number | undefined;
  /** Present only if details were given. */
  declare readonly details?: unknown;

  constructor(code: ErrorCode, message: string, options: ModeletErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ModeletError';
    this.code = code;
    this.stage = options.stage;
    this.retryAfterSeconds = options.retryAfterSeconds;
    if (options.details !== undefined) this.details = options.details;
  }

  get statusCode(): number {
    return HTTP_STATUS[this.code];
  }
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(HTTP_STATUS, value);
}

const OF_REQUEST: ReadonlySet<string> = new Set<ErrorCode>([
  'unauthorized',
  'forbidden',
  'rate_limited',
  'invalid_input',
  'bad_request',
  'unsupported_media',
  'payload_too_large',
]);

/** Whether an error code blames the incoming request. */
export function isOfRequest(code: string): boolean {
  return OF_REQUEST.has(code);
}

export function isModeletError(value: unknown): value is ModeletError {
  return value instanceof Error && isErrorCode((value as { code?: unknown }).code);
}

/** Returns an error that says in front of its text which part of a request failed. */
export function prefixed(part: string, cause: ModeletError, behind = ''): ModeletError {
  const { code, message, stage, retryAfterSeconds, details } = cause;
  const error = new ModeletError(code, `${part}: ${message}${behind}`, { cause, details });
  return Object.assign(error, { stage, retryAfterSeconds });
}

/** Converts any thrown value to an Error: modelets also throw strings and plain objects. Never throws. */
export function asError(thrown: unknown): Error {
  try {
    return toError(thrown);
  } catch {
    // For example a revoked proxy, or a getter that throws.
    return new Error(`thrown: a value of type ${typeof thrown} that cannot be read`);
  }
}

function toError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  if (thrown !== null && typeof thrown === 'object') {
    const { message, code } = thrown as { message?: unknown; code?: unknown };
    const error = new Error(typeof message === 'string' ? message : describe(thrown));
    if (code !== undefined) Object.assign(error, { code });
    return error;
  }
  return new Error(describe(thrown));
}

function describe(thrown: unknown): string {
  try {
    return typeof thrown === 'string' ? thrown : `thrown: ${JSON.stringify(thrown) ?? String(thrown)}`;
  } catch {
    return `thrown: a value of type ${typeof thrown}`;
  }
}

/** Returns a thrown ModeletError unchanged, and wraps any other value in an error with the code `otherwise`. */
export function asModeletError(thrown: unknown, otherwise: ErrorCode): ModeletError {
  const error = asError(thrown);
  return error instanceof ModeletError ? error : new ModeletError(otherwise, error.message);
}

/**
 * Encodes errors for other processes. Keeps the name, message, code, stack, own plain fields and the chain of causes;
 * structured clone and JSON each lose some of these.
 */
import { asError, type ErrorCode, isErrorCode, ModeletError } from '../../core/errors.ts';

const LONGEST_CAUSE_CHAIN = 5;
const LONGEST_TEXT = 16_384;

interface WireError {
  name: string;
  message: string;
  stack?: string;
  code?: string | number;
  stage?: string;
  retryAfterSeconds?: number;
  fields?: Record<string, unknown>;
  cause?: WireError;
}

const CARRIED_APART = new Set(['name', 'message', 'stack', 'code', 'stage', 'retryAfterSeconds', 'cause']);

/** Encodes any thrown value. Never throws. */
export function encodeError(error: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(toReadableWire(error, 0)));
}

/** Returns the error as it was thrown. An error other than ModeletError becomes a plain Error with its own fields. */
export function decodeError(bytes: Uint8Array): Error {
  return fromWire(JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()) as WireError);
}

/** Decodes a ModeletError. Any other error, or unreadable bytes, become a ModeletError with the code `otherwise`. */
export function decodeModeletError(bytes: Uint8Array, otherwise: ErrorCode): ModeletError {
  let error: Error;
  try {
    error = decodeError(bytes);
  } catch (cause) {
    return new ModeletError(otherwise, 'the error cannot be read', { cause });
  }
  return error instanceof ModeletError ? error : new ModeletError(otherwise, error.message, { cause: error });
}

/** Converts an error. Never throws, although an error from hostile code may be a proxy or have getters that throw. */
function toReadableWire(error: unknown, depth: number): WireError {
  try {
    return toWire(asError(error), depth);
  } catch {
    return { name: 'Error', message: 'an error that cannot be read' };
  }
}

function toWire(error: Error, depth: number): WireError {
  const wire: WireError = { name: String(error.name), message: clip(String(error.message)) };
  if (typeof error.stack === 'string') wire.stack = clip(error.stack);
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (typeof code === 'string' || typeof code === 'number') wire.code = code;
  if (error instanceof ModeletError) {
    if (error.stage !== undefined) wire.stage = error.stage;
    if (error.retryAfterSeconds !== undefined) wire.retryAfterSeconds = error.retryAfterSeconds;
  }
  const fields = plainFields(error);
  if (fields) wire.fields = fields;
  if (cause !== undefined && cause !== null && depth < LONGEST_CAUSE_CHAIN) {
    wire.cause = toReadableWire(cause, depth + 1);
  }
  return wire;
}

function plainFields(error: Error): Record<string, unknown> | undefined {
  // No prototype, so that `__proto__` is an ordinary field.
  const fields: Record<string, unknown> = Object.create(null);
  let any = false;
  for (const key of Object.keys(error)) {
    if (CARRIED_APART.has(key)) continue;
    try {
      const text = JSON.stringify((error as unknown as Record<string, unknown>)[key]);
      if (text === undefined || text.length > LONGEST_TEXT) continue;
      fields[key] = JSON.parse(text);
      any = true;
    } catch {
      // Drop a field that JSON cannot hold (a cycle, a BigInt): the error itself must get through.
    }
  }
  return any ? fields : undefined;
}

function fromWire(wire: WireError): Error {
  const options = wire.cause ? { cause: fromWire(wire.cause) } : {};
  let error: Error;
  if (wire.name === 'ModeletError' && isErrorCode(wire.code)) {
    error = new ModeletError(wire.code, wire.message, {
      ...options,
      ...(wire.stage === undefined ? {} : { stage: wire.stage }),
      ...(wire.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: wire.retryAfterSeconds }),
    });
  } else {
    error = new Error(wire.message, options);
    hide(error, 'name', wire.name);
    if (wire.code !== undefined) Object.assign(error, { code: wire.code });
  }
  if (wire.stack !== undefined) hide(error, 'stack', wire.stack);
  for (const [key, value] of Object.entries(wire.fields ?? {})) {
    // Do not assign: a field called `__proto__` must stay plain data.
    Object.defineProperty(error, key, { value, enumerable: true, configurable: true, writable: true });
  }
  return error;
}

function hide(error: Error, key: string, value: string): void {
  Object.defineProperty(error, key, { value, enumerable: false, configurable: true, writable: true });
}

function clip(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}... (${text.length} characters)` : text;
}

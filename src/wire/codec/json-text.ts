/**
 * Decodes JSON text as an HTTP client sent it. No process between the client and the worker has parsed it, so the worker
 * is the first to find out whether it is JSON. Everything that is wrong with it is the caller's fault.
 */
import { isUtf8 } from 'node:buffer';
import { asError, ModeletError } from '../../core/errors.ts';
import { DEEPEST } from './sizes.ts';

/** How the message of an error begins if text is not JSON. */
const NOT_JSON = 'the body is not valid JSON';

/** Byte order mark in UTF-8. RFC 8259 allows parsers to ignore it. */
const MARK = [0xef, 0xbb, 0xbf] as const;

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
/** `[` and `{`, and `]` and `}`, differ only in this bit. */
export const CURLY = 0x20;
export const OPEN = 0x7b;
export const CLOSE = 0x7d;

/**
 * @throws ModeletError `bad_request` for text that is not JSON, not UTF-8, or has a number that would become infinite;
 * `invalid_input` for JSON that is nested too deep
 */
export function parseJsonText(bytes: Buffer): unknown {
  // A value of that many levels needs at least two brackets for each of them.
  if (bytes.byteLength > 2 * DEEPEST && isTooDeep(bytes)) {
    throw new ModeletError('invalid_input', `the value is nested deeper than ${DEEPEST} levels`);
  }
  const text = utf8Text(bytes);
  if (text === null) throw notJson('it is not UTF-8');
  return parseJsonValue(text);
}

/**
 * Parses JSON of any depth, whose text the caller has decoded.
 * @throws ModeletError `bad_request` as `parseJsonText` does
 */
export function parseJsonValue(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    throw notJson(asError(thrown).message);
  }
  if (!hasFiniteNumbers(value)) throw notJson('it has a number beyond 1.8e308');
  return value;
}

/** Decodes UTF-8 without its byte order mark. Returns null for other bytes, which `toString` would change in silence. */
export function utf8Text(bytes: Buffer): string | null {
  return isUtf8(bytes) ? bytes.toString('utf8', startOf(bytes)) : null;
}

export function notJson(why: string): ModeletError {
  return new ModeletError('bad_request', `${NOT_JSON}: ${why}`);
}

/** Whether all numbers of a parsed value are finite. JSON has no others, but a parser makes Infinity of `1e999`. */
function hasFiniteNumbers(value: unknown): boolean {
  // Not recursive: a client may nest deeper than the stack reaches.
  const left: unknown[] = [[value]];
  for (let one = left.pop(); one !== undefined; one = left.pop()) {
    for (const each of Array.isArray(one) ? one : Object.values(one as object)) {
      if (typeof each === 'number' && !Number.isFinite(each)) return false;
      if (typeof each === 'object' && each !== null) left.push(each);
    }
  }
  return true;
}

/** Returns the index of the first byte after a byte order mark. */
function startOf(bytes: Uint8Array): number {
  return MARK.every((byte, index) => bytes[index] === byte) ? MARK.length : 0;
}

/** Counts brackets outside of strings. The parser checks the rest. */
function isTooDeep(bytes: Buffer): boolean {
  let depth = 0;
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index] as number;
    if (byte === QUOTE) index = endOfString(bytes, index);
    else if ((byte | CURLY) === OPEN) {
      depth += 1;
      if (depth > DEEPEST + 1) return true;
    } else if ((byte | CURLY) === CLOSE) depth -= 1;
  }
  return false;
}

/** Returns the index of the quote that ends the string which begins at `start`. */
function endOfString(bytes: Buffer, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let escapes = 0;
    while (bytes[end - 1 - escapes] === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return bytes.length;
}

/** Decodes the body of an HTTP request. */
import { ModeletError } from '../core/errors.ts';
import { quoted } from '../core/text.ts';
import { parseJsonText } from '../wire/codec/json-text.ts';
import { isInRanges, kindOfHeader, mediaTypeOf } from './media-type.ts';
import { decodeMsgpack } from './values/msgpack.ts';

export interface RequestBody {
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** Body from the HTTP server: a parsed value, text, or bytes. */
  readonly given: unknown;
  /** Received bytes; undefined: not known; null: too many to keep. */
  readonly bytes: Buffer | null | undefined;
}

export interface BodyTerms {
  // Accepted media types in lower case, including ranges such as `image/*` and `*/*`; null: anything.
  readonly mediaTypes: readonly string[] | null;
  /** Largest msgpack body. */
  readonly maxBytes: number;
}

/**
 * Decodes JSON and msgpack, including bodies that the server left as text or bytes. Returns any other body, and an
 * empty one, unchanged.
 * @throws ModeletError `unsupported_media`; `bad_request` if the body does not match its type; `payload_too_large`.
 */
export function decodeBody(body: RequestBody, { mediaTypes, maxBytes }: BodyTerms): unknown {
  const { contentType, given } = body;
  if (isEmpty(given)) return given;
  checkMediaType(contentType, mediaTypes);
  const kind = kindOfHeader(contentType);
  if (kind === 'msgpack' && isRaw(given)) return decodeMsgpack(bytesOf(body, maxBytes));
  if (kind === 'json' && isRaw(given)) return parseJsonText(Buffer.from(given));
  return given;
}

// `mediaTypes`: as in `BodyTerms`. A header without a valid type matches `*/*` only.
/** @throws ModeletError `unsupported_media` */
export function checkMediaType(contentType: string | undefined, mediaTypes: BodyTerms['mediaTypes']): void {
  const type = mediaTypeOf(contentType ?? '');
  if (!mediaTypes || (type ? isInRanges(type, mediaTypes) : mediaTypes.includes('*/*'))) return;
  throw new ModeletError('unsupported_media', whatToSend(contentType, mediaTypes));
}

/** @throws ModeletError `unsupported_media` */
export function checkMsgpackCoding(contentEncoding: string | undefined): void {
  if (contentEncoding === undefined || contentEncoding.toLowerCase() === 'identity') return;
  const text = `msgpack is taken as it is, not with Content-Encoding ${quoted(contentEncoding)}`;
  throw new ModeletError('unsupported_media', text);
}

function isRaw(given: unknown): given is string | Buffer {
  return typeof given === 'string' || Buffer.isBuffer(given);
}

function isEmpty(given: unknown): boolean {
  return given === undefined || (isRaw(given) && given.length === 0);
}

function bytesOf({ given, bytes, contentEncoding }: RequestBody, maxBytes: number): Buffer {
  checkMsgpackCoding(contentEncoding);
  // Text gives back the original bytes only if they were valid UTF-8, so the received bytes come first.
  const whole = bytes === undefined ? Buffer.from(given as string | Buffer) : bytes;
  if (whole === null || whole.length > maxBytes) {
    const size = whole === null ? 'larger than that' : `${whole.length} bytes`;
    throw new ModeletError('payload_too_large', `the limit is ${maxBytes} bytes; the body is ${size}`);
  }
  return whole;
}

/** Returns the text of the error. It has a hint for users of `curl -d`, which sends a body as a form by default. */
function whatToSend(contentType: string | undefined, mediaTypes: readonly string[]): string {
  const wrong =
    contentType === undefined
      ? 'the body has no Content-Type'
      : `Content-Type ${quoted(contentType)} is not taken here`;
  const hint = /^application\/x-www-form-urlencoded/i.test(contentType ?? '')
    ? `; curl -d needs -H 'Content-Type: ${mediaTypes[0]}'`
    : '';
  return `${wrong}: send ${mediaTypes.join(' or ')}${hint}`;
}

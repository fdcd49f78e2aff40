/**
 * Reads the body of an HTTP request and decodes it. No more than the limit is kept, even of a compressed body, and no
 * more than has arrived.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { ModeletError } from '../core/errors.ts';
import { quoted } from '../core/text.ts';
import { Chunks } from '../wire/codec/chunks.ts';
import { notJson, parseJsonText, utf8Text } from '../wire/codec/json-text.ts';
import {
  type BodyType,
  type ContentCoding,
  isInRanges,
  kindOfHeader,
  LATIN_1,
  mediaTypeOf,
  UTF_16,
} from './request-head.ts';
import { decodeMsgpack } from './values/msgpack.ts';

/** Chunks of at least so many bytes stay as they are. */
const LARGE_CHUNK = 16 * 1024;
/** Most small chunks in a row before they are joined. */
const MOST_SMALL = 64;

const DECODERS = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress } as const;

export interface BodyReadEvents {
  /** The whole body has arrived. */
  onBody(body: Chunks): void;
  onTooLarge(): void;
  /** The body is not compressed as its headers say. */
  onMalformed(error: Error): void;
}

export interface BodyToRead {
  readonly coding: ContentCoding;
  /** Length of the body as it is sent; null: it comes in chunks. */
  readonly length: number | null;
  /** Most bytes, decoded. */
  readonly most: number;
}

/**
 * Starts to read. Calls one of the events, once, unless the client goes away before.
 * @returns a function that stops reading; call it when the client has gone
 */
export function readBody(request: IncomingMessage, body: BodyToRead, events: BodyReadEvents): () => void {
  const { coding, most } = body;
  const decoder = coding === 'identity' ? null : DECODERS[coding]();
  const source: Readable = decoder ? request.pipe(decoder) : request;
  const gathered = new BodyChunks();
  const stop = (): void => {
    source.off('data', onData).off('end', onEnd);
    if (!decoder) return;
    request.unpipe(decoder);
    decoder.destroy();
    // A stream that was piped stays paused, and the next request of the connection would wait behind its rest.
    request.resume();
  };
  let isShared = false;
  const onData = (chunk: Buffer): void => {
    // Another listener, for example of middleware, may keep the chunks.
    isShared ||= source.listenerCount('data') > 1;
    if (gathered.add(chunk) <= most) return;
    stop();
    // The rest of the body flows on, and nothing keeps it.
    events.onTooLarge();
  };
  const onEnd = (): void => {
    const body = gathered.take();
    if (isShared) body.share();
    events.onBody(body);
  };
  source.on('data', onData).on('end', onEnd);
  decoder?.on('error', (error) => {
    stop();
    events.onMalformed(error);
  });
  return stop;
}

/** Gathers the chunks of a body. Joins small ones, each of which would take more memory for itself than for its bytes. */
class BodyChunks {
  readonly #large: Buffer[] = [];
  /** Chunks behind the large ones. */
  #small: Buffer[] = [];
  #bytes = 0;

  /** Returns the number of bytes so far. */
  add(chunk: Buffer): number {
    this.#bytes += chunk.length;
    if (chunk.length < LARGE_CHUNK) this.#small.push(chunk);
    if (chunk.length >= LARGE_CHUNK || this.#small.length === MOST_SMALL) this.#join();
    if (chunk.length >= LARGE_CHUNK) this.#large.push(chunk);
    return this.#bytes;
  }

  take(): Chunks {
    this.#join();
    return new Chunks(this.#large);
  }

  #join(): void {
    const [only] = this.#small;
    if (only) this.#large.push(this.#small.length === 1 ? only : Buffer.concat(this.#small));
    this.#small = [];
  }
}

export interface RequestBody {
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** Body from the HTTP server: a parsed value, text, or bytes. */
  readonly given: unknown;
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

/**
 * Decodes a body of text exactly: no byte becomes U+FFFD.
 * @param type of a body whose character set `readHead` has let pass
 * @throws ModeletError `bad_request`
 */
export function decodeText(body: Buffer, type: BodyType): string {
  const text = exactText(body, type);
  if (text !== null) return text;
  throw type.kind === 'json' ? notJson(`it is not ${UTF_16.has(type.charset) ? 'UTF-16' : 'UTF-8'}`) : notText();
}

/** Decodes a body of text as `decodeText` does; returns null if its bytes are not text. */
export function exactText(body: Buffer, { charset }: BodyType): string | null {
  if (LATIN_1.has(charset)) return body.toString('latin1');
  return UTF_16.has(charset) ? utf16Text(body, charset) : utf8Text(body);
}

export function notText(): ModeletError {
  return new ModeletError('bad_request', 'the body is not UTF-8: send it in UTF-8, or as application/octet-stream');
}

/** Decodes UTF-16 of JSON. The first character of JSON is below U+0100, so its bytes show their order. */
function utf16Text(body: Buffer, charset: string): string | null {
  const isHighFirst = charset === 'utf-16' && (body[0] === 0 || body[0] === 0xfe);
  try {
    return new TextDecoder(isHighFirst ? 'utf-16be' : charset, { fatal: true }).decode(body);
  } catch {
    return null;
  }
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

function bytesOf({ given, contentEncoding }: RequestBody, maxBytes: number): Buffer {
  checkMsgpackCoding(contentEncoding);
  const bytes = Buffer.from(given as string | Buffer);
  if (bytes.length <= maxBytes) return bytes;
  throw new ModeletError('payload_too_large', `the limit is ${maxBytes} bytes; the body is ${bytes.length} bytes`);
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

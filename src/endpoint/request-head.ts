/**
 * Reads from a request's headers what its body is and how it must be read. Follows the body parsers of Node-RED's
 * HTTP-in node, so that an endpoint takes the same bodies whether it is compiled or not.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { ModeletError } from '../core/errors.ts';
import { quoted } from '../core/text.ts';
import { isInRanges, JSON_TYPE, type MediaKind, mediaKindOf, mediaTypeOf } from './media-type.ts';

/**
 * Kinds of bodies:
 *
 *   json        JSON under its own name, which Node-RED parses
 *   json value  JSON under another name, which ends in `+json`
 *   msgpack
 *   text, bytes anything else
 *   form        a form of a browser
 */
export type BodyKind = 'json' | 'json value' | 'msgpack' | 'text' | 'bytes' | 'form';

export interface BodyType {
  readonly kind: BodyKind;
  /** null: the Content-Type is missing or no media type. */
  readonly media: MediaKind | null;
  /** Character set in lower case; '' if none is named. */
  readonly charset: string;
  /** Whether there is a Content-Type that is no media type. */
  readonly isMalformed: boolean;
}

export type ContentCoding = 'identity' | 'gzip' | 'deflate' | 'br';

/**
 * Whether only Node-RED's own nodes can read a request or write its answer: a form that the endpoint accepts, JSON in
 * UTF-16, and a script.
 */
export function isForFlow(headers: IncomingHttpHeaders, query: string, mediaTypes: readonly string[] | null): boolean {
  if (query !== '' && SCRIPT.test(query)) return true;
  const contentType = headers['content-type'];
  if (contentType === undefined) return false;
  const { kind, charset } = bodyType(contentType);
  if (kind === 'form') return mediaTypes === null || isInRanges(FORM_TYPE, mediaTypes);
  return kind === 'json' && UTF_16.has(charset);
}

/** An absolute target up to its path, as clients send it to a proxy, and some to every server. */
const AUTHORITY = /^[a-z][a-z\d+.-]*:\/\/[^/?]*/i;
const ESCAPED = /%[\da-f]{2}/gi;
const UNRESERVED = /^[\w.~-]$/;

/** Returns path and query of a request's target, which may be a whole URL. */
export function originForm(url = ''): string {
  if (url.startsWith('/')) return url;
  const rest = url.replace(AUTHORITY, '');
  return rest.startsWith('/') || rest === url ? rest : `/${rest}`;
}

/** Decodes the characters of a path that need no encoding: `%61` is `a` to every server, but `%2F` is no slash. */
export function unescapedPath(path: string): string {
  if (!path.includes('%')) return path;
  return path.replace(ESCAPED, (whole) => {
    const character = String.fromCharCode(Number.parseInt(whole.slice(1), 16));
    return UNRESERVED.test(character) ? character : whole;
  });
}

export interface RequestHead {
  readonly type: BodyType;
  readonly contentType: string | undefined;
  readonly coding: ContentCoding;
  /** Length of the body as it is sent; null: it comes in chunks. 0: no body. */
  readonly length: number | null;
  /** Whether the client has announced a body, even an empty one. */
  readonly announced: boolean;
}

const CODINGS: ReadonlySet<string> = new Set(['identity', 'gzip', 'deflate', 'br'] satisfies ContentCoding[]);
/** Subtypes of `application` that Node-RED reads as bytes; it reads all others as text. */
const BINARY: ReadonlySet<string> = new Set(['octet-stream', 'cbor', 'x-protobuf']);
/** Kinds that are text in some character set. */
const TEXTS: ReadonlySet<BodyKind> = new Set(['json', 'json value', 'text'] satisfies BodyKind[]);
const FORM_TYPE = 'application/x-www-form-urlencoded';
/** Matches a positive number in an HTTP header. */
const POSITIVE = /^(?=.*[1-9])\d+(?:\.\d+)?$/;
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]+)"?/i;
/** Other names of UTF-8, and of a part of it. */
const UTF_8: ReadonlySet<string> = new Set(['utf8', 'us-ascii', 'ascii']);
export const UTF_16: ReadonlySet<string> = new Set(['utf-16', 'utf-16le', 'utf-16be']);
export const LATIN_1: ReadonlySet<string> = new Set(['iso-8859-1', 'latin1']);

/** With this in the query, Express writes a script instead of JSON. */
const SCRIPT = /(?:^|&)callback\b/;

/** Types by header. Callers send very few different ones; those beyond the limit are parsed each time. */
const known: Map<string, BodyType> = new Map();
const MOST_KNOWN = 100;
const LONGEST_KNOWN = 200;

const UNNAMED: BodyType = { kind: 'text', media: null, charset: '', isMalformed: false };

/**
 * @param ofFlow whether a flow gets the request: it takes JSON in UTF-16
 * @throws ModeletError `unsupported_media` for a Content-Type that is no media type, and for a body of text in a coding
 * or character set that cannot be read
 */
export function readHead(headers: IncomingHttpHeaders, ofFlow = false): RequestHead {
  const contentType = headers['content-type'];
  const type = contentType === undefined ? UNNAMED : bodyType(contentType);
  if (type.isMalformed) throw unreadable('invalid media type');
  const chunked = headers['transfer-encoding'] !== undefined;
  const given = headers['content-length'];
  const announced = chunked || given !== undefined;
  // Only text is decoded here. Any other body is the modelet's own.
  const isDecoded = announced && TEXTS.has(type.kind);
  const coding = isDecoded ? codingOf(headers['content-encoding']) : 'identity';
  if (isDecoded && !isReadable(type, ofFlow))
    throw unreadable(`unsupported charset "${quoted(type.charset.toUpperCase())}"`);
  return { type, contentType, length: chunked ? null : Number(given ?? 0), announced, coding };
}

/** Whether a body's character set can be decoded exactly. */
function isReadable({ kind, charset }: BodyType, ofFlow: boolean): boolean {
  if (charset === '' || charset === 'utf-8') return true;
  return kind === 'text' ? LATIN_1.has(charset) : kind === 'json' && ofFlow && UTF_16.has(charset);
}

/** @throws ModeletError `unsupported_media` for a coding that cannot be read */
export function codingOf(header: string | undefined): ContentCoding {
  const coding = header?.toLowerCase() ?? 'identity';
  if (CODINGS.has(coding)) return coding as ContentCoding;
  throw unreadable(`unsupported content encoding "${quoted(coding)}"`);
}

function unreadable(reason: string): ModeletError {
  return new ModeletError('unsupported_media', `the body cannot be read: ${reason}`);
}

/**
 * Returns the time limit in a header `timeout`, in ms; 0: none.
 * @throws ModeletError `bad_request` unless it is a positive number
 */
export function parseTimeout(header: string | string[] | undefined): number {
  if (header === undefined) return 0;
  if (typeof header === 'string' && POSITIVE.test(header)) return Number(header);
  throw new ModeletError('bad_request', 'the header timeout must be a positive number, of milliseconds');
}

function bodyType(contentType: string): BodyType {
  const found = known.get(contentType);
  if (found) return found;
  const type = parseType(contentType);
  if (known.size < MOST_KNOWN && contentType.length <= LONGEST_KNOWN) known.set(contentType, type);
  return type;
}

function parseType(contentType: string): BodyType {
  const type = mediaTypeOf(contentType);
  const named = CHARSET.exec(contentType)?.[1]?.toLowerCase() ?? '';
  const charset = UTF_8.has(named) ? 'utf-8' : named;
  if (type === null) return { ...UNNAMED, charset, isMalformed: true };
  const media = mediaKindOf(type);
  return { kind: kindOf(type, media), media, charset, isMalformed: false };
}

function kindOf(type: string, media: MediaKind): BodyKind {
  if (type === JSON_TYPE) return 'json';
  if (media === 'json') return 'json value';
  if (media === 'msgpack') return 'msgpack';
  if (type === FORM_TYPE) return 'form';
  const [top, subtype = ''] = type.split('/');
  if (top === 'text' || subtype === 'xml' || subtype.endsWith('+xml')) return 'text';
  return top !== 'application' || BINARY.has(subtype) ? 'bytes' : 'text';
}

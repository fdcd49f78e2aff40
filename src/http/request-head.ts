/**
 * Reads the head of a request: its id, what its body is and how it must be read, its time limit, and the form that the
 * caller accepts for the answer. Follows the body parsers of Node-RED's HTTP-in node, so that an endpoint takes the same
 * bodies whether it is compiled or not.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { ModeletError } from '../core/errors.ts';
import { quoted } from '../core/text.ts';
import { parseTraceparent } from '../observe/export/tracing.ts';

/** Headers by lower-case name, as in Node.js. */
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** The used part of an HTTP response. A flow may have replaced the response with any other value. */
export interface AnswerHeaders {
  readonly headersSent: boolean;
  getHeader(name: string): unknown;
  setHeader(name: string, value: string): unknown;
}

/** The header of an answer that bears its request's id. A caller may choose the id, so it need not be unique. */
export const REQUEST_ID = 'X-Request-Id';
/** Visible ASCII, which is safe in a header, a log line and a label. */
const VALID = /^[\x21-\x7e]{1,128}$/;

/** Tag of this process. Stored messages may carry the tag of an earlier process. */
export const PROCESS_TAG: string = randomBytes(4).toString('hex');
let lastMade = 0;

/**
 * Returns the id of a request that enters, and sets it as the answer's `X-Request-Id`. The id is the one already set on
 * the answer, else the caller's (`X-Request-Id`, else the trace id of `traceparent`), else a new id.
 */
export function enterRequest(headers: Headers | undefined, answer: AnswerHeaders | undefined): string {
  const canBear = typeof answer?.getHeader === 'function' && typeof answer.setHeader === 'function';
  const borne = canBear ? answer.getHeader(REQUEST_ID) : undefined;
  const id = requestIdOf(headers, borne);
  if (canBear && borne === undefined && !answer.headersSent) answer.setHeader(REQUEST_ID, id);
  return id;
}

/** Returns the id of a request, which its answer must bear. @param borne the id already set on the answer */
export function requestIdOf(headers: Headers | undefined, borne: unknown): string {
  return valid(borne) ?? valid(headers?.['x-request-id']) ?? traceIdOf(headers?.['traceparent']) ?? makeRequestId();
}

function traceIdOf(traceparent: unknown): string | undefined {
  return traceparent === undefined ? undefined : parseTraceparent(traceparent)?.traceId;
}

function makeRequestId(): string {
  lastMade += 1;
  return `${PROCESS_TAG}-${lastMade.toString(36)}`;
}

function valid(id: unknown): string | undefined {
  return typeof id === 'string' && VALID.test(id) ? id : undefined;
}

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
export const FORM_TYPE = 'application/x-www-form-urlencoded';
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

export type MediaKind = 'json' | 'msgpack' | 'other';

export const JSON_TYPE = 'application/json';
export const MSGPACK_TYPE = 'application/msgpack';

/** Media types of msgpack. The names after the first are older and as common. */
const MSGPACK_NAMES: ReadonlySet<string> = new Set([MSGPACK_TYPE, 'application/x-msgpack', 'application/vnd.msgpack']);

const TYPE = /^\s*([\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+)\s*(?:;|$)/;

/** Returns `type/subtype` in lower case, without parameters; null if the text is not a media type. */
export function mediaTypeOf(header: string): string | null {
  return TYPE.exec(header)?.[1]?.toLowerCase() ?? null;
}

/** Returns the kind of a type. `type` is a result of `mediaTypeOf`. */
export function mediaKindOf(type: string): MediaKind {
  if (type === JSON_TYPE || type.endsWith('+json')) return 'json';
  return MSGPACK_NAMES.has(type) ? 'msgpack' : 'other';
}

/** Returns the kind of a Content-Type header; null if it has no valid type. */
export function kindOfHeader(header: unknown): MediaKind | null {
  const type = typeof header === 'string' ? mediaTypeOf(header) : null;
  return type === null ? null : mediaKindOf(type);
}

// Whether a type is in one of the ranges, which are in lower case, such as `image/*` and `*/*`. The range
// application/json also matches every `+json` type, and each name of msgpack matches its other names.
export function isInRanges(type: string, ranges: readonly string[]): boolean {
  const kind = mediaKindOf(type);
  return ranges.some((range) => {
    if (range === type || range === '*/*') return true;
    if (range.endsWith('/*')) return type.startsWith(range.slice(0, -1));
    return kind !== 'other' && mediaKindOf(range) === kind && !range.endsWith('+json');
  });
}

/** `usual`: objects as JSON, text unchanged. */
export type AnswerForm = 'json' | 'msgpack' | 'usual';

/** A caller's preference for a form: by quality; if equal, by exactness; if that is equal, by position. */
interface Liking {
  readonly quality: number;
  /** Kind of range that matched: 0 none, 1 all types, 2 a type with any subtype, 3 the type's name. */
  readonly exactness: number;
  readonly position: number;
}

const NOT_NAMED: Liking = { quality: 0, exactness: 0, position: Number.POSITIVE_INFINITY };

/**
 * Returns the form of the answer. `accept` is the header. A caller that names no form gets the form of its body. A
 * caller that accepts neither form still gets one, as RFC 9110 allows: any answer tells it more than none.
 */
export function answerForm(accept: string | undefined, sent: MediaKind | null): AnswerForm {
  const unnamed = sent === 'msgpack' ? 'msgpack' : 'usual';
  if (accept === undefined || accept === '*/*') return unnamed;
  const ranges = accept.split(',').map(readRange);
  const json = likingOf('json', JSON_TYPE, ranges);
  const msgpack = likingOf('msgpack', MSGPACK_TYPE, ranges);
  if (json.quality === 0 && msgpack.quality === 0) return msgpack.exactness === 3 ? 'usual' : unnamed;
  const better = prefers(msgpack, json) ? msgpack : json;
  if (better.exactness < 3 && json.quality === msgpack.quality) return unnamed;
  if (better === msgpack) return 'msgpack';
  return json.exactness === 3 ? 'json' : 'usual';
}

/** Returns the media types that the header names, the preferred first. Ranges and refused types are absent. */
export function typesNamed(accept: string | undefined): string[] {
  return (accept ?? '')
    .split(',')
    .map(readRange)
    .filter(({ type, quality }) => quality > 0 && !type.includes('*'))
    .sort((one, other) => other.quality - one.quality)
    .map(({ type }) => type);
}

interface Range {
  readonly type: string;
  readonly quality: number;
}

function readRange(text: string): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  const given = parameters.find((parameter) => /^q\s*=/.test(parameter));
  const quality = given === undefined ? 1 : Number(given.slice(given.indexOf('=') + 1));
  return { type, quality: quality >= 0 && quality <= 1 ? quality : 0 };
}

/** Returns the preference by the range that matches the type most exactly. */
function likingOf(kind: MediaKind, type: string, ranges: readonly Range[]): Liking {
  return ranges.reduce((liking: Liking, range, position) => {
    const exactness = exactnessOf(kind, type, range.type);
    return exactness > liking.exactness ? { quality: range.quality, exactness, position } : liking;
  }, NOT_NAMED);
}

function exactnessOf(kind: MediaKind, type: string, range: string): Liking['exactness'] {
  if (range === type || (kind === 'msgpack' && mediaKindOf(range) === kind)) return 3;
  if (range === 'application/*') return 2;
  return range === '*/*' ? 1 : 0;
}

function prefers(one: Liking, other: Liking): boolean {
  if (one.quality !== other.quality) return one.quality > other.quality;
  if (one.exactness !== other.exactness) return one.exactness > other.exactness;
  return one.position < other.position;
}

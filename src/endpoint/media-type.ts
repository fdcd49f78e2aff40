/** Reads media types: the kind of a body by its Content-Type, and the form of an answer by what the caller accepts. */

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

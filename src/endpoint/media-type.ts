/** Tells the kind of a body by its Content-Type. */

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

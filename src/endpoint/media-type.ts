/** What a body is, by its Content-Type. */

export type MediaKind = 'json' | 'msgpack' | 'other';

export const JSON_TYPE = 'application/json';
export const MSGPACK_TYPE = 'application/msgpack';

/** The names that msgpack goes by; the first is the registered one's own, the others are older and as common. */
const MSGPACK_NAMES: ReadonlySet<string> = new Set([MSGPACK_TYPE, 'application/x-msgpack', 'application/vnd.msgpack']);

const TYPE = /^\s*([\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+)\s*(?:;|$)/;

/** `type/subtype` in lower case, without parameters; null for what is no media type. */
export function mediaTypeOf(header: string): string | null {
  return TYPE.exec(header)?.[1]?.toLowerCase() ?? null;
}

/** `type`: as `mediaTypeOf` gives it. */
export function mediaKindOf(type: string): MediaKind {
  if (type === JSON_TYPE || type.endsWith('+json')) return 'json';
  return MSGPACK_NAMES.has(type) ? 'msgpack' : 'other';
}

/** Of a Content-Type; null for what names no type. */
export function kindOfHeader(header: unknown): MediaKind | null {
  const type = typeof header === 'string' ? mediaTypeOf(header) : null;
  return type === null ? null : mediaKindOf(type);
}

// `ranges`: in lower case; `image/*` and `*/*` stand for many. One that names JSON or msgpack means it by any name.
export function isInRanges(type: string, ranges: readonly string[]): boolean {
  const kind = mediaKindOf(type);
  return ranges.some((range) => {
    if (range === type || range === '*/*') return true;
    if (range.endsWith('/*')) return type.startsWith(range.slice(0, -1));
    return kind !== 'other' && mediaKindOf(range) === kind && !range.endsWith('+json');
  });
}

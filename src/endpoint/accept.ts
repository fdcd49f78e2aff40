/** Which form a caller wants its answer in. */
import { JSON_TYPE, type MediaKind, MSGPACK_TYPE, mediaKindOf } from './media-type.ts';

/** `usual`: objects as JSON, and text as it is. */
export type AnswerForm = 'json' | 'msgpack' | 'usual';

/** How much a caller likes a form; of two that it likes alike, the one it has named more exactly, then first. */
interface Liking {
  readonly quality: number;
  /** 0: by none, 1: by all types, 2: by a type with any subtype, 3: by name. */
  readonly exactness: number;
  readonly position: number;
}

const NOT_NAMED: Liking = { quality: 0, exactness: 0, position: Number.POSITIVE_INFINITY };

/**
 * `accept`: the header. Who does not name a form gets the one it has sent. A caller that accepts neither gets one all
 * the same, which RFC 9110 leaves to the server: an answer that it may not understand tells it more than none.
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

/** By the range that names it most exactly. */
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

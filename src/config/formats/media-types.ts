/** The text form of the media types that a stage takes: `application/json, image/*`. */
import { unreadable } from './unreadable.ts';

/** A media type, or a range of them; of the characters that RFC 9110 allows. */
const RANGE = /^(?:\*\/\*|[\w!#$%&'+.^`|~-]+\/(?:\*|[\w!#$%&'+.^`|~-]+))$/;

/**
 * Returns the media ranges in lower case, each once, in the order given.
 * @throws Unreadable for an empty list, or a range that is no media type
 */
export function parseMediaRanges(text: string): readonly string[] {
  const ranges = text.split(',').map((range) => range.trim().toLowerCase());
  for (const value of ranges) {
    if (RANGE.test(value)) continue;
    throw unreadable(`"${value}" is not a media type such as image/png or image/*`, 'mediaTypes', { value });
  }
  return [...new Set(ranges)];
}

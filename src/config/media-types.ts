/** Media types, or ranges of them, as a list in a node's settings: `application/json, image/*`. */

// A type with a subtype or with all of them, or all types; of the characters that RFC 9110 allows, but for `*`.
const RANGE = /^(?:\*\/\*|[\w!#$%&'+.^`|~-]+\/(?:\*|[\w!#$%&'+.^`|~-]+))$/;

/**
 * In lower case, each once, in the order given.
 * @throws Error for an empty list, and for what is no media type.
 */
export function parseMediaRanges(text: string): readonly string[] {
  const ranges = text.split(',').map((range) => range.trim().toLowerCase());
  for (const range of ranges) {
    if (!RANGE.test(range)) throw new Error(`"${range}" is not a media type such as image/png or image/*`);
  }
  return [...new Set(ranges)];
}

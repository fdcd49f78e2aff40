/**
 * Reads and cuts text that comes from outside: requests, answers of other servers, what a process prints. The time each
 * takes grows with the length of the text and no faster, whatever the text is: a regular expression that may try again
 * from each character, or divide a run of characters in several ways, takes minutes for some kilobytes.
 */

/** Longest quote of somebody else's text in a message. */
const LONGEST_QUOTE = 200;

/** Optional sign, digits with an optional point, optional exponent. No digit belongs to two parts of it. */
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

/** Whether all of it is a decimal number, such as `12`, `.5` or `-1.25e3`. */
export function isDecimal(text: string): boolean {
  return DECIMAL.test(text);
}

/** The text without the characters at its end that are `character`. */
export function withoutTrailing(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end -= 1;
  return text.slice(0, end);
}

/** The same for both of its ends. */
export function withoutSurrounding(text: string, character: string): string {
  let start = 0;
  while (start < text.length && text[start] === character) start += 1;
  return withoutTrailing(text.slice(start), character);
}

/** Text of somebody else as a message quotes it: a long one is cut. */
export function quoted(text: string): string {
  return text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}...` : text;
}

/** Whether the character at that place is white space. */
export function isSpaceAt(text: string, at: number): boolean {
  return at < text.length && (text[at] as string).trim() === '';
}

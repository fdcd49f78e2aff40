/**
 * Reads and cuts text from outside: requests, answers of other servers, output of processes. Every function must run in
 * time linear in the length of the text, for any text. A regular expression that can restart at each character, or that
 * can split a run of characters in several ways, takes minutes for a few kilobytes.
 */

/** Longest quote of foreign text in a message, in characters. */
const LONGEST_QUOTE = 200;

/** Optional sign, digits with an optional point, optional exponent. No digit can match two parts of the pattern. */
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

/** Whether the whole text is a decimal number, such as `12`, `.5` or `-1.25e3`. */
export function isDecimal(text: string): boolean {
  return DECIMAL.test(text);
}

/** Removes every `character` from the end of the text. */
export function withoutTrailing(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end -= 1;
  return text.slice(0, end);
}

/** Removes every `character` from both ends of the text. */
export function withoutSurrounding(text: string, character: string): string {
  let start = 0;
  while (start < text.length && text[start] === character) start += 1;
  return withoutTrailing(text.slice(start), character);
}

/** Decodes a part of a URL; returns it as it is if its escapes are wrong. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shortens foreign text for a quote in a message. */
export function quoted(text: string): string {
  return text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}...` : text;
}

/** Returns a hash (FNV-1a) for telling a few texts apart; never 0, which stands for no text. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash || 1;
}

/** Whether the character at index `at` is white space. */
export function isSpaceAt(text: string, at: number): boolean {
  return at < text.length && (text[at] as string).trim() === '';
}

/** Longest key, in characters. */
export const LONGEST_KEY = 256;

/** Most keys that a stage, or a worker, remembers. Beyond, the key without items for longest ends: clients may make up keys. */
export const MOST_KEYS = 100_000;

/** Most bytes that a key adds to the JSON of a request's properties. */
export const LONGEST_KEY_BYTES: number = 6 * LONGEST_KEY;

/** The key of an item: its text for the worker, and its hash for the engine. */
export interface ItemKey {
  readonly text: string;
  readonly hash: number;
}

/** Returns the key that a value stands for; null if it is no text, number or boolean, or if it is too long. */
export function itemKeyOf(value: unknown): ItemKey | null {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return null;
  const text = String(value);
  return text === '' || text.length > LONGEST_KEY ? null : { text, hash: hashOf(text) };
}

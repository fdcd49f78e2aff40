/** The text forms of URLs and their parts: paths, addresses of servers, and origins of web pages. */
import { unreadable } from './unreadable.ts';

/**
 * Returns the path of a URL with a slash at its start and none at its end; `/` for the root, blank for blank text. The
 * first slash of `text` is optional, as in an HTTP-in node.
 * @throws Unreadable for a path that is not fixed
 */
export function parsePublicPath(text: string): string {
  const segments = text
    .trim()
    .replace(/^\/|\/$/g, '')
    .split('/');
  if (segments.join('') === '') return text.trim() === '' ? '' : '/';
  // A fixed path has no characters with a meaning in URLs or in the patterns of Express.
  const isFixed = segments.every((segment) => /^[\w.~-]+$/.test(segment) && !/^\.+$/.test(segment));
  if (!isFixed) throw unreadable(`must be a path of letters, digits and any of . _ ~ -; got "${text}"`, 'path');
  return `/${segments.join('/')}`;
}

/**
 * Returns the URL below which a proxy offers the endpoints, without a slash at its end; blank for blank text.
 * @throws Unreadable
 */
export function parseBaseUrl(text: string): string {
  const given = text.trim();
  if (given === '') return '';
  const isPlain = URL.canParse(given) && /^https?:[^?#@\s]+$/i.test(given);
  if (!isPlain) {
    throw unreadable(`must be like https://api.example.com/v1, without user, query and #; got "${text}"`, 'url');
  }
  return new URL(given).href.replace(/\/$/, '');
}

/**
 * Returns the address of a server.
 * @param protocols the allowed ones, such as `https:`
 * @param rule what the message says of them
 * @throws Unreadable, also for an address with a user or password
 */
function parseAddress(text: string, protocols: readonly string[], rule = 'must begin with'): string {
  const given = text.trim();
  const allowed = protocols.map((protocol) => `${protocol}//`);
  if (!URL.canParse(given) || !protocols.includes(new URL(given).protocol)) {
    const values = { protocols: allowed.join(', ') };
    throw unreadable(`${rule} ${allowed.join(' or ')}; got "${text}"`, 'address', values);
  }
  const url = new URL(given);
  if (url.username || url.password) {
    throw unreadable('user and password belong into their own fields, not the address', 'addressSecret');
  }
  return url.href;
}

/** @throws Unreadable */
export function parseBrokerUrl(text: string): string {
  return parseAddress(text, ['redis:', 'rediss:']);
}

/**
 * Returns the address of the server that a gate reads.
 * @param read returns another property of the gate
 * @throws Unreadable
 */
export function parseServerUrl(text: string, read: (property: 'source') => unknown): string {
  const source = read('source');
  const protocols = source === 'redis' ? ['redis:', 'rediss:'] : ['http:', 'https:'];
  return parseAddress(text, protocols, `the source "${source}" needs`);
}

/**
 * Returns the first part of a broker's keys.
 * @throws Unreadable
 */
export function parseKeyPrefix(text: string): string {
  if (!/^[\w.-]{1,64}$/.test(text)) throw unreadable('must be 1 to 64 letters, digits and any of . _ -', 'prefix');
  return text;
}

export const ANY_ORIGIN = '*';
/** Each request is compared with them. */
const MOST_ORIGINS = 100;
const ORIGIN = /^[a-z][a-z\d+.-]*:\/\/[^\s/?#@*]+$/i;

/**
 * Returns the origins as browsers send them; `*` alone for all; none for blank text.
 * @throws Unreadable, also for too many
 */
export function parseOrigins(text: string): readonly string[] {
  const origins = [...new Set(text.split(/[\s,]+/).flatMap((part) => (part === '' ? [] : originOf(part))))];
  if (origins.length > MOST_ORIGINS) throw unreadable(`must have at most ${MOST_ORIGINS} origins`, 'origins');
  return origins.includes(ANY_ORIGIN) ? [ANY_ORIGIN] : origins;
}

function originOf(text: string): string {
  if (text === ANY_ORIGIN) return text;
  const bare = text.replace(/\/$/, '');
  if (!ORIGIN.test(bare) || !URL.canParse(bare)) {
    throw unreadable(`must be origins such as https://app.example.com, or *; got "${text}"`, 'origins');
  }
  const { origin } = new URL(bare);
  // Only the schemes of the web have an origin for URL: applications send others.
  return origin === 'null' ? bare.toLowerCase() : origin;
}

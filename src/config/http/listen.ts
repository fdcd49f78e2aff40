/**
 * Reads the address at which an engine listens, `8080`, `127.0.0.1:8080`, `[::1]:8080` or the path of a Unix socket, and the
 * origins of web pages whose scripts may call its endpoints.
 */
import { isAbsolute } from 'node:path';
import type { ListenAddress } from '../../core/endpoints.ts';

const HIGHEST_PORT = 65_535;
/** The kernel takes 107 bytes as the path of a socket; other systems take a few less. */
const LONGEST_PATH = 103;

const SOCKET = /^unix:(?:\/\/(?=\/))?/;
/** A host and a port. The host is blank or `*` for all addresses, a name, or an address; of IPv6 in brackets. */
const HOST_AND_PORT = /^(?:(\*|[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?|\[[\dA-Fa-f:.]+(?:%\w+)?\])?:)?(\d{1,5})$/;

/**
 * Returns the address; null for blank text. Port 0 is any free port.
 * @throws Error for text that is no address
 */
export function parseListen(text: string): ListenAddress | null {
  const given = text.trim();
  if (given === '') return null;
  const path = given.replace(SOCKET, '');
  if (path !== given || isAbsolute(given)) return { path: socketPath(path, given) };
  const [, host = '', digits = ''] = HOST_AND_PORT.exec(given) ?? [];
  const port = Number(digits);
  if (digits === '' || port > HIGHEST_PORT) {
    throw new Error(`must be a port, host:port or unix:/path; got "${text}"`);
  }
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  return { host: bare === '' || bare === '*' ? null : bare, port };
}

/** Returns the text of an address, as a person would write it. */
export function formatListen(address: ListenAddress): string {
  if ('path' in address) return `unix:${address.path}`;
  const { host, port } = address;
  if (host === null) return String(port);
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function socketPath(path: string, given: string): string {
  if (!isAbsolute(path) || path.endsWith('/')) throw new Error(`the path of a socket must be absolute; got "${given}"`);
  if (Buffer.byteLength(path) > LONGEST_PATH) {
    throw new Error(`the path of a socket has ${LONGEST_PATH} bytes at most; got "${given}"`);
  }
  return path;
}

/** Stands for all origins. */
export const ANY_ORIGIN = '*';
/** Each request is compared with them. */
const MOST_ORIGINS = 100;
const ORIGIN = /^[a-z][a-z\d+.-]*:\/\/[^\s/?#@*]+$/i;

/**
 * Returns the origins as browsers send them; `*` alone for all; none for blank text.
 * @throws Error for text that is no origin, and for too many
 */
export function parseOrigins(text: string): readonly string[] {
  const origins = [...new Set(text.split(/[\s,]+/).flatMap((part) => (part === '' ? [] : originOf(part))))];
  if (origins.length > MOST_ORIGINS) throw new Error(`must have at most ${MOST_ORIGINS} origins`);
  return origins.includes(ANY_ORIGIN) ? [ANY_ORIGIN] : origins;
}

function originOf(text: string): string {
  if (text === ANY_ORIGIN) return text;
  const bare = text.replace(/\/$/, '');
  if (!ORIGIN.test(bare) || !URL.canParse(bare)) {
    throw new Error(`must be origins such as https://app.example.com, or *; got "${text}"`);
  }
  const { origin } = new URL(bare);
  // Only the schemes of the web have an origin for URL: applications send others.
  return origin === 'null' ? bare.toLowerCase() : origin;
}

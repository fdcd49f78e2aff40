/** The text form of the address at which an engine listens: `8080`, `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`. */
import type { ListenAddress } from '../../core/endpoints.ts';
import { unreadable } from './unreadable.ts';

const HIGHEST_PORT = 65_535;
/** The kernel takes 107 bytes as the path of a socket; other systems take a few less. */
const LONGEST_PATH = 103;

const SOCKET = /^unix:(?:\/\/(?=\/))?/;
/** A path, or a pipe of Windows. */
const ABSOLUTE = /^(?:\/|\\\\)/;
/** A host and a port. The host is blank or `*` for all addresses, a name, or an address; of IPv6 in brackets. */
const HOST_AND_PORT = /^(?:(\*|[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?|\[[\dA-Fa-f:.]+(?:%\w+)?\])?:)?(\d{1,5})$/;

/**
 * Returns the address; null for blank text. Port 0 is any free port.
 * @throws Unreadable
 */
export function parseListen(text: string): ListenAddress | null {
  const given = text.trim();
  if (given === '') return null;
  const path = given.replace(SOCKET, '');
  if (path !== given || ABSOLUTE.test(given)) return { path: socketPath(path, given) };
  const [, host = '', digits = ''] = HOST_AND_PORT.exec(given) ?? [];
  const port = Number(digits);
  if (digits === '' || port > HIGHEST_PORT) {
    throw unreadable(`must be a port, host:port or unix:/path; got "${text}"`, 'address');
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
  if (!ABSOLUTE.test(path) || path.endsWith('/')) {
    throw unreadable(`the path of a socket must be absolute; got "${given}"`, 'socket');
  }
  if (new TextEncoder().encode(path).length > LONGEST_PATH) {
    throw unreadable(`the path of a socket has ${LONGEST_PATH} bytes at most; got "${given}"`, 'socket');
  }
  return path;
}

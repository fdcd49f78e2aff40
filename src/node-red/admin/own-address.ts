/**
 * Tells flows the address below which the HTTP-in nodes of this Node-RED answer, as the environment variable
 * `MODELET_URL`: `http://127.0.0.1:1880`, or `https://[::1]:8443/api` with TLS and an `httpNodeRoot`. The buttons of the
 * examples ask their endpoints there, on whatever port Node-RED listens. A variable of a tab or a group takes its place.
 */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import type { NodeAPI } from 'node-red';
import { type HttpSettings, httpRoot } from '../../config/http/http-settings.ts';

const NAME = 'MODELET_URL';

/** The addresses that stand for all of a machine's, and one of the machine itself for each. */
const LOCAL: Readonly<Record<string, string>> = {
  '0.0.0.0': '127.0.0.1',
  '::': '::1',
};

/** Sets the variable as soon as the server listens. */
export function nameOwnAddress(RED: NodeAPI): void {
  // Node-RED has no server where it is part of a program that brings its own.
  const server = RED.server as unknown as Server | undefined;
  if (!server) return;
  const set = (): void => {
    const url = urlOf(server, httpRoot(RED.settings as HttpSettings));
    if (url !== null) process.env[NAME] = url;
  };
  if (server.listening) set();
  else server.once('listening', set);
}

/** Returns the address without a slash at its end; null for a server that listens on a socket of the file system. */
function urlOf(server: Server, root: string): string | null {
  const place = server.address() as AddressInfo | string | null;
  if (place === null || typeof place === 'string') return null;
  const host = LOCAL[place.address] ?? place.address;
  const scheme = server instanceof TlsServer ? 'https' : 'http';
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${place.port}${root === '/' ? '' : root}`;
}

/**
 * Connections to an HTTP server in its own process, without a network. A message of a WebSocket is asked of the server
 * as a plain request, so that keys, limits, flows and answers are those of every other request.
 */
import type { IncomingMessage, Server } from 'node:http';
import { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';

/** Headers that belong to one connection, in lower case. */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  ...['connection', 'upgrade', 'http2-settings', 'keep-alive', 'te', 'trailer', 'proxy-connection'],
]);

/** Connects to the server in the name of a client. @returns the client's end */
export function loopback(server: Server, { remoteAddress, remotePort }: Socket): Duplex {
  const [near, far] = duplexPair();
  Object.assign(far, { remoteAddress, remotePort, encrypted: server instanceof TlsServer });
  // Either end may close first, and a broken connection is no error of this process.
  for (const [end, other] of [
    [near, far],
    [far, near],
  ] as const) {
    end.on('error', () => {});
    end.once('close', () => other.destroy());
  }
  server.emit(server instanceof TlsServer ? 'secureConnection' : 'connection', far);
  return near;
}

/**
 * Serves a request that offers another protocol as if it offered none, as a server without upgrades does. Some HTTP
 * clients offer HTTP/2 with each request.
 */
export function passOn(server: Server, request: IncomingMessage, socket: Socket, head: Buffer): void {
  const { method, url, httpVersion, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    if (!OF_CONNECTION.has(name.toLowerCase())) lines.push(`${name}: ${value}`);
  }
  const near = loopback(server, socket);
  near.write(Buffer.from(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`, 'latin1'));
  if (head.length > 0) near.write(head);
  socket.on('error', () => near.destroy());
  socket.once('close', () => near.destroy());
  socket.pipe(near).pipe(socket);
}

/**
 * Takes the WebSockets of clients at the endpoints whose stream response has that format. Other upgrades are for others:
 * Node-RED has its own WebSockets at the same server.
 */
import { type ClientRequest, type IncomingMessage, request as open, type Server, STATUS_CODES } from 'node:http';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type { Clock } from '../../core/clock.ts';
import { asModeletError, ModeletError } from '../../core/errors.ts';
import { errorBody } from '../client-text.ts';
import { JSON_TYPE, originForm, requestIdOf } from '../request-head.ts';
import type { ServedEndpoint } from '../served-endpoint.ts';
import { LINES_TYPE } from '../streaming/stream-form.ts';
import { loopback, passOn } from './loopback.ts';
import { SocketSession, type WebSocket } from './session.ts';

/** The used part of the package ws, which is loaded when the first client comes. */
interface Ws {
  readonly Server: new (options: {
    readonly noServer: true;
    readonly maxPayload: number;
    readonly clientTracking: false;
    readonly perMessageDeflate: false;
  }) => {
    handleUpgrade(request: IncomingMessage, socket: Socket, head: Buffer, done: (web: WebSocket) => void): void;
  };
}

type OnUpgrade = (request: IncomingMessage, socket: Socket, head: Buffer) => void;

const require = createRequire(import.meta.url);
const BYTES_TYPE = 'application/octet-stream';
/** Headers of the handshake that say nothing about the requests of its messages, in lower case. */
const OF_HANDSHAKE =
  /^(?:accept|accept-encoding|connection|content-.*|expect|keep-alive|origin|sec-websocket-.*|te|transfer-encoding|upgrade)$/;

interface SocketHost {
  /** Returns the endpoint that takes WebSockets at a path, or undefined. */
  socketAt(path: string): ServedEndpoint | undefined;
  /** Whether upgrades must be looked at: there may be such an endpoint, or others take upgrades of the server. */
  readonly hasSockets: boolean;
  /** Returns why the endpoint at a path takes no WebSockets; null, or absent: others may take the path. */
  whyNot?(path: string): string | null;
}

export class Sockets {
  readonly #host: SocketHost;
  readonly #clock: Clock;
  /** Servers, and what listens at them; null while no endpoint takes WebSockets. */
  readonly #servers: Map<Server, OnUpgrade | null> = new Map();
  readonly #sessions: Map<SocketSession, string> = new Map();

  constructor(host: SocketHost, clock: Clock) {
    this.#host = host;
    this.#clock = clock;
  }

  /** Takes WebSockets at this server, too. */
  serve(server: Server): void {
    if (this.#servers.has(server)) return;
    this.#servers.set(server, null);
    server.once('close', () => this.#servers.delete(server));
    this.refresh();
  }

  /** Call when the endpoints have changed. Sessions at endpoints that are gone end after the open answer. */
  refresh(): void {
    const { hasSockets } = this.#host;
    for (const [server, listener] of this.#servers) {
      // A server without a listener serves upgrades as plain requests.
      if (hasSockets && !listener) this.#listenAt(server);
      else if (!hasSockets && listener) {
        server.off('upgrade', listener);
        this.#servers.set(server, null);
      }
    }
    for (const [session, path] of this.#sessions) if (!this.#host.socketAt(path)) session.end();
  }

  /** Ends all sessions after the open answers. */
  end(): void {
    for (const session of this.#sessions.keys()) session.end();
  }

  #listenAt(server: Server): void {
    const listener: OnUpgrade = (request, socket, head) => {
      const path = originForm(request.url).split('?', 1)[0] as string;
      const isWeb = request.headers.upgrade?.toLowerCase() === 'websocket';
      const endpoint = isWeb ? this.#host.socketAt(path) : undefined;
      const why = isWeb && !endpoint ? (this.#host.whyNot?.(path) ?? null) : null;
      if (endpoint) this.#welcome({ server, request, socket, head, endpoint }, path);
      else if (why !== null) refuse(request, socket, new ModeletError('bad_request', why));
      else if (server.listenerCount('upgrade') === 1) passOn(server, request, socket, head);
      else if (offersHttp2(request)) whenOthersLeft(socket, () => passOn(server, request, socket, head));
    };
    server.on('upgrade', listener);
    this.#servers.set(server, listener);
  }

  #welcome({ server, request, socket, head, endpoint }: Upgrade, path: string): void {
    socket.on('error', () => socket.destroy());
    const { clients, spec, limits } = endpoint;
    let ws: Ws;
    try {
      checkOrigin(request, endpoint);
      clients?.check(request.headers, { setHeader: () => {} }, path);
      ws = require('ws') as Ws;
    } catch (thrown) {
      refuse(request, socket, asModeletError(thrown, 'modelet_failed'));
      return;
    }
    const maxPayload = Math.max(limits.maxBytes, 1);
    const host = new ws.Server({ noServer: true, maxPayload, clientTracking: false, perMessageDeflate: false });
    host.handleUpgrade(request, socket, head, (web) => {
      const session: SocketSession = new SocketSession(web, {
        clock: this.#clock,
        heartbeatMs: spec.parts?.stream?.heartbeatMs ?? 0,
        // A deploy may have given the path another endpoint.
        ask: (body, isBinary) => {
          const present = this.#host.socketAt(path) ?? endpoint;
          return ask({ server, request, socket, head, endpoint: present }, body, isBinary);
        },
        onClosed: () => this.#sessions.delete(session),
      });
      this.#sessions.set(session, path);
    });
  }
}

/**
 * Whether a request offers HTTP/2 in clear text, as `curl --http2` and Java's client do. No server of HTTP/1.1 has to take
 * the offer, but those who listen for WebSockets leave such a request without an answer.
 */
function offersHttp2({ headers: { upgrade = '' } }: IncomingMessage): boolean {
  const offers = upgrade.toLowerCase().split(',');
  return offers.some((offer) => offer.trim() === 'h2c') && !offers.some((offer) => offer.trim() === 'websocket');
}

/** Calls `act` unless another listener of the upgrade ends the connection, as one for WebSockets does at its own path. */
function whenOthersLeft(socket: Socket, act: () => void): void {
  queueMicrotask(() => {
    if (!socket.writableEnded && !socket.destroyed) act();
  });
}

interface Upgrade {
  readonly server: Server;
  readonly request: IncomingMessage;
  readonly socket: Socket;
  readonly head: Buffer;
  readonly endpoint: ServedEndpoint;
}

/** Begins the request of a message, with the headers of the handshake. */
function ask(
  { server, request: { url, headers }, socket, endpoint: { spec } }: Upgrade,
  body: Buffer | string,
  isBinary: boolean,
): ClientRequest {
  const own = Object.entries(headers).filter(([name]) => !OF_HANDSHAKE.test(name));
  const request = open({
    createConnection: () => loopback(server, socket),
    method: spec.method.toUpperCase(),
    path: url ?? '/',
    headers: {
      ...Object.fromEntries(own),
      'Content-Type': isBinary ? BYTES_TYPE : JSON_TYPE,
      'Content-Length': Buffer.byteLength(body),
      // Rows are answered in lines, each of which is a message.
      Accept: `${LINES_TYPE}, ${JSON_TYPE}`,
    },
  });
  request.end(body);
  return request;
}

/**
 * Browsers let every page open a WebSocket to every server, and say from which page. Without a look at it, any page could
 * use the endpoints of a server that only its user reaches.
 * @throws ModeletError `forbidden`
 */
function checkOrigin({ headers: { origin, host } }: IncomingMessage, { origins }: ServedEndpoint): void {
  if (
    origin === undefined ||
    origins?.allows(origin) ||
    (URL.canParse(origin) && new URL(origin).host === host?.toLowerCase())
  )
    return;
  throw new ModeletError('forbidden', 'a page of another origin may not open a WebSocket here');
}

/** Answers a handshake with an error. */
function refuse(request: IncomingMessage, socket: Socket, error: ModeletError): void {
  const { statusCode } = error;
  const requestId = requestIdOf(request.headers, undefined);
  const body = JSON.stringify(errorBody(error, requestId));
  const headers = [
    `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode]}`,
    ...(statusCode === 401 ? ['WWW-Authenticate: Bearer'] : []),
    `Content-Type: ${JSON_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    'Connection: close',
  ];
  socket.end(`${headers.join('\r\n')}\r\n\r\n${body}`);
}

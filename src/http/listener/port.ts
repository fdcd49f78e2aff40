/**
 * The address of a listener, and the HTTP server at it.
 *
 *   off        there is no address                     -> opening
 *   opening    the address is being taken              -> listening | failed | off
 *   listening  the server takes requests               -> opening (another address) | off
 *   failed     it cannot be taken; tried again by time -> listening | opening (another address) | off
 */
import { lstatSync, unlinkSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type ListenOptions, type Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { formatListen } from '../../config/formats/listen.ts';
import { type Clock, type Deadline, type Timer, untilTrue } from '../../core/clock.ts';
import type { ListenAddress, ListenerState, TlsFiles } from '../../core/endpoints.ts';
import { asError } from '../../core/errors.ts';
import type { LogRecord } from '../../core/model.ts';
import { LineLimit } from '../../observe/log/line-limit.ts';

interface Wanted {
  readonly address: ListenAddress;
  readonly tls: TlsFiles | null;
}

interface PortEvents {
  readonly onRequest: (request: IncomingMessage, response: ServerResponse) => void;
  /** Called with each server before it listens. */
  onServer(server: Server): void;
  onConnection(socket: Socket): void;
  onChange(): void;
  onLog(record: LogRecord): void;
}

/** How long clients may take, and how long a connection stays open between two requests: longer than proxies keep it. */
const TIMES = { headersTimeout: 60_000, requestTimeout: 300_000, keepAliveTimeout: 65_000 } as const;
const RETRY_MS = 250;
const LOOK_MS = 50;

export class ListeningPort {
  readonly #events: PortEvents;
  readonly #clock: Clock;
  readonly #errors: LineLimit;
  #state: ListenerState = { tag: 'off' };
  #wanted: Wanted | null = null;
  #server: Server | null = null;
  #retry: Timer | null = null;
  /** Servers that take no new connections and still answer. */
  readonly #retired: Set<Server> = new Set();

  constructor(events: PortEvents, clock: Clock) {
    this.#events = events;
    this.#clock = clock;
    this.#errors = new LineLimit((level, message) => events.onLog({ level, message }), clock);
  }

  get state(): ListenerState {
    return this.#state;
  }

  /**
   * Listens at this address from now on, and no more at any other. Keeps the server if nothing has changed.
   * @param drainMs longest time for which open requests keep the server of an earlier address
   */
  use(wanted: Wanted | null, drainMs: number): void {
    const before = this.#wanted;
    if (wanted && this.#state.tag !== 'failed' && isDeepStrictEqual(before, wanted)) return;
    this.#wanted = wanted;
    if (this.#server && before?.tls && wanted?.tls && isDeepStrictEqual(before.address, wanted.address)) {
      if (this.#renew(this.#server, wanted.tls)) return;
    }
    this.#leave(drainMs);
    if (wanted) this.#open(wanted);
    else this.#become({ tag: 'off' });
  }

  /** Resolves when all connections have ended, at the latest at the limit. */
  async closed(limit: Deadline): Promise<void> {
    await Promise.all([...this.#retired].map((server) => this.#ended(server, limit)));
  }

  /** Uses other certificates for new connections. Returns false if they cannot be used. */
  #renew(server: Server, tls: TlsFiles): boolean {
    if (!isWhole(tls)) return false;
    try {
      (server as ReturnType<typeof createTlsServer>).setSecureContext(tls);
      return true;
    } catch {
      return false;
    }
  }

  #leave(drainMs: number): void {
    this.#retry?.cancel();
    this.#retry = null;
    const server = this.#server;
    this.#server = null;
    if (!server) return;
    // A client of an earlier address must come back to the present one.
    server.prependListener('request', (_, response) => response.setHeader('Connection', 'close'));
    this.#retired.add(server);
    server.close(() => this.#retired.delete(server));
    void this.#ended(server, this.#clock.now() + drainMs);
  }

  /** Ends the connections of a retired server as they become idle, and all of them at the limit. */
  async #ended(server: Server, limit: Deadline): Promise<void> {
    await untilTrue(this.#clock, limit, LOOK_MS, () => {
      server.closeIdleConnections();
      return !this.#retired.has(server);
    });
    server.closeAllConnections();
  }

  #open(wanted: Wanted): void {
    if (this.#state.tag !== 'failed') this.#become({ tag: 'opening' });
    let server: Server;
    try {
      server = this.#serverFor(wanted);
    } catch (thrown) {
      this.#failed(wanted, asError(thrown));
      return;
    }
    const { address } = wanted;
    const refused = (error: NodeJS.ErrnoException): void => this.#refused(wanted, error);
    server.once('error', refused);
    server.once('listening', () => {
      server.off('error', refused);
      this.#listens(server, wanted);
    });
    if ('path' in address) withSocketMode(() => server.listen(address.path));
    else server.listen(optionsOf(address));
  }

  #serverFor({ tls }: Wanted): Server {
    if (tls && !isWhole(tls)) throw new Error('the TLS configuration has no key, or no certificate');
    const { onRequest } = this.#events;
    const server: Server = tls ? createTlsServer({ ...TIMES, ...tls }, onRequest) : createServer(TIMES, onRequest);
    server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => this.#events.onConnection(socket));
    this.#events.onServer(server);
    return server;
  }

  #listens(server: Server, wanted: Wanted): void {
    // Without a listener, an error such as too many open files would end the process.
    server.on('error', ({ message }) => this.#errors.write('error', `listener: ${message}`));
    if (wanted !== this.#wanted) {
      server.close();
      return;
    }
    this.#server = server;
    const url = urlOf(wanted, server.address());
    this.#become({ tag: 'listening', url });
    this.#events.onLog({ level: 'info', message: `listening at ${url}`, fields: { url } });
  }

  #refused(wanted: Wanted, error: NodeJS.ErrnoException): void {
    if (wanted !== this.#wanted) return;
    this.#failed(wanted, error);
    const { address } = wanted;
    this.#retry = this.#clock.at(this.#clock.now() + RETRY_MS, () => this.#open(wanted));
    if (error.code !== 'EADDRINUSE' || !('path' in address)) return;
    // A process that was killed has left its socket behind.
    void releaseSocket(address.path);
  }

  #failed({ address }: Wanted, error: NodeJS.ErrnoException): void {
    const { code = 'config_invalid' } = error;
    const message = `cannot listen at ${formatListen(address)}: ${reasonOf(address, error)} (${code})`;
    if (this.#state.tag === 'failed' && this.#state.message === message) return;
    this.#become({ tag: 'failed', code, message });
    this.#events.onLog({ level: 'error', message, fields: { code } });
  }

  #become(state: ListenerState): void {
    this.#state = state;
    this.#events.onChange();
  }
}

function isWhole({ key, cert }: TlsFiles): boolean {
  return Boolean(key && cert);
}

function optionsOf({ host, port }: Extract<ListenAddress, { port: number }>): ListenOptions {
  return host === null ? { port } : { host, port };
}

function urlOf({ address, tls }: Wanted, bound: AddressInfo | string | null): string {
  if ('path' in address || bound === null || typeof bound === 'string') return formatListen(address);
  const given = formatListen({ host: address.host, port: bound.port });
  return `${tls ? 'https' : 'http'}://${address.host === null ? `0.0.0.0:${given}` : given}`;
}

function reasonOf(address: ListenAddress, { code, message }: NodeJS.ErrnoException): string {
  const host = 'path' in address ? '' : (address.host ?? '');
  switch (code) {
    case 'EADDRINUSE':
      if (!('path' in address)) return `port ${address.port} is in use`;
      return isFile(address.path) ? 'there is a file that is no socket' : 'another process listens there';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EADDRNOTAVAIL':
      return `this machine has no address ${host}`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host ${host} is not known`;
    case 'ENOENT':
      return 'its folder does not exist';
    default:
      return message;
  }
}

/** The owner and the group may connect. A folder of the socket's own decides further. */
const NOT_OTHERS = 0o117;

/** Creates a socket by `bind`, at once, that only the owner and the group may use. */
function withSocketMode(bind: () => void): void {
  const before = process.umask(NOT_OTHERS);
  try {
    bind();
  } finally {
    process.umask(before);
  }
}

/** Removes a socket without a listening process. Leaves any other file. */
function releaseSocket(path: string): Promise<void> {
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve();
    });
    probe.once('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNREFUSED') remove(path);
      resolve();
    });
  });
}

/** Whether there is something else than a socket at a path. */
function isFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSocket() === false;
}

function remove(path: string): void {
  try {
    if (lstatSync(path).isSocket()) unlinkSync(path);
  } catch {
    // It is gone already, or may not be removed: the next attempt to listen says so.
  }
}

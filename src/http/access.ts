/** Decides who may use the endpoints of a runtime: clients, by their keys and within their limits, and web pages of other origins. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ANY_ORIGIN } from '../config/formats/urls.ts';
import type { Clock } from '../core/clock.ts';
import { type ClientKey, NO_CLIENT } from '../core/endpoints.ts';
import { ModeletError } from '../core/errors.ts';
import { counted } from '../core/figures.ts';
import type { ClientReadings } from '../core/readings.ts';
import type { Headers } from './request-head.ts';

/** The clients and the web pages that may use the endpoints of one runtime. */
export interface Access {
  readonly clients: Clients;
  readonly origins: Origins;
}

/** The access to each runtime through Node-RED, as long as its service runs. The engine's listener has its own. */
export class AccessTable {
  readonly #clock: Clock;
  readonly #access: WeakMap<object, Access> = new WeakMap();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  of(service: object): Access {
    let access = this.#access.get(service);
    if (!access) {
      access = { clients: new Clients(this.#clock), origins: new Origins() };
      this.#access.set(service, access);
    }
    return access;
  }
}

interface Client {
  readonly key: ClientKey;
  readonly hash: Buffer;
}

/** The part of a response that is needed, of Node.js or of Express. */
export type AdmittedResponse = Pick<ServerResponse, 'statusCode' | 'writableFinished'> & {
  setHeader(name: string, value: string): unknown;
  once(event: 'close', listener: () => void): unknown;
};

/** A longer text cannot be a key. */
const LONGEST_KEY = 512;
const BEARER = /^bearer +(\S+) *$/i;
/** Status of a client that went away before its answer was complete. */
const GONE = 499;

/**
 * Decides which clients may use the endpoints of a runtime, and how much: by the key that a request carries. Knows only
 * hashes of keys. A deploy replaces the keys in one step. A client that keeps its name keeps what it has used.
 */
export class Clients {
  readonly #clock: Clock;
  /** null: any client may use the endpoints. */
  #clients: readonly Client[] | null = null;
  #usage: ReadonlyMap<string, Usage> = new Map();
  readonly #counts: Map<string, Map<number, number>> = new Map();
  readonly #admitted: WeakSet<object> = new WeakSet();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Replaces all clients. @param keys null: every client may use the endpoints; empty: no client may */
  replace(keys: readonly ClientKey[] | null): void {
    this.#clients = keys?.map((key) => ({ key, hash: Buffer.from(key.hash, 'hex') })) ?? null;
    const now = this.#clock.now();
    this.#usage = new Map((keys ?? []).map((key) => [key.name, this.#usage.get(key.name) ?? new Usage(key, now)]));
    const names = new Set([NO_CLIENT, ...(keys ?? []).map(({ name }) => name)]);
    for (const name of this.#counts.keys()) if (!names.has(name)) this.#counts.delete(name);
  }

  get areNeeded(): boolean {
    return this.#clients !== null;
  }

  /**
   * Admits a request to an endpoint, and counts it when its response closes. Admits a request once, however often it is
   * asked about.
   * @param path path of the request
   * @throws ModeletError `unauthorized`, `forbidden`, `rate_limited`; the response then has a header that fits
   */
  admit(headers: Headers, response: AdmittedResponse, path: string): void {
    if (this.#clients === null || this.#admitted.has(response)) return;
    const key = this.check(headers, response, path);
    const { name } = key;
    const usage = this.#usage.get(name) as Usage;
    try {
      usage.enter(key, this.#clock.now());
    } catch (thrown) {
      this.#count(name, 429);
      throw thrown;
    }
    this.#admitted.add(response);
    response.once('close', () => {
      usage.leave();
      if (this.#usage.has(name)) this.#count(name, response.writableFinished ? response.statusCode : GONE);
    });
  }

  /**
   * Checks the key alone, without its limits. Call only if keys are needed.
   * @throws ModeletError `unauthorized`, `forbidden`
   */
  check(headers: Headers, response: Pick<AdmittedResponse, 'setHeader'>, path: string): ClientKey {
    const key = this.#find(keyOf(headers));
    if (!key) {
      this.#count(NO_CLIENT, 401);
      response.setHeader('WWW-Authenticate', 'Bearer');
      throw new ModeletError('unauthorized', 'the request needs a key: Authorization: Bearer KEY, or X-API-Key: KEY');
    }
    if (key.paths.length > 0 && !key.paths.some((prefix) => isBelow(path, prefix))) {
      this.#count(key.name, 403);
      throw new ModeletError('forbidden', 'the key is not for this path');
    }
    return key;
  }

  /** Requests of each client so far, by the status of their answers. */
  read(): ClientReadings {
    return Object.fromEntries([...this.#counts].map(([name, byStatus]) => [name, Object.fromEntries(byStatus)]));
  }

  /** Compares with every key, so that the time tells nothing about them. */
  #find(text: string | null): ClientKey | null {
    if (text === null) return null;
    const hash = createHash('sha256').update(text, 'latin1').digest();
    let found: ClientKey | null = null;
    for (const client of this.#clients ?? []) {
      if (client.hash.length === hash.length && timingSafeEqual(client.hash, hash)) found = client.key;
    }
    return found;
  }

  #count(name: string, status: number): void {
    const byStatus = this.#counts.get(name) ?? new Map<number, number>();
    this.#counts.set(name, byStatus);
    byStatus.set(status, (byStatus.get(status) ?? 0) + 1);
  }
}

/** Returns the key that a request carries; null if it carries none. */
function keyOf(headers: Headers): string | null {
  const { authorization, 'x-api-key': own } = headers;
  const bearer = typeof authorization === 'string' ? BEARER.exec(authorization)?.[1] : undefined;
  // A proxy may have put its own token into the other header.
  const key = typeof own === 'string' ? own : (bearer ?? '');
  return key === '' || key.length > LONGEST_KEY ? null : key;
}

function isBelow(path: string, prefix: string): boolean {
  return path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`);
}

/** Fills steadily, and holds what one second brings, at least one token. Each request takes one. */
export class Bucket {
  #tokens: number;
  /** When it held so many. */
  #at: number;

  constructor(rate: number, now: number) {
    this.#tokens = Math.max(1, rate);
    this.#at = now;
  }

  /** Takes a token. Returns how long the request must wait for one, in ms; 0: it has one. @param rate more than 0 */
  take(rate: number, now: number): number {
    const passed = Math.max(0, now - this.#at);
    this.#tokens = Math.min(Math.max(1, rate), this.#tokens + (passed * rate) / 1000);
    this.#at = now;
    if (this.#tokens < 1) return ((1 - this.#tokens) * 1000) / rate;
    this.#tokens -= 1;
    return 0;
  }
}

/** The places and the rate that a client has used. Its requests keep it until they end, so it may outlive the key. */
class Usage {
  readonly #bucket: Bucket;
  #open = 0;

  constructor({ rate }: ClientKey, now: number) {
    this.#bucket = new Bucket(rate, now);
  }

  /** Lets one more request in. @throws ModeletError `rate_limited` if there is no room */
  enter({ rate, concurrent }: ClientKey, now: number): void {
    // Such a request takes no token.
    if (concurrent > 0 && this.#open >= concurrent)
      throw limited(`this key allows ${counted(concurrent, 'request')} at a time`, 1000);
    const waitMs = rate > 0 ? this.#bucket.take(rate, now) : 0;
    if (waitMs > 0) throw limited(`this key allows ${counted(rate, 'request')} per second`, waitMs);
    this.#open += 1;
  }

  /** Call once for each request that was let in. */
  leave(): void {
    this.#open -= 1;
  }
}

function limited(reason: string, waitMs: number): ModeletError {
  return new ModeletError('rate_limited', reason, { retryAfterSeconds: Math.ceil(waitMs / 1000) });
}

const ALLOW = 'Access-Control-Allow-Origin';
/** Headers of answers that scripts may read, besides those that they always may. */
const EXPOSED = 'X-Request-Id, Retry-After, x-should-retry, Inference-Header-Content-Length, X-Failed-Rows';
const METHODS = 'GET, HEAD, POST, PUT, PATCH';
/** How long a browser need not ask again, in seconds. */
const MAX_AGE = '600';

/**
 * Lets scripts of web pages from other origins call endpoints (CORS). Browsers ask for that themselves, and keep an answer
 * from its script unless it allows their page. Requests of other clients are neither refused nor changed by this.
 */
export class Origins {
  #allowed: ReadonlySet<string>;

  /** @param origins as `parseOrigins` gives them */
  constructor(origins: readonly string[] = []) {
    this.#allowed = new Set(origins);
  }

  replace(origins: readonly string[]): void {
    this.#allowed = new Set(origins);
  }

  /** Whether there is any. */
  get areSet(): boolean {
    return this.#allowed.size > 0;
  }

  /** Whether a page may call, also by a WebSocket. @param origin header of the browser */
  allows(origin: string | undefined): boolean {
    return origin !== undefined && (this.#allowed.has(origin) || this.#allowed.has(ANY_ORIGIN));
  }

  /** Writes the headers of an answer of any kind. */
  mark({ headers: { origin } }: IncomingMessage, response: ServerResponse): void {
    if (!this.areSet) return;
    const isOpen = this.#allowed.has(ANY_ORIGIN);
    if (!isOpen) vary(response, 'Origin');
    if (isOpen || this.allows(origin)) {
      response.setHeader(ALLOW, isOpen ? ANY_ORIGIN : (origin as string));
      response.setHeader('Access-Control-Expose-Headers', EXPOSED);
    } else {
      // Node-RED before version 5 allows all in front of its HTTP-in nodes.
      response.removeHeader(ALLOW);
    }
  }

  /** Answers the question of a browser before a request. Returns false, and does nothing, if it is another request or not allowed. */
  preflight(request: IncomingMessage, response: ServerResponse): boolean {
    const { origin, 'access-control-request-method': method, ...headers } = request.headers;
    if (request.method !== 'OPTIONS' || method === undefined || !this.allows(origin)) return false;
    this.mark(request, response);
    vary(response, 'Access-Control-Request-Headers');
    const wanted = headers['access-control-request-headers'];
    if (wanted !== undefined) response.setHeader('Access-Control-Allow-Headers', wanted);
    response.setHeader('Access-Control-Allow-Methods', METHODS);
    response.setHeader('Access-Control-Max-Age', MAX_AGE);
    response.writeHead(204).end();
    return true;
  }
}

/** The access that an endpoint gives to pages of other origins. */
export type OtherOrigins = Pick<Origins, 'allows' | 'mark' | 'preflight'>;

/** Says that an answer depends on a header of its request, so that no cache gives it to other pages. */
function vary(response: ServerResponse, header: string): void {
  const before = response.getHeader('Vary');
  response.setHeader('Vary', before === undefined ? header : `${String(before)}, ${header}`);
}

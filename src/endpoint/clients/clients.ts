/**
 * Decides which clients may use the endpoints of a runtime, and how much: by the key that a request carries. Knows only
 * hashes of keys. A deploy replaces the keys in one step. A client that keeps its name keeps what it has used.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../core/clock.ts';
import { type ClientKey, NO_CLIENT } from '../../core/endpoints.ts';
import { ModeletError } from '../../core/errors.ts';
import type { ClientReadings } from '../../core/readings.ts';
import type { Headers } from '../request-head.ts';
import { Usage } from './limits.ts';
import { Origins } from './origins.ts';

interface Client {
  readonly key: ClientKey;
  readonly hash: Buffer;
}

/** The part of a response that is needed, of Node.js or of Express. */
export type AdmittedResponse = Pick<ServerResponse, 'statusCode' | 'writableFinished'> & {
  setHeader(name: string, value: string): unknown;
  once(event: 'close', listener: () => void): unknown;
};

/** Who may call the endpoints of a runtime: clients, by their keys, and web pages of other origins. */
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

/** A longer text cannot be a key. */
const LONGEST_KEY = 512;
const BEARER = /^bearer +(\S+) *$/i;
/** Status of a client that went away before its answer was complete. */
const GONE = 499;

export class Clients {
  readonly #clock: Clock;
  /** null: everybody may use the endpoints. */
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
    const limited = usage.enter(key, this.#clock.now());
    if (limited) {
      this.#count(name, 429);
      throw new ModeletError('rate_limited', limited.reason, limited);
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

/**
 * Reads a number from a key in Redis.
 *
 * Redis does not tell when a key was written, so the value counts as new on each reading. The writer should let the key
 * expire (`SET key 0.4 PX 5000`), so that the gate closes when the writer stops.
 */
import { isDecimal } from '../../core/text.ts';
import type { BudgetSource, Reading, Sample, SourceServices, SourceSettings } from '../source.ts';
import { NoSample, readWithin, sampleOf } from './reading.ts';

/** The part of the client that the source uses. */
interface RedisClient {
  connect(): Promise<unknown>;
  get(key: string): Promise<string | null>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** Closes the connection now and fails its waiting commands. */
  destroy(): void;
}

/** A connection that is being made or used. Any error ends it; the next reading makes a new one. */
interface Connection {
  readonly client: RedisClient;
  readonly connected: Promise<unknown>;
  /** The first error on the connection; null if there was none. */
  failure: Error | null;
}

export class RedisSource implements BudgetSource {
  readonly description: string;
  readonly #settings: SourceSettings<'redis'>;
  readonly #services: SourceServices;
  readonly #secrets: readonly string[];
  #connection: Connection | null = null;

  constructor(settings: SourceSettings<'redis'>, services: SourceServices) {
    this.#settings = settings;
    this.#services = services;
    this.description = `Redis key ${settings.key} at ${new URL(settings.url).host}`;
    // Some providers call the password a token.
    this.#secrets = [services.credentials.password ?? '', services.credentials.token ?? ''];
  }

  read(signal: AbortSignal): Promise<Reading> {
    const limits = { clock: this.#services.clock, timeoutMs: this.#settings.timeoutMs, signal };
    return readWithin({ ...limits, secrets: this.#secrets }, (until) => this.#read(until));
  }

  async close(): Promise<void> {
    if (this.#connection) this.#drop(this.#connection);
  }

  async #read(until: AbortSignal): Promise<Sample> {
    const { key, value } = this.#settings;
    const connection = this.#connection ?? (await this.#connect(until));
    // A connection with an overdue answer may never answer again.
    const drop = (): void => this.#drop(connection);
    until.addEventListener('abort', drop, { once: true });
    try {
      await connection.connected;
      const askedAt = this.#services.clock.now();
      const text = await connection.client.get(key);
      if (text === null) throw new NoSample(`the key ${key} is missing`);
      if (!isDecimal(text.trim())) {
        throw new NoSample(`the key ${key} does not hold a number`);
      }
      return sampleOf(Number(text), value, askedAt);
    } catch (error) {
      // Another server may have the address by now: a demoted server keeps its connections, and may refuse to
      // answer or lack the key.
      drop();
      throw connection.failure ?? error;
    } finally {
      until.removeEventListener('abort', drop);
    }
  }

  async #connect(until: AbortSignal): Promise<Connection> {
    const createClient = await loadRedis();
    // The source may have been closed meanwhile: then this connection has no owner to close it.
    until.throwIfAborted();
    const { url, timeoutMs } = this.#settings;
    const { credentials, tls } = this.#services;
    const password = credentials.password || credentials.token;
    const client: RedisClient = createClient({
      url,
      ...(credentials.username && { username: credentials.username }),
      ...(password && { password }),
      disableOfflineQueue: true,
      // The next reading makes a new connection, so the client must not reconnect by itself.
      socket: {
        reconnectStrategy: false,
        connectTimeout: timeoutMs,
        ...(url.startsWith('rediss:') && { tls: true, ...tls }),
      },
    });
    const connection: Connection = {
      client,
      connected: new Promise((resolve) => resolve(client.connect())),
      failure: null,
    };
    this.#connection = connection;
    client.on('error', (error) => {
      connection.failure ??= error;
      this.#drop(connection);
    });
    connection.connected.catch(() => this.#drop(connection));
    return connection;
  }

  #drop(connection: Connection): void {
    if (this.#connection !== connection) return;
    this.#connection = null;
    const { client, connected } = connection;
    destroy(client);
    // A client that is destroyed while its socket connects goes on, and would keep the connection for good.
    connected.then(
      () => destroy(client),
      () => {},
    );
  }
}

/**
 * Loads the client, an optional package, when a gate first needs it.
 * @throws NoSample that tells how to install the package if it is missing
 */
async function loadRedis(): Promise<(options: object) => RedisClient> {
  try {
    const { createClient } = await import('redis');
    return createClient as unknown as (options: object) => RedisClient;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new NoSample("the package redis is not installed: run `npm install redis` in Node-RED's user directory");
  }
}

function destroy(client: RedisClient): void {
  try {
    client.destroy();
  } catch {
    // The connection has already ended.
  }
}

/**
 * Reads a number from a key in Redis.
 *
 * Redis does not tell when a key was written, so the value counts as new on each reading. The writer should let the key
 * expire (`SET key 0.4 PX 5000`), so that the gate closes when the writer stops.
 */
import type { GateSource } from '../../config/compile-gate.ts';
import type { Clock } from '../../core/clock.ts';
import { isDecimal } from '../../core/text.ts';
import type { BudgetSource, Reading, Sample } from '../source.ts';
import type { Credentials, TlsOptions } from './http-endpoint.ts';
import { NoSample, readWithin, sampleOf } from './reading.ts';
import type { LoadRedis, RedisClient } from './redis-client.ts';

export interface RedisOptions extends Omit<Extract<GateSource, { kind: 'redis' }>, 'kind' | 'tls'> {
  readonly clock: Clock;
  readonly credentials: Credentials;
  readonly tls: TlsOptions | undefined;
  readonly loadRedis: LoadRedis;
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
  readonly #options: RedisOptions;
  readonly #secrets: readonly string[];
  #connection: Connection | null = null;

  constructor(options: RedisOptions) {
    this.#options = options;
    this.description = `Redis key ${options.key} at ${new URL(options.url).host}`;
    // Some providers call the password a token.
    this.#secrets = [options.credentials.password ?? '', options.credentials.token ?? ''];
  }

  read(signal: AbortSignal): Promise<Reading> {
    const { clock, timeoutMs } = this.#options;
    return readWithin({ clock, timeoutMs, signal, secrets: this.#secrets }, (until) => this.#read(until));
  }

  async close(): Promise<void> {
    if (this.#connection) this.#drop(this.#connection);
  }

  async #read(until: AbortSignal): Promise<Sample> {
    const { clock, key, value } = this.#options;
    const connection = this.#connection ?? (await this.#connect(until));
    // A connection with an overdue answer may never answer again.
    const drop = (): void => this.#drop(connection);
    until.addEventListener('abort', drop, { once: true });
    try {
      await connection.connected;
      const askedAt = clock.now();
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
    const create = await this.#options.loadRedis();
    // The source may have been closed meanwhile: then this connection has no owner to close it.
    until.throwIfAborted();
    const { url, credentials, tls, timeoutMs } = this.#options;
    const password = credentials.password || credentials.token;
    const client = create({
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

function destroy(client: RedisClient): void {
  try {
    client.destroy();
  } catch {
    // The connection has already ended.
  }
}

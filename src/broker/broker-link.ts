/**
 * The connection to the Redis or Valkey server of a broker, and BullMQ on it. Both packages are optional, so they are
 * loaded when something first needs them.
 *
 * A call waits while the server is away, is repeated when it is back, and fails after `ANSWER_MS`. Callers may rely on
 * that, because every call of a queue may be carried out twice. The connection itself is made anew for ever.
 *
 * A server that was demoted keeps its connections and answers them: its refusals to write count as a lost connection,
 * and all connections of the link are made anew, since its address may lead to another server by then.
 */
import type { IQueueBackend, IRedisClient, Queue, QueueOptions } from 'bullmq';
import type { RedisClientType } from 'redis';
import { type Clock, systemClock, type Timer } from '../core/clock.ts';
import { asError, isModeletError, ModeletError } from '../core/errors.ts';
import type { BrokerPlace, LogRecord } from '../core/model.ts';
import { type BrokerPackages, loadPackages } from './broker-packages.ts';

export interface BinaryEntry {
  readonly id: Buffer;
  readonly message: Readonly<Record<string, Buffer>>;
}

/** Commands that answer with bytes instead of text. */
export interface BinaryReader extends Pick<RedisClientType, 'on' | 'connect' | 'destroy'> {
  get(key: string): Promise<Buffer | null>;
  xRange(key: string, start: string, end: string): Promise<readonly BinaryEntry[]>;
  xRead(
    streams: readonly { readonly key: string; readonly id: string }[],
    options: { readonly BLOCK: number; readonly COUNT: number },
  ): Promise<readonly { readonly messages: readonly BinaryEntry[] }[] | null>;
}

/** The means of a call: commands of the server, and BullMQ's on the same connection. */
export interface BrokerAccess {
  readonly server: RedisClientType;
  /** The same connection, for values that are no text. */
  readonly binary: BinaryReader;
  readonly queue: Queue;
  readonly backend: IQueueBackend;
}

/** How BullMQ leases the jobs of a queue. */
export interface JobLeases {
  /** Lease with which it hands out a job, in ms. */
  readonly leaseMs: number;
  /** Number of leases of a job that may end without an outcome; then the job is dead. */
  readonly mostLost: number;
}

/** Longest time for a call, with all its repetitions. Clients of a server that is away are told to come back. */
const ANSWER_MS = 8000;
const CONNECT_MS = 3000;
/** Finds a connection that is open and dead. */
const PING_MS = 2000;
const SILENT_MS = 6000;
const RECONNECT = { firstMs: 50, longestMs: 2000 } as const;
const RETRY_MS = 100;
/** Time between two looks at how the server is set up. */
const INSPECT_MS = 30_000;

/** Longest wait for the answers of a server that is there, at the end. */
const CLOSE_MS = 1000;
/** Shortest time between two searches for ended leases. An item is found by the second search after its end. */
export const LEASE_CHECK_MS = 5000;

export class BrokerLink {
  readonly #place: BrokerPlace;
  readonly #packages: BrokerPackages;
  readonly #clock: Clock;
  readonly #onSetup: (record: LogRecord) => void;
  readonly #server: RedisClientType;
  readonly #binary: BrokerAccess['binary'];
  readonly #leases: JobLeases;
  /** The connections that callers have made with `another`. */
  readonly #others: Set<RedisClientType> = new Set();
  /** Whether the connections were given up, and the main one is not ready again. */
  #isRenewing = false;
  #queue: Queue | null = null;
  /** The connection as BullMQ uses it. */
  #ofQueue: IRedisClient | null = null;
  /** The last error of the connection, while it is down. */
  #error: Error | null = null;
  /** The risk that the server was last seen to take, in words. */
  #risks = '';
  #inspection: Timer | null = null;
  #closed = false;

  /**
   * @param onSetup called when the server was found to be set up so that it may lose items, and when it no longer is
   * @throws ModeletError `config_invalid` if a package is not installed.
   */
  static async open(
    place: BrokerPlace,
    leases: JobLeases,
    onSetup: (record: LogRecord) => void,
    clock: Clock = systemClock,
  ): Promise<BrokerLink> {
    return new BrokerLink(place, leases, await loadPackages(), onSetup, clock);
  }

  private constructor(
    place: BrokerPlace,
    leases: JobLeases,
    packages: BrokerPackages,
    onSetup: (record: LogRecord) => void,
    clock: Clock,
  ) {
    this.#place = place;
    this.#leases = leases;
    this.#packages = packages;
    this.#onSetup = onSetup;
    this.#clock = clock;
    this.#server = this.#client();
    this.#binary = this.#binaryOf(this.#server);
    this.#server.on('error', (error: Error) => {
      this.#error = error;
    });
    this.#server.on('ready', () => {
      this.#error = null;
      this.#isRenewing = false;
      void this.#inspect();
    });
    this.#server.connect().catch((error: Error) => {
      this.#error = error;
    });
  }

  /** Whether the server can be reached at this moment. */
  get isReady(): boolean {
    return this.#server.isReady;
  }

  /** Why the server cannot be reached at this moment, with its address; null if it can, or if that is not known. */
  get fault(): ModeletError | null {
    return this.isReady || !this.#error ? null : this.#unavailable(this.#error);
  }

  /** Runs the work, again if the connection was lost meanwhile. @throws ModeletError `store_unavailable` */
  reach<T>(work: (reached: BrokerAccess) => Promise<T>): Promise<T> {
    return this.command(async (server) => {
      const queue = this.#queue ?? (await this.#openQueue());
      return work({ server, binary: this.#binary, queue, backend: queue.getBackend() as unknown as IQueueBackend });
    });
  }

  /** Makes another connection to the server, for commands that block. The caller connects and ends it. */
  another(): RedisClientType {
    const client = this.#client();
    this.#others.add(client);
    client.on('end', () => this.#others.delete(client));
    return client;
  }

  /** As `another`, for bytes. */
  anotherBinary(): BinaryReader {
    return this.#binaryOf(this.another());
  }

  /** As `reach`, for work that needs no queue. */
  async command<T>(work: (server: RedisClientType) => Promise<T>): Promise<T> {
    const end = this.#clock.now() + ANSWER_MS;
    for (;;) {
      const done = this.#server.isReady ? await this.#attempt(work, end) : null;
      if (done) return done.value;
      if (this.#closed || this.#clock.now() + RETRY_MS >= end) throw this.#unavailable(this.#error);
      await new Promise<void>((resolve) => this.#clock.at(this.#clock.now() + RETRY_MS, resolve));
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#inspection?.cancel();
    await this.#queue?.close().catch(() => {});
    await this.#answered();
    this.#server.destroy();
  }

  /** Resolves when the commands on their way have their answers, or will get none. */
  async #answered(): Promise<void> {
    if (!this.#server.isReady) return;
    await new Promise<void>((resolve) => {
      const late = this.#clock.at(this.#clock.now() + CLOSE_MS, resolve);
      const done = (): void => {
        late.cancel();
        resolve();
      };
      // If the connection is lost meanwhile, the client's own promise never settles.
      this.#server.once('error', done);
      this.#server.close().then(done, done);
    });
  }

  #client(): RedisClientType {
    const client = this.#packages.createClient(clientOptions(this.#place));
    // Without a listener, the loss of the connection would end this process.
    client.on('error', () => {});
    // A client that is destroyed while it connects goes on, and would keep the connection for good.
    client.on('ready', () => {
      if (!client.isOpen) client.destroy();
    });
    return client;
  }

  #binaryOf(server: RedisClientType): BinaryReader {
    return server.withTypeMapping({ [this.#packages.RESP_TYPES.BLOB_STRING]: Buffer }) as unknown as BinaryReader;
  }

  /** Returns null if the connection was lost. */
  async #attempt<T>(work: (server: RedisClientType) => Promise<T>, end: number): Promise<{ readonly value: T } | null> {
    try {
      return { value: await this.#within(end, work(this.#server)) };
    } catch (thrown) {
      if (isModeletError(thrown)) throw thrown;
      const error = asError(thrown);
      if (isMisplaced(error)) this.#renew(error);
      else if (this.#server.isReady && !isBroken(error)) {
        // An error that the server itself has sent would come again.
        throw this.#refused(error);
      }
      return null;
    }
  }

  /** Lets the server end all connections, after which the clients connect again. */
  #renew(error: Error): void {
    if (this.#isRenewing || !this.#server.isReady) return;
    this.#isRenewing = true;
    this.#error = error;
    for (const client of [this.#server, ...this.#others]) client.sendCommand(['QUIT']).catch(() => {});
  }

  /** BullMQ gives up a queue whose first connection fails, so it is opened only on a connection that is ready. */
  async #openQueue(): Promise<Queue> {
    const { queue: name, prefix } = this.#place;
    const options = {
      connection: this.#connectionOfQueue(),
      prefix,
      lockDuration: this.#leases.leaseMs,
      stalledInterval: LEASE_CHECK_MS,
      maxStalledCount: this.#leases.mostLost,
      skipVersionCheck: true,
    };
    const queue = new this.#packages.Queue(name, options as unknown as QueueOptions);
    queue.on('error', () => {});
    try {
      await queue.waitUntilReady();
    } catch (thrown) {
      void queue.close().catch(() => {});
      throw thrown;
    }
    this.#queue ??= queue;
    return this.#queue;
  }

  /**
   * BullMQ passes each error of the connection on, and throws it where no queue listens: before a queue is ready, and
   * when it has closed. An error thrown there ends the process.
   */
  #connectionOfQueue(): IRedisClient {
    if (!this.#ofQueue) {
      this.#ofQueue = this.#packages.createNodeRedisClient(this.#server);
      this.#ofQueue.on('error', () => {});
    }
    return this.#ofQueue;
  }

  #within<T>(end: number, work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.at(end, () =>
        reject(this.#unavailable(this.#error ?? new Error(`no answer within ${ANSWER_MS} ms`))),
      );
      work.then(resolve, reject).finally(() => timer.cancel());
    });
  }

  /** HTTP clients get the first line only: they must not see the address. */
  #refused(error: Error): ModeletError {
    const text = `the broker refuses a command\n${labelOf(this.#place)}: ${error.message}`;
    return new ModeletError('store_unavailable', text, { cause: error, retryAfterSeconds: 2 });
  }

  #unavailable(error: Error | null): ModeletError {
    const why = error ? asError(error).message || error.name : 'it does not answer';
    const unavailable = new ModeletError(
      'store_unavailable',
      `the broker is unreachable\n${labelOf(this.#place)}: ${why}`,
      {
        cause: error ?? undefined,
        retryAfterSeconds: 2,
      },
    );
    return Object.assign(unavailable, { fault: 'away' });
  }

  /** Tells if the server is set up so that it may lose items. A server that does not let us look is not judged. */
  async #inspect(): Promise<void> {
    try {
      const text = `${await this.#server.info('persistence')}\n${await this.#server.info('memory')}`;
      const risks = risksIn((name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(text)?.[1]).join('; ');
      if (risks === this.#risks) return;
      this.#risks = risks;
      const label = labelOf(this.#place);
      if (risks === '') this.#onSetup({ level: 'info', message: `the broker is set up to keep its items (${label})` });
      else this.#onSetup({ level: 'warn', message: `the broker may lose items: ${risks} (${label})` });
    } catch {
      // The connection was lost, or the user of this connection may not run INFO.
    } finally {
      this.#inspection?.cancel();
      if (!this.#closed) this.#inspection = this.#clock.at(this.#clock.now() + INSPECT_MS, () => void this.#inspect());
    }
  }
}

/** @param found reads a line of INFO */
function risksIn(found: (name: string) => string | undefined): string[] {
  const policy = found('maxmemory_policy');
  return [
    found('aof_enabled') === '0' ? 'it writes no append-only file (set appendonly yes)' : '',
    policy !== undefined && policy !== 'noeviction'
      ? `it deletes keys when its memory is full (maxmemory-policy ${policy}, set noeviction)`
      : '',
  ].filter(Boolean);
}

/** Returns the address without secrets. */
function labelOf({ url }: BrokerPlace): string {
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
}

function clientOptions({ url, username, password, tls }: BrokerPlace): object {
  return {
    url,
    ...(username && { username }),
    ...(password && { password }),
    disableOfflineQueue: true,
    pingInterval: PING_MS,
    socket: {
      connectTimeout: CONNECT_MS,
      socketTimeout: SILENT_MS,
      reconnectStrategy: (count: number) => Math.min(RECONNECT.longestMs, RECONNECT.firstMs * 2 ** Math.min(count, 10)),
      ...((url.startsWith('rediss:') || tls) && { tls: true, ...tls }),
    },
  };
}

/** Whether the connection was lost, rather than that the server has refused the command. */
function isBroken({ name, message }: Error): boolean {
  return /Closed|Offline|Disconnect|Timeout|Reconnect/i.test(`${name} ${message}`);
}

/** Whether this is not the server to write to: it was demoted, or is a replica that has no master or no data yet. */
function isMisplaced({ message }: Error): boolean {
  // Servers before version 7 put the error of a command in a script behind the script's place.
  return /^(?:ERR .*-)?(?:READONLY|UNBLOCKED|MASTERDOWN|NOREPLICAS|LOADING)\b/.test(message);
}

/** Loads the Redis client, an optional package, when a gate first needs it. */
import { NoSample } from './reading.ts';

/** The part of the client that the source uses. */
export interface RedisClient {
  connect(): Promise<unknown>;
  get(key: string): Promise<string | null>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** Closes the connection now and fails its waiting commands. */
  destroy(): void;
}

export interface RedisClientOptions {
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  readonly disableOfflineQueue: boolean;
  readonly socket: object;
}

export type LoadRedis = () => Promise<(options: RedisClientOptions) => RedisClient>;

/** @throws NoSample that tells how to install the package if it is missing. */
export const loadRedis: LoadRedis = async () => {
  try {
    const { createClient } = await import('redis');
    return (options) => createClient(options) as unknown as RedisClient;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new NoSample("the package redis is not installed: run `npm install redis` in Node-RED's user directory");
  }
};

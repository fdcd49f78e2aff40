/** The packages that a broker needs beside this one. They are optional, so they are loaded when something first needs them. */
import { createRequire } from 'node:module';
import type { IRedisClient, Queue, QueueOptions } from 'bullmq';
import type { RedisClientType } from 'redis';
import { ModeletError } from '../core/errors.ts';

export interface BrokerPackages {
  createClient(options: object): RedisClientType;
  readonly RESP_TYPES: { readonly BLOB_STRING: 36 };
  readonly Queue: new (name: string, options: QueueOptions) => Queue;
  createNodeRedisClient(client: RedisClientType): IRedisClient;
}

const NAMES = ['bullmq', 'redis'];

/** Why this machine cannot use a broker: the packages that it lacks; null if it can. */
export function whyNoBroker(): string | null {
  const { resolve } = createRequire(import.meta.url);
  const missing = NAMES.filter((name) => {
    try {
      return !resolve(name);
    } catch {
      return true;
    }
  }).join(' ');
  return missing === ''
    ? null
    : `a broker needs more packages: run \`npm install ${missing}\` where this package is installed: in Node-RED's user directory, or in the folder of the worker host`;
}

/** @throws ModeletError `config_invalid` if a package is not installed. */
export async function loadPackages(): Promise<BrokerPackages> {
  try {
    const [{ Queue, createNodeRedisClient }, { createClient, RESP_TYPES }] = await Promise.all([
      import('bullmq'),
      import('redis'),
    ]);
    return {
      Queue,
      createNodeRedisClient,
      RESP_TYPES,
      createClient: createClient as unknown as BrokerPackages['createClient'],
    };
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw thrown;
    throw new ModeletError('config_invalid', whyNoBroker() ?? (thrown as Error).message, { cause: thrown });
  }
}

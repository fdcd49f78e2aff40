/** The end of a connection to a broker, at the worst moments: no connection stays, and no error goes unheard. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { RedisClientType } from 'redis';
import { BrokerLink } from '../../src/broker/broker-link.ts';
import { BullmqQueue, GATE_LEASES } from '../../src/gate/store/process/bullmq-queue.ts';
import { until } from '../fixtures/polling.ts';
import { Redis, WITHOUT_REDIS } from '../fixtures/redis.ts';
import { items, LIMITS } from './bed.ts';
import { placeOn } from './broker-bed.ts';

async function server(t: TestContext): Promise<Redis> {
  const redis = await Redis.start();
  t.after(() => redis.kill());
  return redis;
}

async function watcherOf(t: TestContext, redis: Redis): Promise<RedisClientType> {
  const watcher = await redis.connect();
  t.after(() => watcher.destroy());
  return watcher;
}

/** Connections to the server so far. */
async function connections(watcher: RedisClientType): Promise<number> {
  return Number(/total_connections_received:(\d+)/.exec(await watcher.info('stats'))?.[1]);
}

describe('a connection to a broker', { skip: WITHOUT_REDIS }, () => {
  test('is closed while it connects: it does not stay', async (t) => {
    const redis = await server(t);
    const watcher = await watcherOf(t, redis);
    const before = await connections(watcher);
    const link = await BrokerLink.open(placeOn(redis, 'early'), GATE_LEASES, () => {});
    const other = link.another();
    const connected = other.connect();
    other.destroy();
    await link.close();
    await connected.catch(() => {});
    await until('both have connected', async () => (await connections(watcher)) === before + 2);
    await until('both are gone', async () => (await watcher.clientList()).length === 1);
  });

  test('is lost while it is closed, with calls that wait for their answers', async (t) => {
    const redis = await server(t);
    const queue = new BullmqQueue(await BrokerLink.open(placeOn(redis, 'lost'), GATE_LEASES, () => {}), 'one', LIMITS);
    assert.deepEqual(await queue.enqueue(items(1)), ['new']);
    redis.pause();
    const waiting = assert.rejects(queue.stats(), { code: 'store_unavailable' });
    await written();
    const closed = queue.close();
    await redis.kill();
    await Promise.all([closed, waiting]);
  });
});

/** Resolves when the client has written the commands that were just sent. It does so in a later turn. */
async function written(): Promise<void> {
  for (let turns = 0; turns < 3; turns += 1) await turn();
}

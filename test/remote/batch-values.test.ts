/** Bytes of batches and results beside their jobs, on a real server. */
import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { RedisClientType } from 'redis';
import { BrokerLink } from '../../src/broker/broker-link.ts';
import { BATCH_LEASES, BatchQueue } from '../../src/hosts/batch-queue.ts';
import { LARGEST_INLINE } from '../../src/hosts/batch-values.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { until } from '../fixtures/polling.ts';
import { Redis, WITHOUT_REDIS } from '../fixtures/redis.ts';
import { placeOn } from '../store/broker-bed.ts';

const LARGE = { codec: CODEC.bytes, bytes: Buffer.alloc(LARGEST_INLINE + 1, 0xf1) };
const SMALL = { codec: CODEC.bytes, bytes: Buffer.alloc(LARGEST_INLINE, 0xf2) };

let redis: Redis;
let client: RedisClientType;
let queues = 0;

interface Ends {
  readonly origin: BatchQueue;
  readonly host: BatchQueue;
  /** Keys of the values that the server has. */
  values(): Promise<string[]>;
}

async function ends(t: TestContext): Promise<Ends> {
  queues += 1;
  const place = placeOn(redis, `batches-${queues}`);
  const open = async (holder: string): Promise<BatchQueue> => {
    const queue = new BatchQueue(await BrokerLink.open(place, BATCH_LEASES, () => {}), holder);
    t.after(() => queue.close());
    return queue;
  };
  const values = async (): Promise<string[]> => {
    const keys = await Promise.all(['batch', 'result'].map((kind) => client.keys(`test:${place.queue}:${kind}:*`)));
    return keys.flat();
  };
  return { origin: await open('origin'), host: await open('host'), values };
}

describe('the bytes of a batch', { skip: WITHOUT_REDIS }, () => {
  before(async () => {
    redis = await Redis.start();
    client = await redis.connect();
  });
  after(async () => {
    client.destroy();
    await redis.kill();
  });

  test('travel beside the job if there are many, both ways, and are deleted when the batch settles', async (t) => {
    const { origin, host, values } = await ends(t);
    for (const [id, payload, count] of [
      ['small', SMALL, 0],
      ['large', LARGE, 1],
    ] as const) {
      await origin.add(id, payload, 0);
      assert.equal((await values()).length, count);
      const [taken] = await host.take(1);
      assert.deepEqual(taken?.payload, payload);
      await host.complete(id, payload);
      const ended = await origin.lookUp(id);
      assert.ok(ended.tag === 'ended' && ended.result);
      assert.deepEqual(await origin.resultOf(id, ended.result), payload);
      for (const key of await values()) assert.ok((await client.pTTL(key)) > 0, 'without its runtime it expires');
      origin.settled(id);
      await until('they are deleted', async () => (await values()).length === 0);
    }
  });

  test('that are gone end the batch, with the reason', async (t) => {
    const { origin, host, values } = await ends(t);
    await origin.add('one', LARGE, 0);
    await client.del(await values());
    assert.deepEqual(await host.take(1), []);
    const found = await origin.lookUp('one');
    assert.ok(found.tag === 'lost');
    assert.match(found.reason, /the bytes of its batch are no longer on the broker/);

    await origin.add('two', LARGE, 0);
    await host.take(1);
    await host.complete('two', LARGE);
    await client.del(await values());
    const ended = await origin.lookUp('two');
    assert.ok(ended.tag === 'ended' && ended.result);
    await assert.rejects(origin.resultOf('two', ended.result), { code: 'protocol_error' });
  });

  test('stay while their batch waits for a host', async (t) => {
    const { origin, values } = await ends(t);
    await origin.add('waiting', LARGE, 0);
    const [key = ''] = await values();
    await client.pExpire(key, 1000);
    await origin.endLeases();
    assert.ok((await client.pTTL(key)) > 30_000);
  });
});

/** A queue on a real server, in the process of the test, whose leases and times a test moves. */
import type { TestContext } from 'node:test';
import { BrokerLink } from '../../src/broker/broker-link.ts';
import type { BrokerPlace } from '../../src/core/model.ts';
import { BullmqQueue, GATE_LEASES } from '../../src/gate/store/process/bullmq-queue.ts';
import type { QueueLimits } from '../../src/gate/store/work-queue.ts';
import type { Redis } from '../fixtures/redis.ts';
import type { MovedTime, Tried } from './conformance-asking.ts';

const WALL = 1_700_000_000_000;

let queues = 0;

export function placeOn({ url }: Pick<Redis, 'url'>, queue: string, more: Partial<BrokerPlace> = {}): BrokerPlace {
  return { url, prefix: 'test', queue, username: '', password: '', tls: null, ...more };
}

export async function brokerQueue(
  t: Pick<TestContext, 'after'>,
  place: BrokerPlace,
  limits: QueueLimits,
  session = 'one',
  warnings: string[] = [],
): Promise<BullmqQueue> {
  const link = await BrokerLink.open(place, GATE_LEASES, ({ message }) => warnings.push(message));
  const queue = new BullmqQueue(link, session, limits);
  t.after(() => queue.close());
  return queue;
}

export async function triedOn(t: TestContext, redis: Redis, limits: QueueLimits): Promise<Tried> {
  queues += 1;
  const place = placeOn(redis, `queue-${queues}`);
  t.mock.timers.enable({ apis: ['Date'], now: WALL });
  const queue = await brokerQueue(t, place, limits);
  return { queue, time: await movedTime(t, redis, place, queue) };
}

/** Ends leases as the server would, were it later. Two searches find an ended lease; see LEASE_CHECK_MS. */
async function movedTime(t: TestContext, redis: Redis, place: BrokerPlace, queue: BullmqQueue): Promise<MovedTime> {
  const client = await redis.connect();
  t.after(() => client.destroy());
  const of = (name: string): string => `${place.prefix}:${place.queue}:${name}`;
  const search = async (): Promise<void> => {
    await client.del(of('stalled-check'));
    await queue.stats();
  };
  let wall = WALL;
  const jump = (ms: number): void => {
    wall += ms;
    t.mock.timers.setTime(wall);
  };
  return {
    wall: () => wall,
    jump,
    async advance(ms) {
      await search();
      for (const lock of await client.keys(of('*:lock'))) {
        const left = await client.pTTL(lock);
        if (left > ms) await client.pExpire(lock, left - ms);
        else await client.del(lock);
      }
      jump(ms);
      await search();
    },
  };
}

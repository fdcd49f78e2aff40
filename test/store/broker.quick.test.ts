/** The suite for the queue on a real server of Redis or Valkey. */
import { after, before } from 'node:test';
import { Redis, WITHOUT_REDIS } from '../fixtures/redis.ts';
import { triedOn } from './broker-bed.ts';
import { testConformance } from './conformance.ts';

let redis: Redis;

before(async () => {
  if (!WITHOUT_REDIS) redis = await Redis.start();
});
after(() => redis?.kill());

testConformance({
  name: 'BullMQ',
  skip: WITHOUT_REDIS,
  traits: { ordersByDeadline: false, delaysByTimeOfDay: true, looksAgainInMs: 1000, slackMs: 10_000 },
  make: (t, limits) => triedOn(t, redis, limits),
});

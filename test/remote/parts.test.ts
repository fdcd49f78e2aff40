/** Parts of results between a host and its runtime, over a real server. */
import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { RedisClientType } from 'redis';
import { BrokerLink } from '../../src/broker/broker-link.ts';
import { BATCH_LEASES } from '../../src/hosts/batch-queue.ts';
import { ReceivedParts } from '../../src/hosts/received-parts.ts';
import { SentParts } from '../../src/hosts/worker-host/sent-parts.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { bareItem } from '../../src/wire/frames/items.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';
import { Redis, WITHOUT_REDIS } from '../fixtures/redis.ts';
import { placeOn } from '../store/broker-bed.ts';

const BATCH = 'session:1';
const ITEM = 7;

let redis: Redis;
let client: RedisClientType;
let stages = 0;

interface Ends {
  readonly clock: FakeClock;
  readonly sent: SentParts;
  readonly received: ReceivedParts;
  /** Events of the runtime: the parts, and the loss of a batch. */
  readonly log: string[];
  /** Parts that the host may forget. */
  readonly taken: number[];
  readonly stream: string;
  send(index: number): void;
}

/** @param takes whether the runtime takes each part at once */
async function ends(t: TestContext, takes = true): Promise<Ends> {
  stages += 1;
  const place = placeOn(redis, `parts-${stages}`);
  const link = await BrokerLink.open(place, BATCH_LEASES, () => {});
  const clock = new FakeClock();
  const sent = new SentParts(link, 'host', clock, () => assert.fail('the server is there'));
  const log: string[] = [];
  const received = new ReceivedParts(link, 'stage', 'session', {
    onPart(_batch, { id, part, payload }, took) {
      log.push(`${id}.${part} ${Buffer.from(payload.bytes)}`);
      if (takes) took(part + 1);
    },
    onMissing: (batch) => log.push(`${batch} lacks parts`),
    tell: (host, { batch, taken: items }) => host === 'host' && sent.taken(batch, items),
  });
  t.after(async () => {
    received.close();
    await link.close();
  });
  received.begin(BATCH);
  const taken: number[] = [];
  const send = (index: number): void => {
    const payload = { codec: CODEC.bytes, bytes: Buffer.from(`part ${index}`) };
    sent.send(BATCH, ITEM, index, payload, () => taken.push(index));
  };
  return { clock, sent, received, log, taken, stream: `test:${place.queue}:parts:session`, send };
}

function reply(parts: number): ReturnType<typeof bareItem> {
  return { ...bareItem(ITEM, { codec: CODEC.none, bytes: Buffer.alloc(0) }), part: parts };
}

describe('parts of a result', { skip: WITHOUT_REDIS }, () => {
  before(async () => {
    redis = await Redis.start();
    client = await redis.connect();
  });
  after(async () => {
    client.destroy();
    await redis.kill();
  });

  test('arrive in order before the end, each once, and the host learns that they were taken', async (t) => {
    const { sent, received, log, taken, stream, send } = await ends(t);
    send(0);
    send(1);
    await sent.flushed(BATCH);
    // A write that was repeated because its answer was lost.
    send(1);
    send(2);
    await sent.flushed(BATCH);
    await received.all(BATCH, [reply(sent.sentOf(BATCH, ITEM))]);
    assert.deepEqual(log, ['7.0 part 0', '7.1 part 1', '7.2 part 2']);
    await until('the host knows of the last', () => taken.includes(2));
    await until('the server has none of them', async () => (await client.xLen(stream)) === 0);
  });

  test('that are gone end their batch, in the middle and at the end', async (t) => {
    const { sent, received, log, send } = await ends(t);
    send(1);
    await until('the gap is noticed', () => log.length > 0);
    assert.deepEqual(log, [`${BATCH} lacks parts`]);
    await sent.flushed(BATCH);
    await assert.rejects(received.all(BATCH, [reply(2)]), /no longer on the broker/);
  });

  test('are given up when the runtime takes none and says nothing', async (t) => {
    const { clock, sent, received, log, send } = await ends(t, false);
    send(0);
    await until('it has arrived', () => log.length === 1);
    clock.advance(14_000);
    received.tellAgain();
    clock.advance(14_000);
    assert.deepEqual(sent.abandoned(), [], 'a slow client has not gone');
    clock.advance(2000);
    assert.deepEqual(sent.abandoned(), [BATCH]);
  });
});

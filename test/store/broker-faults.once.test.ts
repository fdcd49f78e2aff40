/** Faults of the server of a queue, and of the Node-REDs that share it: nothing is lost, and everything goes on by itself. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import type { BrokerPlace, LogRecord } from '../../src/core/model.ts';
import type { QueueClient } from '../../src/gate/store/client/queue-client.ts';
import { FailoverPair } from '../fixtures/failover.ts';
import { folderFor } from '../fixtures/folder.ts';
import { until } from '../fixtures/polling.ts';
import { allGone, killStarted } from '../fixtures/processes.ts';
import { Redis, WITHOUT_REDIS } from '../fixtures/redis.ts';
import { claim, clientOf, endAll, idsOf, item, items, LIMITS } from './bed.ts';
import { brokerQueue, placeOn, triedOn } from './broker-bed.ts';

const COUNT = 600;

after(async () => {
  try {
    await allGone();
  } finally {
    killStarted();
  }
});

async function server(t: TestContext, folder: string | null = null, more: readonly string[] = []): Promise<Redis> {
  const redis = await Redis.start(folder, more);
  t.after(() => redis.kill());
  return redis;
}

/** Returns a client whose process has started: on a slow machine that takes longer than a call waits. */
async function clientAt(t: TestContext, broker: BrokerPlace, logs?: LogRecord[]): Promise<QueueClient> {
  const queue = clientOf(t, { file: broker.url, broker }, logs);
  await until('the process of the queue answers', () =>
    queue.stats().then(
      () => true,
      (error: Error) => !/no answer within/.test(error.message),
    ),
  );
  return queue;
}

describe('the server of a queue', { skip: WITHOUT_REDIS, concurrency: true }, () => {
  test('is killed again and again under load: all that was accepted ends, and each item ends once', async (t) => {
    const redis = await server(t, folderFor(t));
    const queue = await clientAt(t, placeOn(redis, 'kills'));
    const ended = new Map<string, number>();
    const produce = async (): Promise<void> => {
      for (const one of items(COUNT)) {
        // A call that fails may have been carried out: the same id again does no harm.
        while (!(await queue.enqueue([one]).catch(() => null)));
      }
    };
    const consume = async (): Promise<void> => {
      while (ended.size < COUNT) {
        const held = await claim(queue, 16).catch(() => []);
        let acked: boolean[] | null = null;
        while (held.length > 0 && acked === null) acked = await endAll(queue, held).catch(() => null);
        for (const [index, { id }] of held.entries()) if (acked?.[index]) ended.set(id, (ended.get(id) ?? 0) + 1);
      }
    };
    const kill = async (): Promise<void> => {
      for (const share of [0.2, 0.5, 0.8]) {
        await until('there is load', () => ended.size >= share * COUNT);
        await redis.kill();
        redis.restart();
      }
    };
    await Promise.all([produce(), consume(), kill()]);
    assert.deepEqual(
      [...ended.values()].filter((times) => times !== 1),
      [],
    );
    const { ready, leased, delayed, dead } = await queue.stats();
    assert.deepEqual([ready, leased, delayed, dead], [0, 0, 0, 0]);
    assert.equal(queue.restarts, 0, 'the same process all the time');
  });

  test('is away: calls wait for it, then fail with the time to come back, and work again when it is back', async (t) => {
    const redis = await server(t, folderFor(t));
    const logs: LogRecord[] = [];
    const queue = await clientAt(t, placeOn(redis, 'away'), logs);
    assert.deepEqual(await queue.enqueue(items(2)), ['new', 'new']);
    await redis.kill();
    await assert.rejects(queue.enqueue([item('late')]), { code: 'store_unavailable', retryAfterSeconds: 2 });
    assert.equal(queue.error?.code, 'store_unavailable');
    assert.match(queue.error?.message ?? '', /^the broker is unreachable\nredis:\/\/127\.0\.0\.1:\d+: /);
    const waiting = queue.enqueue([item('patient')]);
    redis.restart();
    assert.deepEqual(await waiting, ['new'], 'a call that waits is carried out');
    assert.equal(queue.error, null);
    assert.deepEqual(idsOf(await claim(queue, 10)), ['item-0', 'item-1', 'patient']);
    assert.ok(logs.some(({ message }) => message.endsWith('it is back')));
  });

  test('is stopped, as by a cut of the network: calls fail in time, and go on when it answers again', async (t) => {
    const redis = await server(t);
    const queue = await clientAt(t, placeOn(redis, 'stopped'));
    await queue.enqueue(items(1));
    redis.pause();
    const answers = await Promise.allSettled([queue.enqueue([item('late')]), claim(queue, 1)]);
    for (const { status, reason } of answers as PromiseRejectedResult[]) {
      assert.deepEqual([status, (reason as { code: string }).code], ['rejected', 'store_unavailable']);
    }
    redis.resume();
    // The server may carry out the claim now, and no worker works on it.
    const again = await until(
      'it goes on',
      async () => (await claim(queue, 10).catch(() => [])).find(({ id }) => id === 'item-0') ?? false,
    );
    assert.deepEqual([again.attempt, again.alone], [1, false]);
  });

  test('is demoted and keeps its connections: all that was accepted ends on the server that took its place', async (t) => {
    const pair = await FailoverPair.start(t);
    const queue = await clientAt(t, placeOn(pair, 'demoted'));
    const ended = new Set<string>();
    const produce = async (): Promise<void> => {
      for (const one of items(200)) while (!(await queue.enqueue([one]).catch(() => null)));
    };
    const consume = async (): Promise<void> => {
      while (ended.size < 200) {
        const held = await claim(queue, 16).catch(() => []);
        let acked: boolean[] | null = null;
        while (held.length > 0 && acked === null) acked = await endAll(queue, held).catch(() => null);
        for (const [index, { id }] of held.entries()) if (acked?.[index]) ended.add(id);
      }
    };
    const failOver = async (): Promise<void> => {
      await until('there is load', () => ended.size >= 50);
      await pair.failOver();
    };
    await Promise.all([produce(), consume(), failOver()]);
    const { ready, leased, delayed, dead } = await queue.stats();
    assert.deepEqual([ready, leased, delayed, dead], [0, 0, 0, 0]);
    assert.deepEqual(await queue.enqueue([item('later')]), ['new']);
    const keys = (await pair.present.run('KEYS', '*later')) as string[];
    assert.equal(keys.length, 1, 'the item is on the server that took its place');
  });

  test('is full: the item is refused with what the server says, and waiting items stay', async (t) => {
    const redis = await server(t);
    const queue = await brokerQueue(t, placeOn(redis, 'full'), LIMITS);
    await queue.enqueue(items(3));
    await redis.run('CONFIG', 'SET', 'maxmemory', '1');
    await assert.rejects(queue.enqueue([item('more')]), {
      code: 'store_unavailable',
      message: /refuses a command\n.*OOM/,
    });
    await redis.run('CONFIG', 'SET', 'maxmemory', '0');
    assert.deepEqual(idsOf(await claim(queue, 10)), ['item-0', 'item-1', 'item-2']);
  });

  test('is set up to lose items: the queue warns', async (t) => {
    const redis = await server(t, null, ['--maxmemory-policy', 'allkeys-lru']);
    const logs: LogRecord[] = [];
    const queue = await clientAt(t, placeOn(redis, 'warned'), logs);
    await queue.stats();
    await until('it warns', () => logs.some(({ level }) => level === 'warn'));
    assert.match(queue.warning ?? '', /may lose items: .*append-only.*; .*maxmemory-policy allkeys-lru/);

    const safe = await server(t, folderFor(t));
    const warnings: string[] = [];
    await (await brokerQueue(t, placeOn(safe, 'safe'), LIMITS, 'one', warnings)).stats();
    assert.deepEqual(warnings, []);
  });

  test('wants a password and TLS: a queue without them says so, and one with them works', async (t) => {
    const folder = folderFor(t);
    const [key, cert] = ['key', 'cert'].map((name) => join(folder, `${name}.pem`)) as [string, string];
    const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'];
    spawnSync('openssl', [
      ...made,
      '-keyout',
      key,
      '-out',
      cert,
      '-subj',
      '/CN=test',
      '-addext',
      'subjectAltName=IP:127.0.0.1',
    ]);
    const redis = await Redis.startTls(key, cert, ['--requirepass', 'secret']);
    t.after(() => redis.kill());
    const tls = { ca: readFileSync(cert, 'utf8') };
    const queue = await clientAt(t, placeOn(redis, 'safe', { password: 'secret', tls }));
    assert.deepEqual(await queue.enqueue(items(1)), ['new']);
    const other = await clientAt(t, placeOn(redis, 'safe', { password: 'wrong', tls }));
    const refused = await other.stats().then(
      () => null,
      (error: Error) => error,
    );
    assert.match(refused?.message ?? '', /WRONGPASS/);
    assert.doesNotMatch(refused?.message ?? '', /wrong/);
  });
});

describe('Node-REDs that share a queue', { skip: WITHOUT_REDIS }, () => {
  test('get different items, and each can end only its own', async (t) => {
    const redis = await server(t);
    const [one, two] = [
      await brokerQueue(t, placeOn(redis, 'shared'), LIMITS, 'one'),
      await brokerQueue(t, placeOn(redis, 'shared'), LIMITS, 'two'),
    ];
    const enqueued = await Promise.all([one.enqueue(items(100)), two.enqueue(items(100))]);
    assert.ok(enqueued.flat().every((answer) => answer !== 'full'));
    const [mine, yours] = await Promise.all([claim(one, 50), claim(two, 50)]);
    assert.equal(new Set([...idsOf(mine), ...idsOf(yours)]).size, 100);
    assert.deepEqual(new Set(await endAll(two, mine)), new Set([false]));
    assert.deepEqual(new Set(await endAll(one, mine)), new Set([true]));
    assert.equal((await two.result(mine[0]?.id ?? ''))?.state, 'done');
    assert.equal(await two.cancel(mine[0]?.id ?? ''), 'unknown');
  });

  test('an item that ends the lease of each claim ends alone as a dead letter, and all others are done', async (t) => {
    const redis = await server(t);
    const { queue, time } = await triedOn(t, redis, LIMITS);
    await queue.enqueue(items(40));
    const done = new Set<string>();
    for (let deaths = 0; done.size < 39; ) {
      const held = await claim(queue, 16);
      if (held.some(({ id }) => id === 'item-7')) {
        deaths += 1;
        assert.ok(deaths <= LIMITS.maxAttempts);
        assert.ok(deaths === 1 || held.length === 1, 'it is alone after its first death');
        await time.advance(60_001);
        continue;
      }
      await endAll(queue, held);
      for (const { id } of held) done.add(id);
    }
    const { deadLetters, ready, leased } = await queue.stats();
    assert.deepEqual([ready, leased], [0, 0]);
    assert.deepEqual(deadLetters, [{ id: 'item-7', attempts: 3, reason: 'its lease ended' }]);
  });
});

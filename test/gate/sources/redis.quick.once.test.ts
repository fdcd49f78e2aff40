/** A number under a key, with a real Redis. */
import assert from 'node:assert/strict';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { compileGate } from '../../../src/config/compile-gate.ts';
import type { BudgetSource, SourceServices } from '../../../src/gate/source.ts';
import { createSource } from '../../../src/gate/sources/create.ts';
import { FailoverPair } from '../../fixtures/failover.ts';
import { until } from '../../fixtures/polling.ts';
import { Redis, WITHOUT_REDIS } from '../../fixtures/redis.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { reasonFrom, reasonWhen, SERVICES, sampleFrom, sampleWhen } from '../../fixtures/sources.ts';

const PATIENCE_MS = 30_000;

describe('a Redis key', { skip: WITHOUT_REDIS }, () => {
  let redis: Redis;

  before(async () => {
    redis = await Redis.start();
  });

  after(() => redis?.kill());

  function source(t: TestContext, raw: object = {}, services: Partial<SourceServices> = {}): BudgetSource {
    const gate = compileGate({ source: 'redis', url: redis.url, key: 'load', timeoutMs: PATIENCE_MS, ...raw });
    const made = createSource(gate, { ...SERVICES, ...services });
    t.after(() => made.close());
    return made;
  }

  test('is a saturation or a budget, new at every reading', async (t) => {
    await redis.run('SET', 'load', ' 2.5e-1\n');
    const before = SERVICES.clock.now();
    const { budget, at, raw } = await sampleFrom(source(t));
    assert.deepEqual([budget, raw], [0.75, 'saturation 0.25']);
    assert.ok(at >= before && at <= SERVICES.clock.now());
    assert.equal((await sampleFrom(source(t, { value: 'budget' }))).budget, 0.25);
    assert.equal(source(t).description, `Redis key load at 127.0.0.1:${redis.port}`);
  });

  test('comes from the database that the address names', async (t) => {
    await redis.run('SET', 'load', '0.5');
    assert.equal(await reasonFrom(source(t, { url: `${redis.url}/3` })), 'the key load is missing');
  });

  for (const [written, reason] of [
    [['SET', 'load', 'high'], /^the key load does not hold a number$/],
    [['SET', 'load', ''], /^the key load does not hold a number$/],
    [['SET', 'load', 'NaN'], /^the key load does not hold a number$/],
    [['SET', 'load', '0x1'], /^the key load does not hold a number$/],
    [['SET', 'load', '1e999'], /^the number read is Infinity$/],
    [['SET', 'load', '-1'], /a saturation is not negative/],
    [['DEL', 'load'], /^the key load is missing$/],
    [['HSET', 'load', 'a', '1'], /^WRONGTYPE/],
  ] as const) {
    test(`gives no sample after ${written.join(' ')}`, async (t) => {
      await redis.run('DEL', 'load');
      await redis.run(...written);
      const reading = source(t);
      assert.match(await reasonFrom(reading), reason);
      await redis.run('DEL', 'load');
      await redis.run('SET', 'load', '0.5');
      assert.equal((await sampleFrom(reading)).budget, 0.5, 'the connection goes on');
    });
  }

  test('is missing after it has expired', async (t) => {
    await redis.run('SET', 'load', '0.5', 'PX', '50');
    await reasonWhen(source(t), /^the key load is missing$/);
  });

  test('is missing while the server is down, and returns with it', async (t) => {
    await redis.run('SET', 'load', '0.5');
    const reading = source(t);
    await sampleFrom(reading);
    await redis.kill();
    await reasonWhen(reading, /ECONNREFUSED/);
    assert.match(await reasonFrom(source(t)), /ECONNREFUSED/);
    redis.restart();
    await reasonWhen(reading, /^the key load is missing$/);
    await redis.run('SET', 'load', '0.25');
    assert.equal((await sampleFrom(reading)).budget, 0.75);
  });

  test('comes from the server that its address leads to, when the one before lost its master and stays up', async (t) => {
    const pair = await FailoverPair.start(t);
    await pair.present.run('SET', 'load', '0.5');
    const reading = source(t, { url: pair.url });
    await sampleFrom(reading);
    await pair.cutOff();
    await pair.present.run('SET', 'load', '0.25');
    await sampleWhen(reading, 'it comes from the other server', ({ budget }) => budget === 0.75);
  });

  /** The numbers of the connections besides the asking one, when there are so many: closed ones go by and by. */
  function connections(count: number): Promise<string[]> {
    return until(`it has ${count} connections`, async () => {
      const list = String(await redis.run('CLIENT', 'LIST', 'TYPE', 'normal'));
      const ids = [...list.matchAll(/^id=(\d+) .* cmd=(?!client)/gm)].map(([, id = '']) => id);
      return ids.length === count && ids;
    });
  }

  test('times out while the server hangs, and comes over a new connection when it goes on', async (t) => {
    await redis.run('SET', 'load', '0.5');
    const reading = source(t, { timeoutMs: 1000 });
    await sampleWhen(reading, 'it is connected', () => true);
    const before = await connections(1);
    redis.pause();
    try {
      await reasonWhen(reading, /^no answer within 1000 ms$/);
    } finally {
      redis.resume();
    }
    await redis.run('SET', 'load', '0.25');
    assert.equal((await sampleWhen(reading, 'it is read again', () => true)).budget, 0.75);
    assert.notDeepEqual(await connections(1), before);
  });

  test('leaves no open connection', async (t) => {
    await redis.run('SET', 'load', '0.5');
    const reading = source(t);
    await sampleFrom(reading);
    await connections(1);
    await reading.close();
    await connections(0);
  });

  test('leaves no open connection if it is closed while it connects', async (t) => {
    for (let turns = 0; turns < 4; turns += 1) {
      const reading = source(t);
      const stop = new AbortController();
      void reading.read(stop.signal);
      for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      stop.abort();
      await reading.close();
    }
    await connections(0);
  });

  test('is read with user and password, which no text shows', async (t) => {
    await redis.run('SET', 'load', '0.5');
    await redis.run('ACL', 'SETUSER', 'gate', 'on', '>pass&word', '~*', '+@all');
    await redis.run('ACL', 'SETUSER', 'default', 'off');
    const right = source(t, {}, { credentials: { username: 'gate', password: 'pass&word' } });
    assert.equal((await sampleFrom(right)).budget, 0.5);
    assert.match(await reasonFrom(source(t)), /NOAUTH|authentication required/i);
    const wrong = source(t, {}, { credentials: { username: 'gate', password: 'wrong-word' } });
    const reason = await reasonFrom(wrong);
    assert.match(reason, /WRONGPASS/);
    assert.ok(!`${reason} ${wrong.description} ${JSON.stringify(wrong)}`.includes('wrong-word'));
  });
});

test('without the package redis, a reading says how to install it', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'modelet-no-redis-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  // A copy of the code where no package is to be found.
  await cp(join(repositoryRoot, 'dist', 'src'), join(folder, 'src'), { recursive: true });
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  const copy = pathToFileURL(join(folder, 'src', 'gate', 'sources', 'create.js')).href;
  const copied = (await import(copy)) as { readonly createSource: typeof createSource };
  const gate = compileGate({ source: 'redis', url: 'redis://127.0.0.1:1', key: 'load' });
  const reason = await reasonFrom(copied.createSource(gate, SERVICES));
  assert.match(reason, /^the package redis is not installed: run `npm install redis`/);
});

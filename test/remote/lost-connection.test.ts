/** What a remote stage and a host have on their broker, and what becomes of it when the stage or the connection goes. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { BrokerLink } from '../../src/broker/broker-link.ts';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { deadlineAfter, systemClock } from '../../src/core/clock.ts';
import type { RemotePlace, WorkerStatus } from '../../src/core/model.ts';
import { BATCH_LEASES, BatchQueue } from '../../src/hosts/batch-queue.ts';
import { type HostReport, keyOf, sha256Of } from '../../src/hosts/entries.ts';
import { RemoteRegistry } from '../../src/hosts/registry.ts';
import { RemotePool } from '../../src/hosts/remote-pool.ts';
import { SentBatches } from '../../src/hosts/sent-batches.ts';
import type { PoolEvents } from '../../src/runtime/engine/pools/pool.ts';
import type { Item } from '../../src/runtime/engine/stage/item.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { stage } from '../engine/rig.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { freePort } from '../fixtures/free-port.ts';
import { startHost } from '../fixtures/headless.ts';
import { Link } from '../fixtures/link.ts';
import { until } from '../fixtures/polling.ts';
import { Redis, WITHOUT_REDIS } from '../fixtures/redis.ts';
import { placeOn } from '../store/broker-bed.ts';

const IDLE: WorkerStatus = {
  ...{ index: 0, pid: 1, state: 'ready', cpus: null, busy: false, running: 0, restarts: 0, error: null },
  ...{ rssBytes: 1, cpuMs: 1, gauges: {} },
};

/** Bytes of a file that holds none, and takes half an hour to read. */
const HUGE = 2 ** 42;

function eventsOf(onChange: () => void): PoolEvents<Item> {
  const none = (): void => {};
  return {
    ...{ onPart: none, onReply: none, onLost: none, onEnded: none, onOwnMetrics: none, onKeysLost: none, onLog: none },
    ...{ onChange, oldestAt: () => null, keysAt: () => 0 },
  };
}

test('a batch that waited for the connection can leave when it is back', { skip: WITHOUT_REDIS }, async (t) => {
  const redis = await Redis.start();
  const ends: (() => unknown)[] = [() => redis.kill()];
  t.after(async () => {
    for (const end of ends.toReversed()) await end();
  });
  const network = await Link.to(redis.port, t);
  const { queue, ...broker } = placeOn(redis, 'registry');
  const remote: RemotePlace = { ...broker, runtime: 'remote', secret: '' };
  const definition = stage(1, { remote: { ...remote, url: `redis://127.0.0.1:${network.port}` } });

  const link = await BrokerLink.open({ ...broker, queue }, BATCH_LEASES, () => {});
  ends.push(() => link.close());
  const registry = new RemoteRegistry(link, remote);
  const served = { workers: [IDLE], pinWarnings: [], description: null, error: null, own: null };
  const report: HostReport = { host: 'machine', pid: 1, isLeaving: false, stages: { [keyOf(definition)]: served } };
  const renew = () => registry.renew(() => ({ kind: 'hosts', name: 'host', text: JSON.stringify(report) }), 'stages');
  await renew();
  // The last one may find the connection closed.
  const renewal = setInterval(() => renew().catch(() => {}), 500);
  ends.push(() => clearInterval(renewal));

  let changes = 0;
  const pool = new RemotePool(
    definition,
    eventsOf(() => (changes += 1)),
  );
  ends.push(() => pool.close(deadlineAfter(systemClock, 1)));
  pool.start();
  await until('the stage knows the host', () => changes > 0 && pool.freeWorker('place'));
  network.heal();
  while (pool.freeWorker('place')) await new Promise((resolve) => setImmediate(resolve));
  const known = changes;
  await until('the stage is told', () => changes > known && pool.freeWorker('place'));
  assert.equal(pool.health.tag, 'ready');
});

test('a stage whose broker cannot be reached closes at once', async () => {
  const clock = new FakeClock();
  const { queue: _, ...broker } = placeOn({ url: `redis://127.0.0.1:${await freePort()}` }, 'registry');
  const pool = new RemotePool(
    stage(1, { remote: { ...broker, runtime: 'remote', secret: '' } }),
    eventsOf(() => {}),
    clock,
  );
  pool.start();
  await until('the stage tells why', () => {
    clock.advance(2000);
    return pool.health.tag === 'failed' && pool.health.error.message.startsWith('the broker is unreachable');
  });
  let isClosed = false;
  void pool.close(clock.now() + 5000).then(() => {
    isClosed = true;
  });
  await until('it has closed, without a wait', () => isClosed);
});

/** Starts a server, and a pool on it. */
async function pooled(t: TestContext, definition: StageDefinition) {
  const redis = await Redis.start();
  const client = await redis.connect();
  const { queue: _, ...broker } = placeOn(redis, 'registry');
  const remote: RemotePlace = { ...broker, runtime: 'remote', secret: '' };
  const pools: RemotePool[] = [];
  const start = (): RemotePool => {
    const pool = new RemotePool(
      { ...definition, remote },
      eventsOf(() => {}),
    );
    pools.push(pool);
    pool.start();
    return pool;
  };
  t.after(async () => {
    for (const pool of pools) await pool.close(deadlineAfter(systemClock, 1));
    client.destroy();
    await redis.kill();
  });
  return { redis, client, start };
}

test('the server forgets the queue of a stage that is gone, and keeps it when the stage comes back', {
  skip: WITHOUT_REDIS,
}, async (t) => {
  const { client, start } = await pooled(t, stage(1));
  const ttlOf = (name: string): Promise<number> => client.pTTL(`test:stage-node-1-r1:${name}`);
  const pool = start();
  await until('the queue is there', async () => (await ttlOf('meta')) === -1);
  await client.zAdd('test:stage-node-1-r1:completed', { score: 1, value: '~ended' });
  await client.hSet('test:stage-node-1-r1:~ended', { data: 'kept' });
  await pool.close(deadlineAfter(systemClock, 10_000));
  assert.ok((await ttlOf('stalled-check')) <= BATCH_LEASES.leaseMs, 'leases are looked at again soon');
  for (const name of ['meta', 'completed', '~ended']) assert.ok((await ttlOf(name)) > 0, name);
  start();
  await until('the queue is kept', async () => (await ttlOf('meta')) === -1 && (await ttlOf('completed')) === -1);
  assert.notEqual(await ttlOf('stalled-check'), -1, 'leases are looked at again');
});

test('a stage that goes while it looks after its queue does not let the server keep it', {
  skip: WITHOUT_REDIS,
}, async (t) => {
  const { redis, client } = await pooled(t, stage(1));
  const events = eventsOf(() => {});
  const told = { events, onLog() {}, onOther() {}, newId: () => '' };
  const sent = new SentBatches({ ...told, clock: systemClock, session: 's', stage: 'stage' });
  const { queue: name, ...place } = placeOn(redis, 'sent');
  t.after(() => sent.close());
  const { events: followed } = await sent.open({ ...place, runtime: 'remote', secret: '' }, name);
  void followed.start();
  const meta = `test:${name}:meta`;
  await until('the queue is there', async () => (await client.exists(meta)) === 1);
  await sent.expire();
  await sent.lookAfter();
  assert.ok((await client.pTTL(meta)) > 0);
});

test('a stage stays in the registry while a deploy reads its file, which takes long', {
  skip: WITHOUT_REDIS,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-test-'));
  const path = join(folder, 'model.js');
  writeFileSync(path, '');
  const plain = stage(1);
  const definition = { ...plain, modelet: { ...plain.modelet, source: { kind: 'file', path } as const } };
  const { client, start } = await pooled(t, definition);
  const writtenAt = async (): Promise<number> => {
    const entry = await client.hGet('test:remote:remote:stages', 'node-1-r1');
    return entry ? (JSON.parse(entry) as { at: number }).at : 0;
  };
  const pool = start();
  await until('the stage is there', async () => (await writtenAt()) > 0);
  rmSync(path);
  execFileSync('mkfifo', [path]);
  const end = openSync(path, 'r+');
  t.after(() => {
    rmSync(folder, { recursive: true });
    closeSync(end);
  });
  pool.redefine({ ...definition, capacity: 7 });
  const before = await writtenAt();
  await until('it was renewed a few times', async () => (await writtenAt()) > before + 2500);
});

test('a host stays in the registry while it reads the file of a stage, which takes long', {
  skip: WITHOUT_REDIS,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'model.js');
  writeFileSync(path, '');
  const plain = stage(1);
  const definition = { ...plain, modelet: { ...plain.modelet, source: { kind: 'file', path } as const } };
  const { redis, client, start } = await pooled(t, definition);
  start();
  const isPublished = (): Promise<boolean> => client.hExists('test:remote:remote:stages', 'node-1-r1').then(Boolean);
  await until('the stage is there', isPublished);
  truncateSync(path, HUGE);
  const host = startHost(t, '--broker', redis.url, '--prefix', 'test', '--runtime', 'remote', '--code', 'local');
  const writtenAt = async (): Promise<number> => {
    const [entry] = await client.hVals('test:remote:remote:hosts');
    return entry ? (JSON.parse(entry) as { at: number }).at : 0;
  };
  await until('the host is there', async () => (await writtenAt()) > 0);
  const before = await writtenAt();
  await until('it was renewed a few times', async () => (await writtenAt()) > before + 2500);
  assert.equal(host.child.exitCode, null);
});

test('a host runs the batches that it claimed by a call whose answer was lost', { skip: WITHOUT_REDIS }, async (t) => {
  const redis = await Redis.start();
  t.after(() => redis.kill());
  const link = await BrokerLink.open(placeOn(redis, 'batches'), BATCH_LEASES, () => {});
  t.after(() => link.close());
  const queue = new BatchQueue(link, 'host');
  let loses = false;
  await link.reach(async ({ backend }) => {
    const claim = backend.moveToActive.bind(backend);
    t.mock.method(backend, 'moveToActive', async (...given: Parameters<typeof claim>) => {
      const answer = await claim(...given);
      if (loses) throw new Error('the answer was lost');
      return answer;
    });
  });
  const payload = { codec: CODEC.json, bytes: Buffer.from('1') };
  for (const id of ['run', 'first', 'second', 'third']) await queue.add(id, payload, 0);
  const take = async (most: number): Promise<string[]> => (await queue.take(most)).map(({ id }) => id).sort();
  assert.deepEqual(await take(1), ['run']);
  loses = true;
  await assert.rejects(queue.take(2));
  loses = false;
  assert.deepEqual(await take(3), ['first', 'second', 'third']);
  assert.deepEqual(await take(3), []);
});

test('an entry that is withdrawn while a heartbeat renews it does not come back', {
  skip: WITHOUT_REDIS,
}, async (t) => {
  const redis = await Redis.start();
  t.after(() => redis.kill());
  const place = placeOn(redis, 'registry');
  const link = await BrokerLink.open(place, BATCH_LEASES, () => {});
  t.after(() => link.close());
  const registry = new RemoteRegistry(link, { ...place, runtime: 'remote' });
  let isServed = true;
  const own = () => (isServed ? ({ kind: 'stages', name: 'stage', text: 'it' } as const) : null);
  await registry.renew(own, 'hosts');
  const renewal = registry.renew(own, 'hosts');
  isServed = false;
  await registry.remove('stages', 'stage');
  await renewal;
  assert.deepEqual([...(await registry.renew(() => null, 'stages')).fresh], []);
});

/** Bytes that this process has read so far. */
const bytesRead = (): number => Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);

test('a file is read again for its hash only when it has changed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'model.onnx');
  const hashOf = async (content: string): Promise<string> => {
    writeFileSync(path, content);
    // As `cp -p`, archives and downloads do.
    utimesSync(path, 1, 1);
    return sha256Of(path);
  };
  const hash = await hashOf('one');
  await until('the next change has another time', () => {
    writeFileSync(`${path}.other`, '');
    return statSync(`${path}.other`).ctimeMs > statSync(path).ctimeMs;
  });
  assert.notEqual(await hashOf('two'), hash);
  if (process.platform !== 'linux') return;
  const length = 2 ** 23;
  truncateSync(path, length);
  const long = await sha256Of(path);
  const before = bytesRead();
  assert.equal(await sha256Of(path), long);
  assert.ok(bytesRead() - before < length, 'it was read');
});

/** Faults of a queue's file: each causes an error that names the file, and the store creates no new file. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import { asStoreError } from '../../src/gate/store/process/sqlite.ts';
import { SqliteQueue } from '../../src/gate/store/process/sqlite-queue.ts';
import { isAtLeast, type StoreFault, whyNoSqlite } from '../../src/gate/store/work-queue.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { folderFor } from '../fixtures/folder.ts';
import { allGone, killStarted } from '../fixtures/processes.ts';
import { claim, clientOf, endAll, idsOf, item, items, LIMITS, local, NO_SQLITE, TestTime } from './bed.ts';

const UNPRIVILEGED = 65534;

after(async () => {
  try {
    await allGone();
  } finally {
    killStarted();
  }
});

function openFile(file: string, session = 'one', time: TestTime = new TestTime()): SqliteQueue {
  return new SqliteQueue({ file, session, limits: LIMITS }, time);
}

function fileWith(t: TestContext, count: number): string {
  const file = join(folderFor(t), 'queue.sqlite');
  const queue = openFile(file);
  queue.enqueue(items(count));
  queue.close();
  return file;
}

function assertRefused(file: string, fault: StoreFault): void {
  const before = readFileSync(file);
  assert.throws(
    () => openFile(file),
    (error: Error & { code: string; fault: string }) => {
      assert.deepEqual([error.code, error.fault], ['store_unavailable', fault], error.message);
      assert.ok(error.message.includes(file), error.message);
      return true;
    },
  );
  assert.deepEqual(readFileSync(file), before, 'it is as it was');
}

describe('the file of a queue', { skip: NO_SQLITE }, () => {
  test('can be read by its user only, and so can its folder', (t) => {
    const file = join(folderFor(t), 'new', 'folders', 'queue.sqlite');
    const queue = openFile(file);
    queue.enqueue(items(1));
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(statSync(dirname(file)).mode & 0o777, 0o700);
    for (const beside of [`${file}-wal`, `${file}-shm`, `${file}-journal`]) {
      if (existsSync(beside)) assert.equal(statSync(beside).mode & 0o777, 0o600, beside);
    }
    queue.close();
  });

  test('keeps all items in order when it is opened again', (t) => {
    const file = fileWith(t, 100);
    const queue = openFile(file, 'two');
    const held = queue.claim({ max: 100, leaseMs: 1000, token: 'a' });
    assert.deepEqual(idsOf(held), idsOf(items(100) as never));
    assert.deepEqual(queue.enqueue(items(1)), ['duplicate']);
    queue.close();
  });

  test('lets another owner claim the items of the last one at once, each alone', async (t) => {
    const file = fileWith(t, 3);
    const first = openFile(file);
    const held = first.claim({ max: 2, leaseMs: 600_000, token: 'a' });
    first.close();
    const same = openFile(file, 'one');
    assert.deepEqual(same.extend(held, 600_000), [true, true], 'the same owner goes on');
    same.close();

    for (const [session, attempt] of [
      ['two', 1],
      ['three', 2],
      ['four', 3],
    ] as const) {
      const queue = openFile(file, session);
      assert.deepEqual(queue.extend(held, 1000), [false, false], 'leases of another owner are over');
      const again = queue.claim({ max: 10, leaseMs: 1000, token: session });
      if (session === 'two') {
        assert.deepEqual([idsOf(again), again[0]?.attempt, again[0]?.alone], [['item-0'], 1, true]);
        assert.deepEqual(await endAll(local(queue), again), [true]);
        const [next] = queue.claim({ max: 10, leaseMs: 1000, token: 'two again' });
        assert.equal(next?.id, 'item-1');
      } else {
        assert.deepEqual([idsOf(again), again[0]?.attempt], [['item-1'], attempt]);
      }
      queue.close();
    }
    const last = openFile(file, 'five');
    assert.deepEqual(last.stats().deadLetters, [{ id: 'item-1', attempts: 3, reason: 'its owner ended' }]);
    assert.deepEqual(idsOf(last.claim({ max: 10, leaseMs: 1000, token: 'five' })), ['item-2']);
    last.close();
  });

  test('keeps leases and delays by the clock of the present machine start', (t) => {
    const file = fileWith(t, 2);
    const first = openFile(file);
    const [held, other] = first.claim({ max: 2, leaseMs: 5000, token: 'a' });
    assert.ok(held && other);
    first.nack([other], { delayMs: 5000, reason: 'later', countAttempt: false, alone: false });
    first.close();
    // The machine has been started anew: its monotonic clock, too.
    const time = new TestTime();
    time.advance(-900);
    const queue = openFile(file, 'one', time);
    assert.deepEqual(queue.extend([held], 5000), [true]);
    assert.equal(queue.stats().delayed, 0, 'a delay may be shorter');
    time.advance(5000);
    assert.equal(queue.stats().leased, 0);
    queue.close();
  });

  test('is refused if its structure is damaged anywhere', (t) => {
    for (const at of [0, 30, 4096, 4100, 2 * 4096, 3 * 4096 + 3]) {
      const file = fileWith(t, 50);
      const bytes = readFileSync(file);
      bytes.fill(0xff, at, at + 16);
      writeFileSync(file, bytes);
      assertRefused(file, 'corrupt');
    }
  });

  test('a flipped bit in a payload makes that item a dead letter, and the others go on', (t) => {
    const file = fileWith(t, 5);
    const bytes = readFileSync(file);
    const at = bytes.indexOf('of item-3');
    bytes[at + 3] = (bytes[at + 3] as number) ^ 1;
    writeFileSync(file, bytes);
    const queue = openFile(file);
    assert.deepEqual(idsOf(queue.claim({ max: 9, leaseMs: 1000, token: 'a' })), [
      'item-0',
      'item-1',
      'item-2',
      'item-4',
    ]);
    assert.deepEqual(queue.stats().deadLetters, [
      { id: 'item-3', attempts: 0, reason: 'its bytes have changed on disk' },
    ]);
    queue.close();
  });

  test('is refused if it is not a database or is that of another program', (t) => {
    const text = join(folderFor(t), 'text.sqlite');
    writeFileSync(text, 'dear diary, today I was overwritten by a queue. '.repeat(100));
    assertRefused(text, 'corrupt');

    const other = join(folderFor(t), 'other.sqlite');
    const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as unknown as {
      DatabaseSync: new (path: string) => { exec(sql: string): void; close(): void };
    };
    const database = new DatabaseSync(other);
    database.exec('CREATE TABLE diary (day TEXT)');
    database.close();
    assertRefused(other, 'foreign');

    const newer = fileWith(t, 1);
    const changed = new DatabaseSync(newer);
    changed.exec('PRAGMA user_version = 99; PRAGMA journal_mode = delete');
    changed.close();
    assertRefused(newer, 'foreign');
  });

  test('is refused while another process uses it, and taken over when that has ended', (t) => {
    const file = fileWith(t, 1);
    const queue = openFile(file);
    const script = `
      const { SqliteQueue } = await import(${JSON.stringify(new URL('../../src/gate/store/process/sqlite-queue.js', import.meta.url).href)});
      const spec = { file: ${JSON.stringify(file)}, session: 'two', limits: ${JSON.stringify(LIMITS)} };
      try {
        const stats = new SqliteQueue(spec, { now: () => 0, wall: () => 0 }).stats();
        console.log('ready ' + stats.ready);
      } catch (error) {
        console.log(error.code + ' ' + error.fault);
      }`;
    const tryOpen = (): string => {
      const { stdout } = spawnSync(process.execPath, ['--no-warnings', '--input-type=module', '-e', script]);
      return String(stdout).trim();
    };
    assert.equal(tryOpen(), 'store_unavailable locked');
    assert.deepEqual(queue.enqueue([item('more')]), ['new'], 'its owner goes on');
    queue.close();
    assert.equal(tryOpen(), 'ready 2');
  });

  test('is refused if it cannot be written', (t) => {
    const file = fileWith(t, 1);
    chmodSync(file, 0o400);
    chmodSync(dirname(file), 0o500);
    const asOther = process.getuid?.() === 0;
    // The superuser may write anywhere.
    if (asOther) {
      chownSync(dirname(file), UNPRIVILEGED, UNPRIVILEGED);
      process.seteuid?.(UNPRIVILEGED);
    }
    try {
      assert.throws(() => openFile(file), { code: 'store_unavailable', fault: 'read-only' });
    } finally {
      if (asOther) process.seteuid?.(0);
      chmodSync(dirname(file), 0o700);
    }
  });
});

test('a store whose file cannot grow fails with a coded error, writes nothing in part, and goes on afterwards', {
  skip: NO_SQLITE,
}, async (t) => {
  const file = join(folderFor(t), 'queue.sqlite');
  const queue = clientOf(t, { file });
  await queue.enqueue(items(5));
  const held = await claim(queue, 2);
  const limit = (bytes: number | 'unlimited'): void => {
    const { status, stderr } = spawnSync('prlimit', ['--pid', String(queue.pid), `--fsize=${bytes}:unlimited`]);
    assert.equal(status, 0, String(stderr));
  };
  const large = { codec: CODEC.bytes, bytes: Buffer.alloc(1_000_000, 1) };
  limit(200_000);
  const some = [item('large-1', { payload: large }), item('large-2', { payload: large })];
  await assert.rejects(queue.enqueue(some), (error: Error & { code: string; fault: string }) => {
    assert.deepEqual([error.code, error.fault], ['store_unavailable', 'full'], error.message);
    assert.ok(error.message.includes(file));
    return true;
  });
  assert.equal(await queue.result('large-1'), null);
  const pid = queue.pid;
  limit('unlimited');
  assert.deepEqual(await queue.enqueue(some), ['new', 'new']);
  assert.deepEqual(await endAll(queue, held), [true, true], 'leases hold');
  assert.equal((await queue.stats()).ready, 5);
  assert.equal(queue.pid, pid, 'the same process all the time');
});

test('an error of SQLite that does not concern the file stays unchanged', () => {
  const constraint = Object.assign(new Error('UNIQUE'), { code: 'ERR_SQLITE_ERROR', errcode: 2067 });
  assert.equal(asStoreError(constraint, 'f'), constraint);
  const full = Object.assign(new Error('database or disk is full'), { code: 'ERR_SQLITE_ERROR', errcode: 13 });
  assert.equal((asStoreError(full, 'f') as { fault: string }).fault, 'full');
});

test('the version of Node.js tells whether its SQLite is usable', () => {
  for (const version of ['18.20.0', '20.19.0', '22.12.0', '22.9.9']) assert.match(whyNoSqlite(version) ?? '', /22\.13/);
  for (const version of ['22.13.0', '22.20.1', '24.0.0', '100.1.0']) assert.equal(whyNoSqlite(version), null);
  assert.ok(isAtLeast('3.51.3', [3, 51, 3]) && isAtLeast('3.53', [3, 51, 3]) && !isAtLeast('3.51', [3, 51, 3]));
});

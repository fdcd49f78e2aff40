/** The file of a queue is deleted, moved away or replaced: it is never recreated automatically. */
import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import type { LogRecord } from '../../src/core/model.ts';
import type { QueueClient } from '../../src/gate/store/client/queue-client.ts';
import { SqliteQueue } from '../../src/gate/store/process/sqlite-queue.ts';
import { folderFor } from '../fixtures/folder.ts';
import { until } from '../fixtures/polling.ts';
import { allGone, kill9, killStarted } from '../fixtures/processes.ts';
import { clientOf, idsOf, item, items, LIMITS, NO_SQLITE, TestTime } from './bed.ts';

const LOST = { code: 'store_unavailable', fault: 'lost' };

after(async () => {
  try {
    await allGone();
  } finally {
    killStarted();
  }
});

function fileFor(t: TestContext): string {
  return join(folderFor(t), 'store', 'queue.sqlite');
}

function open(file: string, session = 'one'): SqliteQueue {
  return new SqliteQueue({ file, session, limits: LIMITS }, new TestTime());
}

/** Closed, with some items in it. */
function stored(t: TestContext, count: number): string {
  const file = fileFor(t);
  const queue = open(file);
  queue.enqueue(items(count));
  queue.close();
  return file;
}

function ready(file: string, session?: string): number {
  const queue = open(file, session);
  const { ready: count } = queue.stats();
  queue.close();
  return count;
}

interface Serving {
  readonly queue: QueueClient;
  readonly file: string;
  readonly logs: LogRecord[];
}

/** In a separate process, with some items in it. */
async function serve(t: TestContext, count: number): Promise<Serving> {
  const file = fileFor(t);
  const logs: LogRecord[] = [];
  const queue = clientOf(t, { file }, logs);
  await queue.enqueue(items(count));
  return { queue, file, logs };
}

/** All files of a store to another name, or back. */
function move(from: string, to: string): void {
  for (const end of ['', '-wal', '-journal']) if (existsSync(from + end)) renameSync(from + end, to + end);
}

/** Copies what was deleted from the process that has it open still; gives the copy's name. */
function rescue(pid: number, file: string): string {
  const folder = `/proc/${pid}/fd`;
  for (const name of readdirSync(folder)) {
    const [open = '', isDeleted] = readlinkSync(join(folder, name)).split(' (deleted)');
    if (isDeleted === '') copyFileSync(join(folder, name), open.replace(file, `${file}.rescued`));
  }
  return `${file}.rescued`;
}

function isServing({ error, state }: QueueClient): boolean {
  return error === null && state === 'ready';
}

describe('the file of a store that serves', { skip: NO_SQLITE, concurrency: true }, () => {
  test('is moved away: every call fails, the gate reports it even while idle, and goes on when the file is back', async (t) => {
    const { queue, file, logs } = await serve(t, 5);
    move(file, `${file}.elsewhere`);
    await until('it is told without a question', () => queue.error !== null);
    assert.match(queue.error?.message ?? '', /queue\.sqlite is missing: put back .* delete .*queue\.sqlite\.known/);
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST);
    await assert.rejects(queue.claim({ max: 1, leaseMs: 1000, token: 'a' }), LOST);
    assert.equal(existsSync(file), false, 'nothing is made anew');
    const { pid } = queue;
    move(`${file}.elsewhere`, file);
    await until('it goes on', () => isServing(queue));
    assert.equal(queue.pid, pid, 'and nothing had to be started');
    const held = await queue.claim({ max: 10, leaseMs: 1000, token: 'b' });
    assert.deepEqual(idsOf(held), idsOf(items(5) as never), 'with all that it had');
    const told = logs.filter(({ level }) => level === 'error').map(({ message }) => message);
    assert.equal(told.length, 1, told.join('\n'));
  });

  test('is deleted and its process killed: the next process creates no file until the marker is deleted too', async (t) => {
    const { queue, file } = await serve(t, 5);
    for (const name of [file, `${file}-wal`, `${file}-journal`]) rmSync(name, { force: true });
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST);
    kill9(queue.pid);
    await until('the next one refuses', () => queue.restarts >= 1 && queue.state === 'error');
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST);
    assert.equal(existsSync(file), false);
    rmSync(`${file}.known`);
    await until('it begins anew', () => isServing(queue));
    assert.equal((await queue.stats()).ready, 0);
    assert.deepEqual(await queue.enqueue(items(1, 'late')), ['new']);
  });

  test('is deleted with its whole folder: the store creates no new file', async (t) => {
    const { queue, file } = await serve(t, 5);
    rmSync(dirname(file), { recursive: true });
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST);
    kill9(queue.pid);
    await until('the next one refuses', () => queue.restarts >= 1 && queue.state === 'error');
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST);
  });

  test('is replaced by an old copy: refused, also by the next process, until the marker is deleted', async (t) => {
    const { queue, file } = await serve(t, 0);
    const yesterday = stored(t, 2);
    rmSync(file);
    copyFileSync(yesterday, file);
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST);
    assert.match(queue.error?.message ?? '', /is not the same file as before/);
    kill9(queue.pid);
    await until('the next one refuses', () => queue.restarts >= 1 && queue.state === 'error');
    rmSync(`${file}-wal`, { force: true });
    rmSync(`${file}.known`);
    await until('it takes what is there', () => isServing(queue));
    assert.equal((await queue.stats()).ready, 2);
  });

  test('is lost and its marker deleted: the process ends, and the next one creates a new file', async (t) => {
    const { queue, file } = await serve(t, 5);
    rmSync(file);
    await until('it is told', () => queue.error !== null);
    const { pid } = queue;
    rmSync(`${file}-wal`, { force: true });
    const rescued = rescue(pid as number, file);
    assert.equal(ready(rescued, 'rescuer'), 5, 'until its process ends, Linux has the deleted files');
    rmSync(`${file}.known`);
    await until('it begins anew', () => isServing(queue));
    assert.notEqual(queue.pid, pid);
    assert.equal((await queue.stats()).ready, 0);
  });

  test('loses its log: calls fail, and after a close the file is complete', async (t) => {
    const { queue, file } = await serve(t, 5);
    if (!existsSync(`${file}-wal`)) return t.skip('this SQLite has no sound log');
    rmSync(`${file}-wal`);
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST);
    assert.match(queue.error?.message ?? '', /lacks its log -wal/);
    writeFileSync(`${file}-wal`, '');
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST, 'nor is another log the same');
    await queue.close();
    assert.equal(ready(file, 'next'), 5);
  });

  test('is truncated: calls fail', async (t) => {
    const { queue, file } = await serve(t, 5);
    truncateSync(file);
    await assert.rejects(queue.enqueue(items(1, 'late')), LOST);
    assert.match(queue.error?.message ?? '', /has become shorter/);
  });
});

describe('the file of a store that is started', { skip: NO_SQLITE }, () => {
  test('is created with its marker if there never was a file', (t) => {
    const file = fileFor(t);
    assert.equal(ready(file), 0);
    assert.equal(ready(file), 0, 'the same owner may close it and open it again');
    assert.equal(ready(file, 'another'), 0);
    assert.ok(existsSync(`${file}.known`));
  });

  test('is accepted without a marker, as an earlier version left it', (t) => {
    const file = stored(t, 3);
    rmSync(`${file}.known`);
    assert.equal(ready(file, 'next'), 3);
    assert.ok(existsSync(`${file}.known`));
  });

  test('is refused if it became missing or empty, until it is back or the marker is deleted', (t) => {
    const file = stored(t, 3);
    renameSync(file, `${file}.elsewhere`);
    assert.throws(() => open(file, 'next'), LOST);
    writeFileSync(file, '');
    assert.throws(() => open(file, 'next'), LOST);
    assert.equal(readFileSync(file).length, 0, 'it is as it was');
    renameSync(`${file}.elsewhere`, file);
    assert.equal(ready(file, 'next'), 3);
    rmSync(file);
    rmSync(`${file}.known`);
    assert.equal(ready(file, 'next'), 0);
  });

  test('is accepted if a copy was restored while no process ran', (t) => {
    const file = stored(t, 3);
    copyFileSync(file, `${file}.copy`);
    const queue = open(file, 'two');
    queue.enqueue([item('more')]);
    queue.close();
    rmSync(file);
    renameSync(`${file}.copy`, file);
    assert.equal(ready(file, 'three'), 3);
  });

  test('is refused if it lost its log after a kill -9, because the log has the last commits', async (t) => {
    const { queue, file } = await serve(t, 5);
    if (!existsSync(`${file}-wal`)) return t.skip('this SQLite has no sound log');
    kill9(queue.pid);
    renameSync(`${file}-wal`, `${file}-wal.elsewhere`);
    await until('the next one refuses', () => queue.restarts >= 1 && queue.state === 'error');
    await assert.rejects(queue.stats(), LOST);
    renameSync(`${file}-wal.elsewhere`, `${file}-wal`);
    await until('it goes on', () => isServing(queue));
    assert.equal((await queue.stats()).ready, 5);
  });
});

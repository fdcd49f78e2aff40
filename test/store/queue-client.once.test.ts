/** A queue in a separate process: the same suite over the channel, and what happens when that process dies. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import type { LogRecord } from '../../src/core/model.ts';
import { QueueClient } from '../../src/gate/store/client/queue-client.ts';
import type { QueueLimits } from '../../src/gate/store/work-queue.ts';
import { allowedCpus } from '../../src/process/affinity.ts';
import { type Launcher, probeLauncher } from '../../src/process/parent/launch.ts';
import { folderFor } from '../fixtures/folder.ts';
import { until } from '../fixtures/polling.ts';
import { allGone, coresOfThreads, kill9, killStarted } from '../fixtures/processes.ts';
import { claim, endAll, idsOf, item, items, LIMITS, NO_SQLITE } from './bed.ts';

const cpus = allowedCpus();
let launcher: Launcher | null = null;

after(async () => {
  try {
    await allGone();
  } finally {
    killStarted();
  }
});

interface Opened {
  readonly queue: QueueClient;
  readonly file: string;
  readonly logs: LogRecord[];
}

async function open(t: TestContext, limits: Partial<QueueLimits> = {}): Promise<Opened> {
  launcher ??= await probeLauncher(cpus);
  const file = join(folderFor(t), 'store', 'queue.sqlite');
  const logs: LogRecord[] = [];
  const queue = new QueueClient({
    file,
    limits: { ...LIMITS, ...limits },
    launcher,
    allowedCpus: cpus,
    startAfter: Promise.resolve(),
    onChange: () => {},
    onLog: (record) => logs.push(record),
  });
  t.after(() => queue.close());
  return { queue, file, logs };
}

describe('a queue in its own process', { skip: NO_SQLITE, concurrency: true }, () => {
  test('accepts calls before it is ready, and answers as the queue does', async (t) => {
    const { queue, logs } = await open(t);
    assert.equal(queue.state, 'startup');
    const stored = queue.enqueue(items(3));
    assert.deepEqual(await stored, ['new', 'new', 'new']);
    const [first, second, third] = await claim(queue, 3);
    assert.ok(first && second && third);
    assert.equal(Buffer.from(first.payload.bytes).toString(), 'of item-0');
    assert.deepEqual(await endAll(queue, [first]), [true]);
    const again = { delayMs: 0, reason: 'again', countAttempt: true, alone: false };
    assert.deepEqual(await queue.nack([second], again), ['again']);
    assert.deepEqual(await queue.deadLetter([third], 'no'), [true]);
    assert.deepEqual(await queue.extend([third], 1000), [false]);
    assert.equal(await queue.redrive(null), 1);
    assert.equal(await queue.cancel('item-2'), 'cancelled');
    assert.equal((await queue.result('item-2'))?.state, 'failed');
    assert.equal(await queue.result('item-9'), null);
    await queue.configure({ ...LIMITS, capacity: 1 });
    assert.deepEqual(await queue.enqueue(items(4).slice(3)), ['full']);
    assert.equal((await queue.stats()).ready, 1);
    assert.deepEqual(
      logs.filter(({ level }) => level !== 'debug'),
      [],
      'it says nothing to standard error, warnings of Node included',
    );
  });

  test('fails only the call with the error, and stores the rest', async (t) => {
    const { queue } = await open(t);
    const calls = [queue.enqueue(items(2)), queue.enqueue([item('../')])];
    const [good, bad] = await Promise.allSettled(calls);
    assert.deepEqual(good, { status: 'fulfilled', value: ['new', 'new'] });
    assert.equal((bad as PromiseRejectedResult).reason.code, 'invalid_input');
    assert.equal((await queue.stats()).ready, 2);
  });

  test('loses nothing and fails no call while it is killed again and again', async (t) => {
    const { queue } = await open(t);
    const effects: string[] = [];
    const total = 300;
    const store = async (): Promise<void> => {
      for (let from = 0; from < total; from += 10) {
        const answers = await queue.enqueue(items(total).slice(from, from + 10));
        // Asked twice, it may have been stored the first time.
        assert.ok(answers.every((answer) => answer === 'new' || answer === 'duplicate'));
      }
    };
    const work = async (): Promise<void> => {
      while (effects.length < total) {
        const held = await claim(queue, 16, 600_000);
        effects.push(...idsOf(held));
        assert.deepEqual(
          await endAll(queue, held),
          held.map(() => true),
        );
      }
    };
    const disturb = async (): Promise<void> => {
      for (let kills = 1; kills <= 5; kills += 1) {
        const { pid } = queue;
        kill9(pid);
        await until('it runs again', () => queue.restarts >= kills && queue.state === 'ready' && queue.pid !== pid);
      }
    };
    await queue.stats();
    await Promise.all([store(), work(), disturb()]);
    assert.equal(new Set(effects).size, total, 'each was worked on');
    assert.equal(effects.length, total, 'and once: no lease and no answer was lost');
    const { ready, leased, dead } = await queue.stats();
    assert.deepEqual([ready, leased, dead], [0, 0, 0]);
  });

  test('is replaced when it hangs, and its calls get answers', async (t) => {
    const { queue } = await open(t);
    await queue.enqueue(items(1));
    process.kill(queue.pid as number, 'SIGSTOP');
    const asked = queue.enqueue(items(2));
    await until('another runs', () => queue.restarts === 1 && queue.state === 'ready');
    assert.deepEqual(await asked, ['duplicate', 'new']);
  });

  test('may use all cores, and leaves nothing when it is closed', async (t) => {
    const { queue, file } = await open(t);
    await queue.enqueue(items(1));
    const pid = queue.pid as number;
    assert.deepEqual(coresOfThreads(pid)[0], [...cpus]);
    await queue.close();
    await until('its process is gone', () => !existsSync(`/proc/${pid}`));
    assert.equal(existsSync(`${file}-wal`), false, 'all is in the one file');
    await assert.rejects(queue.enqueue(items(2)), { code: 'shutting_down' });
  });
});

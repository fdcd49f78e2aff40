/** The suite for the queue in a file, in the process of the test; over the channel it is in queue-client.once.test.ts. */
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SqliteQueue } from '../../src/gate/store/process/sqlite-queue.ts';
import type { QueueLimits } from '../../src/gate/store/work-queue.ts';
import { local, memoryFolderFor, NO_SQLITE, TestTime } from './bed.ts';
import { type Kind, testConformance } from './conformance.ts';
import { RANDOM_LIMITS, testRandomWork } from './random-work.ts';

const SQLITE = {
  name: 'SQLite',
  skip: NO_SQLITE,
  traits: { ordersByDeadline: true, delaysByTimeOfDay: false, looksAgainInMs: null, slackMs: 1 },
  make: (t: TestContext, limits: QueueLimits) => {
    const time = new TestTime();
    const store = new SqliteQueue({ file: join(memoryFolderFor(t), 'queue.sqlite'), session: 'test', limits }, time);
    return { time, queue: local(store) };
  },
} satisfies Kind;

testConformance(SQLITE);

test('SQLite: random calls in any order lose no item, and a late claimant changes nothing', {
  skip: SQLITE.skip,
}, async (t) => {
  await testRandomWork(async () => SQLITE.make(t, RANDOM_LIMITS), 300);
});

/** One suite for the queues in memory and in a file; over the channel it is in queue-client.test.ts. */
import { join } from 'node:path';
import { test } from 'node:test';
import { MemoryQueue } from '../../src/store/memory-queue.ts';
import { SqliteQueue } from '../../src/store/process/sqlite-queue.ts';
import { folderFor, local, NO_SQLITE, TestTime } from './bed.ts';
import { type Kind, testConformance } from './conformance.ts';
import { RANDOM_LIMITS, testRandomWork } from './random-work.ts';

const KINDS: readonly (Kind & { readonly runs: number })[] = [
  {
    name: 'memory',
    skip: false,
    runs: 300,
    make: (_t, limits) => {
      const time = new TestTime();
      return { time, queue: local(new MemoryQueue(limits, time)) };
    },
  },
  {
    name: 'SQLite',
    skip: NO_SQLITE,
    runs: 40,
    make: (t, limits) => {
      const time = new TestTime();
      const store = new SqliteQueue({ file: join(folderFor(t), 'queue.sqlite'), session: 'test', limits }, time);
      return { time, queue: local(store) };
    },
  },
];

for (const kind of KINDS) {
  testConformance(kind);
  test(`${kind.name}: whatever is done in whatever order, nothing is lost and nobody late has a say`, {
    skip: kind.skip,
  }, async (t) => {
    await testRandomWork(async () => kind.make(t, RANDOM_LIMITS), kind.runs);
  });
}

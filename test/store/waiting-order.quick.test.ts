/** One order of waiting work, in every queue that keeps it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { PriorityFifo } from '../../src/core/queues/fifo.ts';
import { compareWaiting } from '../../src/core/queues/priority-heap.ts';
import { SqliteQueue } from '../../src/gate/store/process/sqlite-queue.ts';
import { WaitingRoom } from '../../src/gate/waiting-room.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { item, LIMITS, memoryFolderFor, NO_SQLITE, TestTime } from './bed.ts';

const NEVER = Number.POSITIVE_INFINITY;
const waiting = fc.array(
  fc.record({ priority: fc.integer({ min: -2, max: 2 }), deadline: fc.constantFrom(NEVER, 2e12, 2e12 + 1, 2e12 + 2) }),
  { maxLength: 30, size: 'max' },
);
type Arrivals = readonly { readonly priority: number; readonly deadline: number }[];

/** Returns the indexes of the arrivals in the order of `compareWaiting`. */
function expectedOrder(arrivals: Arrivals): number[] {
  const all = arrivals.map((arrival, number) => ({ ...arrival, number }));
  return all.toSorted(compareWaiting).map(({ number }) => number);
}

test('the waiting room of a gate serves requests in the order of compareWaiting', () => {
  fc.assert(
    fc.property(waiting, (arrivals) => {
      const room = new WaitingRoom<number>(new FakeClock(), () => {});
      for (const [index, { priority, deadline }] of arrivals.entries()) room.enter(index, priority, deadline);
      const served: number[] = [];
      for (let place = room.first; place; place = room.first) {
        served.push(place.value);
        room.leave(place);
      }
      assert.deepEqual(served, expectedOrder(arrivals));
    }),
  );
});

test('the durable store claims items in the order of compareWaiting, one by one and many at once', {
  skip: NO_SQLITE,
}, (t) => {
  const file = join(memoryFolderFor(t), 'queue.sqlite');
  const queue = new SqliteQueue({ file, session: 'test', limits: LIMITS }, new TestTime());
  t.after(() => queue.close());
  let run = 0;
  fc.assert(
    fc.property(waiting, fc.integer({ min: 1, max: 7 }), (arrivals, max) => {
      run += 1;
      const toItem = ({ priority, deadline }: Arrivals[number], index: number): ReturnType<typeof item> =>
        item(`${run}.${index}`, { priority, deadline: deadline === NEVER ? null : deadline });
      queue.enqueue(arrivals.map(toItem));
      const served: number[] = [];
      while (served.length < arrivals.length) {
        const claims = queue.claim({ max, leaseMs: 1000, token: `${run} from ${served.length}` });
        served.push(...claims.map(({ id }) => Number(id.split('.')[1])));
        queue.ack(claims.map(({ id, token }) => ({ id, token, ok: true, result: null })));
      }
      assert.deepEqual(served, expectedOrder(arrivals));
    }),
  );
});

test('the queue of a stage serves requests in the order of compareWaiting, without their deadlines', () => {
  fc.assert(
    fc.property(waiting, (arrivals) => {
      const queue = new PriorityFifo<number>();
      for (const [index, { priority }] of arrivals.entries()) queue.push(priority, index);
      const expected = expectedOrder(arrivals.map(({ priority }) => ({ priority, deadline: NEVER })));
      assert.deepEqual([...queue], expected);
    }),
  );
});

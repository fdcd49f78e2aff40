/** How long a batch may run, by a clock that the test moves and a worker that never answers by itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Child, ChildEvents } from '../../src/process/parent/child.ts';
import { type ProcessState, StateMachine } from '../../src/process/parent/child.ts';
import type { Loss } from '../../src/runtime/engine/pools/pool.ts';
import { SupervisedWorker } from '../../src/runtime/engine/pools/workers/supervised-worker.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { item } from '../wire/frame-values.ts';

const LIMIT_MS = 100;
const ABANDONED_MS = 30_000;

class Rig {
  readonly clock: FakeClock = new FakeClock();
  readonly losses: Loss<WireItem>[] = [];
  events: ChildEvents | null = null;
  child: Child | null = null;
  stuck = 0;
  requestTimeoutMs = ABANDONED_MS;
  readonly worker: SupervisedWorker<WireItem>;

  constructor(concurrency = 1, runTimeoutMs = LIMIT_MS) {
    this.worker = new SupervisedWorker<WireItem>(0, {
      clock: this.clock,
      startTimeoutMs: 0,
      concurrency,
      launch: (_index, events) => {
        const machine = new StateMachine((state) => events.onState(state, child));
        const child: Child = {
          pid: 1234,
          get state(): ProcessState {
            return machine.state;
          },
          isReachable: true,
          traffic: null,
          signs: 0,
          send: () => {},
          close: () => {},
          kill: (reason) => machine.enter({ tag: 'dead', error: reason ?? new Error('killed') }),
        };
        this.events = events;
        this.child = child;
        setImmediate(() => machine.enter({ tag: 'ready', since: 0 }));
        return child;
      },
      loadFrame: () => ({ type: 'cancel', body: [] }),
      runTimeoutMs: () => runTimeoutMs,
      requestTimeoutMs: () => this.requestTimeoutMs,
      onStuck: () => {
        this.stuck += 1;
      },
      stage: { onOwnMetrics: () => {}, onPart: () => {}, onReply: () => {}, onChange: () => {} },
      onTouched: () => {},
      onReady: () => {},
      onAnswered: () => {},
      onTried: () => {},
      onLost: (_worker, loss) => this.losses.push(loss),
      onUsage: () => {},
      onLog: () => {},
    });
  }

  async start(): Promise<this> {
    this.worker.process.start();
    await this.turn();
    return this;
  }

  dispatch(number: number): void {
    const now = this.clock.now();
    this.worker.dispatch({
      number,
      items: [item({ id: number })],
      dispatchedAt: now,
      freeSince: now,
      alone: false,
      startedAt: now,
    });
  }

  began(number: number): void {
    this.events?.onFrame({ type: 'began', body: { batch: number } }, this.child as Child);
  }

  answer(number: number): void {
    const reply = { type: 'reply', batch: number, items: [item({ id: number })], runMs: 1, runs: 1 } as const;
    this.events?.onFrame(reply, this.child as Child);
  }

  async advance(ms: number): Promise<void> {
    this.clock.advance(ms);
    await this.turn();
  }

  turn(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }
}

test('the run timeout of a batch starts at the answer of the batch before, however long it waited', async () => {
  const rig = await new Rig().start();
  rig.dispatch(1);
  rig.dispatch(2);
  await rig.advance(LIMIT_MS - 1);
  rig.answer(1);
  await rig.advance(LIMIT_MS - 1);
  assert.equal(rig.losses.length, 0);
  await rig.advance(1);
  const [loss] = rig.losses;
  assert.equal(loss?.error.message, `a batch ran longer than ${LIMIT_MS} ms`);
  assert.deepEqual(loss && idsOf(loss), [[2], [], []]);
});

test('items behind a batch that ran too long count as not started', async () => {
  const rig = await new Rig().start();
  rig.dispatch(1);
  rig.dispatch(2);
  await rig.advance(LIMIT_MS);
  const [loss] = rig.losses;
  assert.deepEqual(loss && idsOf(loss), [[1], [], [2]]);
});

test('a thousand batches in turn need one timer at a time, and an idle worker soon has none', async () => {
  const rig = await new Rig().start();
  for (let number = 1; number <= 1000; number += 1) {
    rig.dispatch(number);
    assert.ok(rig.clock.pending <= 1);
    await rig.advance(7);
    rig.answer(number);
  }
  await rig.advance(LIMIT_MS);
  assert.equal(rig.clock.pending, 0);
  assert.equal(rig.losses.length, 0);
});

const idsOf = ({ overrun, running, notStarted }: Loss<WireItem>): number[][] =>
  [overrun, running, notStarted].map((items) => items.map(({ id }) => id));

test('of several batches only those that ran too long are blamed, and those not begun count as not started', async () => {
  const rig = await new Rig(3).start();
  for (const number of [1, 2, 3, 4]) rig.dispatch(number);
  rig.began(1);
  rig.began(2);
  await rig.advance(LIMIT_MS - 1);
  rig.answer(1);
  rig.began(3);
  await rig.advance(1);
  assert.deepEqual(rig.losses.map(idsOf), [[[2], [3], [4]]]);
});

test('the run timeout of a batch among several starts when the worker says that it began', async () => {
  const rig = await new Rig(2).start();
  rig.dispatch(1);
  rig.dispatch(2);
  rig.began(1);
  await rig.advance(LIMIT_MS - 1);
  rig.answer(1);
  await rig.advance(LIMIT_MS - 1);
  rig.began(2);
  await rig.advance(LIMIT_MS - 1);
  assert.equal(rig.losses.length, 0);
  await rig.advance(1);
  assert.deepEqual(rig.losses.map(idsOf), [[[2], [], []]]);
});

test('a worker that begins nothing within the run timeout is killed, and what it had runs again', async () => {
  const rig = await new Rig(2).start();
  rig.dispatch(1);
  await rig.advance(LIMIT_MS);
  assert.deepEqual(rig.losses.map(idsOf), [[[], [], [1]]]);
});

test('a worker may answer its batches in any order, and only those that it began', async () => {
  const rig = await new Rig(2).start();
  rig.dispatch(1);
  rig.dispatch(2);
  rig.began(1);
  rig.began(2);
  rig.answer(2);
  assert.equal(rig.worker.load, 1);
  rig.dispatch(3);
  rig.answer(3);
  assert.match(rig.losses[0]?.error.message ?? '', /answered batch 3, which it did not have/);
});

test('a batch without callers is overdue after a second, and costs its worker after the limit for that', async () => {
  const rig = await new Rig(1, 0).start();
  rig.dispatch(1);
  rig.dispatch(2);
  await rig.advance(600_000);
  assert.equal(rig.worker.work.overdue, 0, 'a caller waits for it');
  rig.worker.cancel([1]);
  await rig.advance(999);
  assert.equal(rig.worker.work.overdue, 0);
  await rig.advance(1);
  assert.equal(rig.worker.work.overdue, 1);
  await rig.advance(ABANDONED_MS - 1001);
  assert.equal(rig.losses.length, 0);
  await rig.advance(1);
  const [loss] = rig.losses;
  assert.equal(loss?.error.message, 'a batch ran on for 30 s after its last caller had gone');
  assert.deepEqual(loss && idsOf(loss), [[1], [], [2]]);
  assert.equal(rig.worker.work.overdue, 0);
});

test('a batch counts as begun when it was, although its callers had gone before, and an answer saves the worker', async () => {
  const rig = await new Rig(1, 0).start();
  rig.dispatch(1);
  rig.dispatch(2);
  rig.worker.cancel([2]);
  await rig.advance(2 * ABANDONED_MS);
  rig.answer(1);
  await rig.advance(ABANDONED_MS - 1);
  assert.equal(rig.losses.length, 0);
  rig.answer(2);
  await rig.advance(10 * ABANDONED_MS);
  assert.deepEqual([rig.losses.length, rig.clock.pending], [0, 0]);
});

test('that limit is the present one of requests, at least 10 s, and 30 s if they have none', async () => {
  for (const [requestTimeoutMs, limitMs] of [
    [1000, 10_000],
    [45_000, 45_000],
    [0, 30_000],
  ] as const) {
    const rig = await new Rig(1, 0).start();
    rig.requestTimeoutMs = requestTimeoutMs;
    rig.dispatch(1);
    rig.worker.cancel([1]);
    await rig.advance(limitMs - 1);
    assert.equal(rig.losses.length, 0);
    await rig.advance(1);
    assert.equal(rig.losses.length, 1);
  }
});

test('a run limit of the user counts alone', async () => {
  const rig = await new Rig(1, 10 * ABANDONED_MS).start();
  rig.dispatch(1);
  rig.worker.cancel([1]);
  await rig.advance(9 * ABANDONED_MS);
  assert.deepEqual([rig.losses.length, rig.worker.work.overdue], [0, 1]);
  await rig.advance(ABANDONED_MS);
  assert.equal(rig.losses.length, 1);
});

test('beside batches that have callers, a batch without asks for another worker, once, and ends this one with them', async () => {
  const rig = await new Rig(4, 0).start();
  for (const number of [1, 2, 3]) {
    rig.dispatch(number);
    rig.began(number);
  }
  rig.worker.cancel([1]);
  await rig.advance(ABANDONED_MS);
  assert.deepEqual([rig.stuck, rig.losses.length], [1, 0]);
  rig.answer(2);
  rig.worker.cancel([3]);
  await rig.advance(ABANDONED_MS - 1);
  assert.deepEqual([rig.stuck, rig.losses.length], [1, 0]);
  await rig.advance(1);
  assert.deepEqual(rig.losses.map(idsOf), [[[1, 3], [], []]]);
});

test('a retired worker ends 5 s after the last caller of its run has gone', async () => {
  const rig = await new Rig(1, 0).start();
  rig.dispatch(1);
  void rig.worker.close(Number.POSITIVE_INFINITY);
  await rig.advance(5 * ABANDONED_MS);
  assert.equal(rig.losses.length, 0, 'a caller waits for it');
  assert.equal(rig.clock.now() - (rig.worker.work.runsSince ?? 0), 5 * ABANDONED_MS);
  rig.worker.cancel([1]);
  await rig.advance(4999);
  assert.equal(rig.losses.length, 0);
  await rig.advance(1);
  assert.deepEqual([rig.losses[0]?.phase, rig.worker.work.runsSince], ['closing', null]);
});

test('a worker that is retired while it runs on without a caller ends 5 s after the last one has gone', async () => {
  const rig = await new Rig(1, 0).start();
  rig.dispatch(1);
  rig.worker.cancel([1]);
  await rig.advance(4000);
  void rig.worker.close(Number.POSITIVE_INFINITY);
  await rig.advance(999);
  assert.equal(rig.losses.length, 0);
  await rig.advance(1);
  assert.equal(rig.losses.length, 1);
});

test('an example that runs on past its deadline costs its worker after the same time', async () => {
  const rig = await new Rig(1, 0).start();
  rig.worker.tryExample(0, rig.clock.now() + 5000);
  await rig.advance(5000 + ABANDONED_MS - 1);
  assert.deepEqual([rig.losses.length, rig.worker.work.overdue], [0, 1]);
  await rig.advance(1);
  assert.equal(rig.losses[0]?.trying, true);
});

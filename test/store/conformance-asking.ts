/** The contract of every queue for questions about its items, and for commands on waiting ones. */
import assert from 'node:assert/strict';
import type { QueueLimits, WorkQueue } from '../../src/gate/store/work-queue.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { claim, endAll, item, items, LIMITS } from './bed.ts';

/** Time that a test moves. The time of a server is moved by commands. */
export interface MovedTime {
  wall(): number;
  advance(ms: number): void | Promise<void>;
  jump(ms: number): void | Promise<void>;
}

export interface Tried {
  readonly queue: WorkQueue;
  readonly time: MovedTime;
}

/** The points in which queues may differ. */
export interface Traits {
  /** Whether items of one priority are claimed by their deadlines. */
  readonly ordersByDeadline: boolean;
  readonly delaysByTimeOfDay: boolean;
  /** Time after which the queue wants to be asked again, because others change it, too; null: none. */
  readonly looksAgainInMs: number | null;
  /** How much earlier than its time a lease may end, in ms: the time of a server goes on during a test. */
  readonly slackMs: number;
}

export type Check = (
  name: string,
  body: (tried: Tried & { readonly traits: Traits }) => Promise<void>,
  limits?: Partial<QueueLimits>,
) => void;

export const AGAIN = { delayMs: 0, reason: 'try again', countAttempt: true, alone: false };

export function testAsking(check: Check): void {
  check('a client can ask for a result at any time within its retention', async ({ queue, time }) => {
    await queue.enqueue(items(4));
    const stateOf = async (id: string): Promise<string | undefined> => (await queue.result(id))?.state;
    assert.equal(await stateOf('item-0'), 'pending');
    const [a, b, c] = await claim(queue, 3);
    assert.ok(a && b && c);
    assert.equal(await stateOf('item-0'), 'running');
    const payload = { codec: CODEC.json, bytes: Buffer.from('{"y":1}') };
    await queue.ack([
      { ...a, ok: true, result: payload },
      { ...b, ok: false, result: payload },
    ]);
    await queue.deadLetter([c], 'malformed: no JSON');
    const done = await queue.result('item-0');
    assert.deepEqual([done?.state, done?.attempts, done?.reason], ['done', 1, null]);
    assert.equal(Buffer.from(done?.result?.bytes ?? []).toString(), '{"y":1}');
    assert.equal(done?.result?.codec, CODEC.json);
    assert.equal(await stateOf('item-1'), 'failed');
    const dead = await queue.result('item-2');
    assert.deepEqual([dead?.state, dead?.reason], ['dead', 'malformed: no JSON']);
    await time.advance(LIMITS.resultTtlMs - 1);
    assert.equal(await stateOf('item-0'), 'done');
    await time.advance(1);
    assert.deepEqual([await stateOf('item-0'), await stateOf('item-1')], [undefined, undefined]);
    assert.deepEqual([await stateOf('item-2'), await stateOf('item-3')], ['dead', 'pending']);
  });

  check('waiting and dead items can be cancelled, and running items cannot', async ({ queue }) => {
    await queue.enqueue(items(3));
    assert.equal(await queue.cancel('item-0'), 'cancelled');
    const held = await claim(queue, 2);
    assert.equal(await queue.cancel('item-1'), 'running');
    await queue.deadLetter(held.slice(0, 1), 'no');
    assert.equal(await queue.cancel('item-1'), 'cancelled');
    assert.equal(await queue.cancel('item-0'), 'unknown', 'it has ended');
    assert.equal(await queue.cancel('item-9'), 'unknown');
    const { state, reason } = (await queue.result('item-0')) ?? {};
    assert.deepEqual([state, reason], ['failed', 'cancelled']);
    assert.deepEqual(await queue.enqueue([item('item-0')]), ['duplicate']);
  });

  check('the queue reports when something will change by itself', async ({ queue, time, traits }) => {
    const wakeInMs = async (): Promise<number | null> => (await queue.stats()).wakeInMs;
    const { looksAgainInMs } = traits;
    const atMost = (ms: number | null): number | null =>
      looksAgainInMs === null ? ms : Math.min(ms ?? looksAgainInMs, looksAgainInMs);
    await queue.enqueue(items(2));
    assert.equal(await wakeInMs(), atMost(null));
    await queue.enqueue([item('due', { deadline: time.wall() + 5000 })]);
    assert.equal(await wakeInMs(), atMost(5000));
    const held = await claim(queue, 3, 3000);
    const due = held.find(({ id }) => id === 'due');
    const [first, second] = held.filter((each) => each !== due);
    assert.ok(due && first && second);
    assert.equal(await wakeInMs(), atMost(3000));
    await queue.nack([first], { ...AGAIN, delayMs: 700 });
    await time.advance(100);
    assert.equal(await wakeInMs(), atMost(600));
    await endAll(queue, [second]);
    await queue.nack([due], AGAIN);
    await time.advance(600);
    assert.equal(await wakeInMs(), atMost(4300));
    await time.advance(9000);
    assert.equal(await wakeInMs(), atMost(0), 'it waits to be claimed as expired');
  });

  check('the queue reports the age of the oldest waiting item', async ({ queue, time }) => {
    assert.equal((await queue.stats()).oldestMs, 0);
    await queue.enqueue(items(2));
    await time.advance(300);
    const held = await claim(queue, 1);
    await queue.enqueue([item('new')]);
    assert.equal((await queue.stats()).oldestMs, 300);
    await queue.nack(held, { ...AGAIN, delayMs: 10 });
    await claim(queue, 1);
    await time.advance(1);
    assert.equal((await queue.stats()).oldestMs, 301);
  });
}

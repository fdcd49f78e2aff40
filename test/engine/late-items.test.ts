/** Who is passed over while more comes than can be answered in time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StageQueue } from '../../src/engine/stage/stage-queue.ts';
import { ask, caching } from './caching.ts';
import { ids, NEVER, queued } from './queued.ts';
import { Rig, route, stage } from './rig.ts';

/** A queue with items that came at 0 and have these deadlines. */
function queueOf(...deadlines: readonly number[]): StageQueue {
  const queue = new StageQueue();
  for (const [id, deadline] of deadlines.entries()) queue.push(queued(id, 0, { deadline }));
  return queue;
}

test('what would hardly be answered in time goes where others would be', () => {
  const queue = queueOf(10, 104, 112, NEVER);
  assert.deepEqual(ids(queue.sweepLate(100, 5)), [0, 1]);
  assert.deepEqual(ids(queue.sweepLate(101, 5)), [], 'a twentieth of its time is left');
  assert.deepEqual(ids(queue.sweepLate(102, 5)), [2], 'less is left, and one without a deadline has the time');
});

test('where nothing else would be answered in time either, it may try', () => {
  const queue = queueOf(10, 104, 106);
  assert.deepEqual(ids(queue.sweepLate(103, 5)), [0]);
  assert.deepEqual(ids(queue.sweepLate(104, 5)), [1]);
  assert.deepEqual(ids(queue.take(9, () => true)), [2]);
});

test('for half its time none is passed over, however long the last answers took', () => {
  const queue = queueOf(100, NEVER);
  assert.deepEqual(ids(queue.sweepLate(44, 10_000)), []);
  assert.deepEqual(ids(queue.sweepLate(46, 10_000)), [0]);
});

test('after a slow run what has waited half its time is passed over for what has just come', () => {
  const queue = queueOf(1000, 1000);
  queue.push(queued(2, 900, { deadline: 1900 }));
  assert.deepEqual(ids(queue.sweepLate(901, 5000)), [0, 1]);
  assert.deepEqual(ids(queue.take(9, () => true)), [2]);
});

test('where answers take less time again, there are some that have it', () => {
  const queue = queueOf(100, 140);
  assert.deepEqual(ids(queue.sweepLate(80, 400)), []);
  assert.deepEqual(ids(queue.sweepLate(96, 400)), []);
  assert.deepEqual(ids(queue.sweepLate(96, 5)), [0]);
});

/** How many items a queue of 100 looks at in 200 sweeps, one each millisecond, after a first one. */
function looksAt(from: number, turnaround: (time: number) => number): number {
  const queue = new StageQueue();
  let looks = 0;
  for (let id = 0; id < 100; id += 1) {
    const get = (): number => {
      looks += 1;
      return 1000;
    };
    queue.push(Object.defineProperty(queued(id, 0), 'deadline', { get }));
  }
  queue.sweepLate(from, turnaround(from));
  looks = 0;
  for (let time = from; time < from + 200; time += 1) {
    assert.deepEqual(queue.sweepLate(time, turnaround(time)), []);
  }
  return looks;
}

for (const { when, from } of [
  { when: 'long before any is late', from: 300 },
  { when: 'where all are', from: 750 },
]) {
  test(`not each item is looked at each time: ${when}`, () => {
    assert.equal(
      looksAt(from, () => 400),
      0,
    );
    assert.ok(looksAt(from, (time) => 400 + (time % 3)) < 2000, 'where the last answers took now more, now less');
  });
}

test('while a batch fills beside a free worker none is passed over', async () => {
  const rig = new Rig();
  const pool = await rig.single({ batching: { policy: 'oldest', maxBatchSize: 8, maxWaitMs: 60 } });
  await rig.submit([1]);
  await rig.advance(60);
  await rig.advance(48);
  pool.answer(0, 48);
  await rig.turn();
  await rig.submit([2], { deadline: rig.clock.now() + 110 });
  await rig.submit([3], { deadline: rig.clock.now() + 58 });
  await rig.advance(58);
  await rig.submit([4], { deadline: rig.clock.now() + 110 });
  assert.deepEqual([pool.held(), rig.answers()], [[], ['1', '3 deadline_exceeded']]);
  await rig.advance(2);
  assert.deepEqual(pool.held(), [[2, 4]]);
});

/** A stage that keeps results, whose last answer took `turnaroundMs` and whose worker is busy again. */
async function busyStage(turnaroundMs: number): Promise<Rig> {
  const rig = new Rig();
  const pool = await rig.single(caching());
  await ask(rig, [1], '"slow"');
  await rig.advance(turnaroundMs);
  await ask(rig, [2], '"slower"');
  pool.answer(0, turnaroundMs);
  await rig.turn();
  rig.answers();
  assert.deepEqual(pool.held(), [[2]]);
  return rig;
}

for (const { what, answersTake, timeout, waits } of [
  { what: 'with more time', answersTake: 500, timeout: 120, waits: 40 },
  { what: 'with less time', answersTake: 500, timeout: 90, waits: 40 },
  { what: 'where answers are quick', answersTake: 5, timeout: 120, waits: 90 },
]) {
  test(`who joins one that has waited long has as much of its own time as if it were alone: ${what}`, async () => {
    const rig = await busyStage(answersTake);
    await ask(rig, [3], '"shared"', { deadline: rig.clock.now() + 1000 });
    await rig.advance(900);
    await ask(rig, [4], '"shared"', { deadline: rig.clock.now() + timeout });
    await rig.advance(waits);
    await ask(rig, [5], '"has time"');
    assert.deepEqual([rig.queueOf(1), rig.answers()], [2, []]);
    await rig.advance(timeout - waits - 2);
    await ask(rig, [6], '"has time too"');
    assert.deepEqual([rig.queueOf(1), rig.answers()], [2, ['3 deadline_exceeded', '4 deadline_exceeded']]);
  });
}

test('where all are late, those go in favour of one that another joins with more time', async () => {
  const rig = await busyStage(500);
  await ask(rig, [3], '"alone"', { deadline: rig.clock.now() + 1000 });
  await ask(rig, [4], '"shared"', { deadline: rig.clock.now() + 1000 });
  await rig.advance(600);
  rig.engine.act(1, 'flush');
  assert.deepEqual([rig.queueOf(1), rig.answers()], [2, []]);
  await ask(rig, [5], '"shared"', { deadline: rig.clock.now() + 1000 });
  rig.engine.act(1, 'flush');
  assert.deepEqual([rig.queueOf(1), rig.answers()], [1, ['3 deadline_exceeded']]);
});

test('an answer that is known needs no time to run, until a restart makes it unknown', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1, caching()), stage(2, { capacity: 1 })], routes: [route(1, [1, 2])] });
  await ask(rig, [1], '"kept"');
  await rig.advance(500);
  rig.pool(1).answer(0, 500);
  await rig.turn();
  await ask(rig, [2], '"fills the next stage"');
  rig.pool(1).answer(0, 500);
  await rig.turn();
  await ask(rig, [3], '"kept"', { deadline: rig.clock.now() + 100 });
  await rig.advance(60);
  await ask(rig, [4], '"has time"');
  assert.deepEqual([rig.queueOf(1), rig.answers()], [2, []]);
  rig.engine.act(1, 'restart');
  await rig.turn();
  await ask(rig, [5], '"has time too"');
  assert.deepEqual([rig.queueOf(1), rig.answers()], [2, ['3 deadline_exceeded']]);
});

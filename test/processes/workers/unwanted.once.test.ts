/** Abandoned requests, expired or cancelled, are answered in time and not computed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../../src/core/clock.ts';
import { ModeletError } from '../../../src/core/errors.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { callsIn, release, serve } from '../../fixtures/service.ts';
import { expire, gated, hold, prefetching, queued } from '../modelets/gated.ts';

const gone = (): ModeletError => new ModeletError('cancelled', 'the caller went away');

/** Keeps this process busy, so that it cannot tell the engine anything. */
function blockUntil(condition: () => boolean): void {
  const end = performance.now() + 20_000;
  while (!condition()) assert.ok(performance.now() < end, 'the engine goes on alone');
}

describe('a deadline', () => {
  test('applies while the worker is stuck in synchronous code, to running and waiting requests', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [{ id: 'spin', file: 'spin', init: { folder } }] });
    await service.ready();
    const before = systemClock.now();
    await expire({ service, folder }, 'spin');
    assert.ok(systemClock.now() - before > 290, 'not before its time');
    assert.equal((await service.answer('a', { timeoutMs: 300 })).code, 'deadline_exceeded');
    assert.deepEqual(callsIn(folder), ['spin'], 'the worker is still stuck');
    release(folder, 'spin');
    assert.equal((await service.answer('b')).code, 'ok');
    assert.deepEqual(callsIn(folder), ['spin', 'b'], 'what expired in the queue is not computed');
  });

  test('that passes in the queue prevents the run of the item, even the first of a batch', async (t) => {
    const gate = await gated(t, { predict: 'batch', batch: { maxBatchSize: 8 } });
    const running = await hold(gate, 'held');
    const first = gate.service.ask('expires', { timeoutMs: 100 });
    const others = ['a', 'b'].map((name) => gate.service.ask(name));
    const last = gate.service.ask('expires too', { timeoutMs: 100 });
    assert.equal((await first.answer).code, 'deadline_exceeded');
    assert.equal((await last.answer).code, 'deadline_exceeded');
    release(gate.folder, 'held');
    for (const { answer } of [running, ...others]) assert.equal((await answer).code, 'ok');
    assert.deepEqual(callsIn(gate.folder), [['held'], ['a', 'b']]);
  });

  test('that passes while a batch fills prevents the run of the item, too', async (t) => {
    const gate = await gated(t, {
      predict: 'batch',
      batch: { maxBatchSize: 3, policy: 'oldest', maxWaitMs: 60_000 },
    });
    assert.equal((await gate.service.answer('expires', { timeoutMs: 100 })).code, 'deadline_exceeded');
    const answers = await Promise.all(['a', 'b', 'c'].map((name) => gate.service.answer(name)));
    for (const { code } of answers) assert.equal(code, 'ok');
    assert.deepEqual(callsIn(gate.folder), [['a', 'b', 'c']]);
  });

  for (const file of ['gate', 'spin']) {
    test(`that passes in a worker behind another batch prevents the run of the item, too (${file})`, async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, { stages: [{ id: 'stage', file, init: { folder } }] });
      const held = file === 'gate' ? 'held' : 'spin';
      const before = 1 + (await prefetching(service, 'stage'));
      const running = await hold({ service, folder }, held);
      const ahead = service.ask('expires', { timeoutMs: 1000 });
      const deadline = systemClock.now() + 1000;
      await until('it was sent ahead', () => service.stage('stage').items > before || ahead.settled);
      assert.equal((await ahead.answer).code, 'deadline_exceeded');
      // Timers of Node.js fire up to 1 ms early, and the worker may run the item until its deadline.
      await until('its deadline has passed', () => systemClock.now() > deadline);
      release(folder, held);
      assert.equal((await running.answer).code, 'ok');
      assert.equal((await service.answer('next')).code, 'ok');
      const calls = callsIn(folder).filter((name) => name !== 'quick');
      assert.deepEqual(calls, [held, 'next']);
    });
  }

  test('that passes in the queue while this process is blocked keeps the item out of the batch', async (t) => {
    const gate = await gated(t, { predict: 'batch', batch: { maxBatchSize: 8 } });
    const running = await hold(gate, 'held');
    const expiresAt = systemClock.now() + 1010;
    const expires = gate.service.ask('expires', { timeoutMs: 1000 });
    const stays = gate.service.ask('stays');
    // The engine may report that only when the time of the first is over.
    await until('both are queued', () => gate.service.stage('gate').queue === 2 || expires.settled);
    blockUntil(() => systemClock.now() > expiresAt);
    release(gate.folder, 'held');
    blockUntil(() => callsIn(gate.folder).length === 2);
    assert.deepEqual(callsIn(gate.folder), [['held'], ['stays']]);
    assert.equal((await running.answer).code, 'ok');
    assert.equal((await expires.answer).code, 'deadline_exceeded');
    assert.equal((await stays.answer).timings[0]?.batchSize, 1);
  });

  test('that passes in a worker while this process is blocked prevents the run of the item', async (t) => {
    const gate = await gated(t);
    const before = 1 + (await prefetching(gate.service, 'gate'));
    const running = await hold(gate, 'held');
    const expiresAt = systemClock.now() + 1010;
    const expires = gate.service.ask('expires', { timeoutMs: 1000 });
    await until('it was sent ahead', () => gate.service.stage('gate').items > before || expires.settled);
    const behind = gate.service.ask('behind');
    await queued(gate, 1);
    blockUntil(() => systemClock.now() > expiresAt);
    release(gate.folder, 'held');
    const calls = (): unknown[] => callsIn(gate.folder).filter((name) => name !== 'quick');
    blockUntil(() => calls().includes('behind'));
    assert.deepEqual(calls(), ['held', 'behind']);
    assert.equal((await running.answer).code, 'ok');
    assert.equal((await expires.answer).code, 'deadline_exceeded');
    assert.equal((await behind.answer).code, 'ok');
  });
});

describe('a cancelled request', () => {
  test('leaves the queue, makes room there, and does not run', async (t) => {
    const gate = await gated(t, { capacity: 2 });
    const running = await hold(gate, 'held');
    const [cancelled, kept] = [gate.service.ask('cancelled'), gate.service.ask('kept')] as const;
    await queued(gate, 2);
    gate.service.service.desk.abandon(cancelled.id, gone());
    assert.equal((await cancelled.answer).code, 'cancelled');
    await queued(gate, 1);
    const instead = gate.service.ask('instead');
    release(gate.folder, 'held');
    for (const { answer } of [running, kept, instead]) assert.equal((await answer).code, 'ok');
    assert.deepEqual(callsIn(gate.folder), ['held', 'kept', 'instead']);
    assert.equal(gate.service.service.snapshot().lateOutcomes, 0);
  });

  test('does not run if it was cancelled before the engine started', async (t) => {
    const gate = await gated(t);
    const early = gate.service.ask('early');
    const kept = gate.service.ask('kept');
    gate.service.service.desk.abandon(early.id, gone());
    assert.equal((await kept.answer).code, 'ok');
    assert.equal((await gate.service.answer('last')).code, 'ok');
    assert.deepEqual(callsIn(gate.folder), ['kept', 'last']);
    assert.equal(gate.service.service.snapshot().lateOutcomes, 0);
  });

  for (const [file, killed] of [
    ['gate', false],
    ['gate', true],
    ['spin', false],
    ['spin', true],
  ] as const) {
    const by = killed ? 'the successor of that worker, killed' : 'that worker';
    test(`does not run in ${by} if it was sent ahead (${file})`, async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, { stages: [{ id: 'stage', file, init: { folder } }] });
      const held = file === 'gate' ? 'held' : 'spin';
      const before = 1 + (await prefetching(service, 'stage'));
      const [pid] = service.pids('stage') as [number];
      const running = await hold({ service, folder }, held);
      const ahead = service.ask('ahead');
      await until('it was sent ahead', () => service.stage('stage').items > before);
      service.service.desk.abandon(ahead.id, gone());
      assert.equal((await ahead.answer).code, 'cancelled');
      // Behind the cancel on the same way: when this has arrived, so has that.
      const behind = service.ask('behind');
      // If the cancelled request has left room in the worker, this one is sent ahead, too.
      await until('the engine has it', () => {
        const { queue, items } = service.stage('stage');
        return queue === 1 || items === before + 2;
      });
      if (killed) kill9(pid);
      else release(folder, held);
      assert.equal((await running.answer).code, killed ? 'worker_lost' : 'ok');
      assert.equal((await behind.answer).code, 'ok');
      const calls = callsIn(folder).filter((name) => name !== 'quick');
      assert.deepEqual(calls, [held, 'behind']);
      assert.equal(service.service.snapshot().lateOutcomes, 0);
    });
  }

  test('in the middle of a batch does not affect the others', async (t) => {
    const gate = await gated(t, { predict: 'batch', batch: { maxBatchSize: 8 } });
    await gate.service.ready();
    const batch = ['held', 'cancelled', 'kept'].map((name) => gate.service.ask(name));
    await until('the batch runs', () => callsIn(gate.folder).length === 1);
    gate.service.service.desk.abandon(batch[1]?.id ?? 0, gone());
    release(gate.folder, 'held');
    const codes = await Promise.all(batch.map(async ({ answer }) => (await answer).code));
    assert.deepEqual(codes, ['ok', 'cancelled', 'ok']);
    assert.deepEqual(callsIn(gate.folder), [['held', 'cancelled', 'kept']]);
  });
});

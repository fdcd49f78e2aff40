/** Several calls at a time in one worker: what they share, and what they do not. Real processes, real deaths. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../src/core/clock.ts';
import { ModeletError } from '../../src/core/errors.ts';
import { kill9, until } from '../fixtures/processes.ts';
import {
  type Asked,
  callsIn,
  folderFor,
  release,
  type StageSpec,
  serve,
  type TestService,
} from '../fixtures/service.ts';
import { type Gated, gated, hold } from './gated.ts';

const PLACES = 8;
/** Longer than anything takes that is not stuck, also on a busy machine. */
const LIMIT_MS = 2000;

/** Notes how many calls overlap. */
const COUNTING: StageSpec = {
  id: 'count',
  inline: {
    setup: 'return { now: 0, most: 0 };',
    code: `state.now += 1;
      state.most = Math.max(state.most, state.now);
      await new Promise((resolve) => setTimeout(resolve, 20));
      state.now -= 1;
      if (input === 'fails') throw new Error('this one fails');
      return { most: state.most, pid: process.pid };`,
  },
  concurrency: PLACES,
};

interface Counted {
  readonly most: number;
  readonly pid: number;
}

const gateOf = (t: Parameters<typeof gated>[0], stage: Partial<StageSpec> = {}): Promise<Gated> =>
  gated(t, { concurrency: PLACES, ...stage });

/** Sends so many inputs that the worker holds, and resolves when it has begun them all. */
async function holdMany(gate: Gated, count: number): Promise<Asked[]> {
  return Promise.all(Array.from({ length: count }, (_, n) => hold(gate, `held ${n}`)));
}

const codesOf = async (asked: Asked[]): Promise<string[]> =>
  Promise.all(asked.map(async ({ answer }) => (await answer).code));

const gone = new ModeletError('cancelled', 'the caller went away');

async function mostOverlapping(service: TestService, count: number): Promise<number> {
  const answers = await Promise.all(Array.from({ length: count }, () => service.value<Counted>('a')));
  assert.equal(new Set(answers.map(({ pid }) => pid)).size, 1);
  return Math.max(...answers.map(({ most }) => most));
}

describe('a worker with eight places', () => {
  test('runs eight asynchronous calls at a time, no more, and each fails alone', async (t) => {
    const service = await serve(t, { stages: [COUNTING] });
    assert.equal(await mostOverlapping(service, 20), PLACES);
    const inputs = Array.from({ length: PLACES }, (_, n) => (n === 3 ? 'fails' : 'a'));
    const codes = await Promise.all(inputs.map(async (input) => (await service.answer(input)).code));
    assert.deepEqual(
      codes,
      inputs.map((input) => (input === 'a' ? 'ok' : 'modelet_failed')),
    );
  });

  test('with one place instead, calls do not overlap', async (t) => {
    const service = await serve(t, { stages: [{ ...COUNTING, concurrency: 1 }] });
    assert.equal(await mostOverlapping(service, 5), 1);
  });

  test('gives a place that a short call leaves to the next, while long calls hold the others', async (t) => {
    const gate = await gateOf(t);
    const long = await holdMany(gate, PLACES - 1);
    for (const name of ['a', 'b', 'c']) assert.equal((await gate.service.answer(name)).code, 'ok');
    await until(() => gate.service.stage('gate').busy === PLACES - 1, 'the long calls run on');
    for (const n of long.keys()) release(gate.folder, `held ${n}`);
    assert.deepEqual(await codesOf(long), Array(PLACES - 1).fill('ok'));
  });

  test('killed -9 with eight calls: each fails once with worker_lost, and the next request is served', async (t) => {
    const gate = await gateOf(t);
    const [pid] = (await gate.service.ready())['gate'] as [number];
    const held = await holdMany(gate, PLACES);
    kill9(pid);
    assert.deepEqual(await codesOf(held), Array(PLACES).fill('worker_lost'));
    assert.equal((await gate.service.answer('next')).code, 'ok');
  });

  test('killed -9 with eight calls and retryLost: each runs once more, alone, and none fails', async (t) => {
    const gate = await gateOf(t, { retryLost: true });
    const [pid] = (await gate.service.ready())['gate'] as [number];
    const held = await holdMany(gate, PLACES);
    kill9(pid);
    // Each call runs alone now: the next begins when this one has been let go.
    const again = (): unknown[] => callsIn(gate.folder).slice(PLACES);
    for (let runs = 1; runs <= PLACES; runs += 1) {
      await until(() => again().length === runs, `${runs} run again`);
      release(gate.folder, String(again().at(-1)));
    }
    assert.deepEqual(await codesOf(held), Array(PLACES).fill('ok'));
    assert.equal(new Set(again()).size, PLACES);
  });

  test('kills the worker for the call that runs too long: the others are lost, or run again with retryLost', async (t) => {
    for (const retryLost of [false, true]) {
      const gate = await gateOf(t, { retryLost, runTimeoutMs: LIMIT_MS });
      const stuck = await hold(gate, 'held for ever');
      const later = systemClock.now() + LIMIT_MS / 2;
      await until(() => systemClock.now() > later, 'the others begin so late that their own time is not over');
      const others = await holdMany(gate, 2);
      assert.equal((await stuck.answer).code, 'deadline_exceeded');
      for (const n of others.keys()) release(gate.folder, `held ${n}`);
      assert.deepEqual(await codesOf(others), Array(2).fill(retryLost ? 'ok' : 'worker_lost'));
    }
  });

  test('goes on with the others when one call is cancelled or expires', async (t) => {
    const gate = await gateOf(t);
    const [cancelled, kept] = (await holdMany(gate, 2)) as [Asked, Asked];
    gate.service.service.abandon(cancelled.id, gone);
    const expired = gate.service.ask('held too long', { timeoutMs: 50 });
    assert.equal((await cancelled.answer).code, 'cancelled');
    assert.equal((await expired.answer).code, 'deadline_exceeded');
    release(gate.folder, 'held 1');
    assert.equal((await kept.answer).code, 'ok');
    for (const name of ['held 0', 'held too long']) release(gate.folder, name);
    await until(() => gate.service.stage('gate').busy === 0, 'all places are free');
  });

  test('aborts the signal of the call that nobody waits for any more, and of no other', async (t) => {
    const inline = {
      setup: 'return [];',
      code: `if (input === 'which') return state;
        const { signal } = ctx;
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        state.push(input);
        throw signal.reason;`,
    };
    const service = await serve(t, { stages: [{ id: 'waits', inline, concurrency: PLACES }] });
    const asked = ['cancelled', 'kept'].map((name) => service.ask(name)) as [Asked, Asked];
    assert.deepEqual(await service.value('which'), []);
    service.service.abandon(asked[0].id, gone);
    assert.equal((await service.answer('expired', { timeoutMs: 50 })).code, 'deadline_exceeded');
    await until(() => service.stage('waits').busy === 1, 'both have left their places');
    assert.deepEqual(await service.value('which'), ['cancelled', 'expired']);
    assert.equal(asked[1].settled, null);
    service.service.abandon(asked[1].id, gone);
    await until(() => service.stage('waits').busy === 0, 'no place is held');
  });

  test('a synchronous modelet runs in turn, and the run timeout of each call begins with its own run', async (t) => {
    const inline = 'const end = Date.now() + 60; while (Date.now() < end); return process.pid;';
    const service = await serve(t, { stages: [{ id: 'busy', inline, concurrency: PLACES, runTimeoutMs: 300 }] });
    const answers = await Promise.all(Array.from({ length: 2 * PLACES }, (_, n) => service.answer(n)));
    assert.deepEqual([...new Set(answers.map(({ code }) => code))], ['ok']);
    assert.equal(service.stage('busy').workers[0]?.restarts, 0);
  });

  test('a synchronous call that hangs is blamed alone: those behind it had not begun', async (t) => {
    const inline = 'if (input === 2) for (;;); return input;';
    const service = await serve(t, { stages: [{ id: 'loop', inline, concurrency: PLACES, runTimeoutMs: 500 }] });
    await service.ready();
    const codes = await Promise.all([1, 2, 3, 4, 5].map(async (n) => (await service.answer(n)).code));
    assert.deepEqual(codes, ['ok', 'deadline_exceeded', 'ok', 'ok', 'ok']);
  });

  test('sends several streams beside other calls, and one that nobody reads holds only its own place', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [{ id: 'parts', file: 'parts', init: { folder }, concurrency: 3 }] });
    const parts: string[] = [];
    const unread = service.ask({ endless: true }, { onPart: () => new Promise(() => {}) });
    const streams = ['first', 'second'].map((name) =>
      service.ask({ to: 2, result: name }, { onPart: (_, index) => void parts.push(`${name} ${index}`) }),
    );
    await until(() => parts.length === 2, 'both have begun');
    release(folder, 'part1');
    assert.deepEqual(await Promise.all(streams.map(async ({ answer }) => (await answer).value)), ['first', 'second']);
    assert.deepEqual(parts.toSorted(), ['first 0', 'first 1', 'second 0', 'second 1']);
    assert.deepEqual(await service.value({ to: 1 }), [{ index: 0, pid: service.pids('parts')[0] }]);
    service.service.abandon(unread.id, gone);
    await until(() => service.stage('parts').busy === 0, 'its place is free');
  });

  test('with predict: batch, runs that many batches at a time', async (t) => {
    const gate = await gateOf(t, {
      predict: 'batch',
      concurrency: 2,
      batch: { maxBatchSize: 3, policy: 'oldest', maxWaitMs: 60_000 },
    });
    const asked = ['held', 'a', 'b', 'c', 'd', 'e'].map((name) => gate.service.ask(name));
    assert.deepEqual(await Promise.all(asked.slice(3).map(async ({ answer }) => (await answer).code)), [
      'ok',
      'ok',
      'ok',
    ]);
    assert.deepEqual(callsIn(gate.folder), [
      ['held', 'a', 'b'],
      ['c', 'd', 'e'],
    ]);
    release(gate.folder, 'held');
    assert.deepEqual(await Promise.all(asked.slice(0, 3).map(async ({ answer }) => (await answer).code)), [
      'ok',
      'ok',
      'ok',
    ]);
  });
});

/** One check of a stage at a time, each answered by its deadline, by a clock that the test moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModeletError } from '../../src/core/errors.ts';
import type { CheckResult } from '../../src/core/model.ts';
import { ExampleCheck, type Triable } from '../../src/runtime/engine/pools/example-check.ts';
import { RunTimeout } from '../../src/runtime/engine/pools/pool.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const LIMIT_MS = 100;

class Rig {
  readonly clock: FakeClock = new FakeClock();
  /** Each try of an example by a worker. */
  readonly tried: string[] = [];
  readonly idle: boolean[];
  ready: boolean;
  readonly check: ExampleCheck;
  readonly #workers: readonly Triable[];

  constructor(workers: number, examples: number) {
    this.idle = Array.from({ length: workers }, () => true);
    this.ready = true;
    const { idle, tried } = this;
    this.#workers = idle.map((_, index) => ({
      get hasPlace(): boolean {
        return idle[index] === true;
      },
      examples,
      tryExample: (example) => {
        idle[index] = false;
        tried.push(`${index}:${example}`);
      },
    }));
    this.check = new ExampleCheck({
      clock: this.clock,
      ready: () => (this.ready ? this.#workers : []),
      whyNone: () => 'no worker is there',
      onChange: () => {},
    });
  }

  begin(): Promise<CheckResult> {
    return this.check.begin(this.clock.now() + LIMIT_MS);
  }

  async answer(worker: number, error: ModeletError | null = null): Promise<void> {
    this.idle[worker] = true;
    this.check.tried(error);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const outcome = async (result: Promise<CheckResult>): Promise<string> => {
  const { examples, error } = await result;
  return `${examples} ${error?.code ?? 'ok'}`;
};

test('the check runs one example after the other, each in an idle worker', async () => {
  const rig = new Rig(2, 3);
  rig.idle[0] = false;
  const result = rig.begin();
  await rig.answer(1);
  rig.idle[0] = true;
  await rig.answer(1);
  await rig.answer(0);
  assert.equal(await outcome(result), '3 ok');
  assert.deepEqual(rig.tried, ['1:0', '1:1', '0:2']);
});

test('the check waits if no worker is idle, and takes the first idle one', async () => {
  const rig = new Rig(2, 1);
  rig.idle.fill(false);
  const result = rig.begin();
  assert.equal(rig.check.isWaiting, true);
  rig.idle[1] = true;
  rig.check.advance();
  assert.equal(rig.check.isWaiting, false);
  await rig.answer(1);
  assert.equal(await outcome(result), '1 ok');
});

test('the check passes a stage without examples, even if no worker is idle', async () => {
  const rig = new Rig(1, 0);
  rig.idle[0] = false;
  assert.equal(await outcome(rig.begin()), '0 ok');
});

test('the check ends with the first example that fails', async () => {
  const rig = new Rig(1, 3);
  const result = rig.begin();
  await rig.answer(0);
  await rig.answer(0, new ModeletError('modelet_failed', 'weights are broken'));
  assert.equal(await outcome(result), '2 modelet_failed');
  assert.equal(rig.tried.length, 2);
});

test('a caller that asks while a check runs gets its result', async () => {
  const rig = new Rig(2, 1);
  const results = [rig.begin(), rig.begin(), rig.begin()];
  await rig.answer(0);
  assert.deepEqual(await Promise.all(results.map(outcome)), ['1 ok', '1 ok', '1 ok']);
  assert.equal(rig.tried.length, 1);
});

test('the check fails at once if no worker is ready or the last one dies', async () => {
  const rig = new Rig(1, 1);
  rig.ready = false;
  assert.equal(await outcome(rig.begin()), '0 stage_unavailable');
  rig.ready = true;
  rig.idle[0] = false;
  const result = rig.begin();
  rig.ready = false;
  rig.check.advance();
  assert.equal(await outcome(result), '0 stage_unavailable');
});

test('the check fails if the worker with the example dies', async () => {
  const rig = new Rig(1, 1);
  const killed = rig.begin();
  rig.check.lost(new Error('killed'));
  assert.equal(await outcome(killed), '0 worker_lost');
  rig.idle[0] = true;
  const overrun = rig.begin();
  rig.check.lost(new RunTimeout(50));
  assert.equal(await outcome(overrun), '0 deadline_exceeded');
});

test('the check fails at its deadline if no worker becomes idle, and leaves nothing behind', async () => {
  const rig = new Rig(1, 1);
  rig.idle[0] = false;
  const result = rig.begin();
  rig.clock.advance(LIMIT_MS);
  assert.equal(await outcome(result), '0 deadline_exceeded');
  rig.idle[0] = true;
  rig.check.advance();
  assert.deepEqual(rig.tried, []);
});

test('examples that hang occupy one worker, however many checks start', async () => {
  const rig = new Rig(3, 2);
  for (let n = 0; n < 3; n += 1) {
    const result = rig.begin();
    rig.clock.advance(LIMIT_MS);
    assert.equal(await outcome(result), '0 deadline_exceeded');
  }
  assert.deepEqual(rig.tried, ['0:0']);
  const waiting = rig.begin();
  await rig.answer(0, new ModeletError('modelet_failed', 'of no example any more'));
  assert.deepEqual(rig.tried, ['0:0', '0:0'], 'a waiting caller gets a separate check');
  await rig.answer(0);
  await rig.answer(0);
  assert.equal(await outcome(waiting), '2 ok');
});

test('the next check goes on after the death of an overdue worker', async () => {
  const rig = new Rig(2, 1);
  const late = rig.begin();
  rig.clock.advance(LIMIT_MS);
  assert.equal(await outcome(late), '0 deadline_exceeded');
  const waiting = rig.begin();
  rig.check.lost(new Error('killed'));
  await new Promise((resolve) => setImmediate(resolve));
  await rig.answer(1);
  assert.equal(await outcome(waiting), '1 ok');
});

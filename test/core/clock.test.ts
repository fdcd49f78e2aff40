/** The machine's clock: shared between processes, wakes at the right time, never holds a process open. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, mock, test } from 'node:test';
import { deadlineAfter, systemClock } from '../../src/core/clock.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const CLOCK_MODULE = new URL('../../src/core/clock.js', import.meta.url).href;

// The clock's own timers keep no process alive, this one neither.
const alive = setInterval(() => {}, 1000);
after(() => clearInterval(alive));

test('time goes on and never back', () => {
  let last = systemClock.now();
  for (let reading = 0; reading < 10_000; reading += 1) {
    const now = systemClock.now();
    assert.ok(now >= last);
    last = now;
  }
});

test('another process reads the same time from the clock', () => {
  const script = `import(${JSON.stringify(CLOCK_MODULE)}).then(({ systemClock }) => console.log(systemClock.now()))`;
  const before = systemClock.now();
  const theirs = Number(execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' }));
  assert.ok(before <= theirs && theirs <= systemClock.now(), `${theirs} is not between`);
});

test('timers fire once, in the order of their times, and not during the call', async () => {
  await new Promise((resolve) => setImmediate(resolve));
  const start = systemClock.now();
  const woken: string[] = [];
  systemClock.at(start + 30, () => woken.push('first'));
  await new Promise<void>((resolve) => {
    systemClock.at(start + 100, () => {
      woken.push('second');
      resolve();
    });
  });
  // Node may wake a little early, by what has passed since it last looked at its own clock.
  assert.ok(systemClock.now() - start > 50);
  assert.deepEqual(woken, ['first', 'second']);
});

test('a timer for a past time fires as soon as possible, but not during the call', async () => {
  let called = false;
  const woken = new Promise<void>((resolve) => {
    systemClock.at(systemClock.now() - 1000, () => {
      called = true;
      resolve();
    });
  });
  assert.equal(called, false);
  await woken;
});

test('a cancelled timer does not fire', async () => {
  let woken = false;
  systemClock
    .at(systemClock.now() + 1, () => {
      woken = true;
    })
    .cancel();
  await new Promise<void>((resolve) => systemClock.at(systemClock.now() + 3, resolve));
  assert.equal(woken, false);
});

test('a timer beyond the range of setTimeout, or at Infinity, does not fire early', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    let woken = 0;
    const far = systemClock.at(systemClock.now() + 2 ** 40, () => (woken += 1));
    const never = systemClock.at(Number.POSITIVE_INFINITY, () => (woken += 1));
    mock.timers.tick(2 ** 31);
    assert.equal(woken, 0);
    far.cancel();
    never.cancel();
  } finally {
    mock.timers.reset();
  }
});

test('a pending timer does not keep the process alive', () => {
  const script = `import(${JSON.stringify(CLOCK_MODULE)}).then(({ systemClock }) => systemClock.at(systemClock.now() + 1e9, () => {}))`;
  execFileSync(process.execPath, ['-e', script], { timeout: 60_000 });
});

test('deadlineAfter returns no deadline for 0 and less', () => {
  const clock = new FakeClock(500);
  assert.equal(deadlineAfter(clock, 250), 750);
  assert.equal(deadlineAfter(clock, 0), Number.POSITIVE_INFINITY);
  assert.equal(deadlineAfter(clock, -1), Number.POSITIVE_INFINITY);
});

test('the fake clock fires timers in order, each at its time', () => {
  const clock = new FakeClock(0);
  const fired: string[] = [];
  const note = (name: string) => () => fired.push(`${name}@${clock.now()}`);
  clock.at(30, note('c'));
  clock.at(10, () => {
    note('a')();
    clock.at(20, note('b'));
  });
  const cancelled = clock.at(15, note('x'));
  clock.at(Number.POSITIVE_INFINITY, note('never'));
  cancelled.cancel();
  clock.advance(25);
  assert.deepEqual(fired, ['a@10', 'b@20']);
  assert.equal(clock.now(), 25);
  clock.advance(5);
  assert.deepEqual(fired, ['a@10', 'b@20', 'c@30']);
  assert.equal(clock.pending, 1);
});

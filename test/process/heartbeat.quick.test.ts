/** When a silent process is given up, with a clock that stands still. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { allowedCpus } from '../../src/process/affinity.ts';
import { HEARTBEAT, Heartbeat, waitedMs } from '../../src/process/parent/heartbeat.ts';
import { probeLauncher } from '../../src/process/parent/launch.ts';
import { programPath } from '../../src/process/search-path.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';

const { intervalMs, mostSilent, mostStarved } = HEARTBEAT;

class Watch {
  readonly clock = new FakeClock();
  readonly silences: number[] = [];
  pings = 0;
  waitedMs = 0;
  #moved = false;
  readonly heartbeat = new Heartbeat(
    {
      ping: () => (this.pings += 1),
      hasMoved: () => {
        const moved = this.#moved;
        this.#moved = false;
        return moved;
      },
      waitedMs: () => this.waitedMs,
      onSilent: (seconds) => this.silences.push(seconds),
    },
    this.clock,
  );

  /** The process gives a sign of life. */
  move(): void {
    this.#moved = true;
  }

  /** Lets `count` ticks pass, the loop turning between them. */
  async ticks(count: number, each: () => void = () => {}): Promise<void> {
    for (let tick = 0; tick < count; tick += 1) {
      each();
      this.clock.advance(intervalMs);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

test('a silent process is given up once after its ticks, and no timer stays', async () => {
  const watch = new Watch();
  watch.heartbeat.start();
  await watch.ticks(mostSilent - 1);
  assert.deepEqual(watch.silences, []);
  await watch.ticks(1);
  assert.deepEqual(watch.silences, [(mostSilent * intervalMs) / 1000]);
  assert.equal(watch.pings, mostSilent, 'it was asked before each');
  await watch.ticks(2 * mostSilent);
  assert.equal(watch.silences.length, 1);
  assert.equal(watch.clock.pending, 0);
});

test('a process that waits for a core most of the time has more ticks, and is given up at last', async () => {
  const watch = new Watch();
  const starve = (share: number) => (): void => {
    watch.waitedMs += share * intervalMs;
  };
  watch.heartbeat.start();
  await watch.ticks(mostStarved - 1, starve(0.9));
  await watch.ticks(mostSilent - 1, starve(0.1));
  assert.deepEqual(watch.silences, []);
  watch.move();
  await watch.ticks(mostStarved, starve(0.9));
  assert.deepEqual(watch.silences, []);
  await watch.ticks(1, starve(0.9));
  assert.deepEqual(watch.silences, [(mostStarved * intervalMs) / 1000]);
});

test('the system tells how long a process waits for a core that another one has', async (t) => {
  const cpus = allowedCpus();
  if (!(await probeLauncher(cpus)).taskset) return t.skip('taskset is missing: it is in util-linux');
  const spin = ['-c', String(cpus[0]), process.execPath, '-e', 'for (;;);'];
  const [one, other] = [spawn(programPath('taskset'), spin), spawn(programPath('taskset'), spin)];
  try {
    await until('one has waited for the other', () => waitedMs(one.pid ?? null) > 200);
    assert.equal(waitedMs(null), 0);
  } finally {
    for (const child of [one, other]) child.kill('SIGKILL');
  }
});

test('any sign of life resets the count', async () => {
  const watch = new Watch();
  watch.heartbeat.start();
  for (let round = 0; round < 5; round += 1) {
    await watch.ticks(mostSilent - 1);
    watch.move();
  }
  await watch.ticks(3 * mostSilent, () => watch.move());
  assert.deepEqual(watch.silences, []);
});

test('a blocked loop counts as one tick, after the bytes that waited to be read', async () => {
  const watch = new Watch();
  watch.heartbeat.start();
  await watch.ticks(mostSilent - 1);
  watch.clock.advance(100 * intervalMs);
  // Read by the loop in the same turn as the timer, before the tick.
  watch.move();
  await new Promise((resolve) => setImmediate(resolve));
  await watch.ticks(mostSilent - 2);
  assert.deepEqual(watch.silences, []);
});

test('time without a turn of the loop counts as one tick, however long', async () => {
  const watch = new Watch();
  watch.heartbeat.start();
  for (let times = 0; times < mostSilent - 1; times += 1) {
    watch.clock.advance(10 * mostSilent * intervalMs);
    watch.clock.advance(10 * mostSilent * intervalMs);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(watch.silences, []);
});

test('a heartbeat that stops between or during ticks is silent and leaves no timer', async () => {
  for (const middle of [false, true]) {
    const watch = new Watch();
    watch.heartbeat.start();
    await watch.ticks(mostSilent - 1);
    if (middle) watch.clock.advance(intervalMs);
    watch.heartbeat.stop();
    await watch.ticks(2 * mostSilent);
    assert.deepEqual([watch.silences, watch.clock.pending], [[], 0]);
  }
});

test('a restarted heartbeat counts from the start, with one timer', async () => {
  const watch = new Watch();
  watch.heartbeat.start();
  await watch.ticks(mostSilent - 1);
  watch.heartbeat.start();
  await watch.ticks(mostSilent - 1);
  assert.deepEqual([watch.silences, watch.clock.pending], [[], 1]);
});

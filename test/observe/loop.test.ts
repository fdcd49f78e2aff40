import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { LOOP_INTERVAL_MS, LoopMonitor, type LoopSnapshot } from '../../src/observe/meters/loop.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const BLOCKED_MS = 150;
const PROBED_MS = 30;

/** Moves on by one interval after the other, in each of which the loop has done `what`, until one is as wanted. */
async function intervalThat(
  monitor: LoopMonitor,
  clock: FakeClock,
  what: () => void,
  isWanted: (interval: LoopSnapshot) => boolean,
): Promise<LoopSnapshot> {
  for (;;) {
    // For the probe to come round: it measures from one time to the next.
    await pause(PROBED_MS);
    what();
    await pause(PROBED_MS);
    clock.advance(LOOP_INTERVAL_MS);
    assert.ok(monitor.snapshot);
    if (isWanted(monitor.snapshot)) return monitor.snapshot;
  }
}

function block(): void {
  const end = performance.now() + BLOCKED_MS;
  while (performance.now() < end);
}

describe('the loop monitor', () => {
  test('shows how long the event loop was blocked and how busy it was, for each interval separately', async (t) => {
    const clock = new FakeClock();
    const monitor = new LoopMonitor(clock);
    t.after(() => monitor.stop());
    monitor.start();
    assert.equal(monitor.snapshot, null, 'there is nothing to show before the first interval is over');
    const blocked = await intervalThat(monitor, clock, block, ({ maxMs }) => maxMs > BLOCKED_MS / 2);
    assert.equal(blocked.intervalMs, LOOP_INTERVAL_MS);
    assert.ok(blocked.p99Ms <= blocked.maxMs);
    assert.ok(blocked.utilization > 0 && blocked.utilization <= 1, `utilization ${blocked.utilization}`);
    // An idle process that the system interrupts looks busy for as long.
    const isIdle = ({ maxMs, utilization }: LoopSnapshot): boolean =>
      maxMs < BLOCKED_MS / 2 && utilization < blocked.utilization;
    await intervalThat(monitor, clock, () => {}, isIdle);
  });

  test('leaves no timer after stop, and can start again', () => {
    const clock = new FakeClock();
    const monitor = new LoopMonitor(clock);
    monitor.start();
    monitor.start();
    assert.equal(clock.pending, 1);
    clock.advance(LOOP_INTERVAL_MS);
    assert.notEqual(monitor.snapshot, null);
    monitor.stop();
    assert.equal(clock.pending, 0);
    assert.equal(monitor.snapshot, null);
    monitor.start();
    clock.advance(LOOP_INTERVAL_MS);
    assert.notEqual(monitor.snapshot, null);
    monitor.stop();
  });
});

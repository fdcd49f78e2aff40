/** When a process collects its garbage, with a clock that stands still. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GarbageCollection, processHeap } from '../../src/process/child/entry.ts';
import { HeldBytes } from '../../src/wire/slots/held-bytes.ts';
import { openSlotFile } from '../../src/wire/slots/slot-file.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';

const MEGABYTE = 1024 * 1024;

/** Bytes that a process holds which has served nothing yet. */
const STARTED = 6 * MEGABYTE;

interface Seen {
  collections: number;
  spared: number;
  restored: number;
  sends: boolean;
  live: number;
  garbage: number;
}

function watch(): { clock: FakeClock; memory: GarbageCollection; seen: Seen } {
  const clock = new FakeClock();
  const seen: Seen = { collections: 0, spared: 0, restored: 0, sends: false, live: STARTED, garbage: 0 };
  const heap = {
    usedBytes: (): number => seen.live + seen.garbage,
    spare: (): void => {
      seen.spared += 1;
    },
    restore: (): void => {
      seen.restored += 1;
    },
    collect: (): void => {
      seen.collections += 1;
      seen.garbage = 0;
    },
  };
  return { clock, seen, memory: new GarbageCollection(() => seen.sends, heap, clock) };
}

test('a little traffic causes no collection and no timer', () => {
  const { clock, memory, seen } = watch();
  memory.noteBytes(30 * MEGABYTE);
  seen.garbage = 40 * MEGABYTE;
  assert.equal(clock.pending, 0);
  clock.advance(60_000);
  assert.deepEqual([seen.collections, seen.spared], [0, 0]);
});

test('one collection follows much traffic, when it has ended', () => {
  const { clock, memory, seen } = watch();
  memory.noteBytes(40 * MEGABYTE);
  for (let second = 0; second < 5; second += 1) {
    memory.noteBytes(20 * MEGABYTE);
    clock.advance(1000);
  }
  seen.garbage = 40 * MEGABYTE;
  assert.equal(seen.collections, 0, 'more came each second');
  assert.equal(seen.spared, 6, 'the heap may be another after each second');
  seen.sends = true;
  clock.advance(1000);
  assert.equal(seen.collections, 0, 'something is still to leave');
  seen.sends = false;
  clock.advance(1000);
  assert.deepEqual([seen.collections, seen.restored, clock.pending], [1, 1, 0]);
  clock.advance(60_000);
  assert.equal(seen.collections, 1);
  memory.noteBytes(40 * MEGABYTE);
  seen.garbage = 40 * MEGABYTE;
  clock.advance(2000);
  assert.equal(seen.collections, 2, 'the next much is followed by the next');
});

test('a few small requests do not delay the collection', () => {
  const { clock, memory, seen } = watch();
  memory.noteBytes(40 * MEGABYTE);
  memory.noteBytes(1000);
  seen.garbage = 40 * MEGABYTE;
  clock.advance(1000);
  assert.equal(seen.collections, 1);
});

test('no collection follows much traffic that left little garbage, until several such bursts have left much', () => {
  const { clock, memory, seen } = watch();
  for (const garbage of [12, 24, 31]) {
    memory.noteBytes(40 * MEGABYTE);
    seen.garbage = garbage * MEGABYTE;
    clock.advance(2000);
    assert.deepEqual([seen.collections, clock.pending], [0, 0], `${garbage} MB of garbage`);
  }
  assert.equal(seen.restored, 3, 'V8 decides about its next collection');
  memory.noteBytes(40 * MEGABYTE);
  seen.garbage = 33 * MEGABYTE;
  clock.advance(2000);
  assert.equal(seen.collections, 1);
});

test('live objects are no garbage: a model that stays is collected around once', () => {
  const { clock, memory, seen } = watch();
  seen.live = 500 * MEGABYTE;
  for (let burst = 0; burst < 3; burst += 1) {
    memory.noteBytes(40 * MEGABYTE);
    seen.garbage = 10 * MEGABYTE;
    clock.advance(2000);
  }
  assert.equal(seen.collections, 1, 'the first time nothing tells the model from garbage');
  // The model is unloaded, and V8 collects it by itself.
  seen.live = STARTED;
  seen.garbage = 0;
  memory.noteBytes(40 * MEGABYTE);
  clock.advance(2000);
  seen.garbage = 40 * MEGABYTE;
  memory.noteBytes(40 * MEGABYTE);
  clock.advance(2000);
  assert.equal(seen.collections, 2);
});

test('payloads that were dropped in their slots are garbage, and a collection gives the slots back', async (t) => {
  const { file } = openSlotFile(process.platform === 'linux' ? '/dev/shm' : '/tmp');
  t.after(() => file.close());
  const clock = new FakeClock();
  const memory = new GarbageCollection(() => false, processHeap, clock);
  let holders = 0;
  const slot = {
    hold: () => {
      holders += 1;
    },
    letGo: () => {
      holders -= 1;
    },
  };
  const hold = (bytes: number): HeldBytes => new HeldBytes({ slot, file, at: 0 }, bytes);

  const before = processHeap.usedBytes();
  const freed = hold(500 * MEGABYTE);
  assert.ok(processHeap.usedBytes() - before > 400 * MEGABYTE);
  freed.free();
  assert.ok(processHeap.usedBytes() - before < 100 * MEGABYTE);

  for (let n = 0; n < 20; n += 1) hold(2 * MEGABYTE);
  assert.equal(holders, 20);
  memory.noteBytes(40 * MEGABYTE);
  clock.advance(2000);
  await until('all slots are given back', () => holders === 0);
});

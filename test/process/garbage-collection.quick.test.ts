/** When a process collects its garbage, with a clock that stands still. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GarbageCollection } from '../../src/process/child/entry.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const MEGABYTE = 1024 * 1024;

interface Seen {
  collections: number;
  spared: number;
  sends: boolean;
}

function watch(): { clock: FakeClock; memory: GarbageCollection; seen: Seen } {
  const clock = new FakeClock();
  const seen: Seen = { collections: 0, spared: 0, sends: false };
  const heap = {
    spare: (): void => {
      seen.spared += 1;
    },
    collect: (): void => {
      seen.collections += 1;
    },
  };
  return { clock, seen, memory: new GarbageCollection(() => seen.sends, heap, clock) };
}

test('a little traffic causes no collection and no timer', () => {
  const { clock, memory, seen } = watch();
  memory.noteBytes(30 * MEGABYTE);
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
  assert.equal(seen.collections, 0, 'more came each second');
  assert.equal(seen.spared, 6, 'the heap may be another after each second');
  seen.sends = true;
  clock.advance(1000);
  assert.equal(seen.collections, 0, 'something is still to leave');
  seen.sends = false;
  clock.advance(1000);
  assert.deepEqual([seen.collections, clock.pending], [1, 0]);
  clock.advance(60_000);
  assert.equal(seen.collections, 1);
  memory.noteBytes(40 * MEGABYTE);
  clock.advance(2000);
  assert.equal(seen.collections, 2, 'the next much is followed by the next');
});

test('a few small requests do not delay the collection', () => {
  const { clock, memory, seen } = watch();
  memory.noteBytes(40 * MEGABYTE);
  memory.noteBytes(1000);
  clock.advance(1000);
  assert.equal(seen.collections, 1);
});

/** How many workers a stage has whose number follows its load: the policy, and the measurements that it decides by. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Scaler } from '../../src/runtime/engine/pools/workers/scaler.ts';
import {
  decideSize,
  GROWTH,
  isSpare,
  type Load,
  SHRINKING,
  type SizeLimits,
} from '../../src/runtime/engine/pools/workers/size-policy.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const LIMITS: fc.Arbitrary<SizeLimits> = fc
  .record({
    min: fc.integer({ min: 0, max: 8 }),
    more: fc.integer({ min: 1, max: 8 }),
    idleMs: fc.integer({ min: 1, max: 900_000 }),
  })
  .map(({ min, more, idleMs }) => ({ min, max: min + more, idleMs }));

const MS = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2_000_000 }));
const LOAD: fc.Arbitrary<Load> = fc.record({
  busy: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
  fullMs: MS,
  spareMs: MS,
  idleMs: MS,
  waitMs: fc.option(MS),
});

const COUNT = fc.integer({ min: 0, max: 20 });

test('the policy never leaves the range, changes by one but for the ends of the range, and says why', () => {
  fc.assert(
    fc.property(LOAD, COUNT, COUNT, LIMITS, (load, count, up, limits) => {
      const ready = Math.min(up, count);
      const next = decideSize(load, { count, ready }, limits);
      if (next === null) {
        assert.ok(count >= limits.min && count <= limits.max);
        return;
      }
      assert.ok(next.count >= limits.min && next.count <= limits.max, `${next.count} of ${limits.min}-${limits.max}`);
      assert.ok(next.count !== count && next.reason.length > 0);
      const isEnd = next.count === limits.min || next.count === limits.max;
      assert.ok(isEnd || Math.abs(next.count - count) === 1);
      // Whether workers start at all must be known first.
      if (count >= limits.min && count <= limits.max && count > 0 && ready === 0)
        assert.fail('changed while none is ready');
      if (next.count > count && count >= limits.min && count > 0)
        assert.equal(ready, count, 'the last one has started');
    }),
  );
});

const STEP_MS = 5;

/** A stage of which each item runs for `runMs`; `arrive` adds items, `go` lets time pass. */
class Model {
  readonly clock: FakeClock = new FakeClock();
  readonly changes: string[] = [];
  readonly scaler: Scaler;
  most = 0;
  maySwitch = true;
  keys: number[] = [];
  readonly #runMs: number;
  readonly #startMs: number;
  #workers: { readyAt: number; freeAt: number; ran: number }[] = [];
  #queue: number[] = [];

  constructor(limits: SizeLimits, runMs: number, startMs = 300) {
    this.#runMs = runMs;
    this.#startMs = startMs;
    const { clock } = this;
    this.scaler = new Scaler(limits, undefined, {
      clock,
      demand: { oldestAt: () => this.#queue[0] ?? null, keysAt: (worker) => this.keys[worker] ?? 0 },
      workers: () =>
        this.#workers.map(({ readyAt, freeAt, ran }) => ({
          process: { isReady: readyAt <= clock.now() },
          load: freeAt > clock.now() ? 1 : 0,
          facts: { batchesRun: ran },
        })),
      concurrency: () => 1,
      maySwitch: () => this.maySwitch,
      onResized: (count, message) => {
        for (const worker of this.#workers.slice(count)) assert.ok(worker.freeAt <= clock.now(), 'it had no item');
        this.#resize(count);
        this.changes.push(message);
      },
    });
    this.#resize(this.scaler.count);
  }

  get count(): number {
    return this.#workers.length;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  arrive(count = 1): void {
    for (let n = 0; n < count; n += 1) this.#queue.push(this.clock.now());
    this.#work();
  }

  /** @param everyMs time between two arrivals; 0: none arrives */
  go(ms: number, everyMs = 0): void {
    const until = this.clock.now() + ms;
    let next = this.clock.now() + everyMs;
    while (this.clock.now() < until) {
      this.clock.advance(STEP_MS);
      for (; everyMs > 0 && next <= this.clock.now(); next += everyMs) this.#queue.push(next);
      this.#work();
    }
  }

  #work(): void {
    const now = this.clock.now();
    if (this.#queue.length > 0) this.scaler.wake();
    for (const worker of this.#workers) {
      if (worker.readyAt <= now) this.scaler.woke();
      // A worker that ended its run within the step begins the next one at once.
      while (this.#queue.length > 0 && worker.readyAt <= now && worker.freeAt <= now) {
        this.#queue.shift();
        worker.freeAt = Math.max(worker.freeAt, now - STEP_MS) + this.#runMs;
        worker.ran += 1;
      }
    }
  }

  #resize(count: number): void {
    this.#workers = this.#workers.slice(0, count);
    const readyAt = this.clock.now() + this.#startMs;
    while (this.#workers.length < count) this.#workers.push({ readyAt, freeAt: 0, ran: 0 });
    this.most = Math.max(this.most, count);
  }
}

const IDLE_MS = 60_000;

describe('a stage that has 0-4 workers', () => {
  const started = (limits: Partial<SizeLimits> = {}, runMs = 100): Model => {
    const model = new Model({ min: 0, max: 4, idleMs: IDLE_MS, ...limits }, runMs);
    model.go(1000);
    return model;
  };

  test('starts one, falls asleep, and wakes at once for a request', () => {
    const model = started();
    assert.deepEqual([model.count, model.scaler.isAsleep], [1, false]);
    model.go(IDLE_MS);
    assert.deepEqual([model.count, model.scaler.isAsleep], [0, true]);
    assert.equal(model.clock.pending, 0, 'nothing wakes the engine');
    model.arrive();
    assert.deepEqual([model.count, model.scaler.isAsleep], [1, true], 'it counts as ready while it wakes');
    model.go(1000);
    assert.deepEqual([model.waiting, model.scaler.isAsleep], [0, false]);
    assert.deepEqual(model.changes, ['asleep: no request for 60 s', 'woke: a request came']);
  });

  test('stays awake while short requests come that no look sees', () => {
    const model = started({}, 1);
    model.go(5 * IDLE_MS, 10_007);
    assert.deepEqual([model.count, model.changes], [1, []]);
  });

  test('adds workers under load, one after the other, and no more than it may have', () => {
    const model = started();
    model.go(8000, 95);
    assert.equal(model.count, 2);
    assert.match(
      model.changes[0] ?? '',
      /^added a worker: (?:9\d|100) % busy for 5 s$|^added a worker: a request has waited/,
    );
    model.go(60_000, 20);
    assert.equal(model.count, 4);
    model.go(20_000);
    model.go(120_000, 20);
    assert.equal(model.most, 4);
  });

  test('adds a worker for a request that waits long behind long runs', () => {
    const model = started({}, 20_000);
    model.arrive(2);
    model.go(3000);
    assert.equal(model.count, 2);
    assert.match(model.changes[0] ?? '', /^added a worker: a request has waited for 1\.?\d* s$/);
  });

  test('adds none for items that wait for their batch beside a free worker', () => {
    const load: Load = { busy: 0.5, fullMs: 0, spareMs: 0, idleMs: 0, waitMs: 60_000 };
    assert.equal(decideSize(load, { count: 1, ready: 1 }, { min: 0, max: 4, idleMs: IDLE_MS }), null);
  });

  test('gives workers back one after the other when fewer would do', () => {
    const model = started();
    model.go(60_000, 26);
    assert.equal(model.count, 4);
    model.go(30_000);
    model.go(4 * IDLE_MS, 400);
    assert.equal(model.count, 1);
    assert.match(model.changes.at(-1) ?? '', /^ended a worker: 1 would have been enough for 60 s$/);
  });

  test('keeps workers that have keys, and changes nothing while the circuit decides', () => {
    const model = started();
    model.keys = [1];
    model.go(2 * IDLE_MS);
    assert.equal(model.count, 1);
    model.keys = [];
    model.maySwitch = false;
    model.go(2 * IDLE_MS);
    assert.equal(model.count, 1);
    model.maySwitch = true;
    model.go(1000);
    assert.equal(model.count, 0);
  });

  test('follows another range at once', () => {
    const model = started();
    model.scaler.redefine({ min: 2, max: 3, idleMs: IDLE_MS });
    assert.deepEqual([model.count, model.changes], [2, ['added a worker: it has at least 2']]);
    model.go(1000);
    model.scaler.redefine({ min: 0, max: 1, idleMs: IDLE_MS });
    assert.equal(model.count, 1);
  });
});

test('under a steady load, workers stop coming and going', () => {
  const rate = fc.integer({ min: 20, max: 400 });
  fc.assert(
    fc.property(rate, fc.integer({ min: 20, max: 300 }), (everyMs, runMs) => {
      const model = new Model({ min: 0, max: 6, idleMs: 31_000 }, runMs);
      model.go(120_000, everyMs);
      const { count } = model;
      const settled = model.changes.length;
      model.go(120_000, everyMs);
      // A stage that was a little too large after the start may still give a worker back.
      const changes = model.changes.slice(settled);
      assert.ok(changes.length <= 1, `${count} workers, then ${changes.join('; ')}`);
    }),
    { numRuns: 15 },
  );
});

test('a worker that has just ended is not missed: the thresholds lie apart', () => {
  for (let ready = 2; ready <= 256; ready += 1) {
    const busy = (SHRINKING.busy * (ready - 1)) / ready - 1e-9;
    assert.ok(isSpare(busy, ready) && (busy * ready) / (ready - 1) < GROWTH.busy);
  }
});

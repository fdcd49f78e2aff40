/** A window that finds the capacity of what is behind it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LeaseEnd } from '../../../src/gate/source.ts';
import { type AimdOptions, AimdSource } from '../../../src/gate/sources/aimd.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { sampleFrom } from '../../fixtures/sources.ts';

const DONE: LeaseEnd = { kind: 'done' };
const REFUSED: LeaseEnd = { kind: 'refused', retryAfterMs: 0 };

const OPTIONS: AimdOptions = {
  minWindow: 1,
  maxWindow: 256,
  increase: 1,
  decreaseFactor: 0.5,
  holdMs: 1000,
  baseline: 0,
};

class Window {
  readonly clock: FakeClock = new FakeClock();
  readonly source: AimdSource;
  told = 0;

  constructor(options: Partial<AimdOptions> = {}) {
    this.source = new AimdSource({ ...OPTIONS, ...options }, this.clock);
    this.source.watch(() => {
      this.told += 1;
    });
  }

  /** So many leases that were admitted at a time end, all that was in flight. */
  end(how: LeaseEnd, count = 1, admittedAt: number = this.clock.now(), inFlightCost: number = count): void {
    for (let left = count; left > 0; left -= 1) this.source.ended(how, { admittedAt, cost: 1, inFlightCost });
  }

  /** A full window of requests that were admitted now succeeds. */
  async fill(): Promise<void> {
    this.end(DONE, Math.floor(await this.size()));
  }

  async size(): Promise<number> {
    return (await sampleFrom(this.source)).maxSys ?? Number.NaN;
  }

  async isOpen(): Promise<boolean> {
    return (await sampleFrom(this.source)).budget === 1;
  }
}

/** A window of this size whose slow start has ended with a refusal, open again. */
async function refusedAt(size: number, options: Partial<AimdOptions> = {}): Promise<Window> {
  const window = new Window(options);
  while ((await window.size()) < size / (options.decreaseFactor ?? 0.5)) await window.fill();
  window.end(REFUSED);
  window.clock.advance(OPTIONS.holdMs + 1);
  assert.equal(await window.size(), size);
  return window;
}

describe('the AIMD window', () => {
  test('is max_SYS, free but for the baseline, and counts all that is in flight', async () => {
    const { source, clock } = new Window({ minWindow: 4 });
    assert.deepEqual(await sampleFrom(source), { budget: 1, at: clock.now(), maxSys: 4, fixed: true, raw: 'window 4' });
  });

  test('doubles with each window of successes until the first refusal', async () => {
    const window = new Window();
    const sizes: number[] = [];
    for (let turn = 0; turn < 10; turn += 1) {
      sizes.push(await window.size());
      await window.fill();
    }
    assert.deepEqual(sizes, [1, 2, 4, 8, 16, 32, 64, 128, 256, 256]);
  });

  test('grows by `increase` with each window of successes afterwards', async () => {
    const window = await refusedAt(16, { increase: 2 });
    await window.fill();
    const size = await window.size();
    assert.ok(size > 17.8 && size <= 18, `${size}`);
  });

  test('shrinks by `decreaseFactor`, once for a group of refusals, and not below `minWindow`', async () => {
    const window = await refusedAt(16, { minWindow: 4 });
    const admittedAt = window.clock.now();
    window.clock.advance(10);
    window.end(REFUSED, 5, admittedAt, 16);
    assert.equal(await window.size(), 8);
    window.clock.advance(2000);
    // Late, but of the same flight.
    window.end(REFUSED, 3, admittedAt, 8);
    assert.equal(await window.size(), 8);
    assert.equal(await window.isOpen(), true);
    window.end(REFUSED);
    assert.equal(await window.size(), 4);
    window.clock.advance(2000);
    window.end(REFUSED);
    assert.equal(await window.size(), 4);
  });

  test('learns nothing from the requests of a refused window, nor from errors, cancelled and lost requests', async () => {
    const window = await refusedAt(16);
    window.end(DONE, 16, window.clock.now() - 1001);
    for (const kind of ['failed', 'cancelled', 'lost'] as const) window.end({ kind }, 16);
    assert.equal(await window.size(), 16);
  });

  test('does not grow while less than half of it is in use', async () => {
    const window = new Window({ minWindow: 16 });
    for (let turn = 0; turn < 100; turn += 1) window.end(DONE, 1, window.clock.now(), 7);
    assert.equal(await window.size(), 16);
    window.end(DONE, 1, window.clock.now(), 8);
    assert.equal(await window.size(), 17);
  });

  test('grows without use of the share that the baseline keeps free', async () => {
    const window = new Window({ minWindow: 16, baseline: 0.75 });
    window.end(DONE, 1, window.clock.now(), 2);
    assert.equal(await window.size(), 17);
  });

  test('counts in the unit of the gate', async () => {
    const window = new Window({ minWindow: 100, maxWindow: 1e6 });
    window.source.ended(DONE, { admittedAt: window.clock.now(), cost: 60, inFlightCost: 60 });
    assert.equal(await window.size(), 160);
  });

  test('is closed for `holdMs` after a refusal, or for as long as Retry-After says', async () => {
    const window = new Window({ minWindow: 8 });
    window.end(REFUSED);
    assert.equal((await sampleFrom(window.source)).raw, 'window 8, held for 1000 ms after a refusal');
    window.clock.advance(999);
    assert.equal(await window.isOpen(), false);
    window.clock.advance(1);
    assert.equal(await window.isOpen(), true);

    const admittedAt = window.clock.now();
    window.clock.advance(1);
    window.end({ kind: 'refused', retryAfterMs: 5000 }, 1, admittedAt);
    // From the same window: a shorter hold changes nothing, a longer one applies.
    window.end({ kind: 'refused', retryAfterMs: 100 }, 1, admittedAt);
    window.end(REFUSED, 1, admittedAt);
    window.clock.advance(4999);
    assert.equal(await window.isOpen(), false);
    window.end({ kind: 'refused', retryAfterMs: 3000 }, 1, admittedAt);
    window.clock.advance(2999);
    assert.equal(await window.isOpen(), false);
    window.clock.advance(1);
    assert.equal(await window.isOpen(), true);
  });

  test('reports when it has room for one more request, when it shrinks, and when a hold ends', async () => {
    const window = new Window({ minWindow: 2 });
    window.end(DONE, 1, window.clock.now(), 2);
    assert.equal(window.told, 1);
    window.end(REFUSED);
    assert.equal(window.told, 2);
    window.clock.advance(1000);
    assert.equal(window.told, 3);
    window.clock.advance(1);
    // A third of a place.
    window.end(DONE, 1, window.clock.now(), 2);
    assert.equal(window.told, 3 + (Math.floor(await window.size()) > 2 ? 1 : 0));
    window.end(REFUSED);
    await window.source.close();
    assert.equal(window.clock.pending, 0);
  });
});

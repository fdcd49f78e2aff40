/** When a source is read, and what becomes of a reading. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Sampler } from '../../src/gate/sampler.ts';
import type { Reading } from '../../src/gate/source.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { ToldSource } from './stand-in.ts';

class Bed {
  readonly clock = new FakeClock();
  readonly source = new ToldSource();
  readonly readings: Reading[] = [];
  readonly sampler = new Sampler({
    source: this.source,
    clock: this.clock,
    intervalMs: 1000,
    onReading: (reading) => this.readings.push(reading),
  });

  get reads(): number {
    return this.source.signals.length;
  }

  answer(budget = 1): Promise<void> {
    return this.source.answer({ ok: true, sample: { budget, at: this.clock.now() } });
  }
}

describe('a sampler', () => {
  test('reads at once, and then from the start of one reading to the next at each interval', async () => {
    const bed = new Bed();
    assert.equal(bed.reads, 1);
    bed.clock.advance(300);
    await bed.answer();
    bed.clock.advance(699);
    assert.equal(bed.reads, 1);
    bed.clock.advance(1);
    assert.equal(bed.reads, 2);
    assert.equal(bed.readings.length, 1);
  });

  test('never reads twice at a time, and reads again at once after a slow reading', async () => {
    const bed = new Bed();
    bed.clock.advance(10_000);
    assert.equal(bed.reads, 1);
    await bed.answer();
    bed.clock.advance(0);
    assert.equal(bed.reads, 2);
  });

  test('reads when the source reports a change', async () => {
    const bed = new Bed();
    await bed.answer();
    bed.source.changed();
    assert.equal(bed.reads, 2);
    bed.source.changed();
    bed.source.changed();
    assert.equal(bed.reads, 2, 'one reading at a time');
    await bed.answer();
    assert.equal(bed.reads, 3, 'what has changed while it read is read');
    await bed.answer();
    assert.equal(bed.reads, 3);
    assert.equal(bed.readings.length, 3);
  });

  test('goes on if a source rejects against its contract', async () => {
    const bed = new Bed();
    bed.source.read = () => Promise.reject(new Error('no route to host'));
    await bed.answer();
    bed.clock.advance(1000);
    await setImmediate();
    assert.deepEqual(bed.readings.at(-1), { ok: false, reason: 'the test: no route to host' });
    bed.source.read = () => {
      throw new TypeError('not even a promise');
    };
    bed.clock.advance(1000);
    await setImmediate();
    assert.deepEqual(bed.readings.at(-1), { ok: false, reason: 'the test: not even a promise' });
  });

  test('cancels its reading on close, reports nothing, and reads no more', async () => {
    const bed = new Bed();
    await bed.sampler.close();
    assert.equal(bed.source.signals[0]?.aborted, true);
    bed.source.changed();
    bed.clock.advance(5000);
    await setImmediate();
    assert.deepEqual([bed.reads, bed.readings.length, bed.clock.pending], [1, 0, 0]);
  });

  test('takes another interval from the next reading on', async () => {
    const bed = new Bed();
    bed.sampler.setInterval(200);
    await bed.answer();
    bed.clock.advance(200);
    assert.equal(bed.reads, 2);
  });
});

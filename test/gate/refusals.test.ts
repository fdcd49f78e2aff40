/** A gate reacts to refusals of the system behind it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EndedLease, LeaseEnd } from '../../src/gate/source.ts';
import { AdmissionBed } from './admission-bed.ts';

const REFUSED: LeaseEnd = { kind: 'refused', retryAfterMs: 0 };

describe('a refusal of the system behind it', () => {
  test('closes the gate until a newer sample', () => {
    const bed = new AdmissionBed();
    bed.clock.advance(1000);
    bed.sample(1);
    const [first, second] = bed.all();
    bed.clock.advance(10);
    bed.admission.end(String(first), REFUSED);
    assert.deepEqual(bed.all(), []);
    bed.sample(1);
    assert.deepEqual(bed.all(), [], 'a sample of the same moment is not newer');
    bed.clock.advance(10);
    bed.sample(1, { at: bed.clock.now() - 15 });
    assert.deepEqual(bed.all(), [], 'a sample from before, read after');
    assert.match(bed.admission.why(), /^closed: .* refused a request 0 s ago; opens with a sample newer than that$/);
    bed.sample(1);
    assert.equal(bed.all().length, 1);
    bed.admission.end(String(second), REFUSED);
    assert.deepEqual(bed.all(), [], 'every refusal does');
  });

  test('closes the gate for the requested time, and the gate opens by itself then', () => {
    const bed = new AdmissionBed({ staleMs: '60000' });
    bed.sample(1);
    const [first] = bed.all();
    let told = 0;
    bed.admission.end(String(first), { kind: 'refused', retryAfterMs: 8000 });
    bed.admission.onRoom(() => {
      told += 1;
    });
    assert.match(bed.admission.why(), /opens with a sample newer than that, not before 8 s from now, as it asked$/);
    bed.clock.advance(2000);
    bed.sample(1);
    assert.equal(told, 1);
    assert.deepEqual(bed.all(), []);
    assert.match(bed.admission.why(), /refused a request 2 s ago; opens 6 s from now, as it asked$/);
    bed.clock.advance(5999);
    assert.deepEqual(bed.all(), []);
    bed.clock.advance(1);
    assert.equal(told, 2);
    assert.equal(bed.all().length, 1);
  });

  test('does not shorten the time that an earlier refusal requested', () => {
    const bed = new AdmissionBed({ staleMs: '60000' });
    bed.sample(1);
    const [first, second] = bed.all();
    bed.admission.end(String(first), { kind: 'refused', retryAfterMs: 9000 });
    bed.clock.advance(1000);
    bed.admission.end(String(second), { kind: 'refused', retryAfterMs: 1000 });
    bed.clock.advance(7999);
    bed.sample(1);
    assert.deepEqual(bed.all(), []);
    bed.clock.advance(1);
    assert.equal(bed.all().length, 2);
  });

  test('with an absurd time closes the gate for an hour, and with an unreadable time counts as without a time', () => {
    const hours = new AdmissionBed({ staleMs: '86400000', leaseMs: '86400000' });
    hours.sample(1);
    hours.admission.end(String(hours.all()[0]), { kind: 'refused', retryAfterMs: 1e15 });
    hours.clock.advance(60 * 60 * 1000);
    hours.sample(1);
    assert.equal(hours.all().length, 1);
    for (const retryAfterMs of [Number.NaN, -5]) {
      const bed = new AdmissionBed();
      bed.sample(1);
      bed.admission.end(String(bed.all()[0]), { kind: 'refused', retryAfterMs });
      bed.clock.advance(1);
      bed.sample(1);
      assert.equal(bed.all().length, 1);
    }
  });

  test('reaches the source like every end, with the cost in flight', () => {
    const bed = new AdmissionBed();
    bed.sample(0.2);
    const [first] = bed.all();
    bed.admission.end(String(first), REFUSED);
    const [[end, lease]] = bed.ends as [[LeaseEnd, EndedLease]];
    assert.deepEqual(end, REFUSED);
    assert.deepEqual([lease.cost, lease.inFlightCost, lease.admittedAt], [1, 2, bed.clock.now()]);
  });
});

/** Admission at a gate: samples and their age, requests in flight, sizes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LeaseEnd } from '../../src/gate/source.ts';
import { AdmissionBed } from './admission-bed.ts';

const DONE: LeaseEnd = { kind: 'done' };

describe('a sample', () => {
  test('admits N requests beyond those that it certainly includes', () => {
    const bed = new AdmissionBed({ lagMs: '1000' });
    bed.sample(0.4);
    assert.equal(bed.all().length, 4);
    // Half a second later the system says that 4 are free: it may not have seen any of those 4 by then.
    bed.clock.advance(500);
    bed.sample(0.4);
    assert.equal(bed.all().length, 0);
    // By now it has.
    bed.clock.advance(1001);
    bed.sample(0.4);
    assert.equal(bed.all().length, 4);
    assert.equal(bed.admission.inFlight, 8);
  });

  test('admits no more however often the gate reads it', () => {
    const bed = new AdmissionBed();
    const at = bed.clock.now();
    for (let read = 0; read < 5; read += 1) {
      bed.sample(0.3, { at });
      bed.all();
      bed.clock.advance(1000);
    }
    assert.equal(bed.admission.inFlight, 3);
  });

  test('makes room for each request that has ended since', () => {
    const bed = new AdmissionBed();
    bed.sample(0.3);
    const [first] = bed.all();
    bed.admission.end(String(first), DONE);
    assert.equal(bed.admission.room(), 1);
    assert.equal(bed.all().length, 1);
  });

  test('counts with its own lag if that is shorter', () => {
    const bed = new AdmissionBed({ lagMs: '5000' });
    bed.sample(0.4);
    bed.all();
    bed.clock.advance(500);
    bed.sample(0.4, { lagMs: 100 });
    assert.equal(bed.all().length, 4);
    bed.clock.advance(500);
    bed.sample(0.4, { lagMs: 60_000 });
    assert.equal(bed.all().length, 0);
  });

  test('limits all requests in flight to N if it does not depend on them', () => {
    const bed = new AdmissionBed();
    for (let read = 0; read < 4; read += 1) {
      bed.sample(0.5, { fixed: true });
      bed.all();
      bed.clock.advance(2000);
    }
    assert.equal(bed.admission.inFlight, 5);
  });

  test('is ignored if it is older than the last one', () => {
    const bed = new AdmissionBed();
    bed.clock.advance(1000);
    bed.sample(0.1);
    bed.sample(1, { at: bed.clock.now() - 1 });
    assert.equal(bed.all().length, 1);
  });

  test('admits nothing once it is older than staleMs', () => {
    const bed = new AdmissionBed({ staleMs: '5000' });
    bed.sample(1);
    bed.clock.advance(5000);
    assert.equal(bed.admission.room(), 10);
    bed.clock.advance(2000);
    assert.deepEqual(bed.all(), []);
    assert.equal(bed.admission.why(), 'closed: sample 7 s old, older than 5 s; opens when the test answers');
  });

  test('closes the gate until the next one if it cannot be read or is not a number', () => {
    const bed = new AdmissionBed();
    bed.sample(1);
    bed.admission.accept({ ok: false, reason: 'Prometheus answered 502' });
    assert.deepEqual(bed.all(), []);
    assert.equal(bed.admission.why(), 'closed: Prometheus answered 502; opens when the test gives a number');
    bed.sample(Number.NaN, { raw: 'saturation NaN' });
    assert.deepEqual(bed.all(), []);
    assert.equal(bed.admission.why(), 'closed: saturation NaN is no number; opens when the test gives a number');
    bed.sample(1);
    assert.equal(bed.all().length, 10);
  });

  test('never allows more than max_SYS x (1 - B) in flight, whatever its value', () => {
    const bed = new AdmissionBed({ maxSys: '100', baseline: '0.2' });
    for (let read = 0; read < 5; read += 1) {
      bed.sample(1);
      bed.all();
      bed.clock.advance(2000);
    }
    assert.equal(bed.admission.inFlight, 80);
    assert.match(
      bed.admission.why(),
      /^open: full, 80 requests in flight of max_SYS x \(1 - B\) = 80; admits when one/,
    );
  });

  test('closes the gate if D is at most B', () => {
    const bed = new AdmissionBed({ baseline: '0.5' });
    bed.sample(0.5, { raw: 'saturation 0.5' });
    assert.deepEqual(bed.all(), []);
    assert.equal(
      bed.admission.why(),
      'closed: 50 % free, 50 % kept (saturation 0.5); opens when more than 50 % is free',
    );
  });

  test('frees only the ended requests that it certainly includes', () => {
    const bed = new AdmissionBed({ baseline: '0.1', maxSys: '20', lagMs: '100' });
    bed.sample(1);
    const ids = bed.all();
    assert.equal(ids.length, 18);
    bed.clock.advance(1000);
    // 18 by itself, and 1 by another sender.
    bed.sample(0.05);
    assert.deepEqual(bed.all(), []);
    bed.admission.end(String(ids[0]), DONE);
    assert.deepEqual(bed.all(), [], 'the place that is free now is the one too many');
    bed.admission.end(String(ids[1]), DONE);
    assert.match(
      bed.admission.why(),
      /^open: room for 1 request, .* x \(D 0.15 - B 0.1\), of which 0.1 has ended since/,
    );
    assert.equal(bed.all().length, 1);
    assert.equal(bed.admission.inFlight, 17);
  });

  test('makes no room for ended requests before the next sample if nothing was free', () => {
    const bed = new AdmissionBed({ baseline: '0.1', lagMs: '100' });
    bed.sample(1);
    const ids = bed.all();
    bed.clock.advance(1000);
    bed.sample(-0.5);
    for (const id of ids) bed.admission.end(id, DONE);
    assert.deepEqual(bed.all(), []);
    bed.sample(0.2);
    assert.equal(bed.all().length, 1);
  });
});

describe('max_SYS', () => {
  test('is the present number of ready workers x maxConcurrency by default', () => {
    const bed = new AdmissionBed({ maxSys: '', maxConcurrency: '3' });
    bed.sample(1);
    assert.deepEqual(bed.all(), []);
    assert.equal(bed.admission.why(), 'closed: max_SYS is 0; opens when a worker is ready');
    bed.ready = 2;
    assert.equal(bed.all().length, 6);
  });

  test('is the value of the source, and at most the setting', () => {
    const free = new AdmissionBed({ maxSys: '' });
    free.sample(1, { maxSys: 4 });
    assert.equal(free.all().length, 4);
    const set = new AdmissionBed({ maxSys: '3' });
    set.sample(1, { maxSys: 4 });
    assert.equal(set.all().length, 3);
  });
});

describe('in bytes', () => {
  const bytes = { unit: 'bytes', maxSys: String(1024 * 1024), baseline: '0.1' };

  test('the gate admits 600 KiB, and 100 KiB more wait', () => {
    const bed = new AdmissionBed(bytes);
    bed.sample(0.7);
    assert.ok(bed.admission.take(600 * 1024));
    assert.equal(bed.admission.take(100 * 1024), null);
    assert.equal(bed.admission.inFlightCost, 600 * 1024);
  });

  test('a request larger than the whole budget runs alone', () => {
    const bed = new AdmissionBed(bytes);
    bed.sample(0.3);
    const small = bed.admission.take(10);
    assert.equal(bed.admission.take(4e6), null);
    bed.admission.end(String(small?.id), DONE);
    assert.ok(bed.admission.take(4e6));
    assert.match(bed.admission.why(), /^open: one request of 4000000 bytes is in flight alone/);
    assert.equal(bed.admission.take(1), null);
  });

  test('without at-least-one a larger request runs alone only if it never could otherwise', () => {
    const bed = new AdmissionBed({ ...bytes, atLeastOne: false });
    bed.sample(0.3);
    assert.equal(bed.admission.take(500_000), null);
    assert.ok(bed.admission.take(1e6));
  });

  test('a gate with N below one and at-least-one off is closed', () => {
    const bed = new AdmissionBed({
      unit: 'tokens',
      costProperty: 't',
      maxSys: '10',
      baseline: '0.1',
      atLeastOne: false,
    });
    bed.sample(0.15);
    assert.equal(bed.admission.take(1), null);
    assert.equal(bed.admission.why(), 'closed: 10 x (D 0.15 - B 0.1) is less than one; opens when D rises');
  });

  test('the sum of fractional costs returns to 0', () => {
    const bed = new AdmissionBed({ unit: 'tokens', costProperty: 't', maxSys: '1' });
    bed.sample(1);
    const ids = [0.1, 0.2, 0.3, 0.1, 0.2, 0.1].map((cost) => String(bed.admission.take(cost)?.id));
    assert.ok(!ids.includes('undefined'), 'together they are 1');
    for (const id of ids) bed.admission.end(id, DONE);
    assert.equal(bed.admission.inFlightCost, 0);
  });
});

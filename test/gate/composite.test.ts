/** Gates made of gates. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LeaseEnd } from '../../src/gate/source.ts';
import { AdmissionBed } from './admission-bed.ts';
import { settings } from './stand-in.ts';

const DONE: LeaseEnd = { kind: 'done' };
const REFUSED: LeaseEnd = { kind: 'refused', retryAfterMs: 0 };

describe('a composite', () => {
  test('takes a lease of every member or of none, and returns all at once', () => {
    const one = new AdmissionBed();
    const other = new AdmissionBed({}, { id: 'b', clock: one.clock });
    const all = one.composite([one, other]);
    one.sample(0.5);
    assert.deepEqual(all.all(), []);
    assert.deepEqual([one.admission.inFlight, other.admission.inFlight], [0, 0]);
    other.sample(0.2);
    assert.equal(all.admission.room(), 2);
    const ids = all.all();
    assert.deepEqual([ids.length, one.admission.inFlight, other.admission.inFlight], [2, 2, 2]);
    assert.equal(all.admission.why(), `by the gate "b": ${other.admission.why()}`);
    assert.equal(all.admission.end(String(ids[0]), DONE), true);
    assert.equal(all.admission.end(String(ids[0]), DONE), false);
    assert.deepEqual([one.admission.inFlight, other.admission.inFlight, one.ends.length], [1, 1, 1]);
  });

  test('shares its members with their own requests, and learns when they have room', () => {
    const one = new AdmissionBed();
    const all = one.composite([one]);
    one.sample(0.3);
    const own = one.all();
    assert.equal(all.admission.take(1), null);
    let told = 0;
    all.admission.onRoom(() => {
      told += 1;
    });
    one.admission.end(String(own[0]), DONE);
    assert.equal(told, 1);
    assert.ok(all.admission.take(1));
  });

  test('a refusal and a lost lease count for every member', () => {
    const one = new AdmissionBed();
    const all = one.composite([one], { leaseMs: '1000' });
    one.sample(1);
    const [first, second] = all.all();
    all.admission.end(String(first), REFUSED);
    assert.match(all.admission.why(), /^by the gate "a": closed: the system behind it refused/);
    one.clock.advance(1000);
    assert.deepEqual([one.admission.inFlight, all.admission.inFlight], [0, 0]);
    assert.equal(all.admission.end(String(second), DONE), false);
  });

  test('takes one lease of a member that it contains twice', () => {
    const one = new AdmissionBed();
    const pair = one.composite([one]);
    const all = new AdmissionBed({}, { id: 'top', clock: one.clock });
    all.admission.reconfigure('top', settings(), [one.admission, pair.admission]);
    one.sample(0.1);
    const [id] = all.all();
    assert.deepEqual([one.admission.inFlight, pair.admission.inFlight], [1, 1]);
    all.admission.end(String(id), DONE);
    assert.deepEqual([one.admission.inFlight, pair.admission.inFlight], [0, 0]);
  });

  test('is refused if it contains itself or counts another unit than a member', () => {
    const one = new AdmissionBed();
    const all = one.composite([one]);
    const refuses = (what: () => void, text: RegExp): void => {
      assert.throws(
        what,
        (error: Error & { code?: string }) => error.code === 'config_invalid' && text.test(error.message),
      );
    };
    refuses(() => one.admission.reconfigure('a', settings(), [all.admission]), /leads back to this one/);
    refuses(() => one.admission.reconfigure('a', settings(), [one.admission]), /leads back to this one/);
    const tokens = new AdmissionBed({ unit: 'tokens', costProperty: 't' });
    refuses(() => one.composite([tokens]), /"a" counts tokens, this gate requests/);
    const [counting, sized] = [new AdmissionBed({ maxSys: '2' }), { unit: 'tokens', costProperty: 't' }];
    const mixed = counting.composite([counting], sized);
    counting.sample(1);
    assert.equal(mixed.admission.room(), Number.POSITIVE_INFINITY);
    assert.equal(mixed.all(500).length, 2);
    assert.deepEqual([counting.admission.inFlightCost, mixed.admission.inFlightCost], [2, 1000]);
  });

  test('closes and opens with a message that closes or opens a member', () => {
    const one = new AdmissionBed();
    const all = one.composite([one]);
    one.sample(1);
    one.admission.control('close');
    assert.equal(all.admission.take(1), null);
    assert.match(all.admission.why(), /^by the gate "a": closed: by a message/);
    all.admission.control('open');
    assert.ok(all.admission.take(1));
    assert.equal(one.admission.inFlight, 1);
  });

  test('closes when a member is removed', () => {
    const one = new AdmissionBed();
    const all = one.composite([one]);
    one.sample(1);
    one.admission.close();
    assert.equal(all.admission.take(1), null);
    assert.match(all.admission.why(), /closed: the gate is gone/);
  });
});

test('several composites that wait for one gate learn of room in turns', () => {
  const bed = new AdmissionBed();
  const first: string[] = [];
  let round: string[] = [];
  for (const name of ['x', 'y', 'z']) bed.admission.onRoom(() => round.push(name));
  for (let sample = 0; sample < 6; sample += 1) {
    round = [];
    bed.sample(1);
    first.push(String(round[0]));
    assert.equal(round.length, 3);
  }
  assert.deepEqual(first, ['x', 'y', 'z', 'x', 'y', 'z']);
});

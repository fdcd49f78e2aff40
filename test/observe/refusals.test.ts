/** However many requests are refused, the log hears of them once per interval. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERROR_CODES } from '../../src/core/errors.ts';
import type { LogRecord } from '../../src/core/model.ts';
import { isRefusal, Refusals } from '../../src/observe/log/refusals.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

function setUp(): { clock: FakeClock; refusals: Refusals; records: LogRecord[] } {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  return { clock, records, refusals: new Refusals(clock, (record) => records.push(record)) };
}

test('an interval of ten seconds ends in one warning with the number of each code, most frequent first', () => {
  const { clock, refusals, records } = setUp();
  for (let number = 0; number < 32; number += 1) refusals.count('deadline_exceeded');
  clock.advance(9000);
  for (let number = 0; number < 1500; number += 1) refusals.count('capacity_exceeded');
  assert.deepEqual(records, []);
  clock.advance(1000);
  assert.deepEqual(records, [
    {
      level: 'warn',
      message: 'refused or dropped 1532 requests in 10 s: capacity_exceeded 1500, deadline_exceeded 32',
      fields: { requests: 1532, seconds: 10, codes: { capacity_exceeded: 1500, deadline_exceeded: 32 } },
    },
  ]);
});

test('without refusals the log has no line and no timer runs', () => {
  const { clock, refusals, records } = setUp();
  clock.advance(60_000);
  assert.equal(clock.pending, 0);
  refusals.count('capacity_exceeded');
  clock.advance(60_000);
  assert.equal(records.length, 1);
  assert.equal(clock.pending, 0);
  refusals.count('capacity_exceeded');
  clock.advance(10_000);
  assert.match(records[1]?.message ?? '', / 1 request in 10 s: capacity_exceeded 1$/);
});

test('close writes the unreported refusals, leaves no timer and counts no more', () => {
  const { clock, refusals, records } = setUp();
  refusals.count('capacity_exceeded');
  clock.advance(2000);
  refusals.close();
  assert.match(records[0]?.message ?? '', / 1 request in 2 s: /);
  refusals.count('capacity_exceeded');
  refusals.close();
  assert.equal(clock.pending, 0);
  assert.equal(records.length, 1);
});

test('requests dropped on purpose cause no warning', () => {
  const { clock, refusals, records } = setUp();
  refusals.count('dropped');
  clock.advance(10_000);
  refusals.count('dropped');
  refusals.count('gate_refused');
  clock.advance(10_000);
  assert.deepEqual(
    records.map(({ level }) => level),
    ['info', 'warn'],
  );
});

test('errors of modelets and callers, deaths and shutdowns do not count', () => {
  const { clock, refusals, records } = setUp();
  const others = ERROR_CODES.filter((code) => !isRefusal(code));
  assert.ok(others.includes('modelet_failed') && others.includes('invalid_input') && others.includes('worker_lost'));
  for (const code of others) refusals.count(code);
  clock.advance(10_000);
  assert.deepEqual(records, []);
});

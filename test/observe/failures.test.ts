/** The log sums up requests that fail in large numbers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Failures } from '../../src/observe/log/failures.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

test('the log has the first failures whole, then their number once per interval, and starts over after a quiet time', () => {
  const clock = new FakeClock();
  const lines: string[] = [];
  const failures = new Failures(clock, (line) => lines.push(line));
  const fail = (count: number): void => {
    for (let index = 0; index < count; index += 1) {
      const code = index % 3 === 0 ? 'invalid_input' : 'modelet_failed';
      failures.note({ code, message: `failure ${index}` }, `id ${index}`);
    }
  };
  fail(300);
  const whole = [0, 1, 2, 3, 4].map(
    (index) => `${index % 3 === 0 ? 'invalid_input' : 'modelet_failed'}: failure ${index}`,
  );
  assert.deepEqual(lines.splice(0), whole);
  clock.advance(10_000);
  assert.deepEqual(lines.splice(0), ['295 more requests failed in 10 s: modelet_failed 197, invalid_input 98']);
  fail(3);
  assert.deepEqual(lines.splice(0), [whole[0]], 'the series goes on');
  clock.advance(10_000);
  assert.deepEqual(lines.splice(0), ['2 more requests failed in 10 s: modelet_failed 2']);
  clock.advance(60_000);
  assert.deepEqual(lines, []);
  assert.equal(clock.pending, 0, 'nothing is left of it');
  fail(300);
  assert.deepEqual(lines.splice(0), whole);
});

test('the log has all of a few failures whole', () => {
  const clock = new FakeClock();
  const lines: string[] = [];
  const failures = new Failures(clock, (line) => lines.push(line));
  for (let index = 0; index < 5; index += 1) {
    failures.note({ code: 'bad_request', message: `failure ${index}` }, `id ${index}`);
  }
  clock.advance(60_000);
  assert.equal(lines.length, 5);
});

test('a whole line has the code and the id of its request as fields, a sum has none', () => {
  const clock = new FakeClock();
  const fields: object[] = [];
  const failures = new Failures(clock, (_, given) => fields.push(given));
  for (let index = 0; index < 7; index += 1) failures.note({ code: 'bad_request', message: '' }, `id ${index}`);
  clock.advance(10_000);
  const whole = [0, 1, 2, 3, 4].map((index) => ({ code: 'bad_request', requestId: `id ${index}` }));
  assert.deepEqual(fields, [...whole, {}]);
});

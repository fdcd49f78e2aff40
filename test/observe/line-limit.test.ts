/** The limit of log lines per second for a child, and the report of dropped lines. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LINES_PER_SECOND, LineLimit } from '../../src/observe/log/line-limit.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

function limited(): { clock: FakeClock; limit: LineLimit; written: string[]; say(lines: number): void } {
  const clock = new FakeClock();
  const written: string[] = [];
  const limit = new LineLimit((level, line) => written.push(`${level} ${line}`), clock);
  const say = (lines: number): void => {
    for (let line = 1; line <= lines; line += 1) limit.write('info', String(line));
  };
  return { clock, limit, written, say };
}

test('lines within the limit pass unchanged and need no timer', () => {
  const { clock, written, say } = limited();
  for (let second = 0; second < 3; second += 1) {
    say(LINES_PER_SECOND);
    clock.advance(1000);
  }
  assert.equal(written.length, 3 * LINES_PER_SECOND);
  assert.equal(clock.pending, 0);
});

test('the limit counts further lines, reports their number at the end of the second, and lets lines pass again', () => {
  const { clock, written, say } = limited();
  say(LINES_PER_SECOND + 5000);
  clock.advance(999);
  assert.equal(written.length, LINES_PER_SECOND);
  clock.advance(1);
  assert.deepEqual(written.splice(0).slice(-1), ['warn 5000 more lines are not shown']);
  say(2);
  assert.deepEqual(written, ['info 1', 'info 2']);
});

test('close reports the dropped lines at once', () => {
  const { clock, limit, written, say } = limited();
  say(LINES_PER_SECOND + 1);
  limit.tell();
  limit.tell();
  assert.deepEqual(written.slice(LINES_PER_SECOND), ['warn 1 more line is not shown']);
  assert.equal(clock.pending, 0);
});

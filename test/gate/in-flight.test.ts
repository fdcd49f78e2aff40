/** How much was in flight, and when. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { InFlightHistory } from '../../src/gate/admission/in-flight.ts';

test('the lowest level of a period includes the level at its start', () => {
  const history = new InFlightHistory(1000);
  history.note(100, 5);
  history.note(300, 2);
  history.note(500, 9);
  assert.equal(history.lowest(150, 250), 5);
  assert.equal(history.lowest(150, 300), 2);
  assert.equal(history.lowest(400, 900), 2);
  assert.equal(history.lowest(501, 900), 9);
  assert.equal(history.lowest(500, 500), 2, 'of one moment both count');
});

test('the level is 0 before the first change', () => {
  assert.equal(new InFlightHistory(1000).lowest(0, 50), 0);
  const history = new InFlightHistory(1000);
  history.note(100, 5);
  assert.equal(history.lowest(99, 200), 0);
});

test('merged levels are at most too low, and a lasting level is exact', () => {
  const history = new InFlightHistory(1_024_000);
  history.note(100, 5);
  history.note(101, 30);
  assert.equal(history.lowest(101.5, 102), 5);
  assert.equal(history.lowest(2000, 3000), 30);
});

test('the remembered level is never too high, whatever changes', () => {
  const changes = fc.array(fc.record({ after: fc.nat({ max: 40 }), level: fc.nat({ max: 9 }) }), { maxLength: 80 });
  const times = fc.record({
    back: fc.nat({ max: 300 }),
    length: fc.nat({ max: 200 }),
    keepMs: fc.constantFrom(0, 50, 300, 9000),
  });
  fc.assert(
    fc.property(changes, times, (all, { back, length, keepMs }) => {
      const history = new InFlightHistory(keepMs);
      const levels = [{ from: Number.NEGATIVE_INFINITY, level: 0 }];
      let now = 0;
      for (const { after, level } of all) {
        now += after;
        history.note(now, level);
        levels.push({ from: now, level });
      }
      const from = now - Math.min(back, keepMs);
      const to = Math.min(now, from + length);
      const during = levels.filter(
        (each, index) => each.from <= to && (levels[index + 1]?.from ?? Number.POSITIVE_INFINITY) >= from,
      );
      assert.ok(history.lowest(from, to) <= Math.min(...during.map(({ level }) => level)));
    }),
    { numRuns: 500 },
  );
});

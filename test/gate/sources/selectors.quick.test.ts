/** The selectors that a PromQL expression rests on. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { selectorsOf } from '../../../src/gate/sources/selectors.ts';

describe('the selectors of', () => {
  for (const [expression, ...selectors] of [
    ['up', 'up'],
    ['a:b:rate5m', 'a:b:rate5m'],
    ['up{job="a"}', 'up{job="a"}'],
    ['up { job = "a" , pod =~ "x|y" }', 'up{job="a",pod=~"x|y"}'],
    ['{__name__=~"a|b"}', '{__name__=~"a|b"}'],
    ['up{a="}"}', 'up{a="}"}'],
    ['up{a="\\"}"} + `x`', 'up{a="\\"}"}'],
    ["up{a='#'} # down", "up{a='#'}"],
    ['avg(saturation)', 'saturation'],
    ['sum by (pod, avg) (running) / on(pod) group_left(node) count without (a) (up)', 'running', 'up'],
    ['sum(running) by (pod)', 'running'],
    ['AVG BY (pod) (running)', 'running'],
    ['1 - a / (a + b > bool 0.5)', 'a', 'b'],
    ['rate(a{x="1"}[5m] offset 1m)', 'a{x="1"}'],
    ['max_over_time(sum(a)[5m:10s]) @ 1700000000.5', 'a'],
    ['a @ start() or b unless on() c and ignoring(x) d', 'a', 'b', 'c', 'd'],
    ['quantile(0.9, a) * 1e3 + 0x1F + Inf - NaN', 'a'],
    ['count', 'count'],
    ['count by (x) (count)', 'count'],
    ['label_replace(a, "x", "$1", "y", "(.*)")', 'a'],
    ['vector(1)'],
    ['time() - 5'],
    ['"text"'],
    [''],
  ] as const) {
    test(`${expression} are ${selectors.join(' and ') || 'none'}`, () => {
      assert.deepEqual(selectorsOf(expression), selectors);
    });
  }

  test('any text are found without an error', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^(?:a|by|sum|[(){}[\]"'`#,\s\\]|1){0,30}$/)), (text) => {
        assert.ok(Array.isArray(selectorsOf(text)));
      }),
    );
  });
});

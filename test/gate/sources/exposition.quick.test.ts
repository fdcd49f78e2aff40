/** Reading the text that Prometheus scrapes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { readSeries } from '../../../src/gate/sources/exposition.ts';

/** The series of a metric as plain data. */
function read(text: string, metric = 'm'): unknown[] {
  return readSeries(text, metric).map(({ labels, value, time }) => [Object.fromEntries(labels), value, time]);
}

describe('Prometheus text', () => {
  for (const [line, ...series] of [
    ['m 1', {}, 1, undefined],
    ['m{} 1', {}, 1, undefined],
    ['m{a="1",b="x y"} 2.5', { a: '1', b: 'x y' }, 2.5, undefined],
    ['m{ a = "1" , } 2', { a: '1' }, 2, undefined],
    ['m {a="}"} 2', { a: '}' }, 2, undefined],
    ['m{a="q\\"s\\\\t\\nu"} 2', { a: 'q"s\\t\nu' }, 2, undefined],
    ['m 1e3 1700000000123', {}, 1000, 1_700_000_000_123],
    ['m\t-.5   1700000000.5 ', {}, -0.5, 1_700_000_000.5],
    ['m +Inf', {}, Number.POSITIVE_INFINITY, undefined],
    ['m -Inf', {}, Number.NEGATIVE_INFINITY, undefined],
    ['m NaN', {}, Number.NaN, undefined],
    ['m 7 # {trace_id="abc"} 0.67 1700000000.1', {}, 7, undefined],
    ['m{a=" # "} 7', { a: ' # ' }, 7, undefined],
    ['m 1\r', {}, 1, undefined],
  ] as const) {
    test(`reads ${JSON.stringify(line)}`, () => assert.deepEqual(read(line), [series]));
  }

  for (const line of [
    'm',
    'm one',
    'm 1 2 3',
    'm 1 yesterday',
    'm{a="1} 1',
    'm{a=1} 1',
    'm{a="1"',
    'm{a="1"} ',
    'm{a="\\x"} 1',
    'm{a="1" b="2"} 1',
    'm{a="1",a="2"} 1',
    'm{1a="1"} 1',
    'm 0x10',
    'm 1_000',
  ]) {
    test(`refuses ${JSON.stringify(line)} and names the line`, () => {
      assert.throws(() => read(`# HELP m\n${line} \n`), /^Error: line 2 is not Prometheus text: /);
    });
  }

  test('skips other metrics, comments and blank lines', () => {
    const text = '# TYPE m gauge\n\nm_total 1\nmm 2\nm:rate 3\n not this: m 4\nm{a="b"} 5\n# m 6\nm 7\n# EOF';
    assert.deepEqual(read(text), [
      [{ a: 'b' }, 5, undefined],
      [{}, 7, undefined],
    ]);
    assert.deepEqual(read(text, 'm:rate'), [[{}, 3, undefined]]);
    assert.deepEqual(read('', 'm'), []);
  });

  test('reads valid text with its meaning', () => {
    const name = fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_]{0,8}$/);
    const escaped = (text: string): string =>
      text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
    const value = fc.double({ noNaN: true, noDefaultInfinity: true });
    fc.assert(
      fc.property(
        fc.dictionary(name, fc.string({ unit: 'binary' })),
        value,
        fc.option(fc.nat()),
        (labels, number, time) => {
          const written = Object.entries(labels).map(([label, content]) => `${label}="${escaped(content)}"`);
          const line = `m{${written.join(',')}} ${number}${time === null ? '' : ` ${time}`}`;
          const [series, ...others] = readSeries(`x 1\n${line}\ny 2\n`, 'm');
          assert.ok(series && others.length === 0);
          assert.deepEqual([...series.labels], Object.entries(labels));
          assert.deepEqual([series.value, series.time], [Number(String(number)), time ?? undefined]);
        },
      ),
    );
  });

  test('no text makes the reader fail in another way or take long', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^(?:m|\{|\}|"|\\|=|,|a| |1|\n|#){0,40}$/), (text) => {
        try {
          readSeries(text, 'm');
        } catch (error) {
          assert.match(String(error), /line \d+ is not Prometheus text/);
        }
      }),
    );
    assert.throws(() => readSeries(`m{${'a="'.repeat(100_000)}`, 'm'));
    assert.equal(readSeries('other_metric{a="b"} 1\n'.repeat(300_000), 'm').length, 0);
  });
});

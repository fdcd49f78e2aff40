/** The figures that pages quote are those of docs/benchmarks.md, rounded: a new run of the benchmarks must reach them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pagePaths, readPage } from './pages.ts';

/** A quoted figure may be rounded by this much. */
const ROUNDING = 0.06;

interface Figure {
  /** How pages quote it: words around `#`, which stands for the number. */
  readonly quotes: readonly string[];
  /** Beginning of the heading above the table, and the first cell and column head of the figure. */
  readonly from: readonly [section: string, row: string, column: string];
}

const FIGURES: readonly Figure[] = [
  {
    quotes: ['batch of n | # ms; one after', 'greedy batches of 200 # ms'],
    from: ['a. ', 'all at once, batch 200, greedy', 'ms'],
  },
  { quotes: ['one after the other # ms'], from: ['a. ', 'one at a time, batch 1', 'ms'] },
  { quotes: ['in single items # ms', 'single items # ms'], from: ['a. ', 'all at once, batch 1', 'ms'] },
  { quotes: ['lone request, median | # ms', 'About # ms'], from: ['b. One request', 'one after the other', 'p50'] },
  { quotes: ['batches of 32 | # per second'], from: ['b. CPU per item', '200 B JSON, batch 32', 'items/s'] },
  {
    quotes: ['a function node instead | # times its requests'],
    from: ['c. ', 'HTTP in -> batcher -> stage -> HTTP response, compiled', 'of function'],
  },
  {
    quotes: ['thread about # µs with a compiled'],
    from: ['c. ', 'HTTP in -> batcher -> stage -> HTTP response, compiled', 'µs CPU of its thread'],
  },
  {
    quotes: ['endpoint and # µs with a function node'],
    from: ['c. ', 'HTTP in -> function -> HTTP response', 'µs CPU of its thread'],
  },
  {
    quotes: ['batches of 32 / single items | # /'],
    from: ['200 B JSON, batches of 32, 64', 'drawn endpoint', 'of mosec'],
  },
  {
    quotes: ['/ # times its requests'],
    from: ['200 B JSON, single items, 64', 'drawn endpoint', 'of mosec'],
  },
  { quotes: ['# % in a stage, '], from: ["d. Node-RED's", '2 ms of work, 250/s, in a stage', 'loop busy %'] },
  {
    quotes: ['in a stage, # % in a function node'],
    from: ["d. Node-RED's", '2 ms of work, 250/s, in a function node', 'loop busy %'],
  },
  { quotes: ['after # ms, after'], from: ['e. A worker', 'its request is answered with worker_lost', 'median'] },
  { quotes: ['ms, after # ms |'], from: ['e. A worker', 'the next request has its result (less the model)', 'median'] },
  { quotes: ['engine # MB', 'engine | # MB', 'engine takes # MB'], from: ['e. Memory', 'engine', 'MB'] },
  {
    quotes: ['worker # MB |', 'Node.js | # MB', 'and # MB per worker', 'each worker # MB'],
    from: ['e. Memory', 'worker', 'MB'],
  },
  { quotes: ['one stage # µs'], from: ['f. ', 'one stage', 'us'] },
  { quotes: ['as one route # µs'], from: ['f. ', 'three stages, one route', 'us'] },
  {
    quotes: ['between each two # µs'],
    from: ['f. ', 'three stages, a function node between each two', 'us'],
  },
  { quotes: ['in the engine # µs'], from: ['f. ', 'a stage and an ensemble of two, one route', 'us'] },
  { quotes: ['µs, through the flow # µs'], from: ['f. ', 'a stage and an ensemble of two, through the flow', 'us'] },
  {
    quotes: ['behind a switch node # and'],
    from: ['f. ', 'a stage and one of two behind a switch, one route', 'us'],
  },
  {
    quotes: ['The saturation reaches # if'],
    from: [
      'g. Saturation at a threshold of 0.8, nobody',
      'open below the threshold, looked at by each sender at each poll',
      'highest',
    ],
  },
  {
    quotes: ['and # with the gate'],
    from: ['g. Saturation at a threshold of 0.8, nobody', 'the dispatch gate', 'highest'],
  },
  { quotes: ['one item alone, median | # ms'], from: ['l. The hop', 'local, single items', 'alone: p50 ms'] },
  { quotes: ['did # items/s on one host'], from: ['l. More hosts', '1', 'items/s'] },
  { quotes: ['host, # on two and'], from: ['l. More hosts', '2', 'items/s'] },
  { quotes: ['on two and # on four'], from: ['l. More hosts', '4', 'items/s'] },
  { quotes: ['a model of 500 ms did # items/s'], from: ['l. Many hosts', '100', 'items/s of 500 ms'] },
  { quotes: ['could do 2,000/s and did #/s'], from: ['l. Many hosts', '100', 'items/s of 50 ms'] },
];

const benchmarks = readPage('docs/benchmarks.md').split('\n');

function cellsOf(line: string): string[] {
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

function measured([section, row, column]: Figure['from']): number {
  const from = benchmarks.findIndex((line) => line.startsWith(`### ${section}`));
  const head = benchmarks.findIndex((line, index) => index > from && line.startsWith('|'));
  const found = benchmarks.findIndex((line, index) => index > head && cellsOf(line)[0] === row);
  const at = cellsOf(benchmarks[head] ?? '').indexOf(column);
  assert.ok(from >= 0 && found > head && at > 0, `docs/benchmarks.md has "${row}", ${column}, below "${section}"`);
  return Number(cellsOf(benchmarks[found] ?? '')[at]?.replace('x', ''));
}

const pages = pagePaths().map((path) => ({ path, text: readPage(path).replace(/\s+/g, ' ') }));

function asPattern(quote: string): RegExp {
  const [before = '', behind = ''] = quote.split('#').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`${before}([\\d,.]*\\d)${behind}`, 'g');
}

for (const { quotes, from } of FIGURES) {
  test(`"${from[1]}", ${from[2]}, is quoted as it was measured`, () => {
    const value = measured(from);
    for (const quote of quotes) {
      const found = pages.flatMap(({ path, text }) =>
        [...text.matchAll(asPattern(quote))].map(([, number = '']) => ({
          path,
          quoted: Number(number.replaceAll(',', '')),
        })),
      );
      assert.ok(found.length > 0, `no page quotes "${quote}"`);
      for (const { path, quoted } of found)
        assert.ok(
          Math.abs(quoted - value) <= ROUNDING * value,
          `${path} quotes ${quoted} for "${quote}", measured ${value}`,
        );
    }
  });
}

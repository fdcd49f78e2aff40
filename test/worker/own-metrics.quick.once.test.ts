/** The metrics that a modelet declares: their rules, their reports, their limits. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { MOST_OWN_METRICS, MOST_OWN_SERIES, type OwnMetric } from '../../src/core/readings.ts';
import { OwnMeter } from '../../src/observe/meters/stage-meter.ts';
import type { ModeletMetrics } from '../../src/runtime/worker/modelet/modelet.ts';
import { OwnMetrics } from '../../src/runtime/worker/modelet/own-metrics.ts';
import type { OwnChanges } from '../../src/wire/frames/bodies.ts';
import { WITHOUT_PYTHON } from '../fixtures/python.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

/** The values of a report, by name and label values. */
function flat(values: OwnChanges['counts']): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([key, series]) =>
      Object.entries(series).map(([labels, value]) => [`${(JSON.parse(key) as OwnMetric).name}${labels}`, value]),
    ),
  );
}

/** Runs Python beside the modules of its workers. Returns what it prints, as JSON. */
function printedBy(code: readonly string[]): unknown {
  const env = {
    ...process.env,
    PYTHONPATH: join(repositoryRoot, 'src', 'runtime', 'worker', 'python'),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  return JSON.parse(execFileSync('python3', ['-c', code.join('\n')], { env, encoding: 'utf8' }));
}

test('a report has what counters and histograms have gained since the last one, and the gauges that changed', () => {
  let changes = 0;
  const metrics = new OwnMetrics(() => {
    changes += 1;
  });
  const tokens = metrics.counter('tokens_total', 'Tokens made', ['model']);
  const { observe } = metrics.histogram('score', { buckets: [0.5, 1] });
  const cache = metrics.gauge('cache_bytes');
  assert.equal(metrics.take(), null);
  tokens.inc(3, { model: 'a' });
  tokens.inc(undefined, { model: 'a' });
  metrics.counter('tokens_total', '', ['model']).inc(2, { model: 'b' });
  for (const value of [0.5, 0.7, 3]) observe(value);
  cache.set(10);
  cache.dec(4);
  assert.equal(changes, 1, 'only the first change is announced');
  const first = metrics.take() as OwnChanges;
  assert.deepEqual(flat(first.counts), {
    'tokens_total["a"]': 4,
    'tokens_total["b"]': 2,
    'score[]': { counts: [1, 1, 1], sum: 4.2 },
  });
  assert.deepEqual(flat(first.gauges), { 'cache_bytes[]': 6 });
  assert.equal(metrics.take(), null);
  tokens.inc(1, { model: 'a' });
  cache.inc();
  const second = metrics.take() as OwnChanges;
  assert.deepEqual([flat(second.counts), flat(second.gauges)], [{ 'tokens_total["a"]': 1 }, { 'cache_bytes[]': 7 }]);
  assert.equal(changes, 2);
});

/** Code that breaks a rule, in both languages. */
const BROKEN: readonly [rule: RegExp, declare: (metrics: ModeletMetrics) => unknown, python: string][] = [
  [/letters, digits and _, .*; found "no-dash"/, (m) => m.counter('no-dash'), 'm.counter("no-dash")'],
  [/letters, digits and _/, (m) => m.gauge('a'.repeat(101)), 'm.gauge("a" * 101)'],
  [/the name runs_total is taken/, (m) => m.counter('runs_total'), 'm.counter("runs_total")'],
  [/cannot have the label stage/, (m) => m.gauge('g', '', ['stage']), 'm.gauge("g", "", ["stage"])'],
  [/does not begin with __; found "__x"/, (m) => m.gauge('g', '', ['__x']), 'm.gauge("g", "", ["__x"])'],
  [/at most 10 different names/, (m) => m.gauge('g', '', ['a', 'a']), 'm.gauge("g", "", ["a", "a"])'],
  [
    /in ascending order; found \[2,1\]/,
    (m) => m.histogram('h', { buckets: [2, 1] }),
    'm.histogram("h", buckets=[2, 1])',
  ],
  [
    /c is a counter already, with the labels a/,
    (m) => [m.counter('c', '', ['a']), m.counter('c', '', ['b'])],
    '[m.counter("c", "", ["a"]), m.counter("c", "", ["b"])]',
  ],
  [
    /h is a histogram already, with no labels and the buckets 0.5, 1;/,
    (m) => [m.histogram('h', { buckets: [0.5, 1] }), m.gauge('h')],
    '[m.histogram("h", buckets=[0.5, 1.0]), m.gauge("h")]',
  ],
  [/at least 0; found -1/, (m) => m.counter('c').inc(-1), 'm.counter("c").inc(-1)'],
  [/takes a finite number; found NaN/, (m) => m.gauge('g').set(Number.NaN), 'm.gauge("g").set(math.nan)'],
  [/each of its labels a; found none/, (m) => m.counter('c', '', ['a']).inc(1), 'm.counter("c", "", ["a"]).inc(1)'],
  [/counter c has no labels; found b/, (m) => m.counter('c').inc(1, { b: 'x' }), 'm.counter("c").inc(1, b="x")'],
];

test('an error quotes a BigInt, which is no number', () => {
  const metrics = new OwnMetrics(() => {});
  assert.throws(() => metrics.gauge('g').set(5n as never), { message: 'gauge g takes a finite number; found 5' });
});

const texts = BROKEN.map(([rule, declare]) => {
  const metrics = new OwnMetrics(() => {});
  let text = '';
  test(`an error names the rule: ${rule.source}`, () => {
    assert.throws(
      () => declare(metrics),
      (error: Error) => {
        text = error.message;
        return error instanceof TypeError && rule.test(text);
      },
    );
    assert.equal(metrics.take(), null);
  });
  return () => text;
});

test('the errors are the same in Python', { skip: WITHOUT_PYTHON }, () => {
  const code = ['import json, math', 'from modelet_worker.metrics import Metrics', 'texts = []'];
  for (const [, , python] of BROKEN) {
    code.push('m = Metrics()', 'try:', `    ${python}`, 'except TypeError as error:', '    texts.append(str(error))');
  }
  code.push('print(json.dumps(texts))');
  assert.deepEqual(
    printedBy(code),
    texts.map((text) => text().replace('an array', 'a list')),
  );
});

const MOST = Number.MAX_VALUE;
const LARGE: OwnChanges['counts'][string][string][] = [MOST, { counts: [0, 2], sum: MOST }];

test('sums stay finite, in a worker and in a stage', () => {
  const metrics = new OwnMetrics(() => {});
  for (const value of [MOST, MOST]) {
    metrics.counter('c').inc(value);
    metrics.histogram('h', { buckets: [1] }).observe(value);
    metrics.gauge('g').dec(value);
  }
  const changes = metrics.take() as OwnChanges;
  assert.deepEqual([...Object.values(flat(changes.counts)), flat(changes.gauges)['g[]']], [...LARGE, -MOST]);
  const meter = new OwnMeter();
  for (const more of [changes, changes]) meter.add(more);
  assert.deepEqual(Object.values(flat(meter.values)), [MOST, { counts: [0, 4], sum: MOST }]);
});

test('sums stay finite in Python', { skip: WITHOUT_PYTHON }, () => {
  const code = ['import json, sys', 'from modelet_worker.metrics import Metrics', 'm = Metrics()'];
  for (const call of ['counter("c").inc', 'histogram("h", buckets=[1]).observe', 'gauge("g").dec']) {
    code.push(...[1, 2].map(() => `m.${call}(sys.float_info.max)`));
  }
  code.push('print(json.dumps(m.take(), allow_nan=False))');
  const { counts, gauges } = printedBy(code) as OwnChanges;
  const found = flat(counts);
  assert.deepEqual([found['c[]'], found['h[]'], flat(gauges)['g[]']], [...LARGE, -MOST]);
});

test('a worker drops and counts updates of too many metrics', () => {
  const metrics = new OwnMetrics(() => {});
  for (let index = 0; index <= MOST_OWN_METRICS; index += 1) metrics.counter(`c${index}`).inc();
  const { counts, dropped, droppedAt } = metrics.take() as OwnChanges;
  assert.deepEqual([Object.keys(counts).length, dropped, droppedAt], [MOST_OWN_METRICS, 1, `c${MOST_OWN_METRICS}`]);
});

test('a worker drops and counts updates of too many label sets, and goes on with those that it knows', () => {
  const metrics = new OwnMetrics(() => {});
  const users = metrics.counter('users_total', '', ['user']);
  for (let user = 0; user < MOST_OWN_SERIES + 5; user += 1) users.inc(1, { user });
  const { counts, dropped, droppedAt } = metrics.take() as OwnChanges;
  assert.deepEqual([Object.keys(flat(counts)).length, dropped, droppedAt], [MOST_OWN_SERIES, 5, 'users_total']);
  users.inc(1, { user: 7 });
  assert.deepEqual(flat((metrics.take() as OwnChanges).counts), { 'users_total["7"]': 1 });
});

test('a stage limits the label sets of all its workers together', () => {
  const meter = new OwnMeter();
  const told = ['a', 'b', 'a'].map((worker) => {
    const metrics = new OwnMetrics(() => {});
    const users = metrics.counter('users_total', '', ['user']);
    for (let user = 0; user < 600; user += 1) users.inc(1, { user: `${worker}${user}` });
    const { counts, dropped } = metrics.take() as OwnChanges;
    return /first at (\w+)/.exec(meter.add({ counts, dropped }) ?? '')?.[1];
  });
  assert.deepEqual(told, [undefined, 'users_total', undefined]);
  const sums = flat(meter.values);
  assert.deepEqual([Object.keys(sums).length, meter.dropped], [MOST_OWN_SERIES, 200]);
  assert.deepEqual([sums['users_total["a0"]'], sums['users_total["b0"]']], [2, 1]);
});

/** The exposition has every metric before anything was measured, and describes a process only if the process is ours. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Exposition } from '../../src/observe/export/collect.ts';
import { METRICS } from '../../src/observe/export/metrics.ts';
import { Scrape } from '../fixtures/exposition.ts';

const OURS = METRICS.map(({ name, type }) => [name, type] as const);

test('an exposition in a foreign process has our metrics and no series', async () => {
  const { types, series } = new Scrape(await new Exposition().text([], []));
  assert.deepEqual(new Map([...types].sort()), new Map([...OURS].sort()));
  assert.deepEqual(series, []);
});

test('an exposition in a process of ours describes that process too', async () => {
  const text = await new Exposition(true).text([], []);
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type]));
  for (const [name, type] of OURS) assert.equal(types.get(name), type, name);
  assert.equal(types.get('process_cpu_seconds_total'), 'counter');
  assert.match(text, /^process_resident_memory_bytes \d+$/m);
  assert.match(text, /^nodejs_eventloop_lag_p99_seconds \S+$/m);
});

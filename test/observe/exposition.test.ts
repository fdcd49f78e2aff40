/** The exposition has every metric before anything was measured, and describes a process only if the process is ours. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Exposition } from '../../src/observe/export/collect.ts';
import { ENGINE_METRICS, METRICS } from '../../src/observe/export/metrics.ts';
import { ownMetrics } from '../../src/observe/export/own-metrics.ts';
import { Scrape } from '../fixtures/exposition.ts';

const OURS = METRICS.map(({ name, type }) => [name, type] as const);

test('an exposition has the metrics of this package and no series', async () => {
  const { types, series } = new Scrape(await new Exposition().text([], []));
  assert.deepEqual(new Map([...types].sort()), new Map([...OURS].sort()));
  assert.deepEqual(series, []);
});

test('the exposition of an engine has the metrics that an engine knows', async () => {
  const { types } = new Scrape(await new Exposition(ENGINE_METRICS).text([], []));
  assert.equal(types.get('modelet_requests_total'), 'counter');
  assert.equal(types.has('modelet_frames_total'), false);
  assert.equal(types.has('modelet_gate_open'), false);
});

test('stages may have very many series of one metric', () => {
  const key = JSON.stringify({ type: 'counter', name: 'seen', help: '', labels: ['of'] });
  const series = Object.fromEntries(Array.from({ length: 150_000 }, (_, at) => [JSON.stringify([String(at)]), 1]));
  const stages = ['a', 'b'].map((name) => ({ name, workers: [], reading: { own: { [key]: series } } }));
  const scrape = { runtimes: [{ runtime: 'r', snapshot: { stages } }], gates: [] };
  const [metric] = ownMetrics(scrape as unknown as Parameters<typeof ownMetrics>[0]);
  assert.equal(metric?.read(scrape as never).length, 300_000);
});

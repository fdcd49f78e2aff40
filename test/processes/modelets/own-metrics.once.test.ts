/** The metrics that modelets declare reach the exposition, whichever worker they come from and however it ends. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { OwnMetric } from '../../../src/core/readings.ts';
import { Exposition } from '../../../src/observe/export/collect.ts';
import { inlineStage } from '../../fixtures/endpoint.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const KINDS: readonly [kind: string, spec: Partial<StageSpec>][] = [
  ...ISOLATIONS.map((isolation): [string, Partial<StageSpec>] => [isolation, { file: 'counts', isolation }]),
  ['Python', { python: 'counts' }],
];
const KIND = 'a \\"b\\"\\n\\\\';

async function scrape({ service }: TestService): Promise<Scrape> {
  const { snapshot, durations } = service.measure();
  return new Scrape(await new Exposition().text([{ snapshot, durations }], []));
}

/** Resolves with a scrape once the series of the counter are this together. */
async function scrapeWith(service: TestService, counter: string, sum: number): Promise<Scrape> {
  const total = (): number => {
    const metrics = Object.entries(service.stage('model').reading.own);
    const series = metrics.filter(([key]) => (JSON.parse(key) as OwnMetric).name === counter);
    return series.flatMap(([, values]) => Object.values(values)).reduce<number>((all, value) => all + Number(value), 0);
  };
  await until(`${counter} is ${sum}`, () => total() === sum);
  return scrape(service);
}

for (const [kind, spec] of KINDS) {
  describe(`metrics of a modelet (${kind})`, () => {
    test('are sums over the workers, with a gauge for each worker', async (t) => {
      const service = await serve(t, { stages: [{ id: 'model', ...spec, workers: 2 }] });
      await service.ready();
      const asked = Array.from({ length: 20 }, (_, n) => service.value<number>(n + 1));
      await Promise.all(asked);
      const found = await scrapeWith(service, 'tokens_total', 210);
      const stage = { runtime: 'runtime-1', stage: 'model' };
      assert.deepEqual(found.find('modelet_model_tokens_total'), [
        { name: 'modelet_model_tokens_total', labels: { ...stage, kind: KIND }, value: 210 },
      ]);
      assert.equal(found.types.get('modelet_model_tokens_total'), 'counter');
      assert.equal(found.value('modelet_model_calls_total', { ...stage, method: 'setup' }), 2);
      assert.deepEqual(
        ['1', '10', '+Inf'].map((le) => found.value('modelet_model_size_bucket', { ...stage, le })),
        [1, 10, 20],
      );
      assert.deepEqual([found.value('modelet_model_size_sum'), found.value('modelet_model_size_count')], [210, 20]);
      const gauges = found.find('modelet_model_last_size', stage);
      assert.deepEqual(gauges.map(({ labels }) => labels['worker']).sort(), ['0', '1']);
      assert.ok(gauges.some(({ value }) => value > 0));
      assert.equal(found.value('modelet_metrics_dropped_total'), 0);
    });

    test('outlive their worker, whether it dies or is replaced and ends normally', async (t) => {
      const service = await serve(t, { stages: [{ id: 'model', ...spec }] });
      await service.ready();
      await service.value(5);
      await scrapeWith(service, 'tokens_total', 5);
      assert.equal((await service.answer('exit')).code, 'worker_lost');
      await service.value(6);
      const found = await scrapeWith(service, 'tokens_total', 11);
      assert.equal(found.value('modelet_model_calls_total', { method: 'setup' }), 2);
      service.service.actOnStage('model', 'restart');
      // Less than a second after the last report: only the end of the worker sends what it has counted since.
      await scrapeWith(service, 'calls_total', 4);
      const after = await scrape(service);
      assert.equal(after.value('modelet_model_calls_total', { method: 'teardown' }), 1);
      assert.equal(after.value('modelet_model_last_size'), 3, 'the gauge is that of the new worker, after its example');
    });

    test('past the limit are dropped and counted, with one warning', async (t) => {
      const service = await serve(t, { stages: [{ id: 'model', ...spec }] });
      await service.ready();
      for (let n = 0; n < 3; n += 1) await service.value({ kinds: 1100 });
      await until('all are reported', () => service.stage('model').reading.ownDropped === 306);
      const found = await scrape(service);
      assert.equal(found.find('modelet_model_tokens_total').length, 998);
      const warnings = service.logs.filter(({ level }) => level === 'warn');
      assert.deepEqual(
        warnings.map(({ message, stage }) => [/more than 100 metrics or 1000 .* tokens_total/.test(message), stage]),
        [[true, 'model']],
      );
    });
  });
}

test('after a deploy that changes the buckets or the type of a metric, the new one is shown', async (t) => {
  const using = (metric: string) => ({ stages: [inlineStage('model', `ctx.metrics.${metric}; return input;`)] });
  const service = await serve(t, using("histogram('size', { buckets: [1] }).observe(1)"));
  const comes = (name: string, labels = {}): Promise<unknown> =>
    until(`there is ${name}`, async () => {
      await service.value(1);
      return (await scrape(service)).find(name, labels).length === 1;
    });
  await comes('modelet_model_size_bucket', { le: '1' });
  service.apply(using("histogram('size', { buckets: [2] }).observe(1)"));
  await comes('modelet_model_size_bucket', { le: '2' });
  service.apply(using("gauge('size').set(1)"));
  await comes('modelet_model_size');
  service.apply(using("histogram('size', { buckets: [1] }).observe(1)"));
  await comes('modelet_model_size_bucket', { le: '1' });
});

/** The figures of an interval, from two readings of a runtime that really ran. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { countOf } from '../../src/observe/meters/histogram.ts';
import { intervalBetween, type Measurement } from '../../src/observe/views/interval.ts';
import { until } from '../fixtures/polling.ts';
import { serve, type TestService } from '../fixtures/service.ts';

function look({ service }: TestService): Measurement {
  return service.measure();
}

/** A stage that has answered five requests, of which one with an error. */
async function busy(t: TestContext): Promise<TestService> {
  const service = await serve(t, {
    stages: [{ id: 'faults', file: 'faults', predict: 'batch', batch: { maxBatchSize: 4 } }],
  });
  await service.ready();
  await ask(service, [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { n: 5, fault: 'error' }]);
  return service;
}

async function ask(service: TestService, inputs: readonly object[]): Promise<void> {
  const before = countOf(service.stage('faults').reading.run);
  await Promise.all(inputs.map((input) => service.answer(input)));
  await until('all are reported', () => countOf(service.stage('faults').reading.run) === before + inputs.length);
}

describe('an interval', () => {
  test('has the counts between two readings, not those before', async (t) => {
    const service = await busy(t);
    const earlier = look(service);
    await ask(service, [{ n: 1 }, { n: 2 }, { n: 3, fault: 'error' }]);
    const later = { ...look(service), at: earlier.at + 2000 };
    const { stages, p50, p95, p99, ...rest } = intervalBetween(earlier, later, 123);
    assert.deepEqual(rest, {
      time: 123,
      requests: 8,
      errors: 2,
      requestsPerSecond: 1.5,
      errorsPerSecond: 0.5,
      backlog: 0,
    });
    assert.ok(p50 && p95 && p99 && p50 <= p95 && p95 <= p99, `${p50}, ${p95}, ${p99}`);
    const { runMs, meanBatch, ...stage } = stages['faults'] ?? {};
    assert.deepEqual(stage, { queue: 0, busy: 0, workers: 1, cached: null });
    assert.ok(meanBatch && meanBatch >= 1 && meanBatch <= 3);
    assert.ok(runMs && runMs > 0);
  });

  test('without requests has no quantiles and no means', async (t) => {
    const service = await busy(t);
    const earlier = look(service);
    const { stages, p50, p95, p99, requestsPerSecond } = intervalBetween(
      earlier,
      { ...earlier, at: earlier.at + 1 },
      0,
    );
    assert.deepEqual([p50, p95, p99, requestsPerSecond], [null, null, null, 0]);
    assert.deepEqual(stages['faults'], { queue: 0, busy: 0, workers: 1, meanBatch: null, runMs: null, cached: null });
  });

  test('counts a removed and restored stage from its return', async (t) => {
    const service = await busy(t);
    const earlier = look(service);
    service.apply({ stages: [] });
    service.apply({ stages: [{ id: 'faults', file: 'faults', predict: 'batch' }] });
    await until('it counts anew', () => service.stage('faults').items === 0);
    await service.ready();
    await ask(service, [{ n: 1 }]);
    const stage = intervalBetween(earlier, look(service), 0).stages['faults'];
    assert.deepEqual([stage?.meanBatch, (stage?.runMs ?? 0) > 0], [1, true]);
  });
});

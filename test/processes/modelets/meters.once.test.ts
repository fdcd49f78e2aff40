/** The meters of a whole runtime with real processes, over an engine's death, compared with the requests' own figures. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { HistogramReading } from '../../../src/core/readings.ts';
import { countOf } from '../../../src/observe/meters/histogram.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { serve } from '../../fixtures/service.ts';

const near = (reading: HistogramReading, sum: number): boolean =>
  Math.abs(reading.sum - sum) <= 0.01 * sum + 0.001 * countOf(reading);

describe('meters', () => {
  test('the meters agree with the times in the requests, stage by stage', async (t) => {
    const service = await serve(t, {
      stages: [
        { id: 'first', file: 'sleep', workers: 2 },
        { id: 'second', file: 'sleep', predict: 'batch', batch: { policy: 'oldest', maxBatchSize: 8, maxWaitMs: 5 } },
      ],
    });
    await service.ready();
    const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => service.answer({ ms: n % 5 })));
    for (const [index, id] of ['first', 'second'].entries()) {
      await until('all runs are reported', () => countOf(service.stage(id).reading.run) === 100);
      const { queueWait, batchWait, run, batchSize, batches } = service.stage(id).reading;
      const sum = (time: 'waitMs' | 'batchMs' | 'runMs'): number =>
        answers.reduce((total, { timings }) => total + (timings[index]?.[time] ?? Number.NaN), 0);
      assert.ok(near(queueWait, sum('waitMs')), `${id}: wait ${queueWait.sum}`);
      assert.ok(near(batchWait, sum('batchMs')), `${id}: batch ${batchWait.sum}`);
      assert.ok(near(run, sum('runMs')), `${id}: run ${run.sum}`);
      assert.equal(batchSize.sum, 100);
      assert.equal(countOf(batchSize), batches);
    }
  });

  test('the counts never fall when the engine dies, because those of its successor are added', async (t) => {
    const service = await serve(t, { stages: [{ id: 'echo' }] });
    await service.ready();
    for (let n = 0; n < 5; n += 1) await service.value(n);
    await until('five runs are reported', () => countOf(service.stage('echo').reading.run) === 5);
    const before = service.service.snapshot();
    const lost = service.enginePid;
    kill9(lost);
    await until('the engine is gone', () => service.service.snapshot().engine.pid !== lost);
    assert.deepEqual(service.stage('echo').reading, before.stages[0]?.reading);
    await service.ready();
    for (let n = 0; n < 3; n += 1) await service.value(n);
    await until('three more are reported', () => service.stage('echo').items === 8);
    const after = service.service.snapshot();
    assert.deepEqual(after.engine.deaths, { serving: 1, starting: 0 });
    assert.ok(after.bytes.sent > before.bytes.sent && after.bytes.received > before.bytes.received);
    assert.equal(countOf(service.service.measure().durations.ok), 8);
  });

  test('the meters separate requests by their end, and omit refused ones', async (t) => {
    const service = await serve(t, {
      stages: [{ id: 'die', file: 'die' }],
      config: { capacity: 1 },
    });
    await service.ready();
    await service.value('x');
    const lost = service.ask('exit');
    assert.throws(() => service.ask('y'), { code: 'capacity_exceeded' });
    assert.equal((await lost.answer).code, 'worker_lost');
    const { durations } = service.service.measure();
    assert.deepEqual(Object.keys(durations).sort(), ['ok', 'worker_lost']);
    assert.deepEqual([countOf(durations.ok), countOf(durations.worker_lost as HistogramReading)], [1, 1]);
    await until('the stage has counted it', () => service.stage('die').reading.unserved.worker_lost === 1);
  });

  test('the meters count replaced workers by cause', async (t) => {
    const how = join(folderFor(t), 'how');
    writeFileSync(how, 'throws');
    const service = await serve(t, {
      stages: [
        { id: 'die', file: 'die' },
        { id: 'slow', file: 'sleep', runTimeoutMs: 50 },
        { id: 'start', file: 'start', init: { how } },
      ],
      routes: { die: ['die'], slow: ['slow'], start: ['start'] },
    });
    const restarts = (id: string) => service.stage(id).reading.restarts;
    await until('a start has failed', () => restarts('start').not_started > 0);
    writeFileSync(how, 'fine');
    await service.ready();
    assert.equal((await service.answer('exit', { entry: 'die' })).code, 'worker_lost');
    assert.equal((await service.answer({ ms: 60_000 }, { entry: 'slow' })).code, 'deadline_exceeded');
    service.service.actOnStage('die', 'restart');
    await until('all have been replaced', () => restarts('die').asked === 1 && restarts('slow').run_timeout === 1);
    assert.deepEqual(restarts('die'), { died: 1, not_started: 0, run_timeout: 0, recycled: 0, asked: 1 });
    assert.deepEqual(restarts('slow'), { died: 0, not_started: 0, run_timeout: 1, recycled: 0, asked: 0 });
  });

  test('the meters count the requests that a deploy hands over', async (t) => {
    const service = await serve(t, { stages: [{ id: 'sleep', file: 'sleep' }] });
    await service.ready();
    assert.deepEqual(service.service.snapshot().deploys, { count: 1, handedOver: 0 });
    const asked = [1, 2, 3].map((ms) => service.ask({ ms }));
    service.apply({ stages: [{ id: 'sleep', file: 'sleep' }] });
    await Promise.all(asked.map(({ answer }) => answer));
    assert.deepEqual(service.service.snapshot().deploys, { count: 2, handedOver: 3 });
  });
});

/** The snapshot says why requests wait, with real processes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { release, serve, type TestService } from '../../fixtures/service.ts';

function says(service: TestService, stage: string, sentence: RegExp): Promise<true> {
  return until(`${stage} says ${sentence}`, () => sentence.test(service.stage(stage).why ?? '') || null);
}

function saysNothing(service: TestService, stage: string): Promise<true> {
  return until(`${stage} says nothing`, () => service.stage(stage).why === null || null);
}

describe('why requests wait', () => {
  test('a worker loads, then all are busy, then nothing keeps them', async (t) => {
    const folder = folderFor(t);
    const setup = `
      const { existsSync } = require('node:fs');
      while (!existsSync(init.folder + '/setup.open')) await new Promise((resolve) => setTimeout(resolve, 5));`;
    const code = `
      const { existsSync } = require('node:fs');
      while (!existsSync(init.folder + '/run.open')) await new Promise((resolve) => setTimeout(resolve, 5));
      return input;`;
    const service = await serve(t, { stages: [{ id: 'slow', inline: { setup, code }, init: { folder }, workers: 2 }] });
    await says(service, 'slow', /^starting: workers 0 and 1 load$/);
    release(folder, 'setup');
    await saysNothing(service, 'slow');
    const asked = [1, 2, 3, 4].map((input) => service.answer(input));
    await says(service, 'slow', /^2 of 2 workers busy: 2 wait, the first for \d/);
    assert.ok((service.stage('slow').oldestMs ?? 0) > 0);
    release(folder, 'run');
    await Promise.all(asked);
    await saysNothing(service, 'slow');
    assert.equal(service.stage('slow').oldestMs, null);
  });

  test('a batch fills', async (t) => {
    const batch = { policy: 'oldest', maxBatchSize: 32, maxWaitMs: 60_000 } as const;
    const service = await serve(t, { stages: [{ id: 'patient', batch }] });
    await service.ready();
    const asked = [1, 2, 3].map((input) => service.answer(input));
    await says(service, 'patient', /^waiting for a batch: 3 of 32, \d+(\.\d)? s left$/);
    service.service.actOnStage('in', 'flush');
    await Promise.all(asked);
    await saysNothing(service, 'patient');
  });

  test('the next stage is full, and no worker of it starts', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, {
      stages: [{ id: 'quick' }, { id: 'gate', file: 'gate', init: { folder }, capacity: 1 }],
    });
    await service.ready();
    const asked = ['held', 'a', 'b', 'c', 'd', 'e'].map((input) => service.answer(input));
    await says(service, 'quick', /^held back: the queue of stage gate is full \(1\)$/);
    await says(service, 'gate', /^the worker is busy: \d waits?, /);
    release(folder, 'held');
    await Promise.all(asked);
    service.apply({ stages: [{ id: 'broken', inline: { setup: 'throw new Error("no model");', code: '' } }] });
    await says(service, 'broken', /^(does not start: .*no model|starting: worker 0 loads)/);
    await until('the cause is told', () => /no model/.test(service.stage('broken').why ?? '') || null);
  });
});

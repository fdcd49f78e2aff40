/** Restarting a stage by hand: all its workers become new ones, and no request notices. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { startedProcesses } from '../../fixtures/processes.ts';
import { release, serve } from '../../fixtures/service.ts';
import { gated, hold } from '../modelets/gated.ts';

interface Passed {
  readonly pid: number;
}

describe('restart', () => {
  test('under load replaces each worker by a warm one: no request fails', async (t) => {
    const service = await serve(t, {
      stages: [
        { id: 'before', file: 'echo' },
        { id: 'model', inline: 'return process.pid;', workers: 3, batch: { maxBatchSize: 4 } },
      ],
    });
    const { model: old = [], before } = await service.ready();
    let going = true;
    let sent = 0;
    const lane = async (): Promise<void> => {
      while (going) {
        sent += 1;
        const { code, error } = await service.answer(sent);
        assert.equal(code, 'ok', error?.message);
        assert.ok(service.stage('model').ready > 0, 'a worker is ready at any time');
      }
    };
    const lanes = Array.from({ length: 16 }, lane);
    service.service.actOnStage('model', 'restart');
    await service.replaced('model', old).finally(() => {
      going = false;
    });
    await Promise.all(lanes);
    await until('the old ones have ended', () => !old.some(isAlive));
    assert.deepEqual(service.pids('before'), before, 'another stage keeps its workers');
    assert.deepEqual(
      service.stage('model').workers.map(({ restarts }) => restarts),
      [1, 1, 1],
    );
    const { restarts } = service.stage('model').reading;
    assert.deepEqual(restarts, { died: 0, not_started: 0, run_timeout: 0, recycled: 0, asked: 3 });
  });

  test('lets a worker finish its batches while its successor serves', async (t) => {
    const held = await gated(t);
    const { service, folder } = held;
    const { gate: old = [] } = await service.ready();
    const running = await hold(held, 'held');
    service.service.actOnStage('gate', 'restart');
    const next = await service.value<Passed>('next');
    assert.ok(!old.includes(next.pid));
    assert.equal(running.settled, null);
    release(folder, 'held');
    assert.equal(((await running.answer).value as Passed).pid, old[0]);
    await until('the old one has ended', () => !old.some(isAlive));
  });

  test('keeps the old workers serving until the code starts again', async (t) => {
    const file = join(folderFor(t), 'model.mjs');
    const good = (version: number): void => writeFileSync(file, `export default () => ${version};`);
    good(1);
    const service = await serve(t, { stages: [{ id: 'model', file, workers: 2 }] });
    const { model: old = [] } = await service.ready();
    writeFileSync(file, 'throw new Error("half written");');
    service.service.actOnStage('model', 'restart');
    const trouble = await until('the cause is shown', () => service.stage('model').workers.find(({ error }) => error));
    assert.match(trouble.error ?? '', /its replacement does not start: half written/);
    assert.equal(trouble.state, 'ready');
    assert.deepEqual(service.pids('model'), old);
    assert.equal(await service.value(0), 1);
    good(2);
    await service.replaced('model', old);
    assert.equal(await service.value(0), 2);
    assert.deepEqual(
      service.stage('model').workers.map(({ error }) => error),
      [null, null],
    );
  });

  test('twice, and in the middle of a deploy, leaves one set of workers', async (t) => {
    const plan = (version: number) => ({
      stages: [{ id: 'model', inline: 'return init;', init: version, workers: 2 }],
    });
    const service = await serve(t, plan(1));
    const { model: old = [] } = await service.ready();
    service.service.actOnStage('model', 'restart');
    service.service.actOnStage('model', 'restart');
    service.apply(plan(2));
    service.service.actOnStage('model', 'restart');
    await service.replaced('model', old);
    await until('the old ones have ended', () => !old.some(isAlive));
    assert.equal(await service.value(0), 2);
  });

  test('does nothing for a node that belongs to no stage', async (t) => {
    const service = await serve(t, { stages: [{ id: 'echo', file: 'echo' }] });
    const pids = await service.ready();
    service.service.actOnStage('nobody', 'restart');
    assert.equal(await service.value('a'), 'a');
    await until('the engine reports of the time since', () => service.stage('echo').items === 1);
    assert.deepEqual(await service.ready(), pids);
    assert.equal(startedProcesses().length, 2, 'the engine and the worker, which gets no successor');
  });
});

/** An engine that lives and does nothing is replaced; one that waits for a Node-RED that does nothing is not. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ModeletError } from '../../src/core/errors.ts';
import { HEARTBEAT } from '../../src/lifecycle/heartbeat.ts';
import { isAlive, startedProcesses, until, within } from '../fixtures/processes.ts';
import { callsIn, folderFor, serve } from '../fixtures/service.ts';

const LIMIT_MS = HEARTBEAT.intervalMs * HEARTBEAT.mostSilent;
const LONG_MS = LIMIT_MS + 30_000;

describe('an engine that is stopped (SIGSTOP)', () => {
  test('under load is replaced: what it had gets engine_lost, its workers end, and the load goes on', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, {
      stages: [
        { id: 'echo', file: 'echo', workers: 2, batch: { maxBatchSize: 8 } },
        { id: 'spin', file: 'spin', init: { folder } },
      ],
      routes: { in: ['echo'], spin: ['spin'] },
    });
    await service.ready();
    void service.ask('spin', { entry: 'spin' });
    await until(() => callsIn(folder).length === 1, 'one worker is busy in synchronous code');
    const old = startedProcesses();
    const { enginePid } = service;
    const lost: (ModeletError | null)[] = [];
    let after = 0;
    let number = 0;
    const lane = async (): Promise<void> => {
      while (after < 200) {
        number += 1;
        const sent = number;
        const { error, value } = await service.answer(sent);
        if (error) lost.push(error);
        else assert.equal(value, sent);
        if (!error && lost.length > 0) after += 1;
      }
    };
    const lanes = Array.from({ length: 16 }, lane);
    await until(() => number > 200, 'requests are served');
    process.kill(enginePid, 'SIGSTOP');
    await within(Promise.all(lanes), 'the load goes on', LONG_MS);
    assert.equal(lost.length, 16, 'one for each lane: all that were under way, and nothing else');
    for (const error of lost) {
      assert.equal(error?.code, 'engine_lost');
      assert.match(error?.message ?? '', /did not answer for \d+ s/);
    }
    assert.notEqual(service.enginePid, enginePid);
    await until(() => old.every(({ pid }) => !isAlive(pid)), 'the old engine and its workers are gone');
    const { engine, lateOutcomes } = service.service.snapshot();
    assert.deepEqual([engine.restarts, lateOutcomes], [1, 0]);
  });
});

test('a Node-RED whose own loop stands still for longer than the limit kills nothing', async (t) => {
  const service = await serve(t, { stages: [{ id: 'echo', file: 'echo' }] });
  await service.ready();
  const { enginePid } = service;
  const asked = service.ask('before');
  const standStill = new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(standStill, 0, 0, LIMIT_MS + 1500);
  assert.equal((await asked.answer).value, 'before');
  assert.equal(await service.value('after'), 'after');
  assert.equal(service.enginePid, enginePid);
  assert.equal(service.service.snapshot().engine.restarts, 0);
});

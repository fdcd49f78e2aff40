/** An engine is not blamed for a Node-RED that does nothing. An engine that itself does nothing is a row of the fault table. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HEARTBEAT } from '../../../src/process/parent/heartbeat.ts';
import { serve } from '../../fixtures/service.ts';

const LIMIT_MS = HEARTBEAT.intervalMs * HEARTBEAT.mostSilent;

test('a Node-RED whose own event loop was blocked for longer than the limit kills nothing', async (t) => {
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

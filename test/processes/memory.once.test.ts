/**
 * Inputs that grow in their first stage, in front of a slow second one, in an engine with a hard memory limit: without
 * bounds of its own it would end, and every open request with it.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { serve } from '../fixtures/service.ts';

const MB = 1024 * 1024;
const REQUESTS = 60;
/** The image that 70 KB unpack to. */
const UNPACKED = 12 * MB;

test('60 inputs of 70 KB, each 12 MB after the first stage, pass an engine that may have 450 MB more', async (t) => {
  const service = await serve(t, {
    config: { maxQueueBytes: 128 * MB },
    stages: [
      { id: 'decode', inline: `return Buffer.alloc(${UNPACKED}, input.length % 251);`, batch: { maxBatchSize: 32 } },
      { id: 'model', inline: 'return new Promise((done) => setTimeout(() => done(input.length), 20));' },
    ],
    routes: { decode: ['decode', 'model'] },
  });
  await service.ready();
  const engine = service.enginePid;
  const limited = spawnSync('prlimit', ['--pid', String(engine), `--data=${of(engine, 'VmData') + 450 * MB}`]);
  assert.equal(limited.status, 0, String(limited.stderr));
  const input = Buffer.alloc(70_000);
  const answers = await Promise.all(Array.from({ length: REQUESTS }, () => service.answer(input, { entry: 'decode' })));
  assert.deepEqual(
    answers.map(({ code, value }) => (code === 'ok' ? value : code)),
    Array(REQUESTS).fill(UNPACKED),
  );
  assert.equal(service.enginePid, engine, 'the engine has not been replaced');
  t.diagnostic(`peak ${Math.round(of(engine, 'VmHWM') / MB)} MB`);
});

/** Reads bytes of a process's memory. */
function of(pid: number, field: 'VmData' | 'VmHWM'): number {
  const kilobytes = new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}

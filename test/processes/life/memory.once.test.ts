/**
 * Inputs that grow in their first stage, in front of a slow second one, in an engine with a hard memory limit: without
 * its own bounds it would end, and every open request with it.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { listenAtEngine, postText, RawClient } from '../../fixtures/endpoint.ts';
import { until } from '../../fixtures/polling.ts';
import { serve, type TestService } from '../../fixtures/service.ts';

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
  const engine = limited(service, 450 * MB);
  const input = Buffer.alloc(70_000);
  const answers = await Promise.all(Array.from({ length: REQUESTS }, () => service.answer(input, { entry: 'decode' })));
  assert.deepEqual(
    answers.map(({ code, value }) => (code === 'ok' ? value : code)),
    Array(REQUESTS).fill(UNPACKED),
  );
  assert.equal(service.enginePid, engine, 'the engine has not been replaced');
  t.diagnostic(`peak ${Math.round(of(engine, 'VmHWM') / MB)} MB`);
});

test('100 clients that do not read answers of 8 MB fill no engine that may have 250 MB more; others get 429 meanwhile', async (t) => {
  const inline = `return Buffer.alloc(${8 * MB}, 1);`;
  const { service, port, url } = await listenAtEngine(
    t,
    { config: { maxQueueBytes: 96 * MB }, stages: [{ id: 'large', inline }] },
    { maxBytes: 16 * MB },
  );
  const engine = limited(service, 250 * MB);
  const clients = Array.from({ length: 100 }, () => {
    const client = new RawClient(port);
    client.socket.pause();
    return client.send(postText('{}'));
  });
  const statusOfAnother = async (): Promise<number> => {
    // Let in before the memory was full, the request would wait for the clients.
    const headers = { 'Content-Type': 'application/json', Timeout: '300' };
    const answer = await fetch(url, { method: 'POST', body: '{}', headers });
    await answer.body?.cancel();
    return answer.status;
  };
  await until('answers fill the memory', async () => (await statusOfAnother()) === 429);
  t.diagnostic(`peak ${Math.round(of(engine, 'VmHWM') / MB)} MB`);
  for (const { socket } of clients) socket.destroy();
  await until('it is free again', async () => (await statusOfAnother()) === 200);
  assert.equal(service.enginePid, engine, 'the engine has not been replaced');
});

/** Gives the engine a hard limit of so many bytes more than it has. Returns its process number. */
function limited(service: TestService, more: number): number {
  const engine = service.enginePid;
  const done = spawnSync('prlimit', ['--pid', String(engine), `--data=${of(engine, 'VmData') + more}`]);
  assert.equal(done.status, 0, String(done.stderr));
  return engine;
}

/** Reads bytes of a process's memory. */
function of(pid: number, field: 'VmData' | 'VmHWM'): number {
  const kilobytes = new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}

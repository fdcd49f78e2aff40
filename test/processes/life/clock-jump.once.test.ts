/** The wall clock jumps in every process of the runtime, Node-RED's own included: deadlines do not. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { startedProcesses } from '../../fixtures/processes.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { callsIn, release, serve, type TestService } from '../../fixtures/service.ts';

const PRELOAD = pathToFileURL(join(repositoryRoot, 'test', 'fixtures', 'clock-jump.js')).href;
const HOUR_MS = 3_600_000;

/** An hour ahead, then two back, then to the right time. */
async function jump(service: TestService, number: number): Promise<void> {
  const processes = startedProcesses();
  for (const { pid } of processes) process.kill(pid, 'SIGPWR');
  process.kill(process.pid, 'SIGPWR');
  const told = (): number => service.logs.filter(({ message }) => message === `jump ${number}`).length;
  await until('all have jumped', () => told() === processes.length);
}

test('no request expires early or late when the clock jumps an hour ahead or two hours back', async (t) => {
  const folder = folderFor(t);
  const realTime = Date.now();
  const { NODE_OPTIONS: before = '' } = process.env;
  process.env['NODE_OPTIONS'] = `${before} --import=${PRELOAD}`;
  t.after(() => {
    process.env['NODE_OPTIONS'] = before;
  });
  await import(PRELOAD);
  const service = await serve(t, { stages: [{ id: 'gate', file: 'gate', init: { folder }, workers: 2 }] });
  await service.ready();

  const long = { timeoutMs: HOUR_MS / 2 };
  const one = service.ask('held one', long);
  const two = service.ask('held two', long);
  await until('both workers are busy', () => callsIn(folder).length === 2);
  const waiting = service.ask('waiting', long);
  await until('one waits', () => service.stage('gate').queue === 1);
  await jump(service, 1);
  await until('here it is an hour later', () => Date.now() - realTime > HOUR_MS);
  release(folder, 'held one');
  assert.equal((await one.answer).code, 'ok', 'it ran when the clock jumped');
  assert.equal((await waiting.answer).code, 'ok', 'it waited when the clock jumped');
  assert.equal((await service.answer('quick', long)).code, 'ok', 'it came later');

  const three = service.ask('held three', long);
  await until('both workers are busy', () => callsIn(folder).length === 5);
  const short = service.ask('short', { timeoutMs: 1000 });
  await jump(service, 2);
  assert.equal((await short.answer).code, 'deadline_exceeded', 'no later for a clock that is two hours back');

  await jump(service, 3);
  release(folder, 'held two');
  release(folder, 'held three');
  assert.deepEqual([(await two.answer).code, (await three.answer).code], ['ok', 'ok']);
});

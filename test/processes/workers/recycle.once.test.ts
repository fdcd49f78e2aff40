/** Workers that grow old or large are replaced by warm ones, and no request notices. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { startedProcesses } from '../../fixtures/processes.ts';
import { callsIn, type PlanSpec, release, serve } from '../../fixtures/service.ts';

describe('recycleAfter', () => {
  test('under load every request gets an answer, and no worker is missing at any time', async (t) => {
    const inline = 'return process.pid;';
    const stages = [{ id: 'old', inline, workers: 2, recycleAfter: 100, batch: { maxBatchSize: 2 } }];
    const service = await serve(t, { stages });
    await service.ready();
    const pids = new Set<unknown>();
    let answers = 0;
    let mostProcesses = 0;
    const lane = async (): Promise<void> => {
      while (pids.size < 8) {
        const { code, value, error } = await service.answer('x');
        assert.equal(code, 'ok', error?.message);
        assert.equal(service.stage('old').ready, 2);
        pids.add(value);
        answers += 1;
        if (answers % 50 === 0) mostProcesses = Math.max(mostProcesses, startedProcesses().length);
      }
    };
    await Promise.all(Array.from({ length: 12 }, lane));
    const retired = (): unknown[] => [...pids].filter((pid) => !service.pids('old').includes(pid as number));
    await until('the old have ended', () => retired().length >= 6 && !retired().some((pid) => isAlive(pid as number)));
    // The engine, two workers, a successor, and what has not quite ended of those before.
    assert.ok(mostProcesses <= 6, `${mostProcesses} processes at a time`);
    await until('they are counted', () => service.stage('old').reading.restarts.recycled >= 6);
    assert.equal(service.stage('old').reading.restarts.died, 0);
    assert.equal(service.stage('old').circuit, 'closed');
  });

  test('the old worker serves until a replacement starts', async (t) => {
    const file = join(folderFor(t), 'model.mjs');
    const good = 'export default () => process.pid;';
    writeFileSync(file, good);
    const service = await serve(t, { stages: [{ id: 'old', file, recycleAfter: 5 }] });
    const { old: [pid] = [] } = await service.ready();
    writeFileSync(file, 'throw new Error("half written");');
    for (let n = 0; n < 20; n += 1) assert.equal(await service.value(n), pid);
    const trouble = await until('the cause is shown', () => service.stage('old').workers[0]?.error);
    assert.match(trouble, /its replacement does not start: half written/);
    await until('it is tried again and again', () => service.stage('old').reading.restarts.not_started >= 5);
    assert.equal(service.stage('old').circuit, 'closed');
    assert.equal(await service.value('still'), pid);
    writeFileSync(file, good);
    await until('it is replaced', () => service.pids('old')[0] !== pid);
    assert.notEqual(await service.value('new'), pid);
    assert.equal(service.stage('old').workers[0]?.error, null);
  });

  test('replaces no worker of a stage that a deploy has replaced', async (t) => {
    const folder = folderFor(t);
    const plan = (version: number): PlanSpec => ({
      stages: [{ id: 'old', file: 'gate', init: { folder, version }, recycleAfter: 1 }],
    });
    const service = await serve(t, plan(0));
    for (let version = 1; version <= 2; version += 1) {
      const [before] = (await service.ready())['old'] as [number];
      const held = service.ask(`held${version}`);
      await until('it is held', () => callsIn(folder).includes(`held${version}`));
      service.apply(plan(version));
      await until('the new one serves', () => service.pids('old')[0] !== before && service.stage('old').ready === 1);
      release(folder, `held${version}`);
      assert.equal((await held.answer).code, 'ok');
      await until('the old one has ended', () => !isAlive(before));
    }
    // The engine and the worker of the last version; a successor of an old one would have been started by now.
    assert.equal(startedProcesses().length, 2);
  });

  test('replaces threads as well', async (t) => {
    const inline = 'return require("worker_threads").threadId;';
    const stages = [{ id: 'old', inline, isolation: 'thread', recycleAfter: 20 } as const];
    const service = await serve(t, { stages });
    await service.ready();
    const threads = new Set<unknown>();
    while (threads.size < 4) threads.add(await service.value('x'));
    const memory = (): number => service.stage('old').workers[0]?.rssBytes ?? 0;
    await until('a thread shows its own memory', () => memory() > 1024 * 1024);
    assert.equal(service.stage('old').reading.restarts.died, 0);
  });
});

describe('maxRssMb', () => {
  test('the stage replaces a worker that has grown beyond the limit, and loses no request', async (t) => {
    const inline = {
      setup: 'return [];',
      code: 'state.push(Buffer.alloc(2 * 1024 * 1024, 1)); return process.pid;',
    };
    const service = await serve(t, { stages: [{ id: 'leaks', inline, maxRssMb: 256 }] });
    const { leaks: [pid] = [] } = await service.ready();
    let answered: unknown = pid;
    let requests = 0;
    while (answered === pid) {
      answered = await service.value('more');
      requests += 1;
    }
    assert.ok(requests > 50, `replaced after ${requests} requests of 2 MB each`);
    await until('the old one has ended', () => !isAlive(pid as number));
    const told = service.logs.find(({ message }) => message.startsWith('is replaced'));
    assert.match(told?.message ?? '', /is replaced: it uses \d{3,} MB/);
  });

  test('a limit below the memory of a new worker replaces nothing, and the log says so', async (t) => {
    const service = await serve(t, { stages: [{ id: 'small', inline: 'return process.pid;', maxRssMb: 5 }] });
    const { small: [pid] = [] } = await service.ready();
    const warning = await until('it is told', () =>
      service.logs.find(({ message }) => message.includes('Memory limit of 5 MB')),
    );
    assert.equal(warning.level, 'warn');
    for (let n = 0; n < 50; n += 1) assert.equal(await service.value(n), pid);
    assert.equal(service.stage('small').workers[0]?.restarts, 0);
  });
});

test('each worker shows its memory and its CPU time', async (t) => {
  // CPU time, not time: on a busy machine a worker gets little of that.
  const inline = 'const since = process.cpuUsage(); while (process.cpuUsage(since).user < 50_000); return input;';
  const service = await serve(t, { stages: [{ id: 'busy', inline, workers: 2 }] });
  await service.ready();
  const shown = (): boolean =>
    service.stage('busy').workers.every(({ rssBytes }) => (rssBytes ?? 0) > 10 * 1024 * 1024);
  await until('both show their memory', shown);
  const cpuMs = (): number => service.stage('busy').workers.reduce((sum, worker) => sum + (worker.cpuMs ?? 0), 0);
  const before = cpuMs();
  for (let n = 0; n < 4; n += 1) await service.value(n);
  await until('it has worked', () => cpuMs() >= before + 4 * 50);
});

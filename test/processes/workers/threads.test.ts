/** The particular behaviour of workers that are threads of the engine. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { parseCpus } from '../../../src/config/formats/pins.ts';
import { ModeletError } from '../../../src/core/errors.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { startedProcesses, within } from '../../fixtures/processes.ts';
import { callsIn, grantedCpus, type PlanSpec, release, serve } from '../../fixtures/service.ts';
import { hold, prefetching } from '../modelets/gated.ts';

const ECHO = { id: 'echo', file: 'echo', isolation: 'thread' } as const;

/** The Linux id of the thread that runs it, and its cores. */
const WHERE = `
  const { readFileSync, readlinkSync } = require('fs');
  const cores = /^Cpus_allowed_list:\\s*(\\S+)$/m.exec(readFileSync('/proc/thread-self/status', 'utf8'))[1];
  return { thread: readlinkSync('/proc/thread-self'), cores };`;

/** Fills the young generation with what lives on, and returns its size in bytes. */
const YOUNG = `
  let kept = [];
  for (let n = 0; n < 3e6; n += 1) {
    if (kept.length > 200_000) kept = [];
    kept.push({ n, more: [n] });
  }
  return require('v8').getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space').space_size;`;

describe('worker threads', () => {
  test('live in the engine, and end with their stage', async (t) => {
    const service = await serve(t, { stages: [ECHO] });
    const plan = (workers: number): PlanSpec => ({ stages: [{ ...ECHO, init: { workers }, workers }] });
    const threads = (): number => readdirSync(`/proc/${service.enginePid}/task`).length;
    await service.value(1);
    assert.equal(startedProcesses().length, 1, 'there is the engine alone');
    const before = threads();
    for (const workers of [4, 2, 4]) {
      service.apply(plan(workers));
      await until('the stage has changed', () => service.stage('echo').workers.length === workers);
      await service.ready();
      await until(`there are ${workers - 1} more threads`, () => threads() - before === workers - 1);
    }
    service.apply({ stages: [ECHO] });
    await until(
      'there are as many as before',
      () => service.stage('echo').workers.length === 1 && threads() === before,
    );
    assert.equal(await service.value(2), 2);
  });

  test('run on the cores of their pins, and without a pin on all cores, whatever the engine has', async (t) => {
    const granted = await grantedCpus();
    const [first = 0, last = 0] = [granted[0], granted.at(-1)];
    const service = await serve(t, {
      config: { engineCpus: [first] },
      stages: [
        { id: 'pinned', isolation: 'thread', inline: WHERE, workers: [[last]] },
        { id: 'free', isolation: 'thread', inline: WHERE },
      ],
      routes: { pinned: ['pinned'], free: ['free'] },
    });
    const pinned = await service.value<{ thread: string; cores: string }>(1, { entry: 'pinned' });
    const free = await service.value<{ thread: string; cores: string }>(1, { entry: 'free' });
    assert.deepEqual(parseCpus(pinned.cores), [last]);
    assert.deepEqual(parseCpus(free.cores), granted);
    assert.notEqual(pinned.thread, free.thread);
    const engine = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${service.enginePid}/status`, 'utf8'))?.[1];
    assert.deepEqual(parseCpus(engine ?? ''), [first], 'the engine stays where it is');
  });

  test('have the memory of a process for what is new, though their engine has less', async (t) => {
    const service = await serve(t, {
      stages: [
        { id: 'thread', isolation: 'thread', inline: YOUNG },
        { id: 'process', inline: YOUNG },
      ],
      routes: { thread: ['thread'], process: ['process'] },
    });
    const sizeIn = (entry: string): Promise<number> => service.value<number>(1, { entry });
    // On a slow machine it takes several runs to grow as far as it may.
    await until('both are as large', async () => (await sizeIn('thread')) === (await sizeIn('process')), 60_000);
  });

  test('that native code blocks are given up: the stage serves, and the runtime closes', async (t) => {
    const folder = folderFor(t);
    const inline = `
      require('fs').appendFileSync(init.folder + '/calls', JSON.stringify(input) + '\\n');
      if (input === 'stuck') require('child_process').spawnSync('sleep', ['600']);
      return input;`;
    // The run after that is short, but on a slow machine no run is as short as on others.
    const startedAt = performance.now();
    await (await serve(t, { stages: [{ id: 'quick', isolation: 'thread', inline, init: { folder } }] })).ready();
    const runTimeoutMs = Math.max(500, Math.round(performance.now() - startedAt));
    const service = await serve(t, {
      stages: [{ id: 'native', isolation: 'thread', inline, init: { folder }, runTimeoutMs }],
    });
    await service.ready();
    const { enginePid } = service;
    assert.equal((await service.answer('stuck')).code, 'deadline_exceeded');
    assert.equal(await service.value('next'), 'next');
    assert.equal(service.enginePid, enginePid);
    assert.deepEqual(callsIn(folder), ['stuck', 'next']);
    await within(service.service.close(true, 2000), 'it closes');
  });

  test('that cannot be created say why', async (t) => {
    const service = await serve(t, { stages: [{ ...ECHO, env: { NODE_OPTIONS: '--no-such-option' } }] });
    const { code, error } = await service.answer(1);
    assert.equal(code, 'stage_unavailable');
    assert.match(error?.message ?? '', /--no-such-option is not allowed in NODE_OPTIONS/);
    assert.equal(service.service.snapshot().engine.restarts, 0);
  });

  test('that send invalid bytes end alone', async (t) => {
    const inline = `
      if (input === 'garbage') require('worker_threads').parentPort.postMessage({ garbage: true });
      return input === 'garbage' ? new Promise((go) => setTimeout(go, 60_000)) : input;`;
    const service = await serve(t, { stages: [{ id: 'model', isolation: 'thread', inline }] });
    const { code, error } = await service.answer('garbage');
    assert.equal(code, 'worker_lost');
    assert.match(error?.message ?? '', /malformed frame/);
    assert.equal(await service.value('next'), 'next');
    assert.equal(service.service.snapshot().engine.restarts, 0);
  });

  for (const file of ['gate', 'spin']) {
    test(`do not run items cancelled while they waited behind another batch (${file})`, async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, { stages: [{ id: 'gate', isolation: 'thread', file, init: { folder } }] });
      const name = file === 'gate' ? 'held' : 'spin';
      const before = 1 + (await prefetching(service, 'gate'));
      const running = await hold({ service, folder }, name);
      const ahead = service.ask('ahead');
      await until('one was sent ahead', () => service.stage('gate').items > before);
      service.service.desk.abandon(ahead.id, new ModeletError('cancelled', 'the caller went away'));
      // Behind the cancellation on the same way: when this has arrived, so has that.
      const behind = service.ask('behind');
      await until('the engine has it', () => {
        const { queue, items } = service.stage('gate');
        return queue === 1 || items === before + 2;
      });
      release(folder, name);
      for (const { answer } of [running, behind]) assert.equal((await answer).code, 'ok');
      const calls = callsIn(folder).filter((call) => call !== 'quick');
      assert.deepEqual(calls, [name, 'behind']);
    });
  }
});

/** A stage whose number of workers follows its load, with real workers. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { callsIn, type PlanSpec, release, type StageSpec, serve } from '../../fixtures/service.ts';

/** Shorter than a busy machine takes to look again: no test may wait for workers that are ready, but do nothing. */
const IDLE_MS = 300;

interface Passed {
  readonly pid: number;
  readonly version: number;
}

describe('a stage with 0-2 workers', () => {
  test('sleeps, wakes for a request, grows while items wait, loses none to a kill, and sleeps again', async (t) => {
    const folder = folderFor(t);
    const stage: StageSpec = { id: 'model', file: 'gate', init: { folder, version: 1 }, workers: 2, retryLost: true };
    const plan: PlanSpec = { stages: [{ ...stage, scaling: { min: 0, idleMs: IDLE_MS } }] };
    const service = await serve(t, plan);
    const scaling = (): NonNullable<ReturnType<typeof service.stage>['scaling']> => {
      const { scaling: told } = service.stage('model');
      assert.ok(told);
      return told;
    };
    // The answer to the first request may come before the first report.
    const isAsleep = (): boolean => service.stage('model').scaling?.wanted === 0;
    const { pid: first } = await service.value<Passed>('start');
    await until('it sleeps', isAsleep);
    await until('its worker has ended', () => !isAlive(first));
    const { workers, ready } = service.stage('model');
    assert.deepEqual([workers, ready, scaling().asleep], [[], 0, true]);
    assert.deepEqual(service.service.snapshot().routes, [{ stages: ['model'], ready: true, missing: [] }]);

    const { pid } = await service.value<Passed>('wake');
    assert.notEqual(pid, first);

    // One long run, and others behind it, of which one may wait in the worker: the second worker comes for the last.
    const begun = (): number => callsIn(folder).filter((name) => String(name).startsWith('held')).length;
    const held = ['held0', 'held1', 'held2'].map((name) => service.ask(name));
    await until('another worker has begun one', () => begun() === 2);
    // The engine reports from time to time.
    await until('the reason is told', () => /^added a worker: /.test(scaling().change?.reason ?? ''));
    await until('both workers are told', () => service.stage('model').ready === 2);
    const pids = service.pids('model');
    assert.equal(pids.length, 2);
    for (const one of pids) process.kill(one, 'SIGKILL');
    await until('two run again', () => begun() >= 4);
    for (const name of ['held0', 'held1', 'held2']) release(folder, name);
    for (const { answer } of held) assert.equal((await answer).code, 'ok');
    await until('it sleeps again', isAsleep);
    assert.match(scaling().change?.reason ?? '', /^asleep: no request for 300 ms$/);
    const { restarts } = service.stage('model').reading;
    assert.deepEqual([restarts.died, restarts.recycled, restarts.asked], [2, 0, 0], 'a worker that ends is no restart');
  });

  test('sleeps, wakes and grows in threads, too', async (t) => {
    const folder = folderFor(t);
    const threads = { isolation: 'thread', workers: 2, scaling: { min: 0, idleMs: IDLE_MS } } as const;
    const service = await serve(t, {
      stages: [{ id: 'model', file: 'gate', init: { folder, version: 1 }, ...threads }],
    });
    const hasEnded = (): boolean => service.stage('model').workers.length === 0;
    await service.value('start');
    await until('its thread has ended', hasEnded);
    const names = ['held0', 'held1', 'held2'];
    const held = names.map((name) => service.ask(name));
    await until('another thread has begun one', () => callsIn(folder).length === 3);
    for (const name of names) release(folder, name);
    for (const { answer } of held) assert.equal((await answer).code, 'ok');
    await until('its threads have ended', hasEnded);
  });

  test('wakes for the items of a list, and for the branches of a fork', async (t) => {
    const sleeper = (id: string, factor: number): StageSpec => ({
      ...{ id, inline: `return input * ${factor};`, workers: 2 },
      scaling: { min: 0, idleMs: IDLE_MS },
    });
    const end = { stages: [], next: null } as const;
    const gathered = { kind: 'fork', gather: 'gather', timeoutMs: 200_000, after: end } as const;
    const terms = { quorum: 0, partial: 'error' } as const;
    const item = { stages: ['item'], next: null };
    const list = { mode: 'list', total: 1, names: [''], list: { form: 'results', maxItems: 100 } } as const;
    const fork = { mode: 'all', total: 2, names: ['a', 'b'] } as const;
    const branches = ['a', 'b'].map((id) => ({ stages: [id], next: null }));
    const service = await serve(t, {
      stages: [
        { id: 'list', emits: 'list', inline: 'return [1, 2, 3].map((n) => n * input);' },
        { id: 'first', inline: 'return input + 1;' },
        ...[sleeper('item', 2), sleeper('a', 3), sleeper('b', 4)],
      ],
      routes: { list: ['list', 'item'], fork: ['first', 'a', 'b'] },
      legs: {
        list: { stages: ['list'], next: { ...gathered, terms: { ...terms, ...list }, branches: [item] } },
        fork: { stages: ['first'], next: { ...gathered, terms: { ...terms, ...fork }, branches } },
      },
    });
    const sleeps = (id: string): boolean =>
      service.stage(id).scaling?.asleep === true && service.stage(id).workers.length === 0;
    for (const n of [5, 6]) {
      await until('all sleep', () => ['item', 'a', 'b'].every(sleeps));
      assert.deepEqual(await service.value(n, { entry: 'list' }), [2 * n, 4 * n, 6 * n]);
      assert.deepEqual(await service.value(n, { entry: 'fork' }), { a: 3 * (n + 1), b: 4 * (n + 1) });
    }
  });

  test('whose code does not start when it wakes answers with the cause, and shows it', async (t) => {
    const file = join(folderFor(t), 'model.mjs');
    writeFileSync(file, 'export default () => 1;');
    const service = await serve(t, {
      stages: [{ id: 'model', file, workers: 2, scaling: { min: 0, idleMs: IDLE_MS } }],
    });
    await until('it sleeps', () => service.stage('model').scaling?.wanted === 0);
    writeFileSync(file, 'throw new Error("half written");');
    const { code, error } = await service.answer(1);
    assert.equal(code, 'stage_unavailable');
    assert.match(error?.message ?? '', /half written/);
    await until('readiness tells', () => service.service.snapshot().routes[0]?.ready === false);
    writeFileSync(file, 'export default () => 2;');
    await until('it has started', () => service.service.snapshot().routes[0]?.ready === true);
    assert.equal(await service.value(1), 2);
  });

  test('a deploy that changes only the range keeps the workers that stay', async (t) => {
    const stage: StageSpec = { id: 'model', inline: 'return process.pid;' };
    const plan = (workers: number, min: number): PlanSpec => ({
      stages: [{ ...stage, workers, scaling: { min, idleMs: 60_000 } }],
    });
    const service = await serve(t, plan(2, 1));
    const { model: [first] = [] } = await service.ready();
    const ready = (count: number) => (): boolean => {
      const { workers, ready: now } = service.stage('model');
      return workers.length === count && now === count;
    };
    for (const [workers, min, count] of [
      [3, 2, 2],
      [4, 3, 3],
      [2, 0, 2],
    ] as const) {
      service.apply(plan(workers, min));
      await until(`${count} workers are ready`, ready(count));
      assert.equal(service.pids('model')[0], first, `${min}-${workers} keeps the first`);
    }
    assert.equal(await service.value(1), first);
    assert.deepEqual(Object.values(service.stage('model').reading.restarts), [0, 0, 0, 0, 0]);
  });

  test('a deploy with a smaller range lets a busy worker answer before it ends', async (t) => {
    const folder = folderFor(t);
    const plan = (workers: number, min: number): PlanSpec => ({
      stages: [{ id: 'model', file: 'gate', init: { folder }, workers, scaling: { min, idleMs: 60_000 } }],
    });
    const service = await serve(t, plan(3, 2));
    const { enginePid } = service;
    await service.ready();
    const names = ['held0', 'held1'];
    const held = names.map((name) => service.ask(name));
    await until('each worker has one', () => callsIn(folder).length === 2);
    service.apply(plan(1, 0));
    await until('the engine tells of the new range', () => service.stage('model').scaling?.max === 1);
    for (const name of names) release(folder, name);
    for (const { answer } of held) assert.equal((await answer).code, 'ok');
    await until('one worker is left', () => service.stage('model').workers.length === 1);
    assert.equal(service.enginePid, enginePid);
  });
});

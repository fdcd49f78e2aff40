/** A deploy while requests are served: what changed is replaced when its successor is ready, the rest never notices. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { startedProcesses } from '../../fixtures/processes.ts';
import { callsIn, type PlanSpec, release, type StageSpec, serve } from '../../fixtures/service.ts';

interface Passed {
  readonly pid: number;
  readonly version: number;
}

describe('a changed stage', () => {
  test('new code takes over when it is ready, and old code answers all requests until then', async (t) => {
    const folder = folderFor(t);
    const inline = {
      setup: `const { existsSync } = require('fs');
              while (!existsSync(init.folder + '/' + init.version + '.open')) await new Promise((go) => setTimeout(go, 2));`,
      code: `if (input === 'held') {
               const { existsSync, appendFileSync } = require('fs');
               appendFileSync(init.folder + '/calls', '"held"\\n');
               while (!existsSync(init.folder + '/held.open')) await new Promise((go) => setTimeout(go, 2));
             }
             return { pid: process.pid, version: init.version };`,
    };
    const plan = (version: number): PlanSpec => ({
      stages: [{ id: 'model', inline, init: { folder, version }, workers: 2 }],
    });
    release(folder, '1');
    const service = await serve(t, plan(1));
    const { model: old = [] } = await service.ready();
    const held = service.ask('held');
    await until('old code holds one', () => callsIn(folder).length === 1);

    service.apply(plan(2));
    for (let n = 0; n < 20; n += 1) assert.equal((await service.value<Passed>(n)).version, 1, 'not ready yet');
    release(folder, '2');
    await until('new workers are in place', () => service.pids('model').every((pid) => !old.includes(pid)));
    await service.ready();
    for (let n = 0; n < 20; n += 1) assert.equal((await service.value<Passed>(n)).version, 2);
    await until('the idle one of the old workers has ended', () => old.filter(isAlive).length === 1);
    assert.equal(held.settled, null);
    release(folder, 'held');
    const { value } = await held.answer;
    assert.equal((value as Passed).version, 1);
    assert.ok(old.includes((value as Passed).pid));
    await until('the other one has ended, too', () => !old.some(isAlive));
  });

  test('loses no request over many changes under load', async (t) => {
    const plan = (version: number): PlanSpec => ({
      stages: [
        { id: 'first', file: 'echo' },
        { id: 'model', inline: 'return { input, version: init };', init: version, batch: { maxBatchSize: 4 } },
        { id: 'last', file: 'echo', workers: 2 },
      ],
    });
    const service = await serve(t, plan(0));
    const pids = await service.ready();
    const seen = new Set<number>();
    let sent = 0;
    let latest = 0;
    const lane = async (): Promise<void> => {
      while (latest < 6) {
        sent += 1;
        const input = sent;
        const { value, code, error } = await service.answer(input);
        assert.equal(code, 'ok', error?.message);
        const result = value as { input: number; version: number };
        assert.equal(result.input, input);
        seen.add(result.version);
      }
    };
    const deploys = async (): Promise<void> => {
      for (let version = 0; version <= 5; version += 1) {
        if (version > 0) service.apply(plan(version));
        await until(`version ${version} answers`, () => seen.has(version));
      }
      latest = 6;
    };
    await Promise.all([deploys(), ...Array.from({ length: 32 }, lane)]);
    assert.deepEqual([...seen], [0, 1, 2, 3, 4, 5], 'and never an older one after a newer one');
    const after = await service.ready();
    assert.deepEqual(
      [after['first'], after['last']],
      [pids['first'], pids['last']],
      'unchanged stages keep their workers',
    );
    assert.equal(service.service.snapshot().requests['ok'], sent);
    assert.equal(service.service.snapshot().lateOutcomes, 0);
  });

  test('runs only the last of several deploys that are faster than the start of workers', async (t) => {
    const stage = (version: number): PlanSpec => ({ stages: [{ id: 'model', inline: 'return init;', init: version }] });
    const service = await serve(t, stage(0));
    await service.ready();
    for (let version = 1; version <= 10; version += 1) service.apply(stage(version));
    await until(
      'a successor',
      () => service.logs.filter(({ message }) => message.startsWith('ready, pid')).length >= 2,
    );
    assert.equal(await service.value(null), 10);
  });

  test('needs no new workers for a return to the code that still serves', async (t) => {
    const folder = folderFor(t);
    const stage = (name: string): PlanSpec => ({
      stages: [{ id: 'model', file: join(folder, `${name}.mjs`), init: name }],
    });
    writeFileSync(join(folder, 'good.mjs'), 'export default () => process.pid;');
    writeFileSync(join(folder, 'bad.mjs'), 'export default');
    const service = await serve(t, stage('good'));
    const pids = await service.ready();
    service.apply(stage('bad'));
    await until('the new one fails', () => service.logs.some(({ message }) => message.includes('does not start')));
    service.apply(stage('good'));
    assert.equal(await service.value(null), pids['model']?.[0]);
    assert.deepEqual(await service.ready(), pids);
  });

  test('with broken code keeps the old workers until it is repaired', async (t) => {
    const folder = folderFor(t);
    const file = join(folder, 'model.mjs');
    writeFileSync(file, 'export default () => 1;');
    const plan = (init: string): PlanSpec => ({ stages: [{ id: 'model', file, init }] });
    const service = await serve(t, plan('first'));
    const pids = await service.ready();
    writeFileSync(file, 'export default () => {');
    service.apply(plan('second'));
    await until('the new one fails', () => service.logs.some(({ message }) => message.includes('does not start')));
    for (let n = 0; n < 20; n += 1) assert.equal(await service.value(n), 1);
    await until('the trouble is shown', () => /Unexpected/.test(service.stage('model').successorError ?? ''));
    assert.deepEqual(service.pids('model'), pids['model']);
    writeFileSync(file, 'export default () => 2;');
    let value: unknown = 1;
    while (value === 1) value = await service.value(null);
    assert.equal(value, 2);
    await until('the trouble is over', () => service.stage('model').successorError === null);
    await until('the old worker has ended', () => !isAlive(pids['model']?.[0] ?? 0));
  });

  test('a deploy repairs a broken stage without waiting for the old workers', async (t) => {
    const stage = (code: string): PlanSpec => ({ stages: [{ id: 'model', inline: code }] });
    const service = await serve(t, stage('return ;;{'));
    assert.equal((await service.answer(1)).code, 'stage_unavailable');
    service.apply(stage('return 2;'));
    assert.equal(await service.value(1), 2, 'it waits for the worker that starts');
  });
});

describe('an unchanged stage', () => {
  test('keeps its workers through changes of batching, capacity, name, routes and other stages', async (t) => {
    const folder = folderFor(t);
    const model: StageSpec = { id: 'model', file: 'gate', predict: 'batch', init: { folder }, workers: 2 };
    const service = await serve(t, { stages: [model] });
    const { model: pids } = await service.ready();
    const held = service.ask('held');
    await until('one is held', () => callsIn(folder).length === 1);
    const changes: PlanSpec[] = [
      { stages: [{ ...model, batch: { maxBatchSize: 10, policy: 'oldest', maxWaitMs: 5 } }] },
      { stages: [{ ...model, batch: { maxBatchSize: 10 }, capacity: 7 }] },
      { stages: [model, { id: 'echo', file: 'echo' }] },
      { stages: [{ id: 'before', file: 'echo' }, model], routes: { in: ['before', 'model'], direct: ['model'] } },
    ];
    for (const plan of changes) {
      service.apply(plan);
      assert.equal((await service.answer('a')).code, 'ok');
    }
    await until('those of removed stages have ended', () => startedProcesses().length === 4);
    assert.deepEqual(pids?.map(isAlive), [true, true], 'the engine, both workers, and one of the new stage are left');
    release(folder, 'held');
    assert.equal((await held.answer).code, 'ok');
    assert.equal((await held.answer).timings.length, 1, 'it ends on the route on which it began');
  });

  test('applies new batching at once, to waiting items as well', async (t) => {
    const folder = folderFor(t);
    const stage = (maxBatchSize: number): PlanSpec => ({
      stages: [{ id: 'model', file: 'gate', predict: 'batch', init: { folder }, batch: { maxBatchSize } }],
    });
    const service = await serve(t, stage(1));
    const asked = ['held', 'a', 'b', 'c'].map((name) => service.ask(name));
    await until('three wait', () => service.stage('model').queue === 3);
    service.apply(stage(8));
    release(folder, 'held');
    for (const { answer } of asked) assert.equal((await answer).code, 'ok');
    assert.deepEqual(callsIn(folder), [['held'], ['a', 'b', 'c']]);
  });
});

describe('a removed stage', () => {
  test('serves the requests on their way to it, over several deploys, and then ends', async (t) => {
    const folder = folderFor(t);
    const first: StageSpec = { id: 'first', file: 'gate', init: { folder }, workers: 2 };
    const last: StageSpec = { id: 'last', inline: 'return { ...input, last: true };' };
    const both: PlanSpec = { stages: [first, last] };
    const service = await serve(t, both);
    const pids = await service.ready();
    const held = service.ask('held');
    await until('one is held in the first stage', () => callsIn(folder).length === 1);
    service.apply(both);
    service.apply({ stages: [first, last], routes: { in: ['first'], other: ['last'] } });
    service.apply({ stages: [first] });
    assert.equal((await service.value<{ last?: boolean }>('a')).last, undefined);
    assert.ok(isAlive(pids['last']?.[0] ?? 0));
    release(folder, 'held');
    const { value, timings } = await held.answer;
    assert.equal((value as { last?: boolean }).last, true);
    assert.equal(timings.length, 2);
    await until('its worker has ended', () => !isAlive(pids['last']?.[0] ?? 0));
    assert.throws(() => service.ask('b', { entry: 'other' }), { code: 'config_invalid' });
  });

  test('that returns is new, and the first one serves the requests that began on it', async (t) => {
    const folder = folderFor(t);
    const stages: StageSpec[] = [
      { id: 'first', file: 'echo' },
      { id: 'gate', file: 'gate', init: { folder } },
    ];
    const service = await serve(t, { stages });
    const pids = await service.ready();
    const held = service.ask('held');
    const waiting = service.ask('a');
    await until('one is held and one waits', () => service.stage('gate').queue === 1);
    service.apply({ stages: stages.slice(0, 1) });
    service.apply({ stages });
    assert.notEqual((await service.value<Passed>('b')).pid, pids['gate']?.[0]);
    release(folder, 'held');
    for (const { answer } of [held, waiting]) assert.equal(((await answer).value as Passed).pid, pids['gate']?.[0]);
    await until('the first one has ended', () => !isAlive(pids['gate']?.[0] ?? 0));
  });
});

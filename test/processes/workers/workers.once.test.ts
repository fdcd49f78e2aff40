/** The behaviour that workers of both kinds share: processes, and threads of the engine. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { within } from '../../fixtures/processes.ts';
import { callsIn, type PlanSpec, release, type StageSpec, serve } from '../../fixtures/service.ts';

/** Tells which worker it is: a process, or a thread of one. */
const WHO = `process.pid + '.' + require('worker_threads').threadId`;

const MEGABYTE = 1024 * 1024;

for (const isolation of ISOLATIONS) {
  const stage = (spec: Partial<StageSpec>): PlanSpec => ({ stages: [{ id: 'model', isolation, ...spec }] });

  describe(`a batch (${isolation})`, () => {
    for (const size of [1, 32]) {
      test(`of ${size} is one call, and each item gets its own result`, async (t) => {
        const spec: Partial<StageSpec> = {
          inline: 'return input.map((n) => ({ n, of: input.length }));',
          predict: 'batch',
          batch: { maxBatchSize: size, policy: 'oldest', maxWaitMs: 60_000 },
        };
        const service = await serve(t, stage(spec));
        for (const round of [0, 1, 2]) {
          const inputs = Array.from({ length: size }, (_, index) => round * 100 + index);
          const values = await Promise.all(inputs.map((n) => service.value(n)));
          assert.deepEqual(
            values,
            inputs.map((n) => ({ n, of: size })),
          );
        }
      });
    }

    test('of large values with binaries travels unchanged', async (t) => {
      const service = await serve(t, stage({ file: 'echo', predict: 'batch', batch: { maxBatchSize: 4 } }));
      const values = [1, 2, 3, 4].map((n) => ({
        n,
        image: Buffer.alloc(3 * MEGABYTE, n),
        rows: [{ scores: Float32Array.from({ length: 100_000 }, (_, index) => index / n) }, Uint8Array.of(n)],
      }));
      const back = await Promise.all(values.map((value) => service.value(value)));
      assert.deepEqual(back, values);
    });
  });

  describe(`the end of a worker (${isolation})`, () => {
    const WAYS: readonly [way: string, cause: RegExp, code: string][] = [
      ['exit', /exited with code 7/, 'process.exit(7)'],
      ['an uncaught exception', /thrown from a timer/, 'setTimeout(() => { throw new Error("thrown from a timer"); })'],
      ['an unhandled rejection', /not caught/, 'Promise.reject(new Error("not caught"))'],
      [
        'its heap is full',
        /JavaScript heap out of memory/,
        `for (const all = []; ; await new Promise((go) => setImmediate(go))) all.push(new Array(100_000).fill(0))`,
      ],
    ];
    for (const [way, cause, code] of WAYS) {
      test(`by ${way}: its batch fails with the cause, another serves the waiting items, and the engine lives`, async (t) => {
        const folder = folderFor(t);
        const spec: Partial<StageSpec> = {
          inline: {
            setup: `return { who: ${WHO}, note: (input) => require('fs').appendFileSync(init.folder + '/calls', JSON.stringify(input) + '\\n') }`,
            code: `state.note(input);
                   if (input[0] === 'wait') while (!require('fs').existsSync(init.folder + '/wait.open')) await new Promise((go) => setTimeout(go, 2));
                   if (input[0] !== 'end') return input.map(() => state.who);
                   ${code};
                   return new Promise((go) => setTimeout(go, 60_000));`,
          },
          init: { folder },
          predict: 'batch',
          batch: { maxBatchSize: 2 },
          heapMb: 64,
        };
        const service = await serve(t, stage(spec));
        await service.ready();
        const { enginePid } = service;
        const held = service.ask('wait');
        await until('the worker is busy', () => callsIn(folder).length === 1);
        const lost = ['end', 'too'].map((name) => service.ask(name));
        const waiting = ['a', 'b', 'c'].map((name) => service.ask(name));
        await until('all others wait', () => service.stage('model').queue === 5);
        release(folder, 'wait');
        const { value: first } = await held.answer;

        for (const { answer } of lost) {
          const { code: lostCode, error } = await answer;
          assert.equal(lostCode, 'worker_lost');
          assert.equal(error?.stage, 'model');
          assert.match(error?.message ?? '', cause);
        }
        const others = await Promise.all(waiting.map(async ({ answer }) => (await answer).value));
        assert.ok(
          others.every((who) => who === others[0] && who !== first),
          'one other worker serves them',
        );
        assert.deepEqual(callsIn(folder), [['wait'], ['end', 'too'], ['a', 'b'], ['c']], 'nothing ran twice');
        assert.equal(service.enginePid, enginePid);
        assert.ok(service.logs.some(({ level, message }) => level === 'error' && cause.test(message)));
        await until('the restart is shown', () => service.stage('model').workers[0]?.restarts === 1);
      });
    }

    test('that hangs follows at the deadline of close', async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, stage({ file: 'spin', init: { folder }, workers: 2 }));
      await service.ready();
      const open = ['spin', 'spin too', 'waits'].map((name) => service.ask(name));
      await until('both workers hang', () => callsIn(folder).length === 2);
      await within(service.service.close(false, 1500), 'it closes');
      for (const { answer } of open) assert.equal((await answer).code, 'shutting_down');
    });

    test('by close lets it finish its batch and run teardown once', async (t) => {
      const folder = folderFor(t);
      const inline = {
        code: `if (input === 'held') {
                 require('fs').appendFileSync(init.folder + '/calls', '"held"\\n');
                 while (!require('fs').existsSync(init.folder + '/held.open')) await new Promise((go) => setTimeout(go, 2));
               }
               return 'done';`,
        teardown: `await null; require('fs').appendFileSync(init.folder + '/stopped', ctx.worker + '\\n');`,
      };
      const service = await serve(t, stage({ inline, init: { folder }, workers: 2 }));
      await service.ready();
      const held = service.ask('held');
      await until('one runs', () => callsIn(folder).length === 1);
      const closed = service.service.close(true);
      release(folder, 'held');
      assert.equal((await held.answer).value, 'done');
      await within(closed, 'it closes');
      const stopped = readFileSync(join(folder, 'stopped'), 'utf8').trim().split('\n').toSorted();
      assert.deepEqual(stopped, ['0', '1']);
    });

    test('whose teardown throws or never ends does not prevent the runtime from closing', async (t) => {
      for (const teardown of ['throw new Error("will not")', 'for (;;) {}', 'await new Promise(() => {})']) {
        const service = await serve(t, stage({ inline: { code: 'return input;', teardown } }));
        assert.equal(await service.value(1), 1);
        await within(service.service.close(true, 1500), `it closes in spite of ${teardown}`);
      }
    });
  });

  describe(`a worker (${isolation})`, () => {
    test('writes to the log line by line, with its stage and its number', async (t) => {
      const inline = `
        console.log('first line\\nsecond line');
        console.error('a complaint');
        process.stdout.write('in two ');
        process.stdout.write('pieces\\n');
        ctx.log.info({ answer: 42 });
        ctx.log.error('an error');
        return ctx.worker;`;
      const service = await serve(t, stage({ inline }));
      await service.ready();
      const before = service.logs.length;
      await service.value(1);
      const heard = await until('all is heard', () => {
        const logs = service.logs.slice(before);
        return logs.length >= 6 && logs;
      });
      for (const { stage: name, worker } of heard) assert.deepEqual([name, worker], ['model', 0]);
      assert.deepEqual(heard.map(({ level, message }) => `${level}: ${message}`).toSorted(), [
        'error: an error',
        'info: a complaint',
        'info: first line',
        'info: in two pieces',
        'info: second line',
        'info: { answer: 42 }',
      ]);
    });

    test('has the variables of its stage and its parent, and no other worker sees its changes', async (t) => {
      const inline = `
        process.env.SET_BY ??= '';
        process.env.SET_BY += ctx.stage;
        return [env.get('MODEL'), process.env.SET_BY, env.get('PATH') === init];`;
      const both = ['one', 'two'].map((id) => ({
        id,
        isolation,
        inline,
        init: process.env['PATH'],
        env: { MODEL: `of ${id}` },
      }));
      const service = await serve(t, { stages: both, routes: { one: ['one'], two: ['two'] } });
      for (const id of ['one', 'two', 'one']) await service.value(null, { entry: id });
      assert.deepEqual(await service.value(null, { entry: 'one' }), ['of one', 'oneoneone', true]);
      assert.deepEqual(await service.value(null, { entry: 'two' }), ['of two', 'twotwo', true]);
    });

    test('whose code changes is replaced when its successor is ready, and no request is lost', async (t) => {
      const plan = (version: number): PlanSpec =>
        stage({ inline: `return { version: init, who: ${WHO} };`, init: version, workers: 2 });
      const service = await serve(t, plan(0));
      await service.ready();
      const seen = new Map<number, Set<string>>();
      let latest = 0;
      const lane = async (): Promise<void> => {
        while (latest < 3) {
          const { version, who } = await service.value<{ version: number; who: string }>(null);
          seen.set(version, (seen.get(version) ?? new Set()).add(who));
        }
      };
      const deploys = async (): Promise<void> => {
        for (const version of [0, 1, 2]) {
          if (version > 0) service.apply(plan(version));
          await until(`both workers of version ${version} answer`, () => seen.get(version)?.size === 2);
        }
        latest = 3;
      };
      await Promise.all([deploys(), ...Array.from({ length: 8 }, lane)]);
      assert.deepEqual([...seen.keys()], [0, 1, 2], 'never an older one after a newer one');
      assert.equal(new Set([...seen.values()].flatMap((workers) => [...workers])).size, 6, 'each version has its own');
    });

    test('with its own heap size does not change that of others', async (t) => {
      const code = `return require('v8').getHeapStatistics().heap_size_limit / ${MEGABYTE};`;
      const stages = [100, 300].map((heapMb) => ({ id: `of ${heapMb}`, isolation, inline: code, heapMb }));
      const service = await serve(t, { stages, routes: { 'of 100': ['of 100'], 'of 300': ['of 300'] } });
      const [small, large] = await Promise.all(stages.map(({ id }) => service.value<number>(1, { entry: id })));
      // The limit that Node.js tells includes the young generation, which is as large in both.
      assert.equal(Number(large) - Number(small), 200);
    });
  });
}

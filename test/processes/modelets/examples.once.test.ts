/** A modelet's examples say whether it works, and what requests and meters see of that is nothing. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setImmediate as pause } from 'node:timers/promises';
import { gateWithExamples } from '../../fixtures/examples.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9, within } from '../../fixtures/processes.ts';
import { callsIn, release, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

/** The result of a check, stage by stage: `name examples code`. */
async function check(service: TestService): Promise<string[]> {
  const results = await within(service.service.check(), 'the check is answered');
  return results.map(({ stage, examples, error }) => `${stage} ${examples} ${error?.code ?? 'ok'}`);
}

for (const isolation of ISOLATIONS) {
  describe(`examples in a ${isolation}`, () => {
    const gate = (folder: string, examples: readonly string[], stage: Partial<StageSpec> = {}): StageSpec => ({
      id: 'gate',
      file: gateWithExamples(folder, examples),
      init: { folder },
      isolation,
      ...stage,
    });

    test('run like requests, and do not count as requests', async (t) => {
      const file = join(folderFor(t), 'model.mjs');
      const code = `export default class {
        static examples = [{ n: 1 }, { n: 2 }];
        static batch = true;
        preprocess({ n }) { return n; }
        predict(all) { return all.map((n) => n * 2); }
        postprocess(y, n) { console.log('made ' + y + ' of ' + n); return y; }
      }`;
      writeFileSync(file, code);
      const service = await serve(t, { stages: [{ id: 'twice', file, isolation, recycleAfter: 2 }] });
      await service.ready();
      assert.deepEqual(await check(service), ['twice 2 ok']);
      // A warm-up of two examples and of a batch of one came before.
      const made = (): string[] => service.logs.map(({ message }) => message).filter((line) => line.startsWith('made'));
      await until('both have passed all three', () => made().length === 4);
      assert.deepEqual(made(), ['made 2 of 1', 'made 4 of 2', 'made 2 of 1', 'made 4 of 2']);
      assert.equal(await service.value({ n: 3 }), 6);
      await until('the request is counted', () => service.stage('twice').items > 0);
      const { items, batches, reading, workers } = service.stage('twice');
      assert.deepEqual([items, batches, workers[0]?.restarts, reading.restarts.recycled], [1, 1, 0, 0]);
    });

    test('report the first error, with its message', async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, {
        stages: [gate(folder, ['fine', 'throws', 'never run']), { id: 'none', file: 'echo', isolation }],
      });
      await service.ready();
      const [failing, without] = await service.service.check();
      assert.deepEqual(
        [failing?.examples, failing?.error?.code, failing?.error?.message],
        [2, 'modelet_failed', 'weights are broken'],
      );
      assert.deepEqual(without, { id: 'none', stage: 'none', examples: 0, error: null });
      assert.deepEqual(callsIn(folder), ['fine']);
      assert.equal((await service.answer('fine')).code, 'ok');
    });

    test('show a worker that one of them killed as dead, and the circuit stays closed', async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, { stages: [gate(folder, ['die'])] });
      for (let deaths = 1; deaths <= 6; deaths += 1) {
        await service.ready();
        assert.deepEqual(await check(service), ['gate 0 worker_lost']);
        await until('it is counted', () => service.stage('gate').reading.restarts.died === deaths);
      }
      assert.equal(service.stage('gate').circuit, 'closed');
      assert.equal((await service.answer('x')).code, 'ok');
    });

    test('end a worker if one of them runs longer than runTimeoutMs', async (t) => {
      const service = await serve(t, { stages: [gate(folderFor(t), ['spin'], { runTimeoutMs: 1000 })] });
      await service.ready();
      assert.deepEqual(await check(service), ['gate 0 deadline_exceeded']);
      await until('it is counted', () => service.stage('gate').reading.restarts.run_timeout === 1);
      assert.equal((await service.answer('x')).code, 'ok');
    });

    test('fail at the deadline if one of them hangs, while another worker serves', async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, { stages: [gate(folder, ['held'], { workers: 2 })] });
      await service.ready();
      const checked = check(service);
      await until('it hangs', () => callsIn(folder).includes('held'));
      for (let n = 0; n < 20; n += 1) assert.equal((await service.answer(`x${n}`)).code, 'ok');
      assert.deepEqual(await checked, ['gate 0 deadline_exceeded']);
      assert.deepEqual(
        callsIn(folder).filter((name) => name === 'held'),
        ['held'],
      );
      release(folder, 'held');
      await until('it has come back', () => service.stage('gate').busy === 0);
      assert.deepEqual(await check(service), ['gate 1 ok']);
    });

    test('take a place beside calls if the worker has several, and wait while all are taken', async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, { stages: [gate(folder, ['example'], { concurrency: 2 })] });
      await service.ready();
      const held = ['held a', 'held b'].map((name) => service.ask(name));
      await until('both places are taken', () => callsIn(folder).includes('held b'));
      const checked = check(service);
      release(folder, 'held a');
      assert.deepEqual(await checked, ['gate 1 ok'], 'while the other call runs');
      assert.equal(held[1]?.settled, null);
      release(folder, 'held b');
      for (const { answer } of held) assert.equal((await answer).code, 'ok');
    });
  });
}

const plain = (folder: string, examples: readonly string[], stage: Partial<StageSpec> = {}): StageSpec => ({
  id: 'gate',
  file: gateWithExamples(folder, examples),
  init: { folder },
  ...stage,
});

describe('a check', () => {
  test('under load runs between batches, and every request gets an answer', async (t) => {
    const folder = folderFor(t);
    const examples = Array.from({ length: 10 }, (_, n) => `example ${n}`);
    const service = await serve(t, { stages: [plain(folder, examples)] });
    await service.ready();
    const asked = ['held', ...new Array(200).fill('x')].map((name) => service.answer(name));
    await until('the others wait', () => callsIn(folder).includes('held') && service.stage('gate').queue === 200);
    const checked = check(service);
    // The engine has been asked.
    await pause();
    release(folder, 'held');
    assert.deepEqual(await checked, ['gate 10 ok']);
    const codes = (await Promise.all(asked)).map(({ code }) => code);
    assert.deepEqual(codes, new Array(asked.length).fill('ok'));
    const calls = callsIn(folder);
    const during = calls.slice(calls.indexOf('example 0'), calls.indexOf('example 9'));
    assert.ok(during.includes('x'), 'requests ran between two examples');
    await until('the requests are counted', () => service.stage('gate').items >= asked.length);
    assert.equal(service.stage('gate').items, asked.length);
  });

  test('waits for the running batch, and requests that came meanwhile are served', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [plain(folder, ['example']), { id: 'none', file: 'echo' }] });
    await service.ready();
    const held = service.ask('held');
    await until('it is held', () => callsIn(folder).includes('held'));
    const checks = [check(service), check(service)];
    const behind = service.ask('behind');
    release(folder, 'held');
    assert.deepEqual(await Promise.all(checks), [
      ['gate 1 ok', 'none 0 ok'],
      ['gate 1 ok', 'none 0 ok'],
    ]);
    assert.equal((await held.answer).code, 'ok');
    assert.equal((await behind.answer).code, 'ok');
    assert.deepEqual(callsIn(folder).filter((name) => name === 'example').length, 1, 'both share one run');
  });

  test('continues with the new code if a deploy replaces its workers', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [plain(folder, ['held', 'second'])] });
    await service.ready();
    const checked = check(service);
    await until('it runs', () => callsIn(folder).includes('held'));
    const next = gateWithExamples(folder, ['new'], 'next');
    service.apply({ stages: [{ ...plain(folder, ['held', 'second']), file: next }] });
    assert.equal((await service.answer('on the new code')).code, 'ok');
    release(folder, 'held');
    assert.deepEqual(await checked, ['gate 1 ok']);
    assert.ok(callsIn(folder).includes('new'));
    assert.equal(callsIn(folder).includes('second'), false);
  });

  test('fails at once when its worker or the engine is killed, or without a worker', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [plain(folder, ['held'])] });
    assert.deepEqual(await check(service), ['gate 0 engine_lost']);
    const { gate: [pid] = [] } = await service.ready();
    const first = check(service);
    await until('it runs', () => callsIn(folder).length === 1);
    kill9(pid);
    assert.deepEqual(await first, ['gate 0 worker_lost']);
    await until('its death is shown', () => service.stage('gate').reading.restarts.died === 1);
    await service.ready();
    const second = check(service);
    await until('it runs', () => callsIn(folder).length === 2);
    kill9(service.enginePid);
    assert.deepEqual(await second, ['gate 0 engine_lost']);
  });

  test('fails when the runtime closes', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, { stages: [plain(folder, ['held'])] });
    await service.ready();
    const checked = check(service);
    await until('it runs', () => callsIn(folder).length === 1);
    await service.service.close(false, 1500);
    const [result] = await checked;
    assert.match(result ?? '', /^gate 0 (worker_lost|shutting_down|stage_unavailable)$/);
  });
});

test('examples that are not an array prevent the start of the stage, with an error', async (t) => {
  const folder = folderFor(t);
  const file = gateWithExamples(folder, { one: 1 });
  const service = await serve(t, { stages: [{ id: 'gate', file, init: { folder } }] });
  const error = await until('the error is shown', () => service.stage('gate').workers[0]?.error);
  assert.match(error, /examples in .*model\.mjs must be an array, found object/);
});

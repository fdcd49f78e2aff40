/** A stage that keeps results, with real workers: how often the modelet is called, and what deaths and changes do to it. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { ModeletError } from '../../../src/core/errors.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { callsIn, release, serve, type TestService } from '../../fixtures/service.ts';
import { type Gated, gated, hold } from '../modelets/gated.ts';

const CACHE = { cache: { entries: 10 } };

interface Passed {
  readonly pid: number;
  readonly version?: number;
}

/** The requests of the stage as hits, misses and joined, once it has reported them. */
async function counted({ service }: Gated, expected: readonly number[]): Promise<void> {
  const counts = (): number[] => {
    const { hit, miss, joined } = service.stage('gate').reading.cache;
    return [hit, miss, joined];
  };
  await until(`${expected} are counted`, () => counts().join() === expected.join());
}

const sources = (answers: readonly Awaited<ReturnType<TestService['answer']>>[]): unknown[] =>
  answers.map(({ timings }) => timings[0]?.cache ?? 'run');

describe('a stage that keeps results', () => {
  test('runs one input once for all requests, present and later', async (t) => {
    const held = await gated(t, { ...CACHE, workers: 2 });
    const { service, folder } = held;
    const first = await hold(held, 'held');
    const others = Array.from({ length: 50 }, () => service.answer('held'));
    const another = service.answer('other');
    await counted(held, [0, 2, 50]);
    release(folder, 'held');
    const answers = await Promise.all([first.answer, ...others]);
    await another;
    assert.deepEqual(sources(answers), ['run', ...others.map(() => 'joined')]);
    for (const { value } of answers) assert.deepEqual(value, answers[0]?.value);
    assert.deepEqual(sources([await service.answer('held'), await service.answer('other')]), ['hit', 'hit']);
    assert.deepEqual(callsIn(folder), ['held', 'other']);
    await counted(held, [2, 2, 50]);
    const { cache, items } = service.stage('gate');
    assert.deepEqual([cache.entries, cache.bytes > 0, items], [2, true, 2]);
  });

  test('continues a run for the other requests when the request that began it is cancelled', async (t) => {
    const held = await gated(t, CACHE);
    const { service, folder } = held;
    const first = await hold(held, 'held');
    const second = service.ask('held');
    const late = service.ask('held', { timeoutMs: 40 });
    await counted(held, [0, 1, 2]);
    service.service.desk.abandon(first.id, new ModeletError('cancelled', 'gone'));
    assert.equal((await first.answer).code, 'cancelled');
    assert.equal((await late.answer).code, 'deadline_exceeded');
    release(folder, 'held');
    assert.equal((await second.answer).code, 'ok');
    assert.deepEqual(callsIn(folder), ['held']);
  });

  test('fails all requests that share the run of a dead worker, and no others', async (t) => {
    const held = await gated(t, CACHE);
    const { service, folder } = held;
    const first = await hold(held, 'held');
    const others = ['held', 'held', 'behind', 'behind'].map((input) => service.ask(input));
    await counted(held, [0, 1, 2]);
    kill9((await service.ready())['gate']?.[0] as number);
    const answers = await Promise.all([first, ...others].map(({ answer }) => answer));
    assert.deepEqual(
      answers.map(({ code }) => code),
      ['worker_lost', 'worker_lost', 'worker_lost', 'ok', 'ok'],
    );
    release(folder, 'held');
    assert.deepEqual(sources([await service.answer('held')]), ['run']);
    assert.deepEqual(callsIn(folder), ['held', 'behind', 'held']);
  });

  test('with retryLost gives all requests of a run the outcome of the second run', async (t) => {
    const held = await gated(t, { ...CACHE, retryLost: true });
    const { service, folder } = held;
    const first = await hold(held, 'held');
    const second = service.ask('held');
    kill9((await service.ready())['gate']?.[0] as number);
    release(folder, 'held');
    const [one, two] = await Promise.all([first.answer, second.answer]);
    assert.deepEqual([one.code, two.value], ['ok', one.value]);
    assert.deepEqual(callsIn(folder), ['held', 'held']);
  });

  test('empties the cache at a restart, and keeps no results of the old workers', async (t) => {
    const held = await gated(t, CACHE);
    const { service, folder } = held;
    const [old] = (await service.ready())['gate'] as [number];
    await service.answer('kept');
    const running = await hold(held, 'held');
    service.service.actOnStage('gate', 'restart');
    await until('a new worker serves', () => service.pids('gate')[0] !== old);
    release(folder, 'held');
    assert.equal(((await running.answer).value as Passed).pid, old);
    for (const input of ['kept', 'held']) assert.notEqual((await service.value<Passed>(input)).pid, old);
    assert.deepEqual(callsIn(folder), ['kept', 'held', 'kept', 'held']);
  });

  test('empties the cache when the modelet changes, and keeps its workers when only the settings change', async (t) => {
    const held = await gated(t, CACHE);
    const { service, folder } = held;
    const apply = (version: number, entries: number): void =>
      service.apply({ stages: [{ id: 'gate', file: 'gate', init: { folder, version }, cache: { entries } }] });
    const { pid } = await service.value<Passed>('kept');
    apply(2, 10);
    await service.ready();
    const second = await service.value<Passed>('kept');
    assert.deepEqual([second.version, second.pid === pid], [2, false]);
    apply(2, 5);
    assert.equal((await service.value<Passed>('kept')).pid, second.pid);
    assert.deepEqual(sources([await service.answer('kept')]), ['hit']);
    apply(2, 0);
    assert.deepEqual(sources([await service.answer('kept'), await service.answer('kept')]), ['run', 'run']);
    await until('nothing is kept', () => service.stage('gate').cache.bytes === 0);
    assert.equal(callsIn(folder).length, 5);
  });

  test('empties the cache when the watched file is saved', async (t) => {
    const file = join(folderFor(t), 'model.mjs');
    const save = (version: number): void => writeFileSync(file, `export default () => ${version};`);
    save(1);
    const service = await serve(t, { stages: [{ id: 'model', file, watch: true, cache: { entries: 10 } }] });
    assert.deepEqual([await service.value('x'), await service.value('x')], [1, 1]);
    save(2);
    await until('the new code answers', async () => (await service.value('x')) === 2);
  });

  test('starts with an empty cache in a new engine, and keeps its counts', async (t) => {
    const held = await gated(t, CACHE);
    const { service } = held;
    await service.answer('kept');
    await service.answer('kept');
    await counted(held, [1, 1, 0]);
    kill9(service.enginePid);
    await until('the death is known', () => service.logs.some(({ message }) => message.includes('died')));
    await service.ready();
    assert.deepEqual(sources([await service.answer('kept')]), ['run']);
    await counted(held, [1, 2, 0]);
  });
});

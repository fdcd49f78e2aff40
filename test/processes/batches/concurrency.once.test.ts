/** Several calls at a time in one worker: what they share, and what they do not. Real processes, real deaths. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { systemClock } from '../../../src/core/clock.ts';
import { ModeletError } from '../../../src/core/errors.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type Asked, callsIn, release, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';
import { expire } from '../modelets/gated.ts';

const PLACES = 8;
/** Longer than anything takes that is not stuck, also on a busy machine. */
const LIMIT_MS = 2000;

interface Bed {
  readonly service: TestService;
  readonly folder: string;
}

interface Counted {
  readonly pid: number;
  /** Most calls that have overlapped in the worker. */
  readonly most: number;
}

const gone = new ModeletError('cancelled', 'the caller went away');

const WORKERS: readonly { name: string; stage: Partial<StageSpec>; skip?: string | false }[] = [
  { name: 'JavaScript', stage: { file: 'calls' } },
  { name: 'thread', stage: { file: 'calls', isolation: 'thread' } },
  { name: 'Python', stage: { python: 'calls' }, skip: WITHOUT_PYTHON },
];

async function serveCalls(t: TestContext, stage: Partial<StageSpec>): Promise<Bed> {
  const folder = folderFor(t);
  const service = await serve(t, { stages: [{ id: 'calls', init: { folder }, concurrency: PLACES, ...stage }] });
  await service.ready();
  return { service, folder };
}

/** Sends so many inputs that the worker holds, and resolves when it has begun them all. */
async function holdMany({ service, folder }: Bed, count: number, name = 'held'): Promise<Asked[]> {
  const names = Array.from({ length: count }, (_, n) => `${name} ${n}`);
  const asked = names.map((each) => service.ask(each));
  await until(`${count} are held`, () => names.every((each) => callsIn(folder).includes(each)));
  return asked;
}

function releaseMany({ folder }: Bed, count: number): void {
  for (let n = 0; n < count; n += 1) release(folder, `held ${n}`);
}

const codesOf = (asked: readonly Asked[]): Promise<string[]> =>
  Promise.all(asked.map(async ({ answer }) => (await answer).code));

const running = ({ service }: Bed, count: number): Promise<boolean> =>
  until(`${count} run`, () => service.stage('calls').busy === count);

const restarts = ({ service }: Bed): number => service.stage('calls').workers[0]?.restarts ?? 0;

for (const { name, stage, skip = false } of WORKERS) {
  describe(`a worker with eight places (${name})`, { skip }, () => {
    test('runs eight calls at a time, no more, and each fails alone', async (t) => {
      const { service } = await serveCalls(t, stage);
      const inputs = Array.from({ length: 20 }, (_, n) => (n % 5 === 3 ? 'fails' : 'sleep'));
      const answers = await Promise.all(inputs.map((input) => service.answer(input)));
      assert.deepEqual(
        answers.map(({ code }) => code),
        inputs.map((input) => (input === 'fails' ? 'modelet_failed' : 'ok')),
      );
      const counted = answers.flatMap(({ code, value }) => (code === 'ok' ? [value as Counted] : []));
      assert.equal(new Set(counted.map(({ pid }) => pid)).size, 1);
      const most = Math.max(...counted.map((one) => one.most));
      assert.ok(most > 1 && most <= PLACES, `${most} overlapped`);
    });

    test('has eight calls in progress, gives a place that becomes free to the next, and the others wait', async (t) => {
      const bed = await serveCalls(t, stage);
      const held = await holdMany(bed, PLACES);
      const next = bed.service.ask('next');
      await until('the ninth waits', () => bed.service.stage('calls').queue === 1);
      release(bed.folder, 'held 3');
      assert.equal(((await next.answer).value as Counted).most, PLACES);
      assert.equal((await bed.service.answer('and another')).code, 'ok');
      releaseMany(bed, PLACES);
      assert.deepEqual(await codesOf(held), Array(PLACES).fill('ok'));
    });

    test('with one place instead, calls do not overlap', async (t) => {
      const { service } = await serveCalls(t, { ...stage, concurrency: 1 });
      const answers = await Promise.all(Array.from({ length: 5 }, () => service.value<Counted>('sleep')));
      assert.deepEqual(new Set(answers.map(({ most }) => most)), new Set([1]));
    });

    // To kill a thread is to kill the engine.
    if (stage.isolation !== 'thread') {
      test('killed -9 with eight calls: each fails once with worker_lost, and the next request is served', async (t) => {
        const bed = await serveCalls(t, stage);
        const held = await holdMany(bed, PLACES);
        kill9(bed.service.pids('calls')[0] as number);
        assert.deepEqual(await codesOf(held), Array(PLACES).fill('worker_lost'));
        assert.equal((await bed.service.answer('next')).code, 'ok');
      });

      test('killed -9 with eight calls and retryLost: each runs once more, alone, and none fails', async (t) => {
        const bed = await serveCalls(t, { ...stage, retryLost: true });
        const held = await holdMany(bed, PLACES);
        kill9(bed.service.pids('calls')[0] as number);
        // Each call runs alone now: the next begins when this one has been let go.
        const again = (): unknown[] => callsIn(bed.folder).slice(PLACES);
        for (let runs = 1; runs <= PLACES; runs += 1) {
          await until(`${runs} run again`, () => again().length === runs);
          release(bed.folder, String(again().at(-1)));
        }
        assert.deepEqual(await codesOf(held), Array(PLACES).fill('ok'));
        assert.equal(new Set(again()).size, PLACES);
      });
    }

    for (const retryLost of [false, true]) {
      const fate = retryLost ? 'run again' : 'are lost';
      test(`is killed for a call that runs too long, and the others ${fate} (retryLost ${retryLost})`, async (t) => {
        const bed = await serveCalls(t, { ...stage, retryLost, runTimeoutMs: LIMIT_MS });
        const [stuck] = (await holdMany(bed, 1, 'held for ever')) as [Asked];
        const later = systemClock.now() + LIMIT_MS / 2;
        await until('the others begin so late that their own time is not over', () => systemClock.now() > later);
        const others = await holdMany(bed, 2);
        assert.equal((await stuck.answer).code, 'deadline_exceeded');
        releaseMany(bed, 2);
        assert.deepEqual(await codesOf(others), Array(2).fill(retryLost ? 'ok' : 'worker_lost'));
      });
    }

    test('aborts abandoned calls, and goes on with the others', async (t) => {
      const bed = await serveCalls(t, stage);
      const [cancelled, kept] = (await holdMany(bed, 2)) as [Asked, Asked];
      bed.service.service.desk.abandon(cancelled.id, gone);
      assert.equal((await cancelled.answer).code, 'cancelled');
      await expire(bed, 'held too long');
      const tries = (): unknown[] => callsIn(bed.folder).filter((call) => call === 'held too long');
      const aborted = (): unknown[] => callsIn(bed.folder).filter((call) => String(call).startsWith('aborted'));
      await until('each is aborted', () => aborted().length === 1 + tries().length);
      assert.deepEqual(aborted(), ['aborted held 0', ...tries().map(() => 'aborted held too long')]);
      await running(bed, 1);
      release(bed.folder, 'held 1');
      assert.equal((await kept.answer).code, 'ok');
    });

    test('runs calls that do not wait in turn, and the run timeout of each begins with its own run', async (t) => {
      const bed = await serveCalls(t, { ...stage, runTimeoutMs: 1000 });
      const answers = await Promise.all(Array.from({ length: 3 * PLACES }, () => bed.service.answer('busy')));
      assert.deepEqual([...new Set(answers.map(({ code }) => code))], ['ok']);
      assert.equal(restarts(bed), 0);
    });

    test('blames a call that hangs alone: those behind it had not begun', async (t) => {
      const { service, folder } = await serveCalls(t, { ...stage, runTimeoutMs: 1000 });
      const codes = await codesOf(['a', 'hangs', 'b', 'c'].map((input) => service.ask(input)));
      assert.deepEqual(codes, ['ok', 'deadline_exceeded', 'ok', 'ok']);
      assert.deepEqual(callsIn(folder), ['a', 'hangs', 'b', 'c']);
    });

    test('sends several results in parts beside other calls', async (t) => {
      const bed = await serveCalls(t, stage);
      const parts: string[] = [];
      const ask = (input: string): Asked =>
        bed.service.ask(input, { onPart: (part, index) => void parts.push(`${input}: ${index} ${part}`) });
      const asked = [ask('parts a'), ask('parts b'), ask('parts c')] as const;
      await until('all have begun', () => parts.length === 3);
      assert.equal((await bed.service.answer('beside')).code, 'ok');
      assert.deepEqual((await bed.service.answer('sleep')).code, 'ok');
      release(bed.folder, 'parts b');
      assert.equal((await asked[1].answer).code, 'ok');
      bed.service.service.desk.abandon(asked[2].id, gone);
      await running(bed, 1);
      release(bed.folder, 'parts a');
      assert.equal((await asked[0].answer).code, 'ok');
      assert.deepEqual(parts.toSorted(), [
        ...['parts a: 0 0', 'parts a: 1 1', 'parts b: 0 0', 'parts b: 1 1', 'parts c: 0 0'],
      ]);
      await running(bed, 0);
    });

    test('with predict: batch, runs that many batches at a time', async (t) => {
      const batch = { maxBatchSize: 3, policy: 'oldest', maxWaitMs: 60_000 } as const;
      const { service, folder } = await serveCalls(t, { ...stage, predict: 'batch', concurrency: 2, batch });
      const asked = ['held', 'a', 'b', 'c', 'd', 'e'].map((input) => service.ask(input));
      assert.deepEqual(await codesOf(asked.slice(3)), ['ok', 'ok', 'ok']);
      assert.deepEqual(callsIn(folder), [
        ['held', 'a', 'b'],
        ['c', 'd', 'e'],
      ]);
      release(folder, 'held');
      assert.deepEqual(await codesOf(asked.slice(0, 3)), ['ok', 'ok', 'ok']);
    });
  });
}

test('an unread result in parts holds only its own place', async (t) => {
  const folder = folderFor(t);
  const service = await serve(t, { stages: [{ id: 'parts', file: 'parts', init: { folder }, concurrency: 2 }] });
  const unread = service.ask({ endless: true }, { onPart: () => new Promise(() => {}) });
  await until('it runs', () => service.stage('parts').busy === 1);
  assert.deepEqual(await service.value({ to: 1 }), [{ index: 0, pid: service.pids('parts')[0] }]);
  service.service.desk.abandon(unread.id, gone);
  await until('its place is free', () => service.stage('parts').busy === 0);
});

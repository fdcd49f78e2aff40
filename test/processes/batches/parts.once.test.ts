/** Results that come in parts, from real workers: as they come, as far as they are wanted, and before the one end. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { ModeletError } from '../../../src/core/errors.ts';
import { MOST_UNDER_WAY } from '../../../src/runtime/worker/batch/stream.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9, within } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type Asked, callsIn, release, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

interface Bed {
  readonly service: TestService;
  readonly folder: string;
  /** The index beside each part that arrived, and the index in it. */
  readonly parts: unknown[];
}

async function bed(t: TestContext, stage: Partial<StageSpec> = {}): Promise<Bed> {
  const folder = folderFor(t);
  const service = await serve(t, { stages: [{ id: 'parts', file: 'parts', init: { folder }, ...stage }] });
  return { service, folder, parts: [] };
}

function ask({ service, parts }: Bed, input: object): Asked {
  return service.ask(input, {
    onPart: (part, index) => void parts.push(`${index}: ${(part as { index?: number }).index}`),
  });
}

const gone = (): ModeletError => new ModeletError('cancelled', 'the caller went away');
const isClosed = ({ folder }: Bed): Promise<boolean> => until('it is closed', () => callsIn(folder).includes('end'));

const WORKERS: readonly { name: string; stage: Partial<StageSpec>; skip?: string | false }[] = [
  ...ISOLATIONS.map((isolation) => ({ name: isolation, stage: { isolation } })),
  { name: 'Python', stage: { python: 'parts' }, skip: WITHOUT_PYTHON },
];

for (const { name, stage, skip = false } of WORKERS) {
  describe(`parts of a result (${name})`, { skip }, () => {
    test('arrive in order before the next are made, and then the end arrives once', async (t) => {
      const made = await bed(t, stage);
      const asked = ask(made, { to: 3, result: 'all' });
      for (const index of [0, 1, 2]) {
        if (index > 0) release(made.folder, `part${index}`);
        await until(`part ${index} comes`, () => made.parts.length === index + 1);
        assert.equal(asked.settled === null || index === 2, true, 'it is not done');
      }
      const { code, value, timings } = await asked.answer;
      assert.deepEqual([code, value, timings.length], ['ok', 'all', 1]);
      assert.deepEqual(made.parts, ['0: 0', '1: 1', '2: 2']);
    });

    test('of many requests at once arrive before the end of each', async (t) => {
      const made = await bed(t, stage);
      const answers = await Promise.all(Array.from({ length: 200 }, () => ask(made, { to: 1 }).answer));
      assert.ok(answers.every(({ code }) => code === 'ok'));
      assert.equal(made.parts.length, 200);
    });

    test('of a request that fails halfway arrive before its error', async (t) => {
      const made = await bed(t, stage);
      release(made.folder, 'part1');
      release(made.folder, 'part2');
      const { code, error } = await ask(made, { to: 5, fail: 2 }).answer;
      assert.deepEqual([code, error?.message, made.parts.length], ['modelet_failed', 'no more', 2]);
      assert.equal((await ask(made, { to: 1 }).answer).code, 'ok', 'the worker serves on');
    });

    test('without end pause while no client takes them, and end with their request', async (t) => {
      const made = await bed(t, stage);
      let take = (): void => {};
      const { service, folder } = made;
      const asked = service.ask(
        { endless: true },
        {
          onPart: (_part, index) => {
            made.parts.push(index);
            return new Promise<void>((resolve) => {
              take = resolve;
            });
          },
        },
      );
      const comes = (count: number): Promise<boolean> =>
        until(`${count} parts have come`, () => made.parts.length === count);
      await comes(MOST_UNDER_WAY);
      // The last of them: all before it as well.
      take();
      await comes(2 * MOST_UNDER_WAY);
      assert.ok(callsIn(folder).length <= 2 * MOST_UNDER_WAY + 2, 'no more were made than that');
      service.service.desk.abandon(asked.id, gone());
      await isClosed(made);
      assert.equal((await asked.answer).code, 'cancelled');
      assert.equal((await service.answer({ to: 1 })).code, 'ok', 'the worker serves on');
      assert.equal(made.parts.length, 2 * MOST_UNDER_WAY);
    });

    test('end when their deadline passes', async (t) => {
      const made = await bed(t, stage);
      await made.service.ready();
      // On a slow machine a deadline may pass before the run begins.
      for (let timeoutMs = 300; !callsIn(made.folder).includes('begin'); timeoutMs *= 2) {
        const asked = made.service.ask({ endless: true }, { timeoutMs, onPart: () => {} });
        assert.equal((await asked.answer).code, 'deadline_exceeded');
      }
      await isClosed(made);
    });

    test('without end end when the service closes', async (t) => {
      const made = await bed(t, stage);
      const asked = ask(made, { endless: true });
      await until('parts come', () => made.parts.length > 0);
      await within(made.service.service.close(false), 'the service closes');
      assert.equal((await asked.answer).code, 'shutting_down');
      assert.ok(callsIn(made.folder).includes('end'), 'it was closed, and not killed');
    });

    test('continue in a worker that is being replaced', async (t) => {
      const made = await bed(t, stage);
      await made.service.ready();
      const asked = ask(made, { endless: true });
      await until('parts come', () => made.parts.length > 0);
      made.service.service.actOnStage('parts', 'restart');
      await until('another worker serves', () => made.service.stage('parts').workers[0]?.restarts === 1);
      const before = made.parts.length;
      await until('more parts come', () => made.parts.length > before + 3 * MOST_UNDER_WAY);
      made.service.service.desk.abandon(asked.id, gone());
      await isClosed(made);
    });
  });
}

test('of a worker killed halfway arrive, then one worker_lost, and no second run', async (t) => {
  const made = await bed(t, { retryLost: true });
  const { parts: pids } = await made.service.ready();
  const asked = ask(made, { to: 2 });
  await until('a part comes', () => made.parts.length === 1);
  kill9(pids?.[0]);
  assert.equal((await asked.answer).code, 'worker_lost');
  assert.equal((await ask(made, { to: 1 }).answer).code, 'ok');
  assert.deepEqual(callsIn(made.folder), ['begin', 'begin', 'end']);
});

test('of an engine killed halfway arrive, then one engine_lost', async (t) => {
  const made = await bed(t);
  const asked = ask(made, { to: 2 });
  await until('a part comes', () => made.parts.length === 1);
  kill9(made.service.enginePid);
  assert.equal((await asked.answer).code, 'engine_lost');
  assert.equal(made.parts.length, 1);
});

test('are gathered in the middle of a route and sent at its end', async (t) => {
  const folder = folderFor(t);
  const service = await serve(t, {
    stages: [
      { id: 'first', inline: 'return (function* () { yield input; yield input + 1; })();' },
      { id: 'second', inline: 'return input.map((x) => x * 10).values();' },
    ],
    routes: { in: ['first', 'second'], 'first alone': ['first'] },
  });
  const parts: unknown[] = [];
  const { value } = await service.answer(1, { onPart: (part) => void parts.push(part) });
  assert.deepEqual([parts, value], [[10, 20], null]);
  assert.deepEqual(await service.value(5, { entry: 'first alone' }), [5, 6], 'no client wants them one by one');
  assert.deepEqual(callsIn(folder), []);
});

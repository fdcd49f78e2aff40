/** Stages with keys as real workers serve them: order and state of each key through deaths of workers and a deploy. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { upTo } from '../../engine/rig.ts';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { PATIENCE_MS, until } from '../../fixtures/polling.ts';
import { kill9, within } from '../../fixtures/processes.ts';
import { type Answer, type ServiceSpec, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

interface Seen {
  readonly key: string;
  readonly before: number;
  readonly pid: number;
  readonly version: number;
}

function endsIn(folder: string): string[] {
  const file = join(folder, 'ends');
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1).sort() : [];
}

const KINDS: Readonly<Record<string, Partial<StageSpec>>> = {
  process: { file: 'keyed' },
  thread: { file: 'keyed', isolation: 'thread' },
  python: { python: 'keyed' },
  'async Python': { python: 'keyed_async' },
};

for (const [name, keyed] of Object.entries(KINDS)) {
  describe(name, () => {
    test('a key has its own state, which ends when it is too large, or with the worker', async (t) => {
      const folder = folderFor(t);
      const service = await serve(t, { stages: [{ id: 'model', ...keyed, keyBy: 'topic', init: { folder } }] });
      const seen = async (input: string, key: string): Promise<readonly [string, number]> => {
        const value = await service.value<Seen>(input, { key });
        return [value.key, value.before];
      };
      assert.deepEqual(await seen('x', 'a'), ['a', 0]);
      assert.deepEqual(await seen('x', 'b'), ['b', 0]);
      assert.deepEqual(await seen('x', 'a'), ['a', 1]);
      assert.deepEqual(await seen('replace', 'a'), ['a', 100]);
      const { error } = await service.answer('large', { key: 'a' });
      assert.match(error?.message ?? '', /^ctx\.state of the key a cannot be kept, and is dropped: /);
      assert.equal(error?.code, 'modelet_failed');
      assert.deepEqual(await seen('x', 'a'), ['a', 0]);
      assert.equal((await service.answer('x')).code, 'invalid_input');
      await service.end();
      assert.deepEqual(endsIn(folder), ['a 1', 'b 1']);
    });

    test('the state of a key ends when the key is idle, also if no other item comes', async (t) => {
      const folder = folderFor(t);
      const spec = { id: 'model', ...keyed, keyBy: 'topic', keyIdleMs: 300, init: { folder } };
      const service = await serve(t, { stages: [spec] });
      for (const ends of [['a 1'], ['a 1', 'a 1']]) {
        assert.equal((await service.value<Seen>('x', { key: 'a' })).before, 0);
        await until('the key is idle', () => endsIn(folder).length === ends.length);
        assert.deepEqual(endsIn(folder), ends);
      }
    });

    test('a call for several items has the states of their keys', async (t) => {
      const folder = folderFor(t);
      const batch = { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 60_000 } as const;
      const spec = {
        id: 'model',
        ...keyed,
        predict: 'batch',
        keyBy: 'topic',
        init: { folder },
        batch,
      } as const;
      const service = await serve(t, { stages: [spec] });
      for (const before of [0, 1]) {
        const answers = await Promise.all(['a', 'b', 'c'].map((key) => service.value<Seen>('x', { key })));
        assert.deepEqual(
          answers.map((of) => [of.key, of.before]),
          [
            ['a', before],
            ['b', before],
            ['c', before],
          ],
        );
      }
    });
  });
}

test('with snapshots a key keeps its state through deaths and deploys, until a message ends it', async (t) => {
  const folder = folderFor(t);
  const plan = (version: number): Pick<ServiceSpec, 'stages' | 'routes'> => ({
    stages: Object.entries(KINDS).map(([id, of]) => ({
      ...{ id, ...of, keyBy: 'topic', keySnapshotMb: 1, init: { folder: join(folder, id), version } },
    })),
    routes: Object.fromEntries(Object.keys(KINDS).map((id) => [id, [id]])),
  });
  for (const id of Object.keys(KINDS)) mkdirSync(join(folder, id));
  const service = await serve(t, plan(1));
  await service.ready();
  const each = (check: (id: string, seen: (meta?: object) => Promise<Seen>) => Promise<void>): Promise<unknown> =>
    Promise.all(
      Object.keys(KINDS).map((id) => check(id, (meta) => service.value<Seen>('x', { entry: id, key: 'a', meta }))),
    );
  await each(async (id, seen) => {
    assert.deepEqual([(await seen()).before, (await seen()).before], [0, 1], id);
    assert.equal((await service.answer('die', { entry: id, key: 'a' })).code, 'worker_lost');
    assert.equal((await seen()).before, 2, id);
  });
  service.apply(plan(2));
  await each(async (id, seen) => {
    let [count, version] = [2, 1];
    while (version === 1) {
      const { before, version: of } = await seen();
      count += 1;
      assert.equal(before, count, id);
      version = of;
    }
    assert.equal((await service.answer('large', { entry: id, key: 'a' })).code, 'modelet_failed');
    assert.equal((await service.answer('die', { entry: id, key: 'a' })).code, 'worker_lost');
    assert.equal((await seen()).before, 0, `${id}: a state that was dropped does not come back`);
    assert.equal((await seen({ keyEnd: true })).before, 1, id);
    // The state ends with the worker of the deploy, and with the message.
    await until(`${id} ends both`, () => endsIn(join(folder, id)).join() === [`a ${count}`, 'a 2'].sort().join());
    assert.equal((await service.answer('die', { entry: id, key: 'a' })).code, 'worker_lost');
    assert.deepEqual(
      [(await seen()).before, (await seen({ keyStart: true })).before, (await seen()).before],
      [0, 0, 1],
      id,
    );
    assert.equal(service.stage(id).keys?.lost, 0, id);
  });
});

test('a stop keeps the snapshots for the next start, and a kill does not bring them back', async (t) => {
  const [folder, statesFolder] = [folderFor(t), folderFor(t)];
  const stage = { id: 'model', file: 'keyed', keyBy: 'topic', keySnapshotMb: 1, init: { folder } };
  const start = (): Promise<TestService> => serve(t, { stages: [stage], statesFolder });
  const seen = async (service: TestService, key: string): Promise<number> =>
    (await service.value<Seen>('x', { key })).before;
  const first = await start();
  assert.deepEqual([await seen(first, 'a'), await seen(first, 'a'), await seen(first, 'b')], [0, 1, 0]);
  // A stop that takes too long kills the workers, with their states.
  await first.end(PATIENCE_MS);
  const second = await start();
  assert.deepEqual([await seen(second, 'a'), await seen(second, 'b')], [2, 1]);
  kill9(second.enginePid);
  await until('the next engine serves', async () => (await second.answer('x', { key: 'b' })).code === 'ok');
  assert.equal(await seen(second, 'a'), 0, 'and it has none of the states of before');
  await second.end(PATIENCE_MS);
  const last = await start();
  assert.equal(await seen(last, 'a'), 1);
  await until('the engine tells of two keys: one without messages waits for its idle time, too', () => {
    const { items, keys } = last.stage('model');
    return items === 1 && keys?.open === 2;
  });
});

const KEYS = 1000;
/**
 * How many items each key has, in waves of so many; after how many answers a worker is killed, and the stage deployed. No
 * two kills are in a wave: an item that is lost twice fails.
 */
interface Course {
  readonly keySnapshotMb: number;
  readonly items: number;
  readonly wave: number;
  readonly kills: readonly number[];
  readonly deploys: readonly number[];
}

const COURSES: readonly Course[] = [
  { keySnapshotMb: 0, items: 6, wave: 2, kills: [500, 2500], deploys: [3500] },
  {
    ...{ keySnapshotMb: 64, items: 100, wave: 10 },
    ...{ kills: [30_000, 70_000], deploys: [10_000, 44_000, 80_000] },
  },
];

for (const course of process.env['TEST_FULL'] === '1' ? COURSES : COURSES.slice(0, 1)) {
  const { keySnapshotMb } = course;
  const more = keySnapshotMb > 0 ? ' and with its state' : '';
  test(`1,000 keys over four workers, two of which are killed, and a deploy: each key in order${more}, no item lost`, async (t) => {
    const folder = folderFor(t);
    const stage = (version: number): StageSpec => ({
      ...{ id: 'model', file: 'keyed', keyBy: 'topic', keySnapshotMb, init: { folder, version }, workers: 4 },
      ...{ retryLost: true, batch: { maxBatchSize: 32 }, capacity: 10_000 },
    });
    const service = await serve(t, { stages: [stage(1)], config: { capacity: 10_000 } });
    await service.ready();
    /** The items of each key as they settled. */
    const settled = new Map<string, (Seen & { readonly round: number })[]>();
    const pids = new Set<number>();
    let old: ReadonlySet<number> = pids;
    let [count, version] = [0, 1];
    const kills = [...course.kills];
    const note = (round: number, key: string, { error, value }: Answer): void => {
      assert.ifError(error);
      const seen = value as Seen;
      const items = settled.get(key) ?? [];
      items.push({ ...seen, round });
      settled.set(key, items);
      pids.add(seen.pid);
      count += 1;
      const [kill = Number.POSITIVE_INFINITY] = kills;
      // Answers of a worker that has ended meanwhile may still come in.
      if (count >= kill && isAlive(seen.pid)) {
        kill9(seen.pid);
        kills.shift();
      }
      if (!course.deploys.includes(count)) return;
      version += 1;
      old = new Set(pids);
      service.apply({ stages: [stage(version)] });
    };
    const wave = (from: number): Promise<void> =>
      new Promise((resolve, reject) => {
        let left = course.wave * KEYS;
        for (let at = 0; at < course.wave * KEYS; at += 1) {
          const [round, key] = [from + Math.floor(at / KEYS), `key ${at % KEYS}`];
          service.send('x', { key }, (answer) => {
            try {
              note(round, key, answer);
            } catch (thrown) {
              reject(thrown);
            }
            left -= 1;
            if (left === 0) resolve();
          });
        }
      });
    for (let from = 0; from < course.items; from += course.wave) {
      if (from + course.wave === course.items) {
        await until('new workers serve', () => service.pids('model').every((pid) => pid !== null && !old.has(pid)));
        await until('they are ready', () => service.stage('model').ready === 4);
      }
      await within(wave(from), `the answers from ${from} on`);
    }
    assert.equal(settled.size, KEYS);
    assert.deepEqual(kills, [], 'workers were killed');
    const moved = [...settled].flatMap(([key, items]) => {
      assert.deepEqual(
        items.map(({ round }) => round),
        upTo(course.items - 1, 0),
        key,
      );
      return items.filter(({ pid, before }, at) => {
        const last = items[at - 1];
        const goesOn = last && (keySnapshotMb > 0 || last.pid === pid);
        assert.equal(before, goesOn ? last.before + 1 : 0, `the state of ${key}`);
        return last !== undefined && last.pid !== pid;
      });
    });
    assert.ok(moved.length >= KEYS, 'the deploy moves all keys');
    // A key lost its state each time another process went on with it. How many keys a dead worker had depends on the machine.
    const lost = keySnapshotMb > 0 ? 0 : moved.length;
    await until(`${lost} lost states are counted`, () => service.stage('model').keys?.lost === lost);
    assert.equal(service.stage('model').keys?.open, KEYS);
  });
}

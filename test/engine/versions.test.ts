/** Versions of a stage: who answers, who gets copies, and how shares change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { type ErrorCode, ModeletError } from '../../src/core/errors.ts';
import type { StageVersion, VersionMode, VersionStatus } from '../../src/core/versions.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { encodeError } from '../../src/wire/codec/error-codec.ts';
import { item } from '../wire/frame-values.ts';
import { Rig, route, stage, upTo } from './rig.ts';

const BASE = 1;
const MANY = { capacity: 100_000, batching: { policy: 'greedy', maxBatchSize: 1000, maxWaitMs: 0 } } as const;

/** Stage `ref` as a version. */
function version(ref: number, share: number, mode: VersionMode = 'answer'): StageVersion {
  return { stage: `node-${ref}`, share, mode };
}

function base(list: readonly StageVersion[], rollbackAbove: number | null = null): StageDefinition {
  return stage(BASE, { ...MANY, versions: { list, rollbackAbove } });
}

/** A rig with a base, and stages 2 and 3 that are no part of its route. */
async function rigWith(list: readonly StageVersion[], rollbackAbove: number | null = null): Promise<Rig> {
  const rig = new Rig();
  await rig.apply({
    stages: [base(list, rollbackAbove), stage(2, MANY), stage(3, MANY)],
    routes: [route(1, [BASE])],
  });
  return rig;
}

/** Numbers of the requests that the stage's worker has or had. */
function seenBy(rig: Rig, ref: number): number {
  return rig.engine.status().stages.find((one) => one.ref === ref)?.reading.items ?? 0;
}

function statusOf(rig: Rig, ref: number): VersionStatus {
  const [found] = (rig.engine.status().stages[0]?.versions ?? []).filter((one) => one.stage === `node-${ref}`);
  assert.ok(found, `stage ${ref} is no version`);
  return found;
}

/** Answers everything. The worker of stage 2 answers with the error. */
async function answerAll(rig: Rig, code: ErrorCode): Promise<void> {
  const error = { codec: CODEC.none, bytes: encodeError(new ModeletError(code, 'bad')) };
  for (const ref of [BASE, 2, 3, BASE, 2, 3]) {
    const pool = rig.pool(ref);
    while (pool.held(0).length > 0) {
      if (ref === 2) pool.answerWith(error);
      else pool.answer(0);
    }
    await rig.turn();
  }
}

test('of 1000 requests each version gets exactly its share, spread evenly', async () => {
  const rig = await rigWith([version(2, 10), version(3, 0.5)]);
  for (const from of upTo(10).map((hundred) => hundred * 100 - 99)) {
    const before = seenBy(rig, 2);
    await rig.submit(upTo(from + 99, from));
    await rig.finish();
    assert.equal(seenBy(rig, 2) - before, 10);
  }
  assert.deepEqual([seenBy(rig, 1), seenBy(rig, 2), seenBy(rig, 3)], [895, 100, 5]);
  assert.equal(rig.answers().length, 1000);
});

test('a key stays on its version, also when the share grows, and keys are divided by the shares', async () => {
  const rig = new Rig();
  const keys = upTo(2000).map((key) => Math.imul(key, 0x9e3779b1) >>> 0 || 1);
  const keysAt = async (share: number): Promise<Set<number>> => {
    await rig.apply({ stages: [base([version(2, share)]), stage(2, MANY)], routes: [route(1, [BASE])] });
    const chosen = new Set<number>();
    for (const [index, sticky] of [...keys, ...keys].entries()) {
      const before = rig.queueOf(2) ?? 0;
      rig.engine.submit([item({ id: index + 1, sticky })]);
      const came = (rig.queueOf(2) ?? 0) > before;
      if (index >= keys.length) assert.equal(came, chosen.has(sticky), `key ${sticky} has moved`);
      else if (came) chosen.add(sticky);
    }
    await rig.finish();
    rig.answers();
    return chosen;
  };
  const few = await keysAt(10);
  assert.ok(Math.abs(few.size - 200) < 60, `${few.size} of 2000 keys have a share of 10 %`);
  const more = await keysAt(30);
  assert.ok(Math.abs(more.size - 600) < 90, `${more.size} of 2000 keys have a share of 30 %`);
  for (const key of few) assert.ok(more.has(key), 'a key has left the version whose share grew');
});

test('a shadow gets copies and never answers, whether it fails, is slow, full, or has no worker', async () => {
  const rig = await rigWith([version(2, 100, 'shadow'), version(3, 20, 'shadow')]);
  await rig.submit(upTo(50));
  rig.pool(BASE).answer(0);
  assert.deepEqual(
    rig.answers(),
    upTo(50).map((id) => `${id}`),
  );
  assert.deepEqual([seenBy(rig, 2), seenBy(rig, 3)], [50, 10]);
  await answerAll(rig, 'modelet_failed');
  assert.deepEqual(rig.answers(), []);
  const reading = rig.engine.status().stages[1]?.reading;
  assert.deepEqual(reading?.failed, { modelet_failed: 50 });
  assert.equal(statusOf(rig, 2).failed, 100);

  rig.pool(2).fail('does not start');
  await rig.apply({
    stages: [base([version(2, 100, 'shadow'), version(3, 100, 'shadow')]), stage(2, MANY), stage(3, { capacity: 2 })],
    routes: [route(1, [BASE])],
  });
  await rig.submit(upTo(110, 101));
  rig.pool(BASE).answer(0);
  assert.equal(rig.answers().length, 10);
  const unserved = rig.engine.status().stages.map((one) => one.reading.unserved);
  assert.deepEqual(unserved.slice(1), [{ stage_unavailable: 10 }, { capacity_exceeded: 8 }]);
  await rig.finish();
  assert.deepEqual(rig.answers(), []);
});

test('a version whose base fails alike keeps its share, and loses it when it alone fails', async () => {
  const rig = await rigWith([version(2, 50)], 5);
  const bad = { codec: CODEC.none, bytes: encodeError(new ModeletError('modelet_failed', 'bad post')) };
  for (const [round, order] of [
    [BASE, 2],
    [2, BASE],
    [2, BASE],
  ].entries()) {
    await rig.submit(upTo(round * 400 + 400, round * 400 + 1));
    for (const ref of order) while (rig.pool(ref).held(0).length > 0) rig.pool(ref).answerWith(bad);
    await rig.turn();
    assert.deepEqual([statusOf(rig, 2).share, statusOf(rig, 2).failed, rig.logs.length], [50, 100, 0]);
  }

  await rig.submit(upTo(1700, 1201));
  await answerAll(rig, 'modelet_failed');
  const { share, cause } = statusOf(rig, 2);
  assert.deepEqual([share, cause], [0, 'failures']);
});

test('a version loses its share when more of its requests fail than it may, and invalid inputs are no failures', async () => {
  const rig = await rigWith([version(2, 50)], 20);
  await rig.submit(upTo(100));
  await answerAll(rig, 'invalid_input');
  assert.deepEqual([statusOf(rig, 2).share, statusOf(rig, 2).failed], [50, null]);

  await rig.submit(upTo(138, 101));
  await answerAll(rig, 'modelet_failed');
  assert.equal(statusOf(rig, 2).share, 50, '19 failures are no rate yet');
  assert.equal(rig.logs.length, 0);
  await rig.submit(upTo(160, 139));
  await answerAll(rig, 'modelet_failed');
  const { share, cause, drawn } = statusOf(rig, 2);
  assert.deepEqual([share, cause, drawn.share], [0, 'failures', 50]);
  assert.deepEqual(
    rig.logs.map(({ level, stage }) => [level, stage]),
    [['warn', 'stage1']],
  );
  assert.match(
    rig.logs[0]?.message ?? '',
    /^rolled back version stage2: \d+ of its last \d+ requests failed, and 0 of \d+ of its base in the same time; the limit is 20 % more$/,
  );
  const seen = seenBy(rig, 2);
  await rig.submit(upTo(260, 161));
  await rig.finish();
  assert.equal(seenBy(rig, 2), seen);
  assert.equal(rig.engine.status().stages[1]?.reading.rollbacks, 1);

  // The same plan again leaves the share as it is; another version of the code gets its share back.
  const plan = { stages: [base([version(2, 50)], 20), stage(2, MANY), stage(3, MANY)], routes: [route(1, [BASE])] };
  await rig.apply(plan);
  assert.equal(statusOf(rig, 2).share, 0);
  await rig.apply({ ...plan, stages: plan.stages.map((one) => (one.ref === 2 ? { ...one, revision: 'r2' } : one)) });
  assert.deepEqual([statusOf(rig, 2).share, statusOf(rig, 2).cause], [50, 'drawn']);
});

test('shares change on request, and back', async () => {
  const rig = await rigWith([version(2, 10), version(3, 5, 'shadow')]);
  const states = (): string[] =>
    (rig.engine.status().stages[0]?.versions ?? []).map(({ mode, share, cause }) => `${mode} ${share} ${cause}`);
  rig.engine.act(3, 'promote');
  assert.deepEqual(states(), ['answer 0 asked', 'answer 100 asked']);
  await rig.submit(upTo(20));
  await rig.finish();
  assert.deepEqual([seenBy(rig, 1), seenBy(rig, 2), seenBy(rig, 3)], [0, 0, 20]);
  rig.engine.act(3, 'rollback');
  rig.engine.act(1, 'rollback');
  assert.deepEqual(states(), ['answer 0 asked', 'answer 0 asked']);
  rig.engine.act(2, 'restore');
  assert.deepEqual(states(), ['answer 10 drawn', 'shadow 5 drawn']);
});

test('an engine that takes over goes on with the shares of the one before', async () => {
  const rig = new Rig();
  const present = [{ stage: 'node-2', mode: 'answer', share: 0, cause: 'failures' }] as const;
  const versions = { list: [version(2, 50)], rollbackAbove: 5, present };
  await rig.apply({ stages: [stage(BASE, { versions }), stage(2)], routes: [route(1, [BASE])] });
  assert.deepEqual([statusOf(rig, 2).share, statusOf(rig, 2).cause], [0, 'failures']);
});

test('the base answers for a version without a worker, also the requests in its queue', async () => {
  const rig = await rigWith([version(2, 100)]);
  await rig.submit([1]);
  await rig.submit([2]);
  assert.deepEqual([rig.queueOf(1), seenBy(rig, 2)], [0, 1]);
  rig.pool(2).fail('workers die');
  await rig.submit([3]);
  assert.equal(statusOf(rig, 2).available, false);
  await rig.finish();
  assert.deepEqual(rig.answers().sort(), ['1', '2', '3']);
  assert.equal(rig.engine.status().stages[1]?.reading.redirected, 2);
  assert.deepEqual(rig.engine.status().stages[1]?.reading.unserved, {});
});

test('a cancelled request is cancelled at the version that has it, and the version goes on', async () => {
  const rig = await rigWith([version(2, 100)]);
  await rig.submit([1]);
  await rig.submit([2, 3]);
  rig.engine.cancel([1, 3]);
  assert.deepEqual(rig.pool(2).cancelled, [1]);
  await rig.finish();
  assert.deepEqual(rig.answers(), ['2']);
});

test('a version that a deploy removes answers what it has, and then ends', async () => {
  const rig = await rigWith([version(2, 100)]);
  await rig.submit([1]);
  await rig.submit([2]);
  const { closes } = rig.pool(2);
  await rig.apply({ stages: [base([])], routes: [route(1, [BASE])] });
  assert.deepEqual([closes.length, rig.answers()], [0, []]);
  await rig.submit([3]);
  await rig.finish();
  assert.deepEqual(rig.answers().sort(), ['1', '2', '3']);
  assert.equal(closes.length, 1);
});

test('a shadow that a deploy removes ends at once, whatever it runs', async () => {
  const rig = await rigWith([version(2, 100, 'shadow')]);
  await rig.submit([1]);
  const shadow = rig.pool(2);
  await rig.apply({ stages: [base([])], routes: [route(1, [BASE])] });
  assert.deepEqual([shadow.closes.length, shadow.cancelled.length], [1, 1]);
  await rig.finish();
  assert.deepEqual(rig.answers(), ['1']);
});

test('within a route, items wait for the version that they will go to, and others pass them', async () => {
  const rig = new Rig();
  const list = [version(3, 50)];
  await rig.apply({
    stages: [stage(1), stage(2, { capacity: 5, versions: { list, rollbackAbove: null } }), stage(3, { capacity: 1 })],
    routes: [route(1, [1, 2])],
  });
  await rig.submit(upTo(12));
  for (let times = 0; times < 12; times += 1) {
    if (rig.pool(1).held(0).length > 0) rig.pool(1).answer(0);
    if (rig.pool(2).held(0).length > 0) rig.pool(2).answer(0);
    await rig.turn();
  }
  assert.equal(rig.queueOf(3), 1);
  assert.equal(rig.answers().length, 6, 'all requests of the base are answered');
  await rig.finish();
  assert.equal(rig.answers().length, 6);
});

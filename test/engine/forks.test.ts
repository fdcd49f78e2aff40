/** Forks and choices: branches run at the same time, their results meet in one item, and a value decides the way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { GatherTerms } from '../../src/core/routes/gather.ts';
import type { ChoiceRule, Fork, Leg, Route } from '../../src/core/routes/route.ts';
import { CODEC, decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';
import { decodeFailure } from '../../src/wire/frames/failures.ts';
import { answer, GATHER, leg, only, reportOf, wrapped } from './gathering.ts';
import { Rig, stage, upTo } from './rig.ts';

/** The number of a node that gathers around the first. */
const OUTER = 91;

function fork(
  branches: readonly Leg[],
  after: Leg,
  settings: Partial<GatherTerms> & { timeoutMs?: number } = {},
): Fork {
  const { timeoutMs = 1000, ...terms } = settings;
  const names = branches.map((_, index) => 'abc'[index] as string);
  const usual = { mode: 'all', quorum: 0, partial: 'error', total: branches.length, names } as const;
  return { kind: 'fork', gather: GATHER, terms: { ...usual, ...terms }, timeoutMs, branches, after };
}

async function rigWith(drawn: Leg, stages: readonly number[], taps: readonly number[] = []): Promise<Rig> {
  const rig = new Rig();
  const route: Route = { ref: 1, stages, taps, leg: drawn };
  await rig.apply({ stages: stages.map((ref) => stage(ref)), routes: [route] });
  for (const ref of stages) rig.pool(ref).makes = (item) => wrapped(ref, item.payload);
  return rig;
}

/** 1 -> {2, 3} -> gather -> 4 */
const DIAMOND = leg([1], fork([leg([2]), leg([3])], leg([4])));

test('the results of all branches meet in one item, each under its name, as the branches are drawn', async () => {
  const rig = await rigWith(DIAMOND, [1, 2, 3, 4]);
  await rig.submit([7]);
  await answer(rig, 1);
  assert.equal(rig.pool(2).held().length, 1);
  assert.equal(rig.pool(3).held().length, 1);
  await answer(rig, 3);
  assert.deepEqual(rig.pool(4).held(), []);
  await answer(rig, 2);
  await answer(rig, 4);
  const outcome = only(rig);
  assert.equal(outcome.id, 7);
  assert.equal(
    Buffer.from(outcome.payload.bytes).toString(),
    '{"s4":{"a":{"s2":{"s1":7}},"b":{"s3":{"s1":7}}}}',
    'JSON is passed on, not read',
  );
  // The branch that came first is the base of the message.
  assert.deepEqual(
    outcome.timings.map((timing) => timing.stage),
    [1, 3, 2, 4],
  );
  assert.deepEqual(reportOf(outcome), {
    gathered: [{ node: GATHER, passed: 3, branches: [1, 1] }],
    branches: { a: { ok: true }, b: { ok: true } },
    failed: null,
  });
});

test('binary results meet, too', async () => {
  const rig = await rigWith(leg([1], fork([leg([2]), leg([3])], leg([]))), [1, 2, 3]);
  rig.pool(2).makes = () => encodePayload(new Float32Array([1, 2]), { blame: 'modelet_failed', maxBytes: 100 });
  await rig.submit([1]);
  for (const ref of [1, 2, 3]) await answer(rig, ref);
  assert.deepEqual(decodePayload(only(rig).payload), { a: new Float32Array([1, 2]), b: { s3: { s1: 1 } } });
});

test('a branch that fails is the error of the gathering node, and the others are cancelled', async () => {
  const rig = await rigWith(DIAMOND, [1, 2, 3, 4]);
  await rig.submit([7]);
  await answer(rig, 1);
  await answer(rig, 2, true);
  const outcome = only(rig);
  const { error, input } = decodeFailure(outcome.payload);
  assert.equal(error.code, 'invalid_input');
  assert.match(error.message, /^branch a: /);
  assert.deepEqual(input && decodePayload(input), { s1: 7 });
  assert.equal(reportOf(outcome).failed, GATHER);
  assert.equal(rig.pool(3).cancelled.length, 1);
  await answer(rig, 3);
  assert.deepEqual(rig.outcomes, []);
});

test('an error in front of the fork is the outcome of every branch', async () => {
  const rig = await rigWith(DIAMOND, [1, 2, 3, 4]);
  await rig.submit([7]);
  await answer(rig, 1, true);
  const outcome = only(rig);
  assert.match(decodeFailure(outcome.payload).error.message, /^branch a: /);
  assert.equal(decodeFailure(outcome.payload).input, null, 'the server has it');
  assert.deepEqual(Object.keys(reportOf(outcome).branches), ['a']);
  const partial = await rigWith(leg([1], fork([leg([2]), leg([3])], leg([]), { partial: 'keep' })), [1, 2, 3]);
  await partial.submit([7]);
  await answer(partial, 1, true);
  assert.match(decodeFailure(only(partial).payload).error.message, /2 of 2 branches failed/);
});

test('the first result leaves as it is', async () => {
  const rig = await rigWith(leg([], fork([leg([2]), leg([3])], leg([]), { mode: 'first' })), [2, 3]);
  await rig.submit([7]);
  await answer(rig, 2, true);
  await answer(rig, 3);
  assert.deepEqual(decodePayload(only(rig).payload), { s3: 7 });
});

test('a branch without stages passes on the value as it is', async () => {
  const rig = await rigWith(leg([1], fork([leg([]), leg([3])], leg([]))), [1, 3]);
  await rig.submit([7]);
  await answer(rig, 1);
  await answer(rig, 3);
  assert.deepEqual(decodePayload(only(rig).payload), { a: { s1: 7 }, b: { s3: { s1: 7 } } });
});

test('the time is up after the first branch has come, and just before the deadline of the request', async () => {
  const drawn = leg([], fork([leg([2]), leg([3])], leg([]), { partial: 'keep', timeoutMs: 100 }));
  const rig = await rigWith(drawn, [2, 3]);
  await rig.submit([1]);
  await rig.advance(5000);
  await answer(rig, 2);
  await rig.advance(99);
  assert.deepEqual(rig.outcomes, []);
  await rig.advance(1);
  const outcome = only(rig);
  assert.deepEqual(decodePayload(outcome.payload), { a: { s2: 1 } });
  assert.deepEqual(reportOf(outcome).branches['b'], {
    ok: false,
    code: 'deadline_exceeded',
    message: 'no result came in time',
  });
  assert.equal(rig.pool(3).cancelled.length, 1);
  await answer(rig, 3);
  await rig.submit([2], { deadline: rig.clock.now() + 50 });
  await answer(rig, 2);
  await rig.advance(45);
  assert.deepEqual(decodePayload(only(rig).payload), { a: { s2: 2 } });
});

test('a client that goes away cancels every branch, wherever it is', async () => {
  const inner = leg([], fork([leg([2]), leg([3])], leg([])));
  const rig = await rigWith(leg([1], { ...fork([inner, leg([4])], leg([])), gather: OUTER }), [1, 2, 3, 4]);
  await rig.submit([1, 2]);
  await answer(rig, 1);
  await answer(rig, 1);
  await answer(rig, 2);
  rig.engine.cancel([1, 2]);
  await rig.finish();
  assert.deepEqual(rig.outcomes, []);
  for (const ref of [2, 3, 4]) assert.equal(rig.queueOf(ref), 0);
  await rig.apply({ stages: [], routes: [] });
  assert.equal(rig.pool(4).closes.length, 1, 'no item keeps the stages of a route that is gone');
});

test('a gather may be a branch of another one, and its error is the outcome of that branch', async () => {
  const inner = leg([2], fork([leg([3]), leg([4])], leg([5])));
  const drawn = leg([1], { ...fork([inner, leg([6])], leg([])), gather: OUTER });
  const rig = await rigWith(drawn, upTo(6));
  await rig.submit([1]);
  for (const ref of [1, 2, 3, 4, 5, 6]) await answer(rig, ref);
  const outcome = only(rig);
  assert.deepEqual(decodePayload(outcome.payload), {
    a: { s5: { a: { s3: { s2: { s1: 1 } } }, b: { s4: { s2: { s1: 1 } } } } },
    b: { s6: { s1: 1 } },
  });
  assert.deepEqual(reportOf(outcome).gathered, [
    { node: GATHER, passed: 4, branches: [1, 1] },
    { node: OUTER, passed: 6, branches: [4, 1] },
  ]);
  await rig.submit([2]);
  for (const ref of [1, 2]) await answer(rig, ref);
  await answer(rig, 4, true);
  const failed = only(rig);
  assert.match(decodeFailure(failed.payload).error.message, /^branch a: branch b: /);
  assert.equal(reportOf(failed).failed, OUTER);
});

test('a full queue in a branch holds the stage before the fork back, and refuses nothing', async () => {
  const rig = new Rig();
  const stages = [stage(1), stage(2), stage(3, { capacity: 1 }), stage(4)];
  await rig.apply({ stages, routes: [{ ref: 1, stages: [1, 2, 3, 4], taps: [], leg: DIAMOND }] });
  await rig.submit(upTo(10));
  for (let times = 0; times < 3; times += 1) if (rig.pool(1).held().length > 0) await answer(rig, 1);
  assert.deepEqual(rig.pool(1).held(), []);
  assert.equal(rig.queueOf(3), 1);
  await rig.finish();
  assert.deepEqual(rig.answers().sort(), upTo(10).map(String).sort());
});

test('a full queue at the entry refuses a branch like any other request', async () => {
  const rig = new Rig();
  const drawn = leg([], fork([leg([2]), leg([3])], leg([])));
  const stages = [stage(2, { capacity: 1 }), stage(3)];
  await rig.apply({ stages, routes: [{ ref: 1, stages: [2, 3], taps: [], leg: drawn }] });
  await rig.submit(upTo(3));
  assert.deepEqual(rig.answers(), ['2 capacity_exceeded', '3 capacity_exceeded']);
  await rig.finish();
  assert.deepEqual(rig.answers(), ['1']);
});

test('taps in branches and behind the gather have the number of the request', async () => {
  const rig = await rigWith(DIAMOND, [1, 2, 3, 4], [2, GATHER]);
  await rig.submit([7]);
  for (const ref of [1, 2, 3, 4]) await answer(rig, ref);
  assert.deepEqual(
    rig.taps.map(({ id, stageRef, payload }) => [id, stageRef, decodePayload(payload)]),
    [
      [7, 2, { s2: { s1: 7 } }],
      [7, GATHER, { a: { s2: { s1: 7 } }, b: { s3: { s1: 7 } } }],
    ],
  );
});

const KIND: readonly ChoiceRule[] = [
  { operator: 'eq', value: 'x', limit: null },
  { operator: 'else', value: null, limit: null },
];

test('a value decides which way an item goes, and a way may pass it on as it is', async () => {
  const drawn = leg([1], { kind: 'choice', path: ['s1', 'kind'], rules: KIND, ways: [leg([2, 3]), leg([3])] });
  const rig = await rigWith(drawn, [1, 2, 3]);
  const submit = (id: number, value: object): Promise<void> =>
    rig.submit([id], { payload: { codec: CODEC.json, bytes: Buffer.from(JSON.stringify(value)) } });
  await submit(1, { kind: 'x' });
  for (const ref of [1, 2, 3]) await answer(rig, ref);
  assert.deepEqual(decodePayload(only(rig).payload), { s3: { s2: { s1: { kind: 'x' } } } });
  await submit(2, {});
  for (const ref of [1, 3]) await answer(rig, ref);
  assert.deepEqual(decodePayload(only(rig).payload), { s3: { s1: {} } });
});

test('a client whose JSON cannot be read gets bad_request at a choice', async () => {
  const rig = await rigWith(
    leg([], { kind: 'choice', path: ['kind'], rules: KIND, ways: [leg([1]), leg([2])] }),
    [1, 2],
  );
  await rig.submit([1], { payload: { codec: CODEC.jsonText, bytes: Buffer.from('{"kind":') } });
  assert.deepEqual(rig.answers(), ['1 bad_request']);
});

test('while one way is full, items go on that another way may take', async () => {
  const rig = new Rig();
  const rules: ChoiceRule[] = [
    { operator: 'lt', value: 3, limit: null },
    { operator: 'else', value: null, limit: null },
  ];
  const drawn = leg([1], { kind: 'choice', path: [], rules, ways: [leg([2]), leg([3])] });
  const stages = [stage(1), stage(2, { capacity: 1 }), stage(3)];
  await rig.apply({ stages, routes: [{ ref: 1, stages: [1, 2, 3], taps: [], leg: drawn }] });
  await rig.submit(upTo(5));
  for (let times = 0; times < 5; times += 1) await answer(rig, 1);
  assert.equal(rig.pool(3).held().length, 1);
  await rig.finish();
  assert.deepEqual(rig.answers().sort(), upTo(5).map(String));
});

test('a deploy that changes the route leaves items on the route that they began', async () => {
  const rig = await rigWith(DIAMOND, [1, 2, 3, 4]);
  await rig.submit([7]);
  await answer(rig, 1);
  await rig.apply({ stages: [stage(1), stage(4)], routes: [{ ref: 2, stages: [1, 4], taps: [] }] });
  for (const ref of [2, 3, 4]) await answer(rig, ref);
  assert.equal(only(rig).ok, true);
  assert.equal(rig.pool(2).closes.length, 1);
});

const stagesDrawn = fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 2 });

/** A leg of random shape. @param depth most forks and choices inside one another */
function shapes(depth: number): fc.Arbitrary<Leg> {
  const end = stagesDrawn.map((stages) => leg(stages));
  if (depth === 0) return end;
  const inner = fc.array(shapes(depth - 1), { minLength: 2, maxLength: 3 });
  const terms = fc.record({
    mode: fc.constantFrom('all' as const, 'first' as const, 'quorum' as const),
    partial: fc.constantFrom('error' as const, 'keep' as const),
  });
  return fc.oneof(
    end,
    fc
      .tuple(stagesDrawn, inner, shapes(depth - 1), terms)
      .map(([stages, branches, after, drawn]) => leg(stages, fork(branches, after, drawn))),
    fc.tuple(stagesDrawn, inner).map(([stages, ways]) => {
      const rules = ways.map((_, index): ChoiceRule => {
        const operator = index === ways.length - 1 ? 'else' : 'cont';
        return { operator, value: String(index), limit: null };
      });
      return leg(stages, { kind: 'choice', path: [], rules, ways });
    }),
  );
}

test('whatever the shape of a route, each request settles exactly once, and nothing is left', async () => {
  await fc.assert(
    fc.asyncProperty(shapes(3), fc.array(fc.nat({ max: 99 }), { maxLength: 60 }), async (drawn, steps) => {
      const rig = new Rig();
      const route: Route = { ref: 1, stages: upTo(6), taps: [], leg: drawn };
      await rig.apply({ stages: upTo(6).map((ref) => stage(ref, { capacity: 2 })), routes: [route] });
      const submitted = new Set<number>();
      const cancelled = new Set<number>();
      for (const [at, step] of steps.entries()) {
        const pool = rig.pool(1 + (step % 6));
        if (step < 20) {
          submitted.add(at + 1);
          await rig.submit([at + 1], { patient: true });
        } else if (step < 25) {
          cancelled.add(at);
          rig.engine.cancel([at]);
        } else if (step < 30) {
          await rig.advance(400);
        } else if (pool.held().length > 0) {
          pool.answer(0, 10, () => step > 85);
        }
        await rig.turn();
      }
      await rig.finish();
      const settled = rig.outcomes.map(({ id }) => id);
      assert.equal(new Set(settled).size, settled.length, 'nothing settles twice');
      const missing = [...submitted].filter((id) => !settled.includes(id) && !cancelled.has(id));
      assert.deepEqual(missing, [], 'everything settles');
      await rig.apply({ stages: [], routes: [] });
      for (const ref of upTo(6)) assert.equal(rig.pool(ref).closes.length, 1, `stage ${ref} has no items left`);
    }),
    { numRuns: 150 },
  );
});

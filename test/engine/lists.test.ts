/** The items of a list pass the stages behind it by themselves, and their results meet in order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import type { Payload } from '../../src/core/model.ts';
import type { ListTerms } from '../../src/core/routes/gather.ts';
import type { Fork, Leg } from '../../src/core/routes/route.ts';
import { decodePayload, encodeList, encodePayload } from '../../src/wire/codec/codec.ts';
import { decodeFailure } from '../../src/wire/frames/failures.ts';
import { answer, GATHER, leg, only, reportOf, wrapped } from './gathering.ts';
import { Rig, stage, upTo } from './rig.ts';

const ENCODED = { blame: 'modelet_failed', maxBytes: 1e7 } as const;

interface Terms extends Partial<ListTerms> {
  readonly partial?: 'error' | 'keep';
  readonly timeoutMs?: number;
}

function each(item: Leg, after: Leg = leg([]), terms: Terms = {}): Fork {
  const { partial = 'error', timeoutMs = 1000, form = 'results', maxItems = 100 } = terms;
  const list = { mode: 'list', quorum: 0, total: 1, names: [''], list: { form, maxItems }, partial } as const;
  return { kind: 'fork', gather: GATHER, terms: list, timeoutMs, branches: [item], after };
}

/** Stage 1 makes a list of what it gets: 3 becomes [0, 1, 2], and an array stays. The others wrap their inputs. */
async function rigWith(drawn: Leg, stages: readonly StageDefinition[], rig: Rig = new Rig()): Promise<Rig> {
  await rig.apply({ stages, routes: [{ ref: 1, stages: stages.map(({ ref }) => ref), taps: [], leg: drawn }] });
  for (const { ref } of stages)
    rig.pool(ref).makes = (item) => (ref === 1 ? listOf(item.payload) : wrapped(ref, item.payload));
  return rig;
}

function listOf(input: Payload): Payload {
  const value = decodePayload(input);
  return encodeList(typeof value === 'number' ? Array.from({ length: value }, (_, index) => index) : value, ENCODED);
}

function value(json: unknown): { payload: Payload } {
  return { payload: encodePayload(json, ENCODED) };
}

const TWO = { batching: { policy: 'greedy', maxBatchSize: 2, maxWaitMs: 0 } } as const;

test('the results of all items meet in order, whichever comes first, and go on as one value', async () => {
  const rig = await rigWith(leg([1], each(leg([2]), leg([3]))), [stage(1), stage(2, {}, 2), stage(3)]);
  await rig.submit([2]);
  await answer(rig, 1);
  rig.pool(2).answer(1, 10);
  await answer(rig, 2);
  assert.equal(rig.pool(2).cancelled.length, 0);
  await answer(rig, 3);
  const outcome = only(rig);
  assert.equal(Buffer.from(outcome.payload.bytes).toString(), '{"s3":[{"s2":0},{"s2":1}]}');
  const { gathered, branches, failed } = reportOf(outcome);
  assert.deepEqual(gathered, [{ node: GATHER, passed: 2, branches: [1] }], 'the timings are those of one item');
  assert.deepEqual([branches, failed], [{}, null]);
});

test('an empty list is answered at once', async () => {
  const rig = await rigWith(leg([1], each(leg([2]))), [stage(1), stage(2)]);
  await rig.submit([0]);
  await answer(rig, 1);
  assert.deepEqual(decodePayload(only(rig).payload), []);
});

test('a result may stand beside its item, and items may be binary', async () => {
  const rig = await rigWith(leg([1], each(leg([2]), leg([]), { form: 'pairs' })), [stage(1), stage(2)]);
  rig.pool(1).makes = () => encodeList([1, Buffer.from('crop')], ENCODED);
  rig.pool(2).makes = (item) => encodePayload(typeof decodePayload(item.payload), ENCODED);
  await rig.submit([1]);
  await rig.finish();
  assert.deepEqual(decodePayload(only(rig).payload), [
    { item: 1, result: 'number' },
    { item: Buffer.from('crop'), result: 'object' },
  ]);
});

test('an item that fails is the error of the gathering node, and the others are cancelled', async () => {
  const rig = await rigWith(leg([1], each(leg([2]), leg([3]))), [stage(1), stage(2, {}, 3), stage(3)]);
  await rig.submit([3]);
  await answer(rig, 1);
  rig.pool(2).answer(1, 10, () => true);
  await rig.turn();
  const outcome = only(rig);
  const { error, input } = decodeFailure(outcome.payload);
  assert.match(error.message, /^item 1: /);
  assert.equal(input && decodePayload(input), 1, 'the input of the item that failed');
  assert.equal(reportOf(outcome).failed, GATHER);
  assert.equal(rig.pool(2).cancelled.length, 2);
  await rig.finish();
  assert.deepEqual(rig.outcomes, []);
});

test('partial results have null where an item failed or came too late, and say why', async () => {
  const drawn = leg([1], each(leg([2]), leg([]), { partial: 'keep', timeoutMs: 100 }));
  const rig = await rigWith(drawn, [stage(1), stage(2, {}, 3)]);
  await rig.submit([3]);
  await answer(rig, 1);
  rig.pool(2).answer(0, 10, () => true);
  rig.pool(2).answer(2, 10);
  await rig.turn();
  await rig.advance(99);
  assert.deepEqual(rig.outcomes, []);
  await rig.advance(1);
  const outcome = only(rig);
  assert.deepEqual(decodePayload(outcome.payload), [null, null, { s2: 2 }]);
  const { branches, failed } = reportOf(outcome);
  const codes = Object.entries(branches).map(([index, at]) => [index, at.ok ? 'ok' : at.code]);
  assert.deepEqual(codes, [
    ['0', 'invalid_input'],
    ['1', 'deadline_exceeded'],
  ]);
  assert.equal(failed, null);
});

test('no result at all is an error, also if partial results are kept', async () => {
  const rig = await rigWith(leg([1], each(leg([2]), leg([]), { partial: 'keep' })), [stage(1), stage(2)]);
  await rig.submit([2]);
  await answer(rig, 1);
  await answer(rig, 2, true);
  await answer(rig, 2, true);
  assert.match(decodeFailure(only(rig).payload).error.message, /^item 0: .*2 of 2 items failed/);
});

test('a list of too many items fails, and so does a value that is no list', async () => {
  const rig = await rigWith(leg([1], each(leg([2]), leg([]), { maxItems: 3 })), [stage(1), stage(2)]);
  rig.pool(1).makes = (item) => (decodePayload(item.payload) === 4 ? listOf(item.payload) : item.payload);
  await rig.submit([4, 5]);
  await answer(rig, 1);
  await answer(rig, 1);
  const errors = rig.outcomes.map(({ payload }) => decodeFailure(payload).error);
  assert.deepEqual(
    errors.map(({ code }) => code),
    ['modelet_failed', 'modelet_failed'],
  );
  assert.match(errors[0]?.message ?? '', /4 items; the limit is 3/);
  assert.match(errors[1]?.message ?? '', /instead of a list/);
});

test('an error in front of the list is the error of the gathering node, as it is', async () => {
  const rig = await rigWith(leg([1], each(leg([2]))), [stage(1), stage(2)]);
  await rig.submit([2]);
  await answer(rig, 1, true);
  const outcome = only(rig);
  assert.doesNotMatch(decodeFailure(outcome.payload).error.message, /item/);
  assert.equal(reportOf(outcome).failed, GATHER);
});

test('no more items of a list wait than the workers take, so another request is in the next batch', async () => {
  const rig = await rigWith(leg([1], each(leg([2]))), [stage(1), stage(2, TWO)]);
  await rig.submit([9]);
  await answer(rig, 1);
  assert.equal(rig.pool(2).held().flat().length, 2);
  assert.equal(rig.queueOf(2), 0);
  await rig.submit([1]);
  await answer(rig, 1);
  assert.equal(rig.queueOf(2), 1);
  const parents: unknown[] = [];
  rig.pool(2).makes = ({ parent, payload }) => {
    parents.push(parent?.id);
    return payload;
  };
  await answer(rig, 2);
  assert.deepEqual(parents, [1, 9], 'the small request first, and the rest of the batch is not wasted');
  await rig.finish();
  assert.deepEqual(
    rig.outcomes.map(({ id }) => id),
    [1, 9],
  );
});

test('no more items wait than the queue takes in bytes, and all of them come through', async () => {
  const batching = { policy: 'greedy', maxBatchSize: 8, maxWaitMs: 0 } as const;
  const rig = await rigWith(leg([1], each(leg([2]))), [stage(1), stage(2, { batching, queueMb: 1 })]);
  const large = Array.from({ length: 8 }, (_, index) => String(index).repeat(400_000));
  await rig.submit([1], value(large));
  await answer(rig, 1);
  const sizes: number[] = [];
  while (rig.outcomes.length === 0) {
    sizes.push(rig.pool(2).held().flat().length);
    await answer(rig, 2);
  }
  assert.deepEqual(sizes, [3, 3, 2]);
  const results = decodePayload(only(rig).payload) as { s2: string }[];
  assert.deepEqual(
    results.map(({ s2 }) => s2[0]),
    ['0', '1', '2', '3', '4', '5', '6', '7'],
  );
});

test('results that are too large together end the list as soon as they are, and leave nothing', async () => {
  const rig = await rigWith(leg([1], each(leg([2]))), [stage(1), stage(2)], new Rig(990, 1e9));
  await rig.submit([1], value(Array.from({ length: 9 }, () => 'x'.repeat(190))));
  await answer(rig, 1);
  for (let item = 0; item < 5; item += 1) {
    assert.deepEqual(rig.outcomes, []);
    await answer(rig, 2);
  }
  const { error } = decodeFailure(only(rig).payload);
  assert.equal(error.code, 'payload_too_large');
  assert.equal(error.message, 'the results of 5 of 9 items have 995 bytes; the limit is 990 bytes');
  assert.equal(rig.engine.status().heldBytes, 0);
});

test('a list of many items without stages on their way needs no deep stack', async () => {
  const rig = await rigWith(leg([1], each(leg([]), leg([]), { maxItems: 10_000 })), [stage(1)]);
  await rig.submit([10_000]);
  await answer(rig, 1);
  assert.equal((decodePayload(only(rig).payload) as unknown[]).length, 10_000);
});

test('a client that goes away cancels every item, and leaves nothing', async () => {
  const rig = await rigWith(leg([1], each(leg([2]))), [stage(1), stage(2, TWO)]);
  await rig.submit([7]);
  await answer(rig, 1);
  await answer(rig, 2);
  rig.engine.cancel([7]);
  await rig.finish();
  assert.deepEqual(rig.outcomes, []);
  assert.equal(rig.engine.status().heldBytes, 0);
});

test('a list that no node takes apart goes on whole', async () => {
  const rig = await rigWith(leg([1, 2]), [stage(1), stage(2)]);
  await rig.submit([2]);
  await rig.finish();
  assert.equal(Buffer.from(only(rig).payload.bytes).toString(), '{"s2":[0,1]}');
});

test('a list for another engine leaves as its stage has marked it', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1)], routes: [{ ref: 1, stages: [1], taps: [], forEngine: true }] });
  rig.pool(1).makes = (item) => listOf(item.payload);
  await rig.submit([2]);
  await answer(rig, 1);
  assert.deepEqual(only(rig).payload, encodeList([0, 1], ENCODED));
});

test('lists in lists keep their places, at any sizes and any order of answers, and settle once', async () => {
  const inner = leg([2], each(leg([3]), leg([4]), { partial: 'keep' }));
  const nested = fc.array(fc.array(fc.integer(), { maxLength: 5 }), { maxLength: 5 });
  const run = async (values: readonly number[][][], order: readonly number[]): Promise<void> => {
    const rig = await rigWith(leg([1], each(inner)), [stage(1), stage(2, {}, 2), stage(3, TWO, 2), stage(4)]);
    rig.pool(2).makes = (item) => listOf(item.payload);
    for (const [id, lists] of values.entries()) await rig.submit([id], value(lists));
    for (const at of order) {
      const pool = rig.pool(1 + (at % 4));
      const worker = at % pool.definition.modelet.workers.length;
      if (pool.held(worker).length > 0) pool.answer(worker);
      await rig.turn();
    }
    await rig.finish();
    const results = rig.outcomes.map(({ id, payload }) => [id, decodePayload(payload)]);
    const expected = values.map((lists, id) => [id, lists.map((list) => ({ s4: list.map((one) => ({ s3: one })) }))]);
    assert.deepEqual(results.sort(byId), expected);
    assert.equal(rig.engine.status().heldBytes, 0);
    await rig.apply({ stages: [], routes: [] });
    for (const ref of upTo(4)) assert.equal(rig.pool(ref).closes.length, 1);
  };
  const cases = fc.asyncProperty(
    fc.array(nested, { maxLength: 4 }),
    fc.array(fc.nat({ max: 99 }), { maxLength: 30 }),
    run,
  );
  await fc.assert(cases, { numRuns: 40 });
});

function byId(a: readonly unknown[], b: readonly unknown[]): number {
  return (a[0] as number) - (b[0] as number);
}

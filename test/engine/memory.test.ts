/** The bytes of payloads in the engine have a limit: stages wait, and entries refuse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Growth } from '../../src/runtime/engine/routes/memory.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { Rig, route, stage, upTo } from './rig.ts';

const KB = 1024;
const LARGE = 100 * KB;
const batching = { policy: 'greedy', maxBatchSize: 8, maxWaitMs: 0 } as const;
const payload = (bytes: number) => ({ codec: CODEC.bytes, bytes: new Uint8Array(bytes) });

/** The worker of stage 1 makes large results of its batch. Returns its size. */
async function unpack(rig: Rig): Promise<number> {
  const size = rig.pool(1).held()[0]?.length ?? 0;
  if (size > 0) rig.pool(1).answerFromHost(() => ({ ok: true, payload: payload(LARGE), timings: [] }));
  await rig.turn();
  return size;
}

test('a stage whose results grow makes only as many as have memory, and goes on when the next stage has taken some', async () => {
  const rig = new Rig(LARGE, 10 * LARGE);
  const stages = [stage(1, { batching }), stage(2)];
  await rig.apply({ stages, routes: [route(1, [1, 2])] });
  await rig.submit(upTo(20), { payload: payload(KB) });
  let most = 0;
  for (let round = 0; round < 60; round += 1) {
    assert.ok((await unpack(rig)) <= 5);
    most = Math.max(most, rig.engine.status().heldBytes ?? 0);
    if (rig.pool(2).held().length > 0) rig.pool(2).answer();
    await rig.turn();
  }
  // With the answer that stage 2 makes.
  assert.ok(most <= 6 * LARGE + 20 * KB, `${most} bytes`);
  assert.deepEqual(rig.answers().map(Number).length, 20);
  assert.equal(rig.engine.status().heldBytes, 0);
});

test('a result larger than the memory passes alone', async () => {
  const rig = new Rig(LARGE, LARGE);
  await rig.apply({ stages: [stage(1, { batching }), stage(2)], routes: [route(1, [1, 2])] });
  await rig.submit(upTo(3), { payload: payload(KB) });
  for (let round = 0; round < 10; round += 1) {
    assert.ok((await unpack(rig)) <= 1);
    if (rig.pool(2).held().length > 0) rig.pool(2).answer();
    await rig.turn();
  }
  assert.equal(rig.answers().length, 3);
});

test('an entry refuses what does not fit, and takes more when memory is free; a waiting sender is not refused', async () => {
  const rig = new Rig(LARGE, 6 * LARGE);
  await rig.single();
  await rig.submit(upTo(5), { payload: payload(LARGE) });
  assert.deepEqual(rig.answers(), ['4 capacity_exceeded', '5 capacity_exceeded']);
  await rig.submit([6], { payload: payload(LARGE), patient: true });
  rig.engine.cancel([2, 6]);
  await rig.submit([7], { payload: payload(LARGE) });
  await rig.finish();
  assert.deepEqual(
    rig.outcomes.map(({ id, ok }) => [id, ok]),
    [
      [1, true],
      [3, true],
      [7, true],
    ],
  );
  assert.equal(rig.engine.status().heldBytes, 0);
});

test('a request larger than the memory passes alone, also through branches', async () => {
  const rig = new Rig(LARGE, LARGE);
  const branch = (ref: number) => ({ stages: [ref], next: null });
  const terms = { mode: 'all', quorum: 2, total: 2, partial: 'error', names: ['one', 'two'] } as const;
  const next = { kind: 'fork', gather: 9, terms, timeoutMs: 1000, branches: [branch(1), branch(2)] } as const;
  const leg = { stages: [], next: { ...next, after: { stages: [], next: null } } };
  await rig.apply({ stages: [stage(1), stage(2)], routes: [{ ref: 1, stages: [1, 2], taps: [], leg }] });
  await rig.submit([1], { payload: payload(LARGE) });
  assert.deepEqual([rig.pool(1).held().length, rig.pool(2).held().length], [1, 1]);
});

test('branches behind a stage share its result', async () => {
  const rig = new Rig(LARGE, 20 * LARGE);
  const branch = (ref: number) => ({ stages: [ref], next: null });
  const terms = { mode: 'all', quorum: 2, total: 2, partial: 'error', names: ['one', 'two'] } as const;
  const next = { kind: 'fork', gather: 9, terms, timeoutMs: 1000, branches: [branch(2), branch(3)] } as const;
  const leg = { stages: [1], next: { ...next, after: { stages: [], next: null } } };
  await rig.apply({ stages: upTo(3).map((ref) => stage(ref)), routes: [{ ref: 1, stages: [1, 2, 3], taps: [], leg }] });
  await rig.submit([1], { payload: payload(KB) });
  await unpack(rig);
  assert.deepEqual([rig.pool(2).held().length, rig.pool(3).held().length], [1, 1]);
  // And room for the results of both.
  assert.equal(rig.engine.status().heldBytes, 3 * LARGE);
  await rig.finish();
  assert.equal(rig.engine.status().heldBytes, 0);
});

test('the result of a branch counts while it waits for the others, and no longer', async () => {
  const branch = (ref: number) => ({ stages: [ref], next: null });
  const terms = { mode: 'all', quorum: 2, total: 2, partial: 'error', names: ['one', 'two'] } as const;
  const next = { kind: 'fork', gather: 9, terms, timeoutMs: 1000, branches: [branch(1), branch(2)] } as const;
  const leg = { stages: [], next: { ...next, after: { stages: [], next: null } } };
  const end = { ends: async (rig: Rig) => rig.finish(), cancelled: (rig: Rig) => rig.engine.cancel([1]) };
  for (const [how, ending] of Object.entries(end)) {
    const rig = new Rig(LARGE, 20 * LARGE);
    await rig.apply({ stages: [stage(1), stage(2)], routes: [{ ref: 1, stages: [1, 2], taps: [], leg }] });
    await rig.submit([1], { payload: payload(KB) });
    const before = rig.engine.status().heldBytes ?? 0;
    await unpack(rig);
    assert.ok((rig.engine.status().heldBytes ?? 0) >= LARGE + before - 2 * KB, how);
    await ending(rig);
    await rig.turn();
    assert.equal(rig.engine.status().heldBytes, 0, how);
  }
});

test('a stage whose results have one size, however small the input, makes only as many as have memory', async () => {
  const rig = new Rig(LARGE, 10 * LARGE);
  await rig.apply({ stages: [stage(1, { batching }), stage(2, { capacity: 100 })], routes: [route(1, [1, 2])] });
  const run = async (id: number, bytes: number) => {
    await rig.submit([id], { payload: payload(bytes) });
    await unpack(rig);
    while (rig.pool(2).held().length > 0) rig.pool(2).answer();
    await rig.turn();
  };
  await run(1, LARGE);
  await run(2, KB);
  await rig.submit(upTo(20, 3), { payload: payload(1) });
  assert.equal(rig.pool(1).held()[0]?.length, 5);
  await rig.finish();
  assert.equal(rig.answers().length, 20);
});

test('items of a dead worker that run again keep no memory for results while they wait', async () => {
  const rig = new Rig(LARGE, 8 * LARGE);
  await rig.apply({ stages: [stage(1, { batching, retryLost: true }), stage(2)], routes: [route(1, [1, 2])] });
  await rig.submit(upTo(4), { payload: payload(KB) });
  rig.pool(1).lose();
  for (let round = 0; round < 20; round += 1) {
    await unpack(rig);
    if (rig.pool(2).held().length > 0) rig.pool(2).answer();
    await rig.turn();
  }
  assert.equal(rig.answers().length, 4);
  assert.equal(rig.engine.status().heldBytes, 0);
});

test('answers that clients do not read hold back stages and, by the expected size of an answer, entries', async () => {
  const rig = new Rig(LARGE, 10 * LARGE);
  const stages = [stage(1), stage(2)];
  await rig.apply({ stages, routes: [route(1, [1, 2]), route(2, [1])] });
  const begin = (id: number, more = {}) => rig.submit([id], { payload: payload(KB), ...more });
  await begin(1);
  await unpack(rig);
  rig.pool(2).answerFromHost(() => ({ ok: true, payload: payload(KB), timings: [] }));
  await rig.turn();
  assert.deepEqual(rig.answers(), ['1']);
  rig.unsent = 4.5 * LARGE;
  await begin(2);
  await begin(3, { routeRef: 2 });
  await begin(4, { routeRef: 2, patient: true });
  assert.deepEqual(rig.answers(), ['3 capacity_exceeded'], 'the answer behind stage 2 is small');
  await unpack(rig);
  assert.equal(rig.pool(1).held().length, 0);
  assert.deepEqual(rig.engine.status().heldBack, { limitBytes: 10 * LARGE, refuses: true });
  rig.unsent = 0;
  await rig.advance(20);
  assert.equal(await unpack(rig), 1);
  await rig.finish();
  assert.deepEqual(rig.answers().sort(), ['2', '4']);
  await rig.advance(2000);
  await rig.advance(2000);
  assert.equal(rig.engine.status().heldBack, undefined);
  assert.equal(rig.engine.status().heldBytes, 0);
});

test('an answer larger than the memory leaves alone, and a lost worker keeps no room for answers', async () => {
  const rig = new Rig(10 * LARGE, LARGE);
  await rig.single({ retryLost: true }, 2);
  await rig.submit([1], { payload: payload(KB) });
  rig.pool(1).lose();
  await rig.finish();
  assert.deepEqual(rig.answers(), ['1']);
  assert.equal(rig.engine.status().heldBytes, 0);
});

test('expected results are whole numbers of bytes, so that their sum is 0 again when all have come', () => {
  const size = fc.integer({ min: 0, max: 2 ** 31 });
  const property = fc.property(fc.array(fc.tuple(size, size), { minLength: 1 }), fc.array(size), (seen, inputs) => {
    const growth = new Growth();
    for (const [input, result] of seen) growth.note(input, result);
    const expected = inputs.map((input) => growth.of(input, 2 ** 30, 512));
    let sum = 0;
    for (const bytes of expected) sum += bytes;
    for (const bytes of expected) sum -= bytes;
    assert.equal(sum, 0);
    assert.ok(expected.every((bytes) => Number.isSafeInteger(bytes) && bytes <= 2 ** 30));
  });
  fc.assert(property);
});

/** Remote stages in a row, which an item passes on one worker host. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { ModeletError } from '../../src/core/errors.ts';
import type { StageTiming } from '../../src/core/model.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { encodeError } from '../../src/wire/codec/error-codec.ts';
import { decodeFailure, encodeFailure } from '../../src/wire/frames/failures.ts';
import { Rig, route, stage } from './rig.ts';

type Overrides = Readonly<Record<number, Partial<StageDefinition>>>;

const json = (text: string): { codec: number; bytes: Uint8Array } => ({ codec: CODEC.json, bytes: Buffer.from(text) });

/** Four stages in a row; hosts serve all but those in `local`. */
async function fourStages(overrides: Overrides = {}, taps: readonly number[] = [], local: readonly number[] = []) {
  const rig = new Rig();
  const stages = [1, 2, 3, 4].map((ref) => stage(ref, overrides[ref]));
  await rig.apply({ stages, routes: [route(1, [1, 2, 3, 4], taps)] });
  for (const { ref } of stages) if (!local.includes(ref)) rig.pool(ref).hop = { key: `key${ref}`, items: 1 };
  return rig;
}

/** The timing of an item at one stage, as a host has it: with the host's numbers. */
function timing(runMs: number, batchSize = 1): StageTiming {
  return { stage: 900 + runMs, waitMs: 1, batchMs: 2, runMs, batchSize, worker: 0 };
}

/** Sends an item and returns how many stages it passes with the first. */
async function hopsOf(rig: Rig): Promise<number | undefined> {
  await rig.submit([1]);
  return rig.pool(1).heldItems()[0]?.hops.length;
}

test('an item passes all stages that its hosts serve at once, and each stage has its timing and its counts', async () => {
  const rig = await fourStages();
  await rig.submit([1, 2]);
  rig
    .pool(1)
    .answerFromHost(() => ({ ok: true, payload: json('"done"'), timings: [5, 6, 7, 8].map((ms) => timing(ms)) }));
  await rig.turn();
  rig
    .pool(1)
    .answerFromHost(() => ({ ok: true, payload: json('"done"'), timings: [5, 6, 7, 8].map((ms) => timing(ms)) }));
  await rig.turn();
  assert.deepEqual(
    rig.outcomes.map(({ timings }) => timings.map(({ stage: ref, runMs }) => [ref, runMs])),
    [1, 2].map(() => [
      [1, 5],
      [2, 6],
      [3, 7],
      [4, 8],
    ]),
  );
  assert.deepEqual(rig.answers(), ['1', '2']);
  for (const { ref, reading } of rig.engine.status().stages) {
    assert.deepEqual(
      [reading.batches, reading.items, reading.run.counts.reduce((a, b) => a + b, 0)],
      [2, 2, 2],
      `${ref}`,
    );
  }
});

test('a batch on a host counts once, however many of its items come back together', async () => {
  const rig = await fourStages();
  await rig.submit([1, 2, 3]);
  for (let item = 0; item < 3; item += 1) {
    rig.pool(1).answerFromHost(() => ({ ok: true, payload: json('1'), timings: [timing(5), timing(6, 3)] }));
    await rig.turn();
  }
  const second = rig.engine.status().stages.find(({ ref }) => ref === 2);
  assert.deepEqual([second?.reading.batches, second?.reading.items, second?.reading.busyMs], [1, 3, 6]);
});

test('a row ends before a stage that keeps results, that no host serves, or that treats lost hosts otherwise', async () => {
  const cache = { entries: 10, maxBytes: 1000, ttlMs: 0 };
  assert.equal(await hopsOf(await fourStages()), 3);
  assert.equal(await hopsOf(await fourStages({ 3: { cache } })), 1);
  assert.equal(await hopsOf(await fourStages({ 1: { cache } })), 0);
  assert.equal(await hopsOf(await fourStages({ 2: { retryLost: true } })), 0);
  assert.equal(await hopsOf(await fourStages({}, [], [3])), 1);
  assert.equal(await hopsOf(await fourStages({}, [], [1])), 0);
});

test('a row ends at a stage whose value is wanted elsewhere, and the copy is made', async () => {
  const rig = await fourStages({}, [2], [3]);
  assert.equal(await hopsOf(rig), 1);
  rig.pool(1).answerFromHost(() => ({ ok: true, payload: json('"two"'), timings: [timing(5), timing(6)] }));
  await rig.turn();
  assert.deepEqual(
    rig.taps.map(({ stageRef, payload }) => [stageRef, Buffer.from(payload.bytes).toString()]),
    [[2, '"two"']],
  );
  assert.deepEqual(rig.pool(3).held(), [[1]]);
});

test('an item that its host brings back before the end of the row goes on from there', async () => {
  const rig = await fourStages();
  await rig.submit([1]);
  rig.pool(1).answerFromHost(() => ({ ok: true, payload: json('"one"'), timings: [timing(5)] }));
  await rig.turn();
  assert.deepEqual(rig.pool(2).held(), [[1]]);
  assert.equal(rig.outcomes.length, 0);
  rig.pool(2).answerFromHost(() => ({ ok: true, payload: json('1'), timings: [6, 7, 8].map((ms) => timing(ms)) }));
  await rig.turn();
  assert.deepEqual(
    rig.outcomes[0]?.timings.map(({ stage: ref }) => ref),
    [1, 2, 3, 4],
  );
});

test('an error of a further stage comes out with the input of that stage', async () => {
  const rig = await fourStages();
  await rig.submit([1]);
  const error = encodeError(new ModeletError('invalid_input', 'no', { stage: 'stage3' }));
  rig.pool(1).answerFromHost(() => ({
    ok: false,
    payload: encodeFailure(error, json('"third"')),
    timings: [5, 6, 7].map((ms) => timing(ms)),
  }));
  await rig.turn();
  const [{ ok, payload, timings } = { ok: true, payload: json(''), timings: [] }] = rig.outcomes;
  const failure = decodeFailure(payload);
  assert.deepEqual(
    [ok, failure.error.code, failure.error.stage, timings.length],
    [false, 'invalid_input', 'stage3', 3],
  );
  assert.equal(Buffer.from(failure.input?.bytes ?? []).toString(), '"third"');
});

test('the stage that sends the last results of a row sends its parts, and they count there', async () => {
  const rig = await fourStages();
  await rig.submit([1], { streams: true });
  assert.deepEqual(rig.pool(1).streaming(), [true]);
  rig.pool(1).sendPart();
  assert.equal(rig.parts.length, 1);
  assert.deepEqual(
    rig.engine.status().stages.map(({ reading }) => reading.parts),
    [0, 0, 0, 1],
  );
});

test('a full queue behind the row holds its items back', async () => {
  const rig = await fourStages({ 4: { capacity: 1 } }, [], [4]);
  await rig.submit([1, 2, 3, 4]);
  for (const expected of [[[1]], [[2]], [[3]]]) {
    assert.deepEqual(rig.pool(1).held(), expected);
    rig.pool(1).answerFromHost(() => ({ ok: true, payload: json('1'), timings: [5, 6, 7].map((ms) => timing(ms)) }));
    await rig.turn();
    if (rig.queueOf(4) === 1) break;
  }
  assert.deepEqual(rig.pool(1).held(), []);
  rig.pool(4).answer();
  await rig.turn();
  assert.deepEqual(rig.pool(1).held(), [[3]]);
});

test('an item whose host is lost begins the row again, and a cancelled one leaves it', async () => {
  const retryLost = { retryLost: true };
  const rig = await fourStages({ 1: retryLost, 2: retryLost, 3: retryLost, 4: retryLost });
  await rig.submit([1]);
  rig.pool(1).lose();
  await rig.turn();
  assert.deepEqual(rig.pool(1).held(), [[1]]);
  assert.equal(rig.pool(1).heldItems()[0]?.hops.length, 3);
  rig.engine.cancel([1]);
  assert.deepEqual(rig.pool(1).cancelled, [1]);
});

/** The results that a stage keeps, their lifetime, and the requests that get them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countOf } from '../../src/observe/meters/histogram.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { ask, CACHE, caching, counts, how } from './caching.ts';
import { Rig, route, stage } from './rig.ts';

function status(rig: Rig): { entries: number; bytes: number } {
  return rig.engine.status().stages[0]?.cache as { entries: number; bytes: number };
}

test('the stage answers a repeated input without a worker, with an ordinary outcome', async () => {
  const rig = new Rig();
  const plan = { stages: [stage(1, caching()), stage(2)], routes: [route(1, [1, 2], [1])] };
  await rig.apply(plan);
  await ask(rig, [1], '"a"');
  rig.pool(1).answer();
  await rig.turn();
  await ask(rig, [2], '"a"');
  assert.deepEqual(rig.pool(1).held(), []);
  assert.deepEqual(
    rig.taps.map(({ id, payload }) => `${id} ${Buffer.from(payload.bytes)}`),
    ['1 "a"', '2 "a"'],
  );
  for (const _ of [1, 2]) {
    rig.pool(2).answer();
    await rig.turn();
  }
  assert.deepEqual(how(rig), ['1 0', '2 hit']);
  const hit = { stage: 1, waitMs: 0, batchMs: 0, runMs: 0, batchSize: 0, worker: -1, cache: 'hit' };
  assert.deepEqual(rig.outcomes[1]?.timings[0], hit);
  assert.deepEqual(counts(rig), [1, 1, 0]);
});

test('requests that joined a run share a result that is too large to be kept', async () => {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1, caching({ maxBytes: 1 })), stage(2)], routes: [route(1, [1, 2])] });
  await ask(rig, [1], '"a result"');
  await ask(rig, [2], '"a result"');
  rig.pool(1).answer();
  for (const _ of [1, 2]) {
    await rig.turn();
    rig.pool(2).answer();
  }
  assert.deepEqual(how(rig), ['1 0', '2 joined']);
  assert.deepEqual(
    rig.outcomes.map(({ ok, payload }) => ok && Buffer.from(payload.bytes).toString()),
    ['"a result"', '"a result"'],
  );
});

test('a cache hit does not count in the figures of batches and runs', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  await ask(rig, [1], '1');
  pool.answer(0, 30);
  await ask(rig, [2, 3, 4], '1');
  const { batches, items, run, queueWait, busyMs } = rig.engine.status().stages[0]?.reading ?? assert.fail();
  assert.deepEqual([batches, items, countOf(run), countOf(queueWait), busyMs], [1, 1, 1, 1, 30]);
  assert.deepEqual(rig.answers(), ['1', '2', '3', '4']);
});

test('other bytes or another codec make another input', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  await ask(rig, [1], '1');
  pool.answer();
  await rig.turn();
  await ask(rig, [2], '1 ');
  pool.answer();
  await rig.turn();
  await rig.submit([3], { payload: { codec: CODEC.bytes, bytes: Buffer.from('1') } });
  assert.deepEqual(pool.held(), [[3]]);
});

test('only the topic of a message, if sent, distinguishes inputs with equal payloads', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  const of = (topic: unknown, _msgid: string): { meta: Buffer } => ({
    meta: Buffer.from(JSON.stringify({ topic, _msgid })),
  });
  await ask(rig, [1], '1', of('a', 'x'));
  await ask(rig, [2], '1', of('a', 'y'));
  await ask(rig, [3], '1', of({ at: 'a' }, 'z'));
  await ask(rig, [4], '1', of(undefined, 'z'));
  await ask(rig, [5], '1', of(undefined, 'x'));
  assert.deepEqual([pool.held(), rig.queueOf(1)], [[[1]], 3]);
  for (const _ of [1, 2, 3]) {
    pool.answer();
    await rig.turn();
  }
  assert.deepEqual(how(rig), ['1 0', '2 joined', '3 0', '4 0', '5 hit']);
  assert.deepEqual(counts(rig), [1, 3, 1]);
});

test('the cache does not keep errors', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  await ask(rig, [1], '1');
  pool.answer(0, 1, () => true);
  await rig.turn();
  await ask(rig, [2], '1');
  assert.deepEqual([rig.answers(), pool.held(), status(rig).entries], [['1 invalid_input'], [[2]], 0]);
});

test('a kept result expires by the clock of the engine', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching({ ttlMs: 1000 }));
  await ask(rig, [1], '1');
  pool.answer();
  await rig.advance(1000);
  await ask(rig, [2], '1');
  assert.deepEqual(rig.answers(), ['1', '2']);
  await rig.advance(1);
  await ask(rig, [3], '1');
  assert.deepEqual(pool.held(), [[3]]);
  assert.equal(rig.clock.pending, 0);
});

test('a full cache drops the result that was unused for the longest time', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching({ entries: 2 }));
  for (const [id, input] of [
    [1, 'a'],
    [2, 'b'],
    [3, 'a'],
    [4, 'c'],
  ] as const) {
    await ask(rig, [id], input);
    if (pool.held().length > 0) pool.answer();
    await rig.turn();
  }
  assert.equal(status(rig).entries, 2);
  await ask(rig, [5], 'a');
  await ask(rig, [6], 'b');
  assert.deepEqual(how(rig).slice(4), ['5 hit']);
  assert.deepEqual(pool.held(), [[6]]);
});

test('the cache bounds its bytes and does not keep a result larger than the bound', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching({ maxBytes: 1000 }));
  for (const [id, size] of [
    [1, 400],
    [2, 401],
    [3, 402],
    [4, 2000],
  ] as const) {
    await ask(rig, [id], 'x'.repeat(size));
    pool.answer();
    await rig.turn();
    assert.ok(status(rig).bytes <= 1000);
  }
  assert.equal(status(rig).entries, 2);
  await ask(rig, [5], 'x'.repeat(402));
  await ask(rig, [6], 'x'.repeat(2000));
  assert.deepEqual([how(rig).at(-1), pool.held()], ['5 hit', [[6]]]);
});

test('a kept result is a copy that holds no frame and that no frame can change', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  const frame = Buffer.from('....17....');
  pool.makes = () => ({ codec: CODEC.json, bytes: frame.subarray(4, 6) });
  await ask(rig, [1], '1');
  pool.answer();
  frame.fill('0');
  await ask(rig, [2], '1');
  const bytes = rig.outcomes[1]?.payload.bytes as Uint8Array;
  assert.deepEqual([Buffer.from(bytes).toString(), bytes.buffer.byteLength], ['17', 2]);
});

test('the cache serves one revision: another starts empty, and older workers add nothing', async () => {
  const rig = new Rig();
  const old = await rig.single(caching(), 2);
  await ask(rig, [1], '1');
  old.answer();
  await rig.turn();
  // One runs when the change comes, one goes to an old worker after it, while the new ones load.
  await ask(rig, [2], '2');
  await rig.apply({ stages: [stage(1, { revision: 'r2', ...caching() }, 2)], routes: [route(1, [1])] }, false);
  assert.equal(status(rig).entries, 0);
  await ask(rig, [3], '1');
  assert.deepEqual([old.held(0), old.held(1)], [[[2]], [[3]]]);
  old.answer(0);
  old.answer(1);
  await rig.turn();
  assert.deepEqual([rig.answers(), status(rig).entries], [['1', '2', '3'], 0]);
  const fresh = rig.pool(1);
  fresh.becomeReady();
  await rig.turn();
  await ask(rig, [4], '2');
  assert.deepEqual(fresh.held(), [[4]]);
  fresh.answer();
  await rig.turn();
  assert.equal(status(rig).entries, 1);
});

test('a restart empties the cache, and results of the old workers are not kept', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  await ask(rig, [1], '1');
  pool.answer();
  await ask(rig, [2], '2');
  rig.engine.act(1, 'restart');
  pool.answer();
  await rig.turn();
  assert.equal(status(rig).entries, 0);
  await ask(rig, [3], '1');
  await ask(rig, [4], '1');
  // The old worker's run is not shared with what comes while it runs.
  assert.deepEqual([pool.held(), rig.queueOf(1)], [[[3]], 1]);
  pool.answer();
  pool.replace();
  await rig.turn();
  pool.answer();
  await rig.turn();
  assert.deepEqual([rig.answers(), status(rig).entries], [['1', '2', '3', '4'], 1]);
});

test('a change of cache settings keeps the workers and running items, and 0 empties the cache', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  await ask(rig, [1], '1');
  pool.answer();
  await ask(rig, [2], '2');
  await ask(rig, [3], '2');
  const off = { ...CACHE, entries: 0 };
  await rig.apply({ stages: [stage(1, { cache: off })], routes: [route(1, [1])] });
  assert.deepEqual([rig.pools.length, status(rig)], [1, { entries: 0, bytes: 0 }]);
  pool.answer();
  await rig.turn();
  assert.deepEqual(rig.answers(), ['1', '2', '3']);
  await ask(rig, [4, 5], '2');
  pool.answer();
  await rig.turn();
  pool.answer();
  assert.deepEqual(how(rig), ['4 0', '5 0']);
  assert.deepEqual(counts(rig), [0, 2, 1]);
});

test('a stage whose workers do not start still answers from the cache', async () => {
  const rig = new Rig();
  const pool = await rig.single(caching());
  await ask(rig, [1], '1');
  pool.answer();
  pool.fail('does not start');
  await rig.turn();
  await ask(rig, [2], '1');
  await ask(rig, [3], '2');
  assert.deepEqual(rig.answers(), ['1', '2', '3 stage_unavailable']);
});

test('a hit waits in the queue while the next stage is full, and then needs no run', async () => {
  const rig = new Rig();
  const plan = {
    stages: [stage(1, { ...caching(), capacity: 2 }), stage(2, { capacity: 1 })],
    routes: [route(1, [1, 2])],
  };
  await rig.apply(plan);
  await ask(rig, [1], '1');
  rig.pool(1).answer();
  await rig.turn();
  await ask(rig, [2], '1');
  // Stage 2 runs one and has one waiting: the others wait before it, as many as stage 1 has room for.
  await ask(rig, [3], '1');
  await ask(rig, [4], '1', { priority: 1 });
  await ask(rig, [5], '1');
  assert.deepEqual([rig.queueOf(1), rig.queueOf(2), rig.answers()], [2, 1, ['5 capacity_exceeded']]);
  for (const _ of [1, 2, 3, 4]) {
    rig.pool(2).answer();
    await rig.turn();
  }
  assert.deepEqual(how(rig), ['1 0', '2 hit', '4 hit', '3 hit']);
  assert.deepEqual(rig.pool(1).held(), []);
});

test('a hit that waited for the next stage goes on while all workers of its stage are busy', async () => {
  const rig = new Rig();
  const stages = [stage(1, caching()), stage(2, { capacity: 1 })];
  await rig.apply({ stages, routes: [route(1, [1, 2]), route(2, [1])] });
  await ask(rig, [1], '1');
  rig.pool(1).answer();
  await rig.turn();
  await ask(rig, [2, 3], '1');
  await ask(rig, [4], '2', { routeRef: 2 });
  assert.deepEqual([rig.pool(1).held(), rig.queueOf(1)], [[[4]], 1]);
  rig.pool(2).answer();
  await rig.turn();
  assert.deepEqual([rig.queueOf(1), rig.queueOf(2)], [0, 1]);
  assert.deepEqual(counts(rig), [2, 2, 0]);
});

test('a hit that waits when the modelet changes gets a result of the new one', async () => {
  const rig = new Rig();
  const plan = (revision: string): Parameters<Rig['apply']>[0] => ({
    stages: [stage(1, { ...caching(), revision }), stage(2, { capacity: 1 })],
    routes: [route(1, [1, 2])],
  });
  await rig.apply(plan('r1'));
  await ask(rig, [1], '1');
  rig.pool(1).answer();
  await rig.turn();
  await ask(rig, [2, 3], '1');
  await rig.turn();
  await ask(rig, [4], '1');
  await rig.apply(plan('r2'));
  const fresh = rig.pool(1);
  let made = 0;
  fresh.makes = () => {
    made += 1;
    return { codec: CODEC.json, bytes: Buffer.from('"new"') };
  };
  for (const _ of [1, 2, 3, 4, 5]) {
    while (fresh.held().length > 0) fresh.answer();
    if (rig.pool(2).held().length > 0) rig.pool(2).answer();
    await rig.turn();
  }
  assert.equal(made, 1);
  const last = rig.outcomes.find(({ id }) => id === 4);
  assert.equal(Buffer.from(last?.payload.bytes ?? []).toString(), '"new"');
});

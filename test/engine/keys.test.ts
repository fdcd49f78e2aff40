/** A stage with keys: equal keys run one after another, in order and in one worker; other keys run beside them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import type { Batching, RemotePlace, StageTiming } from '../../src/core/model.ts';
import { HAND_OVER_MS, KeyLanes } from '../../src/runtime/engine/keys/key-lanes.ts';
import { KeySnapshots } from '../../src/runtime/engine/keys/key-snapshots.ts';
import type { FreeWorker, WorkerPool } from '../../src/runtime/engine/pools/pool.ts';
import { BatchFormer } from '../../src/runtime/engine/stage/batching.ts';
import { type Item, itemOn, type LiveLeg } from '../../src/runtime/engine/stage/item.ts';
import { CODEC, encodePayload } from '../../src/wire/codec/codec.ts';
import { decodeFailure } from '../../src/wire/frames/failures.ts';
import { keyIn, NO_STATE, snapshotOf, stateIn } from '../../src/wire/frames/key-snapshots.ts';
import { item } from '../wire/frame-values.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, route, stage, upTo } from './rig.ts';

const greedy = (maxBatchSize: number): Batching => ({ policy: 'greedy', maxBatchSize, maxWaitMs: 0 });
const IDLE_MS = 60_000;
const LEG = { route: { stages: [] } } as unknown as LiveLeg;

function keyed(overrides: Partial<StageDefinition> = {}, workers = 1): StageDefinition {
  const plain = stage(1, { batching: greedy(4), ...overrides }, workers);
  return { ...plain, modelet: { ...plain.modelet, keyBy: 'topic', keyIdleMs: IDLE_MS } };
}

async function started(overrides: Partial<StageDefinition> = {}, workers = 1): Promise<[Rig, FakePool]> {
  const rig = new Rig();
  await rig.apply({ stages: [keyed(overrides, workers)], routes: [route(1, [1])] });
  return [rig, rig.pool(1)];
}

function status(rig: Rig) {
  return rig.engine.status().stages[0];
}

test('a batch has one item of each key, and the next ones wait until it has settled', async () => {
  const [rig, pool] = await started();
  await rig.submit([1, 2, 3], { key: 7 });
  await rig.submit([4, 5], { key: 8 });
  assert.deepEqual(pool.held(), [[1]]);
  pool.answer();
  await rig.turn();
  assert.deepEqual(pool.held(), [[4, 2]]);
  pool.answer();
  await rig.turn();
  assert.deepEqual(pool.held(), [[5, 3]]);
});

test('a later item of the key does not overtake by its priority', async () => {
  const [rig, pool] = await started();
  await rig.submit([1], { key: 9 });
  await rig.submit([2], { key: 7 });
  await rig.submit([3], { key: 7, priority: 5 });
  pool.answer();
  await rig.turn();
  assert.deepEqual(pool.held(), [[2]]);
});

test('keys are shared out evenly, and stay with their worker', async () => {
  const [rig, pool] = await started({}, 4);
  for (const key of [1, 2, 3, 4]) await rig.submit([key], { key });
  assert.deepEqual(
    [0, 1, 2, 3].map((worker) => pool.held(worker)),
    [[[1]], [[2]], [[3]], [[4]]],
  );
  for (const worker of [3, 1]) pool.answer(worker);
  await rig.submit([14], { key: 4 });
  await rig.submit([12], { key: 2 });
  assert.deepEqual([pool.held(1), pool.held(3)], [[[12]], [[14]]]);
});

test('an item without a key fails alone, with a message that names the property', async () => {
  const [rig, pool] = await started();
  await rig.submit([1]);
  await rig.submit([2], { key: 7 });
  const [failure] = rig.outcomes;
  assert.match(decodeFailure(failure?.payload ?? assert.fail()).error.message, /stage1 needs a key: msg\.topic must/);
  assert.deepEqual(pool.held(), [[2]]);
});

test('the items of a worker that died run again in order, before the others of their keys', async () => {
  const [rig, pool] = await started({ retryLost: true });
  await rig.submit([1, 3], { key: 7 });
  await rig.submit([2, 4], { key: 8 });
  pool.answer();
  await rig.turn();
  assert.deepEqual(pool.held(), [[2, 3]]);
  pool.lose();
  await rig.turn();
  const runs: number[][] = [];
  while (pool.held().length > 0) {
    runs.push(...pool.held());
    pool.answer();
    await rig.turn();
  }
  assert.deepEqual(runs, [[2], [3], [4]]);
  // Key 8 had no state that an answer has shown.
  assert.deepEqual(status(rig)?.keys, { open: 2, lost: 1 });
});

test('the keys of a worker that does not come back pass to the others, after a time', async () => {
  const [rig, pool] = await started({}, 2);
  for (const key of [1, 2, 3]) await rig.submit([key], { key });
  for (const worker of [0, 0, 1]) {
    pool.answer(worker);
    await rig.turn();
  }
  pool.lose(0, new Error('killed'), false);
  await rig.submit([11], { key: 1 });
  assert.deepEqual([pool.held(0), pool.held(1)], [[], []]);
  await rig.advance(HAND_OVER_MS);
  assert.deepEqual(
    pool.heldItems(1).map(({ id, tenure }) => [id, tenure]),
    [[11, 4]],
  );
});

test('keys lose their state only if their worker has answered, and at once or when it ends late', async () => {
  const [rig, pool] = await started({}, 2);
  for (const key of [1, 2, 3, 4]) await rig.submit([key], { key });
  pool.answer(0);
  await rig.turn();
  assert.deepEqual([pool.held(0), pool.held(1)], [[[3]], [[2]]]);
  pool.lose(0);
  await rig.turn();
  assert.deepEqual(status(rig)?.keys, { open: 4, lost: 1 });
  await rig.apply({ stages: [keyed({ revision: 'r2' }, 2)], routes: [route(1, [1])] });
  assert.deepEqual(status(rig)?.keys, { open: 4, lost: 1 });
  pool.answer(1);
  await rig.turn();
  assert.deepEqual(status(rig)?.keys, { open: 4, lost: 2 });
});

test('a key that has been idle is forgotten, and begins a new stay', async () => {
  const [rig, pool] = await started();
  await rig.submit([1], { key: 7 });
  const [first] = pool.heldItems();
  pool.answer();
  await rig.advance(IDLE_MS);
  assert.equal(status(rig)?.keys?.open, 0);
  await rig.submit([2], { key: 7 });
  assert.notEqual(pool.heldItems()[0]?.tenure, first?.tenure);
});

test('snapshots go with idle keys, with messages that end their key, and beyond the limit', async () => {
  const snapshots = new KeySnapshots();
  snapshots.maxBytes = 30;
  const items = ['a', 'b', 'c'].map((key, index) =>
    itemOn(LEG, item({ key: index + 1, meta: Buffer.from(JSON.stringify({ key })) })),
  );
  const [a, b, c] = items as [Item, Item, Item];
  const kept = () => items.map((one) => keyIn({ meta: snapshots.metaOf(one) }).state !== '');
  for (const one of items) snapshots.answered(one, Buffer.alloc(10, CODEC.json));
  assert.deepEqual(kept(), [true, true, true]);
  assert.equal(snapshots.answered(a, null), true, 'its state is as it was');
  snapshots.answered(c, Buffer.alloc(15, CODEC.json));
  assert.deepEqual(kept(), [true, false, true]);
  assert.equal(snapshots.answered(a, NO_STATE), false);
  const sameHash = itemOn(LEG, item({ key: c.key, meta: Buffer.from(JSON.stringify({ key: 'another' })) }));
  assert.deepEqual([kept(), snapshots.metaOf(sameHash)], [[false, false, true], null]);
  snapshots.forget(c.key);
  snapshots.answered(b, Buffer.alloc(30, CODEC.json));
  assert.deepEqual(kept(), [false, true, false]);
});

test('a host is told to begin a key anew until one of its workers has run an item of the stay', async () => {
  const [rig, pool] = await started({ remote: {} as RemotePlace });
  const begun: (readonly [id: number, begins: boolean])[] = [];
  pool.gets = ({ id }, _process, meta) => begun.push([id, meta !== undefined && keyIn({ meta }).begins]);
  const timing = { stage: 1, waitMs: 0, batchMs: 0, runMs: 1, batchSize: 1, worker: 0 };
  const answer = async (...timings: StageTiming[]): Promise<void> => {
    const result = encodePayload('done', { blame: 'modelet_failed', maxBytes: 100 });
    pool.answerFromHost(() => ({ ok: true, payload: result, timings }));
    await rig.turn();
  };
  await rig.submit([1, 2, 3], { key: 7, meta: Buffer.from('{"key":"a"}') });
  // Its deadline has passed on the host, say.
  await answer();
  await answer(timing);
  await answer(timing);
  pool.lose();
  await rig.submit([4], { key: 7, meta: Buffer.from('{"key":"a"}') });
  assert.deepEqual(begun, [
    [1, true],
    [2, true],
    [3, false],
    [4, true],
  ]);
  assert.equal(status(rig)?.keys?.lost, 1);
});

test('very many keys can wait for one worker', () => {
  const lanes = new KeyLanes(new Rig().clock, () => {}, { hasAlone: false, remove: () => {} });
  lanes.dispatch({ lives: [{}], freeWorker: () => null } as unknown as WorkerPool<Item>, () => false);
  for (const key of upTo(150_000)) lanes.queued(itemOn(LEG, item({ id: key, key })), false);
  assert.ok(lanes.sourceAt(0).oldestAt <= lanes.sourceAt(0).newestAt);
});

test('a full batch is taken without a look at the other keys', async () => {
  const rig = new Rig();
  let looks = 0;
  const queue = { hasAlone: false, remove: (one: Item): void => lanes.gone(one) };
  const lanes: KeyLanes = new KeyLanes(rig.clock, () => {}, queue);
  lanes.redefine(stage(1));
  const former = new BatchFormer({ batchable: 0 }, rig.clock, () => {}, { places: () => 1, onChosen: () => {} });
  const items = upTo(500).map((key) => {
    const one = itemOn(LEG, item({ id: key, key }));
    return Object.defineProperty(one, 'arrivedAt', { get: () => (looks += 1) });
  });
  const worker: FreeWorker<Item> = { index: 0, isCurrent: true, refusalOf: null, dispatch: () => {} };
  const pool = { lives: [{}], freeWorker: () => worker } as unknown as WorkerPool<Item>;
  const sizes: number[] = [];
  lanes.dispatch(pool, () => false);
  for (const one of items) lanes.queued(one, false);
  lanes.dispatch(pool, ({ index }) => {
    const taken = former.take(lanes.sourceAt(index), { policy: 'oldest', maxBatchSize: 4, maxWaitMs: 9 }, () => true);
    sizes.push(taken.items.length);
    return taken.items.length > 0;
  });
  assert.deepEqual([sizes.length, new Set(sizes), looks], [125, new Set([4]), 0]);
});

type Step =
  | { readonly do: 'submit'; readonly key: number; readonly priority: number }
  | { readonly do: 'answer' | 'lose' | 'down'; readonly worker: number }
  | { readonly do: 'cancel'; readonly which: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'deploy'; readonly workers: number }
  | { readonly do: 'turn' | 'ready' };

const worker = fc.nat({ max: 3 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .record({ key: fc.integer({ min: 1, max: 6 }), priority: fc.nat({ max: 1 }) })
      .map((of): Step => ({ do: 'submit', ...of })),
  },
  { weight: 8, arbitrary: worker.map((of): Step => ({ do: 'answer', worker: of })) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom('lose', 'down'), worker)
      .map(([what, of]): Step => ({ do: what as 'lose', worker: of })),
  },
  { weight: 1, arbitrary: fc.nat({ max: 60 }).map((which): Step => ({ do: 'cancel', which })) },
  { weight: 2, arbitrary: fc.constantFrom(1, HAND_OVER_MS, IDLE_MS).map((ms): Step => ({ do: 'advance', ms })) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }).map((workers): Step => ({ do: 'deploy', workers })) },
  { weight: 6, arbitrary: fc.constantFrom<Step>({ do: 'turn' }, { do: 'ready' }) },
);

/** Follows what runs, and checks after each step. */
class World {
  readonly rig = new Rig();
  readonly keys: number[] = [];
  readonly cancelled: Set<number> = new Set();
  /** The items of each key in the order in which they first began. */
  readonly #begun: Map<number, number[]> = new Map();
  readonly #settledAt: Map<number, number> = new Map();
  readonly #wrongStates: string[] = [];
  #deploys = 0;
  readonly #snapshotMb: number;

  constructor(snapshotMb = 0) {
    this.#snapshotMb = snapshotMb;
    if (snapshotMb > 0) this.#followStates();
  }

  /** Lets the workers count the items of each key in its state, and checks that they begin with what was answered. */
  #followStates(): void {
    const answered = new Map<number, number>();
    const states = new Map<object, Map<number, { readonly tenure: number; count: number }>>();
    const processes = new Map<Item, object>();
    this.rig.onPool = (pool) => {
      pool.gets = (one, process, meta) => {
        const own = states.get(process) ?? new Map();
        states.set(process, own);
        processes.set(one, process);
        const snapshot = meta && stateIn(keyIn({ meta }));
        if (own.get(one.key)?.tenure !== one.tenure) own.set(one.key, { tenure: one.tenure, count: 0 });
        if (snapshot) own.set(one.key, { tenure: one.tenure, count: Number(Buffer.from(snapshot.bytes)) });
        const [got, wanted] = [own.get(one.key)?.count, answered.get(one.key) ?? 0];
        if (got !== wanted) this.#wrongStates.push(`key ${one.key} got ${got} instead of ${wanted}`);
      };
      pool.leaves = (one) => {
        const { key } = one;
        const count = (answered.get(key) ?? 0) + 1;
        answered.set(key, count);
        const own = states.get(processes.get(one) ?? {})?.get(key);
        if (own) own.count = count;
        return snapshotOf({ codec: CODEC.json, bytes: Buffer.from(`${count}`) });
      };
    };
  }

  async deploy(workers: number): Promise<void> {
    this.#deploys += 1;
    const plain = keyed({ retryLost: true, revision: `r${this.#deploys}` }, workers);
    const more = this.#snapshotMb > 0 ? { keySnapshotMb: this.#snapshotMb, keyIdleMs: 1e9 } : {};
    const definition = { ...plain, modelet: { ...plain.modelet, ...more } };
    await this.rig.apply({ stages: [definition], routes: [route(1, [1])] });
  }

  /** Checks how many keys are counted as without their state. */
  checkLost(): void {
    const lost = status(this.rig)?.keys?.lost ?? Number.NaN;
    const began = this.rig.pools.flatMap((pool) => pool.began);
    const processOf = new Map(began.map(({ id, process }) => [id, process]));
    const moved = [...new Set(this.keys)].flatMap((key) => {
      const settled = this.rig.outcomes.filter(({ id, ok }) => ok && this.keys[id - 1] === key).map(({ id }) => id);
      return settled.filter((id, at) => {
        const last = settled[at - 1] ?? id;
        const isIdle = (this.#settledAt.get(id) ?? 0) - (this.#settledAt.get(last) ?? 0) >= IDLE_MS;
        return !isIdle && processOf.get(id) !== processOf.get(last);
      });
    });
    const processes = [...new Set(began.map(({ process }) => process))];
    const keysOf = (one: object) => new Set(began.filter(({ process }) => process === one).map(({ key }) => key));
    const stays = processes.reduce((sum, process) => sum + keysOf(process).size, 0);
    assert.ok(lost >= moved.length && lost <= stays, `${lost} keys are counted, of ${moved.length} to ${stays}`);
  }

  async run(what: Step): Promise<void> {
    const { rig } = this;
    const pools = rig.pools.filter(({ started: isStarted }) => isStarted);
    const last = pools.at(-1) as FakePool;
    if (what.do === 'submit') {
      this.keys.push(what.key);
      const meta = Buffer.from(JSON.stringify({ key: `${what.key}` }));
      await rig.submit([this.keys.length], { key: what.key, priority: what.priority, meta });
    } else if (what.do === 'answer') {
      for (const pool of pools) if (pool.held(what.worker).length > 0) pool.answer(what.worker);
    } else if (what.do === 'lose') last.lose(what.worker % last.definition.modelet.workers.length);
    else if (what.do === 'down')
      last.lose(what.worker % last.definition.modelet.workers.length, new Error('killed'), false);
    else if (what.do === 'cancel' && this.keys.length > 0) this.#cancel((what.which % this.keys.length) + 1);
    else if (what.do === 'advance') await rig.advance(what.ms);
    else if (what.do === 'deploy') await this.deploy(what.workers);
    else if (what.do === 'ready') last.becomeReady();
    await rig.turn();
    this.check();
  }

  #cancel(id: number): void {
    if (!this.rig.outcomes.some((outcome) => outcome.id === id)) this.cancelled.add(id);
    this.rig.engine.cancel([id]);
  }

  check(): void {
    for (const { id } of this.rig.outcomes) {
      this.#settledAt.set(id, this.#settledAt.get(id) ?? this.rig.clock.now());
    }
    const running = this.rig.pools.flatMap((pool) =>
      pool.definition.modelet.workers.flatMap((_, index) => pool.heldItems(index)),
    );
    const keys = running.map(({ key }) => key);
    assert.deepEqual(this.#wrongStates, []);
    assert.equal(new Set(keys).size, keys.length, `two items of a key run: ${keys}`);
    for (const { id, key } of running) {
      const begun = this.#begun.get(key) ?? [];
      this.#begun.set(key, begun);
      if (begun.includes(id)) continue;
      assert.ok(id > (begun.at(-1) ?? 0), `key ${key}: ${id} began after ${begun}`);
      const before = this.keys.flatMap((of, index) => (of === key && index + 1 < id ? [index + 1] : []));
      const open = before.filter((one) => !this.cancelled.has(one) && !this.rig.outcomes.some((of) => of.id === one));
      assert.deepEqual(open, [], `key ${key}: ${id} began before these had settled`);
      begun.push(id);
    }
  }
}

for (const snapshotMb of [0, 1]) {
  const more = snapshotMb > 0 ? ', and keeps the state that was answered' : '';
  test(`whatever happens, each key runs in order and one item at a time${more}, and no item is lost`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
        const world = new World(snapshotMb);
        await world.deploy(3);
        for (const each of steps) await world.run(each);
        for (const pool of world.rig.pools) pool.becomeReady();
        for (let round = 0; round < 2; round += 1) {
          await world.rig.advance(HAND_OVER_MS);
          await world.rig.finish();
        }
        world.check();
        if (snapshotMb === 0) world.checkLost();
        else assert.equal(status(world.rig)?.keys?.lost, 0);
        const answered = world.rig.outcomes.map(({ id }) => id);
        const wanted = world.keys.flatMap((_, index) => (world.cancelled.has(index + 1) ? [] : [index + 1]));
        assert.deepEqual(
          answered.toSorted((a, b) => a - b),
          wanted,
        );
      }),
      { numRuns: 60 },
    );
  });
}

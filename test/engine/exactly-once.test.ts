/** Each request that was not cancelled gets exactly one answer, for any events in any order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { EnginePlan, StageDefinition } from '../../src/config/stage-definition.ts';
import type { Batching, StageAction } from '../../src/core/model.ts';
import type { StageVersions } from '../../src/core/versions.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, route, stage } from './rig.ts';

const SINGLE: Batching = { policy: 'greedy', maxBatchSize: 1, maxWaitMs: 0 };
const PAIRS: Batching = { policy: 'oldest', maxBatchSize: 2, maxWaitMs: 30 };
const MANY: Batching = { policy: 'gap', maxBatchSize: 5, maxWaitMs: 10 };

const VERSIONS: StageVersions = {
  list: [
    { stage: 'node-2', mode: 'answer', share: 40 },
    { stage: 'node-3', mode: 'answer', share: 20 },
    { stage: 'node-4', mode: 'shadow', share: 50 },
  ],
  rollbackAbove: 30,
};

const tight: Partial<StageDefinition> = { capacity: 1, batching: PAIRS, retryLost: true };

/** Deploys to switch between: stages come, go, change their code and settings; routes cross each other. */
const PLANS: readonly EnginePlan[] = [
  { stages: [stage(1), stage(2), stage(3)], routes: [route(1, [1, 2, 3], [2]), route(2, [3])] },
  { stages: [stage(1, tight), stage(2, tight, 2)], routes: [route(1, [1, 2]), route(2, [2, 1])] },
  {
    stages: [
      stage(1, { revision: 'r2', batching: MANY, overflow: 'drop-oldest', capacity: 2 }),
      stage(3, { capacity: 2 }),
    ],
    routes: [route(1, [1, 3]), route(2, [3])],
  },
  {
    stages: [stage(2, { revision: 'r3', maxAgeMs: 20, batching: SINGLE }), stage(1, tight)],
    routes: [route(2, [2, 1])],
  },
  {
    stages: [stage(1, { versions: VERSIONS }), stage(2, tight), stage(3), stage(4, { capacity: 2 }), stage(5)],
    routes: [route(1, [5, 1], [5]), route(2, [1, 5])],
  },
  {
    stages: [stage(5, { versions: VERSIONS, capacity: 1 }), stage(2, tight), stage(3, { capacity: 1 }), stage(1)],
    routes: [route(1, [1, 5]), route(2, [5, 2])],
  },
];

type Step =
  | {
      readonly do: 'submit';
      readonly ref: number;
      readonly ttl: number;
      readonly patient: boolean;
      readonly streams: boolean;
      readonly sticky: number;
      readonly priority: number;
    }
  | { readonly do: 'answer'; readonly pool: number; readonly runMs: number; readonly failing: boolean }
  | { readonly do: 'part' | 'lose' | 'ready' | 'fail'; readonly pool: number }
  | { readonly do: 'cancel'; readonly which: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'apply'; readonly plan: number }
  | { readonly do: 'act'; readonly stage: number; readonly action: StageAction }
  | { readonly do: 'turn' };

const pool = fc.nat({ max: 12 });
const of = <T extends Step>(weight: number, arbitrary: fc.Arbitrary<T>): fc.MaybeWeightedArbitrary<Step> => ({
  weight,
  arbitrary,
});
const record = <T extends object>(shape: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record(shape, { noNullPrototype: true }) as fc.Arbitrary<T>;

const step: fc.Arbitrary<Step> = fc.oneof(
  of(
    8,
    record({
      do: fc.constant('submit' as const),
      ref: fc.constantFrom(1, 2),
      ttl: fc.constantFrom(5, 40, Number.POSITIVE_INFINITY),
      patient: fc.boolean(),
      streams: fc.boolean(),
      sticky: fc.constantFrom(0, 1, 7),
      priority: fc.nat({ max: 2 }),
    }),
  ),
  of(8, record({ do: fc.constant('answer' as const), pool, runMs: fc.constantFrom(1, 1, 20), failing: fc.boolean() })),
  of(2, record({ do: fc.constantFrom('lose' as const, 'ready' as const, 'ready' as const), pool })),
  of(4, record({ do: fc.constant('part' as const), pool })),
  of(1, record({ do: fc.constant('fail' as const), pool })),
  of(2, record({ do: fc.constant('cancel' as const), which: fc.nat({ max: 60 }) })),
  of(3, record({ do: fc.constant('advance' as const), ms: fc.nat({ max: 25 }) })),
  of(2, record({ do: fc.constant('apply' as const), plan: fc.nat({ max: PLANS.length - 1 }) })),
  of(
    1,
    record({
      do: fc.constant('act' as const),
      stage: fc.integer({ min: 1, max: 5 }),
      action: fc.constantFrom<StageAction[]>('flush', 'reset', 'promote', 'rollback', 'restore'),
    }),
  ),
  of(5, fc.constant<Step>({ do: 'turn' })),
);

class World {
  readonly rig = new Rig();
  readonly submitted: number[] = [];
  readonly cancelled = new Set<number>();

  async run(what: Step): Promise<void> {
    const { rig } = this;
    switch (what.do) {
      case 'submit':
        this.submitted.push(this.submitted.length + 1);
        void rig.submit([this.submitted.length], { ...what, deadline: rig.clock.now() + what.ttl });
        break;
      case 'cancel':
        this.#cancel(this.submitted[what.which % Math.max(1, this.submitted.length)]);
        break;
      case 'advance':
        rig.clock.advance(what.ms);
        break;
      case 'apply':
        await rig.apply(PLANS[what.plan] as EnginePlan, false);
        break;
      case 'act':
        rig.engine.act(what.stage, what.action);
        break;
      case 'turn':
        await rig.turn();
        break;
      default:
        this.#poolStep(what);
    }
    this.#check();
  }

  #cancel(id: number | undefined): void {
    if (id === undefined) return;
    if (!this.rig.outcomes.some((outcome) => outcome.id === id)) this.cancelled.add(id);
    this.rig.engine.cancel([id]);
  }

  #poolStep(what: Extract<Step, { pool: number }>): void {
    const one = this.rig.pools[what.pool % Math.max(1, this.rig.pools.length)];
    if (!one) return;
    const workers = one.definition.modelet.workers.map((_, index) => index);
    const loaded = workers.find((worker) => one.held(worker).length > 0);
    if (what.do === 'ready') one.becomeReady();
    else if (what.do === 'part' && loaded !== undefined) this.#part(one, loaded);
    else if (what.do === 'lose') one.lose(loaded ?? 0);
    else if (what.do === 'answer' && loaded !== undefined)
      one.answer(loaded, what.runMs, (item) => what.failing && item.id % 2 === 0);
    else if (what.do === 'fail' && loaded === undefined) one.fail('does not start');
  }

  /** Sends the next part for a request that wants parts and was not cancelled: each once, and before its outcome. */
  #part(one: FakePool, worker: number): void {
    const [streams] = one.streaming(worker);
    const [[id = 0] = []] = one.held(worker);
    if (!streams) return;
    const { parts, outcomes } = this.rig;
    const before = parts.filter((part) => part.id === id).length;
    one.sendPart(worker);
    const after = parts.filter((part) => part.id === id);
    assert.equal(after.length, before + (this.cancelled.has(id) ? 0 : 1), `parts of ${id}`);
    if (after.length > before) assert.equal(after.at(-1)?.part, before, `${id} was begun again`);
    assert.equal(
      outcomes.some((outcome) => outcome.id === id),
      false,
      `${id} had ended`,
    );
  }

  #check(): void {
    const ids = this.rig.outcomes.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, `answered twice: ${ids}`);
    for (const id of this.cancelled) assert.equal(ids.includes(id), false, `cancelled ${id} was answered`);
    const held = this.rig.pools.flatMap((one) =>
      one.definition.modelet.workers.flatMap((_, worker) => one.held(worker).flat()),
    );
    assert.equal(new Set(held).size, held.length, `dispatched twice: ${held}`);
  }

  /** Lets everything work undisturbed until nothing moves any more. */
  async finish(): Promise<void> {
    await this.rig.finish();
    this.#check();
  }
}

test('the engine answers each request exactly once through faults, cancellations and deploys, and keeps nothing', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80, size: 'max' }), async (steps) => {
      const world = new World();
      await world.rig.apply(PLANS[0] as EnginePlan, false);
      for (const each of steps) await world.run(each);
      await world.finish();
      const { rig, submitted, cancelled } = world;
      const answered = rig.outcomes.map(({ id }) => id).sort((a, b) => a - b);
      assert.deepEqual(
        answered,
        submitted.filter((id) => !cancelled.has(id)),
      );
      // With the last plan gone too, every worker that ever started has been told to end.
      await rig.apply({ stages: [], routes: [] });
      for (const one of rig.pools)
        assert.ok(one.closes.length > 0, `${one.definition.name} ${one.definition.revision} still runs`);
      assert.equal(rig.clock.pending, 0, 'a timer was left behind');
    }),
    { numRuns: 300 },
  );
});

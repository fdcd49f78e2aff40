/**
 * A stage that keeps results, under random events in random order: each request settles once, with what its own input
 * makes; nothing that an older modelet made goes to a request that came after it; the bounds hold; one input runs once
 * at a time.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { EnginePlan, StageDefinition } from '../../src/config/stage-definition.ts';
import type { StageTiming } from '../../src/core/model.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { CACHE } from './caching.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, route, stage } from './rig.ts';

const MOST = { entries: 2, maxBytes: 400 };

type Step =
  | {
      readonly do: 'submit';
      readonly input: number;
      readonly ref: number;
      readonly ttl: number;
      readonly patient: boolean;
      readonly priority: number;
      readonly group: number;
    }
  | { readonly do: 'answer'; readonly pool: number; readonly worker: number; readonly failing: boolean }
  | { readonly do: 'lose' | 'ready' | 'replace'; readonly pool: number; readonly worker: number }
  | { readonly do: 'cancel'; readonly which: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'act'; readonly action: 'flush' | 'reset' | 'restart' }
  | { readonly do: 'deploy'; readonly revision: string; readonly settings: number }
  | { readonly do: 'turn' };

/** The settings besides the modelet that a deploy changes. */
const SETTINGS: readonly Partial<StageDefinition>[] = [
  { cache: { ...CACHE, ...MOST } },
  { cache: { ...CACHE, ...MOST, ttlMs: 30 }, retryLost: true, maxAgeMs: 40 },
  { cache: { ...CACHE, ...MOST }, capacity: 2, overflow: 'drop-oldest' },
  { cache: { ...CACHE, ...MOST }, batching: { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 15 } },
  { cache: { ...CACHE, entries: 0 } },
];

const record = <T extends object>(shape: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record(shape, { noNullPrototype: true }) as fc.Arbitrary<T>;
const of = (weight: number, arbitrary: fc.Arbitrary<Step>): fc.MaybeWeightedArbitrary<Step> => ({ weight, arbitrary });

const place = { pool: fc.nat({ max: 4 }), worker: fc.nat({ max: 1 }) };
const undisturbed: fc.MaybeWeightedArbitrary<Step>[] = [
  of(
    12,
    record<Extract<Step, { do: 'submit' }>>({
      do: fc.constant('submit'),
      input: fc.nat({ max: 3 }),
      ref: fc.constantFrom(1, 1, 2),
      ttl: fc.constantFrom(5, 40, Number.POSITIVE_INFINITY),
      patient: fc.boolean(),
      priority: fc.nat({ max: 2 }),
      group: fc.constantFrom(0, 0, 1),
    }),
  ),
  of(8, record<Extract<Step, { failing: boolean }>>({ do: fc.constant('answer'), ...place, failing: fc.boolean() })),
  of(2, record<Step>({ do: fc.constantFrom('lose' as const, 'ready' as const), ...place } as never)),
  of(3, record<Extract<Step, { which: number }>>({ do: fc.constant('cancel'), which: fc.nat({ max: 60 }) })),
  of(3, record<Extract<Step, { ms: number }>>({ do: fc.constant('advance'), ms: fc.nat({ max: 25 }) })),
  of(6, fc.constant<Step>({ do: 'turn' })),
];
const changing: fc.MaybeWeightedArbitrary<Step>[] = [
  of(
    2,
    record<Extract<Step, { action: string }>>({
      do: fc.constant('act'),
      action: fc.constantFrom('flush', 'reset', 'restart'),
    }),
  ),
  of(2, record<Step>({ do: fc.constant('replace' as const), ...place } as never)),
  of(
    2,
    record<Extract<Step, { revision: string }>>({
      do: fc.constant('deploy'),
      revision: fc.constantFrom('r1', 'r2', 'r3'),
      settings: fc.nat({ max: SETTINGS.length - 1 }),
    }),
  ),
];

/** The model's record of a request on its arrival. */
interface Asked {
  readonly input: string;
  /** The state of the modelet then; see World. */
  readonly version: number;
  /** Runs that had begun before it. */
  readonly runs: number;
}

class World {
  readonly rig = new Rig();
  readonly asked = new Map<number, Asked>();
  readonly cancelled = new Set<number>();
  /** Counts the changes of what the stage is to run. */
  #version = 0;
  #revision = 'r1';
  #runs = 0;
  readonly #inputs = new Map<number, string>();

  async start(settings: number): Promise<void> {
    await this.#deploy('r1', settings);
    this.rig.pools[0]?.becomeReady();
    this.rig.pool(2).becomeReady();
  }

  async run(what: Step): Promise<void> {
    const { rig } = this;
    switch (what.do) {
      case 'submit':
        this.#submit(what);
        break;
      case 'cancel':
        this.#cancel(1 + (what.which % Math.max(1, this.asked.size)));
        break;
      case 'advance':
        rig.clock.advance(what.ms);
        break;
      case 'act':
        if (what.action === 'restart') this.#version += 1;
        rig.engine.act(1, what.action);
        break;
      case 'deploy':
        await this.#deploy(what.revision, what.settings);
        break;
      case 'turn':
        await rig.turn();
        break;
      default:
        this.#poolStep(what);
    }
    this.#check();
  }

  /** Inputs of runs that have a caller, which all later requests may share. */
  shared(): string[] {
    return this.#pools()
      .flatMap((pool) =>
        [0, 1].flatMap((worker) =>
          pool.heldItems(worker).flatMap((item) => (item.state.tag === 'running' ? [item] : [])),
        ),
      )
      .map(({ payload, group }) => `${group} ${Buffer.from(payload.bytes)}`);
  }

  /** Lets everything work undisturbed until nothing moves any more. */
  async finish(): Promise<void> {
    await this.rig.finish();
    this.#check();
  }

  #pools(): FakePool[] {
    return this.rig.pools.filter(({ definition }) => definition.ref === 1);
  }

  #submit({ input, ttl, ...rest }: Extract<Step, { do: 'submit' }>): void {
    const id = this.asked.size + 1;
    const text = `input ${input}`;
    this.asked.set(id, { input: text, version: this.#version, runs: this.#runs });
    this.#inputs.set(id, text);
    const payload = { codec: CODEC.json, bytes: Buffer.from(text) };
    void this.rig.submit([id], { ...rest, payload, deadline: this.rig.clock.now() + ttl });
  }

  #cancel(id: number): void {
    if (!this.asked.has(id)) return;
    if (!this.rig.outcomes.some((outcome) => outcome.id === id)) this.cancelled.add(id);
    this.rig.engine.cancel([id]);
  }

  async #deploy(revision: string, settings: number): Promise<void> {
    if (revision !== this.#revision) this.#version += 1;
    this.#revision = revision;
    const plan: EnginePlan = {
      stages: [stage(1, { ...SETTINGS[settings], revision }, 2), stage(2, { capacity: 1 })],
      routes: [route(1, [1, 2], [1]), route(2, [1])],
    };
    this.rig.engine.apply(plan);
    for (const pool of this.#pools()) pool.makes = (item, worker) => this.#made(pool, item.payload.bytes, worker);
    await Promise.resolve();
  }

  /** Says which run it is, of which state of the modelet, and whether by a worker that runs just that. */
  #made(pool: FakePool, input: Uint8Array, worker: number): { codec: number; bytes: Uint8Array } {
    this.#runs += 1;
    const current = pool.definition.revision === this.#revision && pool.isCurrent(worker);
    const made = { of: Buffer.from(input).toString(), run: this.#runs, version: current ? this.#version : -1 };
    return { codec: CODEC.json, bytes: Buffer.from(JSON.stringify(made)) };
  }

  #poolStep(what: Extract<Step, { pool: number; worker: number }>): void {
    const pool = this.rig.pools[what.pool % this.rig.pools.length];
    const worker = what.worker % (pool?.definition.modelet.workers.length ?? 1);
    if (!pool) return;
    if (what.do === 'ready') pool.becomeReady();
    else if (what.do === 'replace') pool.replace(worker);
    else if (what.do === 'lose') pool.lose(worker);
    else if (what.do === 'answer' && pool.held(worker).length > 0) {
      pool.answer(worker, 5, ({ id }) => what.failing && id % 2 === 0);
    }
  }

  #check(): void {
    const { rig } = this;
    const ids = rig.outcomes.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, `answered twice: ${ids}`);
    for (const id of this.cancelled) assert.equal(ids.includes(id), false, `cancelled ${id} was answered`);
    const { entries, bytes } = rig.engine.status().stages[0]?.cache ?? assert.fail();
    assert.ok(entries <= MOST.entries && bytes <= MOST.maxBytes, `${entries} results of ${bytes} bytes`);
    for (const { id, ok, payload, timings } of rig.outcomes) if (ok) this.#checkValue(id, payload.bytes, timings[0]);
  }

  #checkValue(id: number, bytes: Uint8Array, timing: StageTiming | undefined): void {
    const { input, version, runs } = this.asked.get(id) ?? assert.fail();
    const made = JSON.parse(Buffer.from(bytes).toString()) as { of: string; run: number; version: number };
    const text = `request ${id} of version ${version} after run ${runs} got ${JSON.stringify(made)}`;
    assert.equal(made.of, input, text);
    // A run that had begun when it came was by a worker of what the stage was to run then.
    if (made.run <= runs) assert.equal(made.version, version, text);
    assert.equal(timing?.cache === undefined, (timing?.worker ?? -1) >= 0, text);
  }
}

async function live(steps: readonly Step[], settings: number, each: (world: World) => void): Promise<void> {
  const world = new World();
  await world.start(settings);
  for (const step of steps) {
    await world.run(step);
    each(world);
  }
  await world.finish();
  const answered = world.rig.outcomes.map(({ id }) => id).sort((a, b) => a - b);
  assert.deepEqual(
    answered,
    [...world.asked.keys()].filter((id) => !world.cancelled.has(id)),
  );
  await world.rig.apply({ stages: [], routes: [] });
  assert.equal(world.rig.clock.pending, 0, 'a timer was left behind');
}

const steps = (kinds: fc.MaybeWeightedArbitrary<Step>[]): fc.Arbitrary<Step[]> =>
  fc.array(fc.oneof(...kinds), { maxLength: 80, size: 'max' });

test('requests settle once, with the present result of the same input, through faults, deploys and restarts', async () => {
  await fc.assert(
    fc.asyncProperty(steps([...undisturbed, ...changing]), fc.nat({ max: 3 }), (all, settings) =>
      live(all, settings, () => undefined),
    ),
    { numRuns: 300 },
  );
});

test('no input runs twice at a time while the modelet is unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(steps(undisturbed), fc.nat({ max: 3 }), (all, settings) =>
      live(all, settings, (world) => {
        const shared = world.shared();
        assert.equal(new Set(shared).size, shared.length, `at the same time: ${shared.join()}`);
      }),
    ),
    { numRuns: 200 },
  );
});

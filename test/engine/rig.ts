/** An engine with fake pools and a clock that stands still. */
import assert from 'node:assert/strict';
import type { EnginePlan, StageDefinition } from '../../src/config/stage-definition.ts';
import type { LogRecord } from '../../src/core/model.ts';
import { SINGLE_ITEMS } from '../../src/core/model.ts';
import type { Route } from '../../src/core/routes/route.ts';
import { Engine } from '../../src/runtime/engine/engine.ts';
import { Chunks, chunksOf, payloadOf } from '../../src/wire/codec/chunks.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import type { DescribedStage } from '../../src/wire/frames/bodies.ts';
import { decodeFailure } from '../../src/wire/frames/failures.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { item } from '../wire/frame-values.ts';
import { FakePool } from './fake-pool.ts';

/** Stage `ref` with `workers` workers; the rest as a stage has it by default. */
export function stage(ref: number, overrides: Partial<StageDefinition> = {}, workers = 1): StageDefinition {
  return {
    id: `node-${ref}`,
    ref,
    name: `stage${ref}`,
    revision: 'r1',
    modelet: {
      source: { kind: 'inline', setup: '', code: '', teardown: '', libs: [] },
      init: {},
      predict: 'item',
      emits: 'one',
      inputSchema: null,
      outputSchema: null,
      requireFrom: '/',
      startTimeoutMs: 0,
      isolation: 'process',
      heapMb: 0,
      keyBy: '',
      keyIdleMs: 600_000,
      stateKb: 64,
      keySnapshotMb: 0,
      concurrency: 1,
      preload: false,
      workers: Array.from({ length: workers }, () => ({ cpus: null, env: {} })),
    },
    batching: SINGLE_ITEMS,
    capacity: 1024,
    queueMb: 0,
    overflow: 'refuse',
    requestTimeoutMs: 30_000,
    maxAgeMs: 0,
    runTimeoutMs: 0,
    retryLost: false,
    rerun: 'off',
    maxRssMb: 0,
    recycleAfter: 0,
    watch: false,
    cache: { entries: 0, maxBytes: 0, ttlMs: 0 },
    remote: null,
    ...overrides,
  };
}

/** Route `ref` through the stages. */
export function route(ref: number, stages: readonly number[], taps: readonly number[] = []): Route {
  return { ref, stages, taps };
}

export class Rig {
  readonly clock: FakeClock = new FakeClock();
  readonly outcomes: WireItem[] = [];
  readonly taps: WireItem[] = [];
  readonly parts: WireItem[] = [];
  readonly logs: LogRecord[] = [];
  changes = 0;
  readonly described: DescribedStage[] = [];
  /** All pools ever made, in order. */
  readonly pools: FakePool[] = [];
  readonly engine: Engine;
  /** Called with each pool before it gets an item. */
  onPool: (pool: FakePool) => void = () => {};
  /** Bytes of unread outcomes. */
  unsent = 0;
  /** The bodies of requests. Each is freed when its request has been answered, as by a client's exchange. */
  readonly #bodies: Map<number, Chunks> = new Map();

  /** @param limits most bytes of one payload, and of all; and the folder that keeps the states of keys */
  constructor(...limits: [payload?: number, all?: number, states?: string]) {
    this.engine = new Engine(
      (definition, events) => {
        const pool = new FakePool(definition, events, this.clock);
        this.pools.push(pool);
        this.onPool(pool);
        return pool;
      },
      {
        onOutcome: (outcome) => {
          this.outcomes.push(outcome);
          chunksOf(outcome.payload);
          if (outcome.ok) this.#bodies.get(outcome.id)?.free();
        },
        onPart: (part) => this.parts.push(part),
        onTap: (tap) => this.taps.push(tap),
        onRecalled: () => {},
        onChange: () => (this.changes += 1),
        onShares: () => (this.changes += 1),
        onDescribed: (stage) => this.described.push(stage),
        onLog: (record) => this.logs.push(record),
        unsentBytes: () => this.unsent,
      },
      this.clock,
      ...limits,
    );
  }

  /** Applies a plan; new stages get workers that are ready unless told otherwise. */
  async apply(plan: EnginePlan, ready = true): Promise<void> {
    const known = this.pools.length;
    this.engine.apply(plan);
    if (ready) for (const pool of this.pools.slice(known)) pool.becomeReady();
    await this.turn();
  }

  /** One stage, one route through it, both number 1. */
  async single(overrides: Partial<StageDefinition> = {}, workers = 1): Promise<FakePool> {
    await this.apply({ stages: [stage(1, overrides, workers)], routes: [route(1, [1])] });
    return this.pool(1);
  }

  /** The newest pool of a stage. */
  pool(ref: number): FakePool {
    const pool = this.pools.findLast(({ definition }) => definition.ref === ref);
    assert.ok(pool, `no pool for stage ${ref}`);
    return pool;
  }

  /** Submits items with these ids and lets the engine work. */
  async submit(ids: readonly number[], overrides: Partial<WireItem> = {}): Promise<void> {
    const bodyOf = (id: number): Chunks => {
      const body = new Chunks([Buffer.from(`${id}`), Buffer.alloc(0)]);
      this.#bodies.set(id, body);
      return body;
    };
    this.engine.submit(ids.map((id) => item({ id, payload: payloadOf(CODEC.json, bodyOf(id)), ...overrides })));
    await this.turn();
  }

  /** Lets all work pass that the engine put off to the next turn of the event loop. */
  async turn(): Promise<void> {
    for (let times = 0; times < 6; times += 1) await new Promise((resolve) => setImmediate(resolve));
  }

  async advance(ms: number): Promise<void> {
    this.clock.advance(ms);
    await this.turn();
  }

  /** Lets everything work undisturbed until nothing moves any more. */
  async finish(): Promise<void> {
    for (let idle = 0; idle < 3; idle += 1) {
      for (const pool of this.pools) if (pool.health.tag !== 'ready') pool.becomeReady();
      await this.advance(50);
      for (const pool of this.pools) {
        for (const worker of pool.definition.modelet.workers.keys()) {
          while (pool.held(worker).length > 0) {
            pool.answer(worker);
            idle = 0;
          }
        }
      }
    }
  }

  /** The answers since the last call: `7` for a value, `7 code` for an error. */
  answers(): string[] {
    return this.outcomes.splice(0).map(({ id, ok, payload }) => {
      return ok ? `${id}` : `${id} ${decodeFailure(payload).error.code}`;
    });
  }

  queueOf(ref: number): number | undefined {
    return this.engine.status().stages.find((one) => one.ref === ref)?.queue;
  }
}

/** Whole numbers from `from` to `to`. */
export function upTo(to: number, from = 1): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

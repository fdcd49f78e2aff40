/** A pool whose workers answer when the test says so. */
import assert from 'node:assert/strict';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import type { Deadline } from '../../src/core/clock.ts';
import { ModeletError } from '../../src/core/errors.ts';
import type {
  CheckResult,
  CircuitStatus,
  ModeletDescription,
  Payload,
  RequestNumber,
  WorkerStatus,
} from '../../src/core/model.ts';
import {
  type Batch,
  type FreeWorker,
  type PoolEvents,
  type PoolHealth,
  type Room,
  RunTimeout,
} from '../../src/runtime/engine/pools/pool.ts';
import type { StagePool } from '../../src/runtime/engine/pools/stage-pools.ts';
import { hopsOf } from '../../src/runtime/engine/stage/hops.ts';
import type { Hop, Item } from '../../src/runtime/engine/stage/item.ts';
import { Chunks, freeablePayload, lentChunksOf } from '../../src/wire/codec/chunks.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { encodeError } from '../../src/wire/codec/error-codec.ts';
import type { TouchedFile } from '../../src/wire/frames/bodies.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import type { FakeClock } from '../fixtures/fake-clock.ts';

export class FakePool implements StagePool {
  definition: StageDefinition;
  readonly pinWarnings: readonly string[] = [];
  readonly cancelled: RequestNumber[] = [];
  /** The items that its workers got, each with the process that got it. */
  readonly began: { readonly id: RequestNumber; readonly key: number; readonly process: object }[] = [];
  /** The messages about parts that its workers got. */
  readonly taken: string[] = [];
  /** Deadlines of the calls of close. */
  readonly closes: Deadline[] = [];
  health: PoolHealth = { tag: 'starting' };
  readonly circuit: CircuitStatus = { circuit: 'closed', retryAt: null };
  isStuck = false;
  files: readonly TouchedFile[] = [];
  /** Calls of retry. */
  retries = 0;
  description: ModeletDescription | null = null;
  started = false;
  /** Calls of restart. */
  restarts = 0;
  /** How the worker hosts of a remote stage serve it. */
  hop: { readonly key: string; readonly items: number } | null = null;
  /** The worker's answer to an item, chosen when it gets the item. */
  makes: (item: Item, worker: number) => Payload = ({ payload }) =>
    freeablePayload(payload.codec, new Chunks([bytesOf(payload)]));
  /** Called when a worker gets an item. @param state the meta that brings the state of its key */
  gets: (item: Item, process: object, state: Uint8Array | undefined) => void = () => {};
  /** The meta of a worker's reply to an item. */
  leaves: (item: Item) => Uint8Array | null = () => null;
  readonly #made: WeakMap<Item, Payload> = new WeakMap();
  readonly #events: PoolEvents<Item>;
  readonly #clock: FakeClock;
  readonly #held: Batch<Item>[][];
  /** Workers that were there before the last restart. */
  readonly #old: Set<number> = new Set();
  /** How many each batch has sent. */
  readonly #parts: WeakMap<Batch<Item>, number> = new WeakMap();
  /** The present process of each worker; null while it is down. */
  readonly #lives: (object | null)[];
  #ended: (() => void)[] = [];

  constructor(definition: StageDefinition, events: PoolEvents<Item>, clock: FakeClock) {
    this.definition = definition;
    this.#events = events;
    this.#clock = clock;
    this.#held = definition.modelet.workers.map(() => []);
    this.#lives = definition.modelet.workers.map(() => ({}));
  }

  start(): void {
    this.started = true;
  }

  redefine(definition: StageDefinition): void {
    const { modelet, revision } = this.definition;
    this.definition = { ...definition, modelet, revision };
  }

  restart(): void {
    this.restarts += 1;
    for (const worker of this.#held.keys()) this.#old.add(worker);
  }

  retry(): void {
    this.retries += 1;
  }

  isCurrent(worker: number): boolean {
    return !this.#old.has(worker);
  }

  get lives(): readonly (object | null)[] {
    return this.health.tag === 'ready' ? this.#lives : this.#lives.map(() => null);
  }

  freeWorker(room: Room, only?: number): FreeWorker<Item> | null {
    if (this.health.tag !== 'ready' || this.closes.length > 0) return null;
    const most = typeof room === 'number' ? this.#places + room : { empty: 1, place: this.#places }[room];
    const free = this.#held.filter(
      (batches, worker) =>
        (only ?? worker) === worker && this.#lives[worker] && batches.length < most && !this.#isAlone(batches),
    );
    const best = free.toSorted((a, b) => a.length - b.length)[0];
    if (!best) return null;
    const index = this.#held.indexOf(best);
    return {
      index,
      isCurrent: this.isCurrent(index),
      refusalOf: null,
      dispatch: (batch) => this.#dispatch(index, batch, most),
    };
  }

  hopsOf(item: Item): readonly Hop[] {
    return hopsOf(item, () => true);
  }

  check(): Promise<CheckResult> {
    return Promise.resolve({ examples: 0, error: null });
  }

  cancel(ids: readonly RequestNumber[]): void {
    this.cancelled.push(...ids);
  }

  close(deadline: Deadline): Promise<void> {
    this.closes.push(deadline);
    return new Promise((resolve) => {
      this.#ended.push(resolve);
      this.#endIfIdle();
    });
  }

  status(): WorkerStatus[] {
    const state = this.health.tag === 'ready' ? ('ready' as const) : ('startup' as const);
    return this.#held.map((batches, index) => ({
      index,
      pid: null,
      state,
      cpus: null,
      busy: batches.length > 0,
      running: Math.min(batches.length, this.#places),
      restarts: 0,
      error: null,
      rssBytes: null,
      cpuMs: null,
      gauges: {},
    }));
  }

  // ---- for the test

  /** For each item that a worker runs, whether the request wants parts. */
  streaming(worker = 0): boolean[] {
    return (this.#held[worker] ?? []).flatMap(({ items }) => items.map(({ streams }) => streams));
  }

  /** Ids of the items a worker holds, batch by batch. */
  held(worker = 0): number[][] {
    return (this.#held[worker] ?? []).map((batch) => batch.items.map(({ id }) => id));
  }

  heldItems(worker = 0): Item[] {
    return (this.#held[worker] ?? []).flatMap((batch) => batch.items);
  }

  becomeReady(): void {
    this.health = { tag: 'ready' };
    for (const [worker, life] of this.#lives.entries()) this.#lives[worker] = life ?? {};
    this.#events.onChange();
  }

  fail(message: string): void {
    this.health = { tag: 'failed', error: new Error(message), doesNotStart: true };
    this.#events.onChange();
  }

  /** The worker sends the next part of the first item that it runs. What is taken of it goes to `taken`. */
  sendPart(worker = 0): void {
    const batch = this.#held[worker]?.[0];
    const item = batch?.items[0];
    assert.ok(item, `worker ${worker} runs nothing`);
    const index = this.#parts.get(batch) ?? 0;
    this.#parts.set(batch, index + 1);
    this.#events.onPart(item, { ...item, part: index }, (parts) => this.taken.push(`${item.id}: ${parts}`));
  }

  /**
   * The worker answers one of the batches that it runs, by default the first: each item with its own payload, or with
   * an error where `failing` says so.
   */
  answer(worker = 0, runMs = 10, failing: (item: Item) => boolean = () => false, which = 0): void {
    assert.ok(which < this.#places, `batch ${which} has not begun`);
    const [batch] = this.#held[worker]?.splice(which, 1) ?? [];
    assert.ok(batch, `worker ${worker} holds no batch`);
    const following = this.#held[worker]?.[this.#places - 1];
    if (following) following.startedAt = this.#clock.now();
    this.#events.onReply(
      batch,
      batch.items.map((item) => ({
        ...reply(item, failing(item) ? null : (this.#made.get(item) as Payload)),
        meta: this.leaves(item),
      })),
      { runMs, runs: 1 },
      worker,
    );
    this.#endIfIdle();
  }

  /** A host answers its first batch: each item with this reply. */
  answerFromHost(replyTo: (item: Item) => Pick<WireItem, 'ok' | 'payload' | 'timings'>): void {
    const batch = this.#held[0]?.shift();
    assert.ok(batch, 'the host holds no batch');
    const replies = batch.items.map((item) => ({ ...item, ...replyTo(item) }));
    this.#events.onReply(batch, replies, { runMs: replies[0]?.timings[0]?.runMs ?? 0, runs: 0 }, 0);
  }

  /** The worker answers its first batch: each item with this error. @param together whether one call for all failed */
  answerWith(error: Payload, worker = 0, together = false): void {
    const batch = this.#held[worker]?.shift();
    assert.ok(batch, `worker ${worker} holds no batch`);
    this.#events.onReply(
      batch,
      batch.items.map((item) => ({ ...item, ok: false, payload: error, together, timings: [] })),
      { runMs: 10, runs: 1 },
      worker,
    );
  }

  /** A restart has come to this worker; what the old one holds goes on. */
  replace(worker = 0): void {
    this.#old.delete(worker);
  }

  /** The worker dies and another takes its place. If it ran too long, that was its first batch. */
  lose(worker = 0, error: Error = new Error('killed'), comesBack = true): void {
    this.#old.delete(worker);
    this.#lives[worker] = comesBack ? {} : null;
    const held = this.#held[worker]?.splice(0) ?? [];
    const overrun = error instanceof RunTimeout ? held.splice(0, 1) : [];
    const running = held.splice(0, this.#places - overrun.length);
    const itemsOf = (batches: Batch<Item>[]): Item[] => batches.flatMap(({ items }) => [...items]);
    if (overrun.length > 0) this.#events.onLost(itemsOf(overrun), [], error, worker);
    const cause = error instanceof RunTimeout ? new Error('another ran too long') : error;
    this.#events.onLost(itemsOf(running), itemsOf(held), cause, worker);
    this.#events.onChange();
    this.#endIfIdle();
  }

  /** @param most number of batches that the worker may have with this one */
  #dispatch(worker: number, batch: Batch<Item>, most: number): void {
    assert.ok(this.freeWorker(most) !== null, 'a batch came to a pool that takes none');
    const present = this.#held[worker] ?? [];
    assert.ok(present.length < most, 'a batch too many');
    const others = this.#places > 1 && batch.alone ? present : present.filter(() => this.#isAlone(present));
    assert.deepEqual(others, [], 'an item that must run alone got company');
    assert.ok(batch.items.length > 0, 'an empty batch');
    this.#held[worker]?.push(batch);
    const process = this.#lives[worker] ?? {};
    for (const item of batch.items) {
      this.#made.set(item, this.makes(item, worker));
      this.began.push({ id: item.id, key: item.key, process });
      this.gets(item, process, batch.states?.get(item));
    }
  }

  get #places(): number {
    return this.definition.modelet.concurrency;
  }

  #isAlone(batches: readonly Batch<Item>[]): boolean {
    return this.#places > 1 && batches.some(({ alone }) => alone);
  }

  #endIfIdle(): void {
    if (this.closes.length === 0 || this.#held.some((batches) => batches.length > 0)) return;
    for (const resolve of this.#ended.splice(0)) resolve();
  }
}

/** Returns what a worker reads of a payload. Fails if its memory has been freed. */
function bytesOf(payload: Payload): Buffer {
  return Buffer.concat(lentChunksOf(payload));
}

/** `made`: null where the worker refuses the item. */
function reply(item: Item, made: Payload | null): WireItem {
  const refused = { codec: CODEC.none, bytes: encodeError(new ModeletError('invalid_input', `no ${item.id}`)) };
  return { ...item, ok: made !== null, payload: made ?? refused, timings: [] };
}

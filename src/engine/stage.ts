/**
 * One stage: its queue, its batching, its pool. Takes items in, hands batches to workers, splits their replies
 * into outcomes. Where an outcome goes is the engine's business.
 */
import type { Clock, Deadline, Timer } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';
import type { LogRecord, Payload, StageDefinition, StageStatus } from '../core/model.ts';
import type { WireItem } from '../wire/frames.ts';
import type { Batch, PoolEvents, WorkerPool } from '../worker/pool.ts';
import { decideBatch } from './batching.ts';
import { type Item, MOVING, RUNNING } from './item.ts';
import { StageQueue } from './stage-queue.ts';

/** A second batch is sent ahead to a busy worker only where runs are shorter than this: else it could not be stolen. */
const SHORT_RUN_MS = 4;
const SMOOTHING = 0.2;

export interface StageHost {
  readonly clock: Clock;
  createPool(
    definition: StageDefinition,
    events: PoolEvents<Item>,
  ): WorkerPool<Item> & { readonly pinWarnings: readonly string[] };
  /** The stage is through with the item: `payload` is its value, or with `ok` false an encoded error. */
  onOutcome(item: Item, ok: boolean, payload: Payload): void;
  onFailed(item: Item, error: ModeletError): void;
  /** Whether the stage behind this one has room for the item. */
  mayLeave(item: Item): boolean;
  /** The queue has room again after it had none. */
  onRoom(stage: Stage): void;
  onChange(): void;
  onLog(record: LogRecord): void;
}

type StagePool = ReturnType<StageHost['createPool']>;

export class Stage {
  readonly #host: StageHost;
  readonly #queue: StageQueue = new StageQueue();
  #definition: StageDefinition;
  #pool: StagePool;
  /** A pool for a changed definition that is not ready yet; the present one serves until it is. */
  #successor: { readonly pool: StagePool; readonly definition: StageDefinition } | null = null;
  /** Pools that finish what they hold. */
  readonly #retired: Set<StagePool> = new Set();
  #batchNumber = 0;
  #timer: Timer | null = null;
  #pumping: NodeJS.Immediate | null = null;
  /** Since when a worker has been free; null while none is. */
  #freeSince: number | null = null;
  /** Smoothed; null before the first reply. */
  #meanRunMs: number | null = null;
  #batches = 0;
  #items = 0;
  #lastMean = { batches: 0, items: 0, mean: 0 };

  constructor(definition: StageDefinition, host: StageHost) {
    this.#definition = definition;
    this.#host = host;
    this.#pool = this.#createPool(definition);
    this.#pool.start();
  }

  get ref(): number {
    return this.#definition.ref;
  }

  get name(): string {
    return this.#definition.name;
  }

  get hasRoom(): boolean {
    return this.#queue.length < this.#definition.capacity;
  }

  /** Puts an item into the queue. At a route's entry a full queue refuses; inside a route the stage before waits. */
  enqueue(item: Item, entry: boolean): void {
    const { health } = this.#pool;
    if (health.tag === 'failed') {
      this.#host.onFailed(item, this.#unavailable(health.error));
    } else if (entry && !this.hasRoom) {
      this.#host.onFailed(item, this.#full());
    } else {
      item.arrivedAt = this.#host.clock.now();
      this.#queue.push(item);
      this.pumpSoon();
    }
  }

  /** Takes an item that is not wanted any more out of the queue, or tells the worker that has it. */
  cancel(item: Item): void {
    if (this.#removeQueued(item)) return;
    for (const pool of [this.#pool, ...this.#retired]) pool.cancel([item.id]);
  }

  /** Takes over a new definition of the same stage; workers change only if what they run has changed. */
  redefine(definition: StageDefinition): void {
    if (this.#successor && this.#successor.definition.revision !== definition.revision) {
      void this.#successor.pool.close(this.#host.clock.now());
      this.#successor = null;
    }
    if (definition.revision !== this.#definition.revision && !this.#successor) {
      const pool = this.#createPool(definition);
      this.#successor = { pool, definition };
      pool.start();
    }
    // Batching, capacity and name apply at once; the code when its workers are ready.
    const { revision, modelet } = this.#definition;
    this.#definition = { ...definition, revision, modelet };
    this.#changed();
  }

  /** Lets workers finish what they hold, kills them at the deadline. Queued items must have been settled before. */
  async close(deadline: Deadline): Promise<void> {
    this.#timer?.cancel();
    const pools = [this.#pool, ...this.#retired, ...(this.#successor ? [this.#successor.pool] : [])];
    this.#successor = null;
    await Promise.all(pools.map((pool) => pool.close(deadline)));
  }

  status(): StageStatus {
    const workers = this.#pool.status();
    const recent = this.#batches - this.#lastMean.batches;
    if (recent > 0) {
      const mean = (this.#items - this.#lastMean.items) / recent;
      this.#lastMean = { batches: this.#batches, items: this.#items, mean };
    }
    return {
      ref: this.ref,
      queue: this.#queue.length,
      busy: workers.filter((worker) => worker.busy).length,
      ready: workers.filter((worker) => worker.state === 'ready').length,
      workers,
      batches: this.#batches,
      items: this.#items,
      meanBatchSize: this.#lastMean.mean,
      pinWarnings: this.#pool.pinWarnings,
    };
  }

  /** Looks for work once this turn's items are all in: a burst makes one large batch, not many small ones. */
  pumpSoon(): void {
    this.#pumping ??= setImmediate(() => {
      this.#pumping = null;
      this.#pump();
    });
  }

  #pump(): void {
    const { clock } = this.#host;
    const hadRoom = this.hasRoom;
    this.#timer?.cancel();
    this.#timer = null;
    for (const item of this.#queue.sweepExpired(clock.now())) this.#host.onFailed(item, this.#expired());
    while (this.#queue.length > 0) {
      const worker = this.#pool.freeWorker(this.#meanRunMs !== null && this.#meanRunMs < SHORT_RUN_MS);
      this.#noteFree(worker !== null);
      if (worker === null) break;
      if (!this.#dispatchTo(worker)) break;
    }
    if (this.#queue.length === 0) this.#noteFree(this.#pool.freeWorker(false) !== null);
    if (!hadRoom && this.hasRoom) this.#host.onRoom(this);
  }

  /** Sends the worker a batch if one is to leave now. */
  #dispatchTo(worker: number): boolean {
    const now = this.#host.clock.now();
    const queue = this.#queue;
    const freeSince = this.#freeSince ?? now;
    const decision = decideBatch(
      this.#definition.batching,
      { length: queue.length, oldestAt: queue.oldestAt, newestAt: queue.newestAt, freeSince },
      now,
    );
    if (!decision.go) {
      this.#timer = this.#host.clock.at(decision.until, () => this.#pump());
      return false;
    }
    const items = queue.take(decision.size, (item) => this.#host.mayLeave(item));
    if (items.length === 0) return false;
    for (const item of items) item.at = RUNNING;
    this.#batchNumber += 1;
    this.#pool.dispatch(worker, { number: this.#batchNumber, items, dispatchedAt: now, freeSince, startedAt: now });
    this.#batches += 1;
    this.#items += items.length;
    this.#changed();
    return true;
  }

  #noteFree(free: boolean): void {
    if (!free) this.#freeSince = null;
    else this.#freeSince ??= this.#host.clock.now();
  }

  #onReply(batch: Batch<Item>, replies: readonly WireItem[], runMs: number, worker: number): void {
    this.#meanRunMs = this.#meanRunMs === null ? runMs : this.#meanRunMs + SMOOTHING * (runMs - this.#meanRunMs);
    batch.items.forEach((item, index) => {
      const reply = replies[index] as WireItem;
      const batchMs = batch.dispatchedAt - Math.max(item.arrivedAt, batch.freeSince);
      item.timings.push({
        stage: this.ref,
        waitMs: batch.startedAt - item.arrivedAt - batchMs,
        batchMs,
        runMs,
        batchSize: batch.items.length,
        worker,
      });
      item.at = MOVING;
      this.#host.onOutcome(item, reply.ok, reply.payload);
    });
    this.#changed();
    this.pumpSoon();
  }

  #onLost(running: readonly Item[], notStarted: readonly Item[], error: Error, worker: number): void {
    for (const item of running) {
      item.at = MOVING;
      const message = `worker ${worker} of stage ${this.name} died: ${error.message}`;
      this.#host.onFailed(item, new ModeletError('worker_lost', message, { stage: this.name, cause: error }));
    }
    this.#queue.putBack(notStarted);
    this.pumpSoon();
  }

  #createPool(definition: StageDefinition): StagePool {
    const pool: StagePool = this.#host.createPool(definition, {
      onReply: (batch, replies, runMs, worker) => this.#onReply(batch, replies, runMs, worker),
      onLost: (running, notStarted, error, worker) => this.#onLost(running, notStarted, error, worker),
      onChange: () => this.#poolChanged(pool),
      onLog: (record) => this.#host.onLog(record),
    });
    return pool;
  }

  #poolChanged(pool: StagePool): void {
    const successor = this.#successor;
    if (pool === successor?.pool && pool.health.tag === 'ready') {
      this.#successor = null;
      this.#retire(this.#pool);
      this.#pool = pool;
      const { revision, modelet } = successor.definition;
      this.#definition = { ...this.#definition, revision, modelet };
    }
    if (this.#pool.health.tag === 'failed') this.#refuseQueued(this.#pool.health.error);
    this.#changed();
    this.pumpSoon();
  }

  #retire(pool: StagePool): void {
    this.#retired.add(pool);
    // Old code answers what it holds, however long that takes: its requests have deadlines of their own.
    void pool.close(Number.POSITIVE_INFINITY).then(() => this.#retired.delete(pool));
  }

  #refuseQueued(error: Error): void {
    for (const item of this.#queue.drain()) this.#host.onFailed(item, this.#unavailable(error));
  }

  #removeQueued(item: Item): boolean {
    const hadRoom = this.hasRoom;
    const removed = this.#queue.remove(item);
    if (removed && !hadRoom) this.#host.onRoom(this);
    return removed;
  }

  #changed(): void {
    this.#host.onChange();
  }

  #unavailable(cause: Error): ModeletError {
    const message = `stage ${this.name} has no worker: ${cause.message}`;
    return new ModeletError('stage_unavailable', message, { stage: this.name, cause });
  }

  #full(): ModeletError {
    const { capacity, batching, modelet } = this.#definition;
    const batchesAhead = capacity / batching.maxBatchSize / modelet.workers.length;
    return new ModeletError('capacity_exceeded', `queue of stage ${this.name} is full (${capacity} waiting)`, {
      stage: this.name,
      retryAfterSeconds: Math.max(1, Math.ceil((batchesAhead * (this.#meanRunMs ?? 0)) / 1000)),
    });
  }

  #expired(): ModeletError {
    return new ModeletError('deadline_exceeded', `deadline passed in the queue of stage ${this.name}`, {
      stage: this.name,
    });
  }
}

/**
 * One stage: its queue, its batching, its pool. Takes items in, hands batches to workers, splits their replies
 * into outcomes. Where an outcome goes is the engine's business.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Deadline } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { ModeletDescription, StageDefinition, StageStatus } from '../../core/model.ts';
import { StageMeter } from '../../observe/meters/stage-meter.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { type Batch, type CheckResult, RunTimeout } from '../pools/pool.ts';
import { type StagePool, StagePools } from '../pools/stage-pools.ts';
import { BatchFormer, type Leaving } from './batch-former.ts';
import { type Item, isAlone, MOVING, type RouteStage, RUNNING, RUNNING_ALONE, sendsParts } from './item.ts';
import { RecentBatches } from './recent-batches.ts';
import { SingleFlight } from './single-flight.ts';
import { dropped, expired, unavailable, workerLost } from './stage-errors.ts';
import type { StageHost } from './stage-host.ts';
import { StageQueue } from './stage-queue.ts';

export class Stage implements RouteStage {
  readonly #host: StageHost;
  readonly #queue: StageQueue = new StageQueue();
  readonly #former: BatchFormer;
  readonly meter: StageMeter = new StageMeter();
  readonly #singleFlight: SingleFlight;
  #definition: StageDefinition;
  readonly #pools: StagePools;
  readonly #recent: RecentBatches = new RecentBatches();
  #batchNumber = 0;
  /** As it was told last. */
  #description: ModeletDescription | null = null;
  #pumping: NodeJS.Immediate | null = null;
  /** Since when a worker has been free; null while none is. */
  #freeSince: number | null = null;

  constructor(definition: StageDefinition, host: StageHost) {
    this.#definition = definition;
    this.#host = host;
    this.#former = new BatchFormer(this.#queue, host.clock, () => this.#pump());
    this.#singleFlight = new SingleFlight(definition, host, this.#queue, this.meter);
    this.#pools = new StagePools(
      definition,
      (newest) => this.#createPool(newest),
      host,
      () => this.#singleFlight.renew(),
    );
    this.#pools.start();
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

  /** Takes in a request: answers it, if the answer is kept, or has it wait, for a run of its own or for another's. */
  enqueue(request: Item, entry: boolean): void {
    request.arrivedAt = this.#host.clock.now();
    // Of a result that goes out in parts nothing is kept.
    const item = this.#singleFlight.isOn && !sendsParts(request) ? this.#singleFlight.admit(request) : request;
    if (item) this.#queueUp(item, entry);
    else this.#host.onChange();
  }

  /** Takes an item that is not wanted any more out of the queue, or tells the worker that has it. */
  cancel(request: Item): void {
    const item = this.#singleFlight.leave(request);
    if (!item || this.#removeQueued(item)) return;
    item.state = MOVING;
    this.#pools.cancel([item.id]);
  }

  /** Lets what waits now leave at once, however small the batch. */
  flush(): void {
    this.#former.flush();
    this.#pump();
  }

  /** Drops what waits now. */
  reset(): void {
    for (const item of this.#queue.drain()) this.#singleFlight.fail(item, dropped(this.name, 'reset'));
    this.#host.onRoom();
  }

  restart(): void {
    this.#pools.restart();
  }

  check(deadline: Deadline): Promise<CheckResult> {
    return this.#pools.check(deadline);
  }

  /** Takes over a new definition of the same stage; workers change only if what they run has changed. */
  redefine(definition: StageDefinition): void {
    this.#definition = definition;
    this.#singleFlight.redefine(definition);
    this.#pools.redefine(definition);
    this.#poolChanged();
  }

  /** Lets workers finish what they hold, kills them at the deadline. Queued items must have been settled before. */
  async close(deadline: Deadline): Promise<void> {
    this.#former.stop();
    await this.#pools.close(deadline);
  }

  status(): StageStatus {
    return {
      ref: this.ref,
      queue: this.#queue.length,
      oldestAt: this.#queue.oldestAt || null,
      leavesAt: this.#former.leavesAt,
      meanBatchSize: this.#recent.meanSize(this.meter.batches, this.meter.items),
      ...this.#pools.status(),
      cache: this.#singleFlight.status,
      reading: this.meter.read(),
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
    const hadRoom = this.hasRoom;
    for (const item of this.#sweepLate()) this.#singleFlight.fail(item, expired(this.name));
    this.#singleFlight.answerKnown();
    this.#former.renew();
    while (this.#queue.length > 0) {
      const worker = this.#pools.present.freeWorker(this.#mayPrefetch());
      this.#noteFree(worker !== null);
      if (worker === null) break;
      this.#dropAged();
      if (this.#queue.length === 0 || !this.#dispatchTo(worker)) break;
    }
    if (this.#queue.length === 0) this.#noteFree(this.#pools.present.freeWorker(false) !== null);
    if (!hadRoom && this.hasRoom) this.#host.onRoom();
    this.#host.onChange();
  }

  /** Sends the worker a batch if one is to leave now. What is to run alone waits for nothing else. */
  #dispatchTo(worker: number): boolean {
    const now = this.#host.clock.now();
    const freeSince = this.#freeSince ?? now;
    const mayLeave = (item: Item): boolean => this.#singleFlight.mayLeave(item);
    const alone = this.#queue.takeAlone(mayLeave);
    const { items, reason }: Leaving = alone
      ? { items: [alone], reason: 'retry' }
      : this.#former.take(this.#definition.batching, freeSince, mayLeave);
    if (items.length === 0) return false;
    for (const item of items) {
      item.state = alone ? RUNNING_ALONE : RUNNING;
      item.streams = sendsParts(item);
    }
    if (this.#singleFlight.isOn) this.#singleFlight.dispatch(items, this.#pools.isCurrent(worker));
    this.#batchNumber += 1;
    const batch = { number: this.#batchNumber, items, dispatchedAt: now, freeSince, startedAt: now };
    this.#pools.present.dispatch(worker, batch);
    this.meter.batchLeft(reason, items.length);
    this.#host.onChange();
    return true;
  }

  /**
   * A batch sent ahead cannot be taken back: only a full one goes, which nothing that comes later could have joined,
   * none where the oldest items are to be dropped, and none while an item waits that is to run alone.
   */
  #mayPrefetch(): boolean {
    const { batching, overflow } = this.#definition;
    const full = !this.#queue.hasAlone && this.#queue.batchable >= batching.maxBatchSize;
    return this.#recent.areShort && full && overflow !== 'drop-oldest';
  }

  /** Where a batch waits to be full beside a free worker, nothing is passed over: no other would be served instead. */
  #sweepLate(): Item[] {
    const now = this.#host.clock.now();
    const fills = this.#former.leavesAt !== null && this.#pools.present.freeWorker(false) !== null;
    return fills ? this.#queue.sweepExpired(now) : this.#queue.sweepLate(now, this.#recent.usualTurnaroundMs);
  }

  #dropAged(): void {
    const { maxAgeMs } = this.#definition;
    if (maxAgeMs === 0) return;
    const tooOld = (): ModeletError => dropped(this.name, `older than ${maxAgeMs} ms`);
    this.#singleFlight.dropOlder(this.#host.clock.now() - maxAgeMs, tooOld);
  }

  #noteFree(free: boolean): void {
    if (!free) this.#freeSince = null;
    else this.#freeSince ??= this.#host.clock.now();
  }

  #onReply(batch: Batch<Item>, replies: readonly WireItem[], runMs: number, worker: number): void {
    this.#recent.ran(runMs, this.#host.clock.now() - batch.dispatchedAt);
    this.meter.batchRan(runMs, batch.items.length);
    batch.items.forEach((item, index) => {
      const reply = replies[index] as WireItem;
      const batchMs = batch.dispatchedAt - Math.max(item.arrivedAt, batch.freeSince);
      const waitMs = batch.startedAt - item.arrivedAt - batchMs;
      this.meter.itemWaited(waitMs, batchMs);
      const timing = { stage: this.ref, waitMs, batchMs, runMs, batchSize: batch.items.length, worker };
      item.state = MOVING;
      this.#singleFlight.complete(item, reply, timing);
    });
    this.#host.onChange();
    this.pumpSoon();
  }

  #onPart(item: Item, part: WireItem, taken: (parts: number) => void): void {
    item.parts += 1;
    item.onTaken = taken;
    this.#host.onPart(item, part);
  }

  #onLost(running: readonly Item[], notStarted: readonly Item[], error: Error, worker: number): void {
    // Those cancelled meanwhile are not running for anybody any more.
    const wanted = running.filter((item) => item.state.tag === 'running');
    for (const item of [...running, ...notStarted]) this.#singleFlight.comeBack(item);
    this.#queue.putBack(notStarted.filter((item) => item.state.tag === 'running'));
    const retries = this.#definition.retryLost && !(error instanceof RunTimeout);
    // What has been sent of a result cannot be taken back.
    this.#queue.putBackAlone(wanted.filter((item) => retries && !isAlone(item) && item.parts === 0));
    for (const item of wanted) {
      if (item.state.tag !== 'running') continue;
      const again = isAlone(item);
      item.state = MOVING;
      this.#singleFlight.fail(item, workerLost(this.name, worker, error, again));
    }
    this.pumpSoon();
  }

  #createPool(definition: StageDefinition): StagePool {
    return this.#host.createPool(definition, {
      onPart: (item, part, taken) => this.#onPart(item, part, taken),
      onReply: (batch, replies, runMs, worker) => this.#onReply(batch, replies, runMs, worker),
      onLost: (running, notStarted, error, worker) => this.#onLost(running, notStarted, error, worker),
      onEnded: (cause) => this.meter.workerEnded(cause),
      onChange: () => this.#poolChanged(),
      onLog: (record) => this.#host.onLog(record),
    });
  }

  #poolChanged(): void {
    this.#pools.advance();
    this.#describe();
    const { health } = this.#pools.present;
    if (health.tag === 'failed' && this.#queue.length > 0) {
      for (const item of this.#queue.drain()) this.#singleFlight.fail(item, unavailable(this.name, health));
      this.#host.onRoom();
    }
    this.#host.onChange();
    this.pumpSoon();
  }

  #describe(): void {
    const { description } = this.#pools.present;
    if (!description || isDeepStrictEqual(description, this.#description)) return;
    this.#description = description;
    this.#host.onDescribed(this.ref, description);
  }

  /**
   * Puts an item into the queue. At a route's entry a full queue refuses, or drops the oldest; inside a route the
   * stage before waits, and so does an item that is patient: its server sends no more than fit.
   */
  #queueUp(item: Item, entry: boolean): void {
    const { health } = this.#pools.present;
    if (health.tag === 'failed') {
      this.#singleFlight.fail(item, unavailable(this.name, health));
      return;
    }
    if (!entry || item.patient || this.hasRoom) this.#queue.push(item);
    else {
      const refused = this.#queue.pushFull(item, this.#definition, this.#recent.meanRunMs ?? 0);
      this.#singleFlight.fail(refused.item, refused.error);
    }
    this.pumpSoon();
  }

  #removeQueued(item: Item): boolean {
    const hadRoom = this.hasRoom;
    const removed = this.#queue.remove(item);
    if (removed && !hadRoom) this.#host.onRoom();
    if (removed) this.#host.onChange();
    return removed;
  }
}

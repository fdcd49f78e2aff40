/** One stage: its queue, its batching, its pool. Takes items in, and hands batches to workers. */
import { mayHop, mostRunning, roomOf, type StageDefinition } from '../../../config/stage-definition.ts';
import type { Deadline } from '../../../core/clock.ts';
import type { CheckResult, ModeletDescription, Payload, StageStatus, StageTiming } from '../../../core/model.ts';
import { StageMeter } from '../../../observe/meters/stage-meter.ts';
import { Description, warningsOf } from '../pools/description.ts';
import type { FreeWorker, InputRefusal, Room } from '../pools/pool.ts';
import { type StagePool, StagePools } from '../pools/stage-pools.ts';
import { BatchFormer, type TakenItems } from './batching.ts';
import { keepTogether } from './hops.ts';
import { goesToWorker, type Hop, type Item, isAlone, leavesWorker, NO_HOPS, type RouteStage, runOf } from './item.ts';
import { Outcomes } from './outcomes.ts';
import { RecentBatches } from './recent-batches.ts';
import { NO_CACHE, SingleFlight } from './response-cache.ts';
import { dropped, expired, unavailable } from './stage-errors.ts';
import type { StageHost } from './stage-host.ts';
import { StageQueue } from './stage-queue.ts';

export class Stage implements RouteStage {
  readonly #host: StageHost;
  readonly #queue: StageQueue = new StageQueue();
  readonly #former: BatchFormer;
  readonly meter: StageMeter = new StageMeter();
  /** Null: the stage has never kept results. */
  #singleFlight: SingleFlight | null = null;
  #definition: StageDefinition;
  readonly #pools: StagePools;
  readonly #recent: RecentBatches = new RecentBatches();
  readonly #outcomes: Outcomes;
  open = 0;
  #batchNumber = 0;
  readonly #description: Description;
  #pumping: NodeJS.Immediate | null = null;

  constructor(definition: StageDefinition, host: StageHost) {
    this.#definition = definition;
    this.#host = host;
    this.#description = new Description(host);
    this.#former = new BatchFormer(this.#queue, host.clock, () => this.#pump(), {
      places: () => this.#pools.ready * this.#definition.modelet.concurrency,
      onChosen: (message) => host.onLog({ level: 'info', message, stage: this.name }),
    });
    const parts = { host, queue: this.#queue, former: this.#former, recent: this.#recent, meter: this.meter };
    this.#outcomes = new Outcomes(definition, parts);
    this.#adopt(definition);
    this.#pools = new StagePools(
      definition,
      (newest) => this.#createPool(newest),
      host,
      () => {
        this.#singleFlight?.renew();
        this.#former.forget();
      },
    );
    this.#pools.start();
  }

  get ref(): number {
    return this.#definition.ref;
  }

  get id(): string {
    return this.#definition.id;
  }

  get name(): string {
    return this.#definition.name;
  }

  get isAvailable(): boolean {
    return this.#pools.present.health.tag === 'ready';
  }

  get hasRoom(): boolean {
    return this.#queue.hasRoom(this.#definition);
  }

  get holdsBack(): boolean {
    return !this.hasRoom && this.#definition.overflow !== 'drop-oldest';
  }

  get patientRoom(): number {
    return roomOf(this.#definition);
  }

  get places(): number {
    return Math.max(mostRunning(this.#definition), this.#pools.present.hop?.items ?? 0);
  }

  resultBytes(...input: Parameters<RouteStage['resultBytes']>): number {
    return this.#recent.growth.of(...input);
  }

  get lastInput(): Payload | null {
    return this.#recent.lastInput;
  }

  /** Answers from the cache, joins the run of an identical request, or queues the request. */
  enqueue(request: Item, entry: boolean): void {
    request.arrivedAt = this.#host.clock.now();
    request.lookup = null;
    if (this.#singleFlight?.admit(request)) this.#host.onChange();
    else this.#queueUp(request, entry);
  }

  /** Removes a cancelled request from the queue, or tells the worker that has it. */
  cancel(request: Item): void {
    if (this.#removeQueued(request)) return;
    const run = runOf(request);
    if (!run) leavesWorker(request);
    const item = run ? this.#singleFlight?.leave(request, run) : request;
    if (item) this.#pools.cancel([item.id]);
  }

  get hop(): Hop | null {
    const hop = mayHop(this.#definition) ? this.#pools.present.hop : null;
    return hop ? { ...hop, retryLost: this.#definition.retryLost } : null;
  }

  passedOnHost(timing: StageTiming): StageTiming {
    this.meter.itemPassed(timing, timing.batchSize < this.#definition.batching.maxBatchSize ? 'idle' : 'full');
    return { ...timing, stage: this.ref };
  }

  /** Lets all items that wait now leave at once, however small the batch. */
  flush(): void {
    this.#former.flush();
    this.#pump();
  }

  reset(): void {
    for (const item of this.#queue.drain()) this.#host.router.fail(item, dropped(this.name, 'reset'));
    this.#host.onRoom();
  }

  restart(): void {
    this.#pools.restart();
  }

  /** The description that the present modelet gives of itself; null before its first worker is ready. */
  get description(): ModeletDescription | null {
    return this.#pools.present.description;
  }

  check(deadline: Deadline): Promise<CheckResult> {
    return this.#pools.check(deadline);
  }

  /** Takes over a new definition of the same stage; replaces workers only if their modelet has changed. */
  redefine(definition: StageDefinition): void {
    this.#adopt(definition);
    this.#pools.redefine(definition);
    this.#poolChanged();
  }

  /** Lets workers finish their batches, and kills them at the deadline. The caller must settle queued items first. */
  async close(deadline: Deadline): Promise<void> {
    this.#former.stop();
    this.#queue.keys?.stop();
    await this.#pools.close(deadline);
  }

  /** Keeps the states of the keys for the next engine. A stage that a deploy dropped must not: it may be there again. */
  keepStates(): void {
    this.#queue.keepStates(this.#definition);
  }

  status(): StageStatus {
    const reading = this.meter.read();
    return {
      ref: this.ref,
      queue: this.#queue.length,
      queueBytes: this.#queue.bytes,
      concurrency: this.#definition.modelet.concurrency,
      oldestAt: this.#queue.oldestAt || null,
      leavesAt: this.#former.leavesAt,
      meanBatchSize: this.#recent.meanSize(reading.batches, reading.items),
      ...this.#pools.status(),
      cache: this.#singleFlight?.status ?? NO_CACHE,
      reading,
      ...this.#former.statusFor(this.#definition.batching),
      ...warningsOf(this.#definition, this.description),
      ...(this.#queue.keys ? { keys: this.#queue.keys.status } : {}),
    };
  }

  /** Dispatches once all items of this event loop turn are in: a burst makes one large batch, not many small ones. */
  pumpSoon(): void {
    this.#pumping ??= setImmediate(() => {
      this.#pumping = null;
      this.#pump();
    });
  }

  #pump(): void {
    const hadRoom = this.hasRoom;
    for (const item of this.#sweepLate()) this.#host.router.fail(item, expired(this.name));
    this.#singleFlight?.serveHeldBack();
    this.#former.renew();
    if (this.#queue.length > 0) this.#pools.present.wake?.();
    const { keys } = this.#queue;
    if (keys) this.#dropAged();
    keys?.dispatch(this.#pools.present, (worker) => this.#dispatchTo(worker));
    while (!keys && this.#queue.length > 0) {
      const worker = this.#pools.present.freeWorker(this.#roomNeeded);
      this.#former.noteFree(worker !== null);
      if (worker === null) break;
      this.#dropAged();
      if (this.#queue.length === 0 || !this.#dispatchTo(worker)) break;
    }
    if (keys || this.#queue.length === 0) this.#former.noteFree(this.#pools.present.freeWorker('place') !== null);
    if (!hadRoom && this.hasRoom) this.#host.onRoom();
    this.#host.onChange();
  }

  /** Sends the worker a batch if one is due; returns whether it did. An item that must run alone leaves at once. */
  #dispatchTo(worker: FreeWorker<Item>): boolean {
    const now = this.#host.clock.now();
    const [pool, { keys }] = [this.#pools.present, this.#queue];
    // Keeps memory for the result of an item before the next one asks for it.
    const claim = (item: Item): boolean => {
      if (keys && !keys.mayRun(item, worker.index)) return false;
      item.hops = pool.hopsOf?.(item) ?? NO_HOPS;
      if (!this.#host.router.mayLeave(item)) return false;
      if (item.lookup && !this.#singleFlight?.claim(item, this.#pools.isCurrent(worker))) return false;
      this.#host.router.memory.expect(item);
      keys?.began(item);
      return true;
    };
    const alone = this.#queue.takeAlone(claim);
    const { items, reason }: TakenItems = alone
      ? { items: [alone], reason: 'retry' }
      : this.#former.take(keys?.sourceAt(worker.index) ?? this.#queue, this.#definition.batching, claim);
    const last = items.at(-1);
    if (!last) return false;
    this.#recent.noteInput(last.payload, now);
    if (pool.hopsOf) keepTogether(items);
    for (const item of items) goesToWorker(item, alone !== undefined);
    if (alone && this.#queue.hasAlone) this.#gather();
    const { refusalOf } = worker;
    const valid = refusalOf ? this.#validOf(items, refusalOf) : items;
    if (valid.length === 0) return true;
    this.#batchNumber += 1;
    const [number, { freeSince }, states] = [this.#batchNumber, this.#former, keys?.statesFor(valid) ?? null];
    const times = { dispatchedAt: now, freeSince, startedAt: now };
    worker.dispatch({ number, items: valid, ...times, alone: alone !== undefined, states });
    this.meter.batchLeft(reason, valid.length);
    this.#host.onChange();
    return true;
  }

  /** Fails the items whose input must not go to the worker. Returns the others. */
  #validOf(items: readonly Item[], refusalOf: InputRefusal): Item[] {
    return items.filter((item) => {
      const refusal = refusalOf(item.payload);
      if (refusal) this.#outcomes.refused(item, refusal);
      return !refusal;
    });
  }

  /** Joins the other items that must run alone to the run of one with the same input: it may kill its worker again. */
  #gather(): void {
    for (const item of this.#queue) if (isAlone(item)) this.#singleFlight?.serves(item);
  }

  get #roomNeeded(): Room {
    return this.#former.roomFor(this.#definition, this.#queue.hasAlone, this.#recent.ahead);
  }

  /** Removes late items. While a batch fills for a free worker, removes only expired ones: no other item would gain. */
  #sweepLate(): Item[] {
    const now = this.#host.clock.now();
    const fills = this.#former.leavesAt !== null && this.#pools.present.freeWorker('place') !== null;
    return fills ? this.#queue.sweepExpired(now) : this.#queue.sweepLate(now, this.#recent.usualTurnaroundMs);
  }

  #dropAged(): void {
    const aged = this.#queue.sweepAged(this.#definition, this.#host.clock.now());
    for (const { item, error } of aged) this.#host.router.fail(item, error);
  }

  #adopt(definition: StageDefinition): void {
    const { ref, cache } = definition;
    this.#definition = definition;
    this.#queue.orderFor(definition, this.#host, () => this.#pump());
    if (cache.entries > 0) this.#singleFlight ??= new SingleFlight(ref, cache, this.#host, this.#queue, this.meter);
    this.#singleFlight?.redefine(cache);
    this.#outcomes.adopt(definition, this.#singleFlight);
  }

  #createPool(definition: StageDefinition): StagePool {
    return this.#host.createPool(definition, {
      onPart: (item, part, taken) => this.#outcomes.onPart(item, part, taken),
      onReply: (batch, replies, run, worker) => {
        this.#outcomes.onReply(batch, replies, run, worker);
        this.pumpSoon();
      },
      onLost: (running, notStarted, error, worker) => {
        this.#outcomes.onLost(running, notStarted, error, worker);
        this.pumpSoon();
      },
      onEnded: (cause) => this.meter.workerEnded(cause),
      onOwnMetrics: (changes) => {
        const message = this.meter.own.add(changes);
        if (message !== null) this.#host.onLog({ level: 'warn', message, stage: this.name });
      },
      onKeysLost: (keys) => this.#queue.keys?.noteLost(keys),
      onChange: () => this.#poolChanged(),
      onLog: (record) => this.#host.onLog(record),
      oldestAt: () => this.#queue.oldestAt || null,
      keysAt: (worker) => this.#queue.keys?.countAt(worker) ?? 0,
    });
  }

  #poolChanged(): void {
    this.#pools.advance();
    this.#description.renew(this.#definition, this.description);
    const { health } = this.#pools.present;
    if (health.tag === 'failed' && this.#queue.length > 0) {
      for (const item of this.#queue.drain()) this.#host.router.fail(item, unavailable(this.name, health));
      this.#host.onRoom();
    }
    this.#host.onChange();
    this.pumpSoon();
  }

  #queueUp(item: Item, entry: boolean): void {
    const { health } = this.#pools.present;
    if (health.tag === 'failed') {
      this.#host.router.fail(item, unavailable(this.name, health));
      return;
    }
    const refused = this.#queue.enter(item, entry, this.#definition, this.#recent.meanRunMs ?? 0, this.#host);
    if (refused) this.#host.router.fail(refused.item, refused.error);
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

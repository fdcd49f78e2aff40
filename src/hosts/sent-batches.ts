/**
 * The batches that a pool has sent to one queue of its stage, and what becomes of each: an answer, or a loss. A batch ends
 * once, by the event of its job, by a look at the job, or because it was taken back.
 */
import { BrokerLink } from '../broker/broker-link.ts';
import { type JobEvent, JobEvents } from '../broker/job-events.ts';
import { outcomeOfJob } from '../broker/jobs.ts';
import type { Clock, Deadline } from '../core/clock.ts';
import { asError } from '../core/errors.ts';
import type { LogRecord, RemotePlace, RequestNumber } from '../core/model.ts';
import type { Batch, PoolEvents } from '../runtime/engine/pools/pool.ts';
import type { Item } from '../runtime/engine/stage/item.ts';
import { BATCH_LEASES, BatchQueue, type BatchState, LEFT_MS } from './batch-queue.ts';
import { decodeReplies, encodeWork } from './batches.ts';
import { ReceivedParts } from './received-parts.ts';
import { RemoteRegistry } from './registry.ts';

/** The connections to the broker: the queue, the registry, and the events and parts that come back. */
export interface Connected {
  readonly link: BrokerLink;
  readonly queue: BatchQueue;
  readonly registry: RemoteRegistry;
  readonly events: JobEvents;
  readonly parts: ReceivedParts;
}

interface SentBatch {
  readonly batch: Batch<Item>;
  readonly lane: number;
}

type JobEnd = Pick<Extract<BatchState, { tag: 'ended' }>, 'result' | 'reason'>;

/** The pool that sends the batches. */
export interface BatchSender {
  readonly clock: Clock;
  /** Key of the stage. */
  readonly stage: string;
  /** Tells the batches of this pool from those of others. */
  readonly session: string;
  readonly events: Pick<PoolEvents<Item>, 'onPart' | 'onReply' | 'onLost'>;
  /** Returns the name of the next batch. */
  newId(): string;
  /** Takes the event of a job that is no batch. */
  onOther(event: JobEvent): void;
  onLog(record: LogRecord): void;
}

/** Time after which a batch's job is looked at, because the event of its end may have been missed. */
const LOOK_MS = 5000;

export class SentBatches {
  readonly #sender: BatchSender;
  readonly #sent: Map<string, SentBatch> = new Map();
  #connected: Connected | null = null;
  #onEmpty: (() => void) | null = null;
  /** When the server was last asked to keep the queue. Infinity: it shall forget it. */
  #keptAt: number = Number.NEGATIVE_INFINITY;

  constructor(sender: BatchSender) {
    this.#sender = sender;
  }

  get size(): number {
    return this.#sent.size;
  }

  /** Lanes of the batches, one for each. */
  get lanes(): number[] {
    return [...this.#sent.values()].map(({ lane }) => lane);
  }

  get batches(): (readonly Item[])[] {
    return [...this.#sent.values()].map(({ batch }) => batch.items);
  }

  /**
   * Connects to a queue. Rejects if the packages of a broker are missing.
   * @param queue its name
   * @param known the registry of the pool; null: makes it
   */
  async open(place: RemotePlace, queue: string, known: RemoteRegistry | null = null): Promise<Connected> {
    const { clock, stage, session, events, onLog } = this.#sender;
    const link = await BrokerLink.open({ ...place, queue }, BATCH_LEASES, onLog, clock);
    const registry = known ?? new RemoteRegistry(link, place, clock);
    const parts = new ReceivedParts(link, stage, session, {
      onPart: (batch, part, taken) => {
        const item = this.#sent.get(batch)?.batch.items.find(({ id }) => id === part.id);
        if (item) events.onPart(item, part, taken);
      },
      onMissing: (batch) => this.#lost(batch, new Error('parts of its result are no longer on the broker')),
      tell: (host, message) => void registry.send(message, host).catch(() => {}),
    });
    const jobEvents = new JobEvents(link, (event) => this.#happened(event));
    this.#connected = { link, queue: new BatchQueue(link, session), registry, events: jobEvents, parts };
    return this.#connected;
  }

  /** Sends a batch. @param lane which the answer names as its worker */
  send(lane: number, batch: Batch<Item>): void {
    const connected = this.#connected;
    if (!connected) return;
    const id = this.#sender.newId();
    this.#sent.set(id, { batch, lane });
    if (batch.items.some(({ streams }) => streams)) connected.parts.begin(id);
    this.#add(connected, id, batch).catch((thrown: unknown) => this.#lost(id, asError(thrown)));
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const [batch, { batch: sent }] of this.#sent) {
      const items = ids.filter((id) => sent.items.some((item) => item.id === id));
      if (items.length > 0) this.#tellCancel(batch, items);
    }
  }

  /**
   * Ends the leases of hosts that are gone, those on batches of earlier runtimes included: no other process would. Finds
   * the ends of batches whose events were missed.
   */
  async lookAfter(): Promise<void> {
    if (!this.#connected) return;
    const { queue, parts } = this.#connected;
    const { clock } = this.#sender;
    parts.tellAgain();
    if (clock.now() >= this.#keptAt + LEFT_MS / 2) {
      await queue.keep();
      this.#keptAt = Math.max(this.#keptAt, clock.now());
    }
    await queue.endLeases();
    const old = [...this.#sent].filter(([, { batch }]) => batch.dispatchedAt + LOOK_MS < clock.now());
    for (const [id] of old) {
      const found = await queue.lookUp(id);
      if (found.tag === 'unknown') this.#lost(id, new Error('the broker has lost the batch'));
      else if (found.tag === 'lost') this.#lost(id, lostHost(found.reason));
      else if (found.tag === 'ended') await this.#ended(id, found);
    }
  }

  /** Takes back the batches that no host has begun. */
  async takeBack(): Promise<void> {
    for (const [id, { batch, lane }] of this.#sent) {
      if ((await this.#connected?.queue.takeBack(id)) !== true || !this.#sent.has(id)) continue;
      this.#settled(id);
      this.#sender.events.onLost([], batch.items, lostHost(''), lane);
    }
    this.#emptied();
  }

  /** Resolves when all batches have ended, at the latest at the deadline. */
  async whenEmpty(deadline: Deadline): Promise<void> {
    if (this.#sent.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
      if (deadline !== Number.POSITIVE_INFINITY) this.#sender.clock.at(deadline, resolve);
    });
  }

  /** Lets the server forget the queue some time later. A heartbeat that is on its way does not keep it again. */
  async expire(): Promise<void> {
    this.#keptAt = Number.POSITIVE_INFINITY;
    await this.#connected?.queue.expire();
  }

  /** Gives up a queue whose host is gone. */
  async forget(): Promise<void> {
    // What it leaves on a server that is away is small.
    await this.expire().catch(() => {});
    await this.close();
  }

  /** Closes the connections. Batches that are on their way have no end here. */
  async close(): Promise<void> {
    const connected = this.#connected;
    this.#connected = null;
    connected?.events.close();
    connected?.parts.close();
    // Last: the others use its connection.
    await connected?.queue.close();
  }

  async #add({ queue, registry }: Connected, id: string, batch: Batch<Item>): Promise<void> {
    const { items, states } = batch;
    const row = (items[0]?.hops ?? []).map(({ key }) => key);
    const payload = encodeWork({ tag: 'batch', items, row, states }, (deadline) => registry.toServer(deadline));
    await queue.add(id, payload, Math.max(...items.map((item) => item.priority)));
  }

  #happened(event: JobEvent): void {
    if (event.tag === 'waiting') return;
    if (!this.#sent.has(event.id)) this.#sender.onOther(event);
    else if (event.tag === 'dead') this.#lost(event.id, lostHost(event.reason));
    else void this.#ended(event.id, outcomeOfJob(event.outcome));
  }

  async #ended(id: string, { result, reason }: JobEnd): Promise<void> {
    // Its event and a look at the job may both have found its end.
    if (!this.#connected || !this.#sent.has(id)) return;
    const { queue, parts } = this.#connected;
    try {
      if (!result) throw new Error(reason ?? 'it has no result');
      const { replies, runMs } = decodeReplies(await queue.resultOf(id, result));
      await parts.all(id, replies);
      const sent = this.#sent.get(id);
      if (!sent) return;
      if (replies.length !== sent.batch.items.length) throw new Error('a host has sent the replies of another batch');
      this.#settled(id);
      this.#sender.events.onReply(sent.batch, replies, { runMs, runs: 0 }, sent.lane);
    } catch (thrown) {
      this.#lost(id, asError(thrown));
    }
    this.#emptied();
  }

  /** A host may have begun the batch. */
  #lost(id: string, error: Error): void {
    const sent = this.#sent.get(id);
    if (!sent) return;
    this.#settled(id);
    this.#tellCancel(
      id,
      sent.batch.items.map((item) => item.id),
    );
    this.#sender.events.onLost(sent.batch.items, [], error, sent.lane);
    this.#emptied();
  }

  #settled(id: string): void {
    this.#sent.delete(id);
    this.#connected?.queue.settled(id);
    this.#connected?.parts.end(id);
  }

  #emptied(): void {
    if (this.#sent.size === 0) this.#onEmpty?.();
  }

  #tellCancel(batch: string, items: readonly RequestNumber[]): void {
    this.#connected?.registry.send({ tag: 'cancel', stage: this.#sender.stage, batch, items }).catch(() => {});
  }
}

/** @param reason as the broker has it: of a lease that has ended, or of a host that could not run the batch */
export function lostHost(reason: string): Error {
  const isLease = reason === '' || reason.startsWith('job stalled');
  return new Error(isLease ? 'its worker host was lost' : `its worker host could not run it: ${reason}`);
}

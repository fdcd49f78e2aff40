/**
 * One remote stage on a worker host: claims batches from the stage's queue, has the service run them, and answers each
 * batch by ending its job. A batch may go on to further stages before it is answered. A lease that is lost ends the work on its batch, because its runtime has given it up.
 *
 *   serving   batches are claimed                           -> draining
 *   draining  none is claimed; those at hand are answered   -> closed
 */
import type { BrokerLink } from '../../broker/broker-link.ts';
import { JobEvents } from '../../broker/job-events.ts';
import { type Clock, type Deadline, systemClock } from '../../core/clock.ts';
import { asModeletError, ModeletError } from '../../core/errors.ts';
import type { LogRecord, Outcome, Payload, RequestNumber, StageTiming } from '../../core/model.ts';
import type { Service } from '../../runtime/service/service.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { BATCH_LEASES, BatchQueue, type TakenBatch } from '../batch-queue.ts';
import { batchesAhead, decodeWork, encodeChecked, encodeReplies, type RemoteWork, replyOf } from '../batches.ts';
import type { HostMessage, RemoteRegistry } from '../registry.ts';
import { SentParts } from './sent-parts.ts';

interface ClaimedBatch {
  readonly id: string;
  /** Number of its items. */
  readonly length: number;
  /** The open requests, by the number of their item. */
  readonly requests: Map<number, RequestNumber>;
}

type ReplyOfItem = (outcome: Outcome<Payload>, timings: readonly StageTiming[], state?: Uint8Array | null) => void;

/** Time after which the queue is looked at without an event. */
const IDLE_MS = 1000;
/** Most batches whose cancelled items are remembered until they come. */
const MOST_CANCELLED = 1000;
const CANCELLED = 'cancelled by its runtime';
/** Batches at hand per place in a worker: one runs, and the next is there when it ends. */
const PER_PLACE = 2;

/** A way through several stages of a host. */
export interface HostedWay {
  /** The stage at which requests enter it. */
  readonly entry: string;
  /** Items that the stages behind the first run at a time. */
  readonly itemsAhead: number;
  /** Whether the first stage would have a batch of so many items wait for more, as their runtime has done. */
  waits(items: number): boolean;
}

export interface HostedStageSpec {
  readonly key: string;
  /** Batches that its workers run at a time. */
  readonly places: number;
  /** The way of a batch through this stage and further ones. */
  wayOf(row: readonly string[]): HostedWay;
  readonly host: string;
  readonly link: BrokerLink;
  readonly registry: RemoteRegistry;
  readonly service: Pick<Service, 'actOnStage' | 'check'> & {
    readonly desk: Pick<Service['desk'], 'submit' | 'abandon'>;
  };
  onLog(record: LogRecord): void;
}

export class HostedStage {
  readonly #spec: HostedStageSpec;
  readonly #clock: Clock;
  readonly #queue: BatchQueue;
  readonly #events: JobEvents;
  readonly #parts: SentParts;
  readonly #held: Map<string, ClaimedBatch> = new Map();
  /** Cancelled items of batches that still wait for a host, of which this one may take some. Oldest first. */
  readonly #cancelled: Map<string, number[]> = new Map();
  #state: 'serving' | 'draining' | 'closed' = 'serving';
  /** The claim that is in progress, and whether another one is wanted after it. */
  #claiming: { readonly ended: Promise<void>; again: boolean } | null = null;
  /** Items that run at a time in the further stages of the last batch. */
  #itemsAhead = 0;
  /** Batches that were announced since the last claim. */
  #waiting = 0;
  #onEmpty: (() => void) | null = null;

  constructor(spec: HostedStageSpec, clock: Clock = systemClock) {
    this.#spec = spec;
    this.#clock = clock;
    this.#queue = new BatchQueue(spec.link, spec.host);
    this.#parts = new SentParts(spec.link, spec.host, clock, (batch) => {
      this.#abandonAll(batch, 'the parts of its result cannot be sent');
    });
    this.#events = new JobEvents(spec.link, ({ tag }) => {
      if (tag !== 'waiting') return;
      this.#waiting += 1;
      this.#claimSoon();
    });
  }

  start(): void {
    void this.#events.start();
    this.#every(IDLE_MS, () => {
      this.#claimSoon();
      for (const batch of this.#parts.abandoned()) this.#abandonAll(batch, 'its runtime is gone');
    });
    this.#every(BATCH_LEASES.leaseMs / 3, () => void this.#extend());
  }

  /** Carries out a message from the stage's runtime. */
  receive(message: HostMessage): void {
    const { service, key } = this.#spec;
    if (message.tag === 'restart') service.actOnStage(key, 'restart');
    else if (message.tag === 'taken') this.#parts.taken(message.batch, message.taken);
    else if (this.#held.has(message.batch)) this.#abandon(message.batch, message.items, CANCELLED);
    else this.#remember(message.batch, message.items);
  }

  /** Answers the batches at hand, and closes the connections. */
  async drain(): Promise<void> {
    this.#state = 'draining';
    // The batches that it brings are at hand, too.
    await this.#claiming?.ended;
    if (this.#held.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve;
      });
    }
    this.#state = 'closed';
    this.#events.close();
    await this.#queue.close();
  }

  #every(ms: number, work: () => void): void {
    this.#clock.at(this.#clock.now() + ms, () => {
      if (this.#state === 'closed') return;
      work();
      this.#every(ms, work);
    });
  }

  #claimSoon(): void {
    if (this.#claiming) {
      this.#claiming.again = true;
      return;
    }
    const ended = this.#claim().then(() => {
      const again = this.#claiming?.again === true;
      this.#claiming = null;
      if (again) this.#claimSoon();
    });
    this.#claiming = { ended, again: false };
  }

  async #claim(): Promise<void> {
    try {
      while (this.#state === 'serving') {
        const ahead = batchesAhead(this.#itemsAhead, [...this.#held.values()]);
        const room = this.#spec.places * PER_PLACE + ahead - this.#held.size;
        const most = Math.min(room, Math.max(1, this.#waiting));
        if (most <= 0) return;
        this.#waiting = 0;
        const taken = await this.#queue.take(most);
        for (const batch of taken) this.#run(batch);
        if (taken.length < most) return;
      }
    } catch (thrown) {
      this.#log('warn', thrown);
    }
  }

  #run({ id, payload }: TakenBatch): void {
    let work: RemoteWork;
    try {
      work = decodeWork(payload, (time) => this.#spec.registry.fromServer(time));
    } catch (thrown) {
      this.#log('error', thrown);
      void this.#queue.refuse(id, asModeletError(thrown, 'protocol_error').message).catch(() => {});
      return;
    }
    if (work.tag === 'check') {
      void this.#check(id, work.deadline);
      return;
    }
    const { items, row } = work;
    const way = this.#spec.wayOf(row);
    this.#itemsAhead = way.itemsAhead;
    const held: ClaimedBatch = { id, length: items.length, requests: new Map() };
    this.#held.set(id, held);
    const replies: (WireItem | undefined)[] = items.map(() => undefined);
    let runMs = 0;
    let open = items.length;
    items.forEach((item, index) => {
      this.#submit(item, held, way.entry, (outcome, timings, state) => {
        replies[index] = replyOf(item.id, outcome, timings, this.#parts.sentOf(id, item.id), state);
        runMs = Math.max(runMs, timings[0]?.runMs ?? 0);
        held.requests.delete(item.id);
        open -= 1;
        if (open === 0) void this.#answer(id, encodeReplies({ runMs, replies: replies as WireItem[] }));
      });
    });
    if (way.waits(items.length)) this.#spec.service.actOnStage(this.#spec.key, 'flush');
    this.#abandon(id, this.#cancelled.get(id) ?? [], CANCELLED);
    this.#cancelled.delete(id);
  }

  /** Runs the examples of the stage if the check still waits for them. */
  async #check(id: string, deadline: Deadline): Promise<void> {
    const { key, service } = this.#spec;
    const isLate = this.#clock.now() >= deadline;
    this.#held.set(id, { id, length: 0, requests: new Map() });
    const checked = isLate ? [] : await service.check();
    const found = checked.find((check) => check.id === key);
    const error = found ? found.error : new ModeletError('stage_unavailable', 'the host does not serve the stage');
    await this.#answer(id, encodeChecked(found?.examples ?? 0, error));
  }

  #submit(item: WireItem, held: ClaimedBatch, entry: string, reply: ReplyOfItem): void {
    const { service } = this.#spec;
    const { id, payload, deadline, priority, key, cost, meta } = item;
    try {
      const request = service.desk.submit({
        requestId: `${held.id}:${id}`,
        // Patient: its runtime sends no more than the hosts can hold.
        ...{ gateMs: 0, entry, payload, deadline, priority, patient: true, group: 0, key, cost, meta },
        ...(item.streams && {
          onPart: (part: Payload, index: number, taken: () => void) =>
            this.#parts.send(held.id, id, index, part, taken),
        }),
        onSettled: ({ outcome, timings, gathered }) =>
          reply(outcome, timings, gathered?.state ? Buffer.from(gathered.state, 'base64') : null),
      });
      held.requests.set(id, request);
    } catch (thrown) {
      // Later, as the other replies: the batch is complete only when all its items were submitted.
      queueMicrotask(() => reply({ ok: false, error: asModeletError(thrown, 'stage_unavailable') }, []));
    }
  }

  async #answer(id: string, answer: Payload): Promise<void> {
    try {
      await this.#parts.flushed(id);
      await this.#queue.complete(id, answer);
    } catch (thrown) {
      this.#log('warn', thrown);
    }
    this.#forget(id);
    this.#claimSoon();
  }

  async #extend(): Promise<void> {
    const ids = [...this.#held.keys()];
    if (ids.length === 0) return;
    try {
      const kept = await this.#queue.extend(ids);
      ids.forEach((id, index) => {
        if (!kept[index]) this.#abandonAll(id, 'its lease has ended');
      });
    } catch (thrown) {
      this.#log('warn', thrown);
    }
  }

  #remember(batch: string, items: readonly number[]): void {
    this.#cancelled.set(batch, [...(this.#cancelled.get(batch) ?? []), ...items]);
    const [oldest] = this.#cancelled.keys();
    if (this.#cancelled.size > MOST_CANCELLED && oldest !== undefined) this.#cancelled.delete(oldest);
  }

  #abandonAll(batch: string, why: string): void {
    this.#abandon(batch, [...(this.#held.get(batch)?.requests.keys() ?? [])], why);
  }

  #abandon(batch: string, items: readonly number[], why: string): void {
    const held = this.#held.get(batch);
    const error = new ModeletError('dropped', why);
    for (const item of items) {
      const request = held?.requests.get(item);
      if (request !== undefined) this.#spec.service.desk.abandon(request, error);
    }
  }

  #forget(id: string): void {
    this.#held.delete(id);
    this.#parts.forget(id);
    if (this.#held.size === 0) this.#onEmpty?.();
  }

  #log(level: 'warn' | 'error', thrown: unknown): void {
    this.#spec.onLog({
      level,
      message: `stage ${this.#spec.key}: ${asModeletError(thrown, 'store_unavailable').message}`,
    });
  }
}

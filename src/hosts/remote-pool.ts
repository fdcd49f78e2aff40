/**
 * The workers of a remote stage, as their stage sees them: worker hosts on other machines, which pull batches from the
 * stage's queue on a broker. A batch is one job of that queue. The stage batches, caches and retries as it does with
 * its own workers, and sends no more batches than the hosts have workers. With keys, each host has a queue for itself.
 *
 *   opening   packages are loaded                                 -> serving | failed
 *   serving   the definition is in the registry; batches go       -> closing
 *   failed    the broker cannot be used on this machine           -> closing
 *   closing   batches on their way may end; then it is withdrawn
 */
import { randomUUID } from 'node:crypto';
import type { JobEvent } from '../broker/job-events.ts';
import { outcomeOfJob } from '../broker/jobs.ts';
import type { StageDefinition } from '../config/stage-definition.ts';
import { atLatest, type Clock, type Deadline, systemClock, type Timer } from '../core/clock.ts';
import { asError, ModeletError } from '../core/errors.ts';
import type {
  CheckResult,
  CircuitStatus,
  LogRecord,
  ModeletDescription,
  RemotePlace,
  RequestNumber,
  WorkerStatus,
} from '../core/model.ts';
import type { Batch, FreeWorker, PoolEvents, PoolHealth, Room } from '../runtime/engine/pools/pool.ts';
import type { StagePool } from '../runtime/engine/pools/stage-pools.ts';
import { hopsOf } from '../runtime/engine/stage/hops.ts';
import type { Hop, Item } from '../runtime/engine/stage/item.ts';
import { batchesAhead } from './batches.ts';
import { keyOf, publish } from './entries.ts';
import { HostChecks } from './host-check.ts';
import { KeyedHosts, queueOf } from './keyed-hosts.ts';
import { HEARTBEAT_MS, type RegistryEntries, type RemoteRegistry } from './registry.ts';
import { type BatchSender, type Connected, lostHost, SentBatches } from './sent-batches.ts';
import { StageHosts } from './stage-hosts.ts';

type RemotePoolState =
  | { readonly tag: 'opening' }
  | ({ readonly tag: 'serving' } & Connected)
  | { readonly tag: 'failed'; readonly error: Error }
  | { readonly tag: 'closing' };

/** Time for which requests wait for the first host before they are refused, in ms. */
const NO_HOST_MS = 10_000;
const RETRY_AFTER_SECONDS = 2;
/** Time between two looks at a broker that cannot be reached, in ms. */
const LOOK_MS = 2000;
const MISSING = {
  index: 0,
  pid: null,
  cpus: null,
  busy: false,
  running: 0,
  restarts: 0,
  rssBytes: null,
  cpuMs: null,
  gauges: {},
};
const CLOSED: CircuitStatus = { circuit: 'closed', retryAt: null };

export class RemotePool implements StagePool {
  readonly pinWarnings: readonly string[] = [];
  readonly isStuck = false;
  /** Hosts watch their files themselves. */
  readonly files = [];
  readonly circuit: CircuitStatus = CLOSED;
  readonly #events: PoolEvents<Item>;
  readonly #clock: Clock;
  readonly #key: string;
  readonly #sender: BatchSender;
  #jobs = 0;
  readonly #checks: HostChecks;
  #definition: StageDefinition;
  /** The definition for the registry. */
  #entry: Promise<string>;
  /** The same, or that before while a changed one is made: to read the file of a large model takes long. Null: neither is there. */
  #text: string | null = null;
  #state: RemotePoolState = { tag: 'opening' };
  readonly #sent: SentBatches;
  /** Null: the stage has no keys. */
  readonly #keyed: KeyedHosts | null;
  /** Null before the first look at the registry. */
  #hosts: StageHosts | null = null;
  /** Items that further stages can run at a time, through which hosts run the batches of this one. */
  #itemsAhead = 0;
  readonly #openedAt: number;
  /** Time since which no host serves the stage. */
  #aloneSince: number;
  /** Why the broker cannot be used at present; null: it can. */
  #fault: Error | null = null;
  /** The last news that the stage was told, as text. */
  #told = '';
  #timer: Timer | null = null;

  constructor(definition: StageDefinition, events: PoolEvents<Item>, clock: Clock = systemClock) {
    this.#definition = definition;
    this.#events = events;
    this.#clock = clock;
    this.#key = keyOf(definition);
    this.#openedAt = clock.now();
    this.#aloneSince = this.#openedAt;
    this.#checks = new HostChecks(clock);
    const onLog = (record: LogRecord): void => events.onLog({ ...record, stage: definition.name });
    const session = randomUUID().slice(0, 8);
    const asked = { newId: () => this.#newId(session), onOther: (event: JobEvent) => this.#checked(event) };
    this.#sender = { ...{ clock, events, session, onLog }, stage: this.#key, ...asked };
    this.#sent = new SentBatches(this.#sender);
    const hosts = { clock, connect: (host: string) => this.#connectTo(host), onChange: () => events.onChange() };
    this.#keyed = definition.modelet.keyBy === '' ? null : new KeyedHosts(hosts);
    this.#entry = this.#publish();
  }

  get health(): PoolHealth {
    const error = this.#state.tag === 'failed' ? this.#state.error : this.#fault;
    if (error) return { tag: 'failed', error, doesNotStart: this.#state.tag === 'failed' };
    if (this.#lanes > 0) return { tag: 'ready' };
    const refusal = this.#hosts?.refusal;
    if (refusal) return { tag: 'failed', error: refusal, doesNotStart: true };
    if (this.#hostCount > 0 || this.#clock.now() < this.#aloneSince + NO_HOST_MS) return { tag: 'starting' };
    const { runtime } = this.#definition.remote as RemotePlace;
    const unserved = new ModeletError('stage_unavailable', `no worker host serves the runtime ${runtime}`);
    unserved.retryAfterSeconds = RETRY_AFTER_SECONDS;
    return { tag: 'failed', error: unserved, doesNotStart: false };
  }

  get description(): ModeletDescription | null {
    return this.#hosts?.description ?? null;
  }

  get hop(): Omit<Hop, 'retryLost'> | null {
    const items = this.#lanes * this.#definition.batching.maxBatchSize;
    return items > 0 && this.#state.tag === 'serving' ? { key: this.#key, items } : null;
  }

  get lives(): readonly (object | null)[] {
    return this.#keyed?.lives ?? [];
  }

  start(): void {
    void this.#open();
  }

  redefine(definition: StageDefinition): void {
    const { modelet, revision, remote } = this.#definition;
    this.#definition = { ...definition, modelet, revision, remote };
    this.#entry = this.#publish();
  }

  restart(): void {
    this.#tell({ tag: 'restart', stage: this.#key });
  }

  /** Hosts try again by themselves. */
  retry(): void {}

  /**
   * Returns a lane. Beyond one batch for each place in a worker, another one for each host hides the way there; where batches
   * may wait in workers, one for each place does. Which worker runs a batch is the hosts' choice, so a batch that needs an empty
   * worker waits until no other is on its way. Batches that go on to further stages there keep these busy, too.
   */
  freeWorker(room: Room, host?: number): FreeWorker<Item> | null {
    if (this.#state.tag !== 'serving' || this.#lanes === 0) return null;
    if (!this.#state.link.isReady) {
      // The batch waits for the connection: the next heartbeat tells the stage, even if nothing else has changed.
      this.#told = '';
      return null;
    }
    if (this.#keyed) return this.#keyed.freeWorker(room, host);
    const most = typeof room === 'number' ? 2 * this.#lanes : { empty: 1, place: this.#lanes + this.#hostCount }[room];
    const further = room === 'empty' ? 0 : batchesAhead(this.#itemsAhead, this.#sent.batches);
    if (this.#sent.size >= most + further) return null;
    const taken = new Set(this.#sent.lanes);
    const free = Array.from({ length: this.#lanes }, (_, lane) => lane).find((lane) => !taken.has(lane));
    const index = free ?? this.#sent.size % this.#lanes;
    // Hosts watch their own code, and check their inputs themselves.
    return { index, isCurrent: true, refusalOf: null, dispatch: (batch) => this.#dispatch(index, batch) };
  }

  /** An item goes on to the next stages on its host as long as every host of this stage serves them, too. */
  hopsOf(item: Item): readonly Hop[] {
    return hopsOf(item, (key) => this.#hosts?.alsoServe(key) === true);
  }

  /** Has one host run the examples. */
  async check(deadline: Deadline): Promise<CheckResult> {
    const { health } = this;
    if (this.#state.tag === 'serving' && health.tag === 'ready') {
      const { queue, registry } = this.#state;
      return this.#checks.ask(this.#sender.newId(), queue, registry, deadline);
    }
    const why = health.tag === 'failed' ? health.error.message : 'no worker is ready';
    return { examples: 0, error: new ModeletError('stage_unavailable', why) };
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const sent of this.#allSent) sent.cancel(ids);
  }

  async close(deadline: Deadline): Promise<void> {
    if (this.#state.tag === 'serving') await Promise.all(this.#allSent.map((sent) => sent.whenEmpty(deadline)));
    this.#timer?.cancel();
    const state = this.#state;
    this.#state = { tag: 'closing' };
    if (state.tag !== 'serving') return;
    await this.#withdrawn(state, deadline);
    for (const sent of this.#allSent.toReversed()) await sent.close();
  }

  /**
   * Withdraws the stage from the registry, and its queues from the server, by the deadline. The entry on a server that
   * cannot be reached ends by itself.
   */
  async #withdrawn({ link, registry }: Connected, deadline: Deadline): Promise<void> {
    if (!link.isReady) return;
    const expired = this.#allSent.map((sent) => sent.expire());
    await atLatest(this.#clock, deadline, Promise.allSettled([registry.remove('stages', this.#key), ...expired]));
  }

  /**
   * Where no host has workers, the workers that the stage asks for stand for those that are missing, and say why. No
   * worker has a pid: it would name a process of another machine, and the server kills the workers of an engine that died.
   */
  status(): WorkerStatus[] {
    const workers = this.#hosts?.workers ?? [];
    const { health } = this;
    const why = health.tag === 'failed' ? health.error.message : null;
    const missing = { ...MISSING, state: why === null ? 'startup' : 'error', error: why } as const;
    const shown = workers.length > 0 ? workers : this.#definition.modelet.workers.map(() => missing);
    return shown.map((worker, index) => {
      const lanes = this.#sent.lanes.filter((lane) => lane % shown.length === index);
      const sent = Math.min(lanes.length, this.#definition.modelet.concurrency);
      // Only hosts know of batches that came from an earlier stage, and which worker has a key.
      const running = this.#sent.size > 0 ? sent : worker.running;
      return { ...worker, index, pid: null, busy: running > 0, running };
    });
  }

  /** Batches that hosts can run at a time. */
  get #lanes(): number {
    return (this.#hosts?.readyWorkers ?? 0) * this.#definition.modelet.concurrency;
  }

  get #hostCount(): number {
    return this.#hosts?.count ?? 0;
  }

  /** The batches in all queues of the stage. */
  get #allSent(): SentBatches[] {
    return [this.#sent, ...(this.#keyed?.sent ?? [])];
  }

  #dispatch(lane: number, batch: Batch<Item>): void {
    if (this.#state.tag !== 'serving') return;
    const hops = batch.items[0]?.hops ?? [];
    this.#itemsAhead = hops.reduce((sum, hop) => sum + hop.items, 0);
    this.#sent.send(lane, batch);
  }

  /** Connects to the queue that the stage has for a host. */
  #connectTo(host: string): ReturnType<ConstructorParameters<typeof KeyedHosts>[0]['connect']> {
    const sent = new SentBatches(this.#sender);
    const { registry } = this.#state as Connected;
    const opened = sent
      .open(this.#definition.remote as RemotePlace, queueOf(this.#key, host), registry)
      .then(({ events }) => events.start());
    return { sent, opened };
  }

  #publish(): Promise<string> {
    const entry = publish(this.#definition, (this.#definition.remote as RemotePlace).secret);
    const made = (text: string | null): void => {
      if (entry === this.#entry) this.#text = text;
    };
    // The next heartbeat reports the error.
    entry.then(made, () => made(null));
    return entry;
  }

  async #open(): Promise<void> {
    try {
      const connected = await this.#sent.open(this.#definition.remote as RemotePlace, queueOf(this.#key));
      if (this.#state.tag === 'closing') return await this.#sent.close();
      this.#state = { tag: 'serving', ...connected };
      await this.#follow(connected);
      await this.#heartbeat(connected);
    } catch (thrown) {
      if (this.#state.tag !== 'closing') this.#state = { tag: 'failed', error: asError(thrown) };
      this.#events.onChange();
    }
  }

  /** Follows the events of the queue. Until the broker can be reached, tells every two seconds why not. */
  async #follow({ link, events }: Connected): Promise<void> {
    let timer: Timer | null = null;
    const look = (): void => {
      timer = this.#clock.at(this.#clock.now() + LOOK_MS, () => {
        this.#setFault(link.fault);
        this.#tellChange();
        look();
      });
    };
    look();
    await events.start().finally(() => timer?.cancel());
  }

  /** Logs when the broker can no longer be used, and when it can again. */
  #setFault(fault: Error | null): void {
    const { onLog } = this.#sender;
    if (fault && !this.#fault) onLog({ level: 'error', message: fault.message.replace('\n', ': ') });
    else if (this.#fault && !fault) onLog({ level: 'info', message: 'the broker can be used again' });
    this.#fault = fault;
  }

  /** Renews the entry of the stage, and looks which hosts serve it. */
  async #heartbeat(connected: Connected): Promise<void> {
    if (this.#state.tag !== 'serving') return;
    try {
      const text = this.#text ?? (await this.#entry);
      // A stage that has closed meanwhile has withdrawn its entry.
      const own = () => (this.#state.tag === 'serving' ? ({ kind: 'stages', name: this.#key, text } as const) : null);
      this.#read(await connected.registry.renew(own, 'hosts'), connected.registry);
      this.#setFault(null);
      this.#keyed?.follow(this.#hosts?.serving ?? [], this.#definition.modelet.concurrency);
      await this.#sent.lookAfter();
      await this.#keyed?.lookAfter();
    } catch (thrown) {
      this.#setFault(asError(thrown));
      this.#hosts?.clear();
    }
    if (this.#hostCount > 0) this.#aloneSince = this.#clock.now();
    this.#tellChange();
    this.#timer = this.#clock.at(this.#clock.now() + HEARTBEAT_MS, () => void this.#heartbeat(connected));
  }

  /** The health may change by time alone. */
  #tellChange(): void {
    const { health } = this;
    const told = JSON.stringify([health.tag, health.tag === 'failed' && health.error.message, this.status()]);
    if (told === this.#told) return;
    this.#told = told;
    this.#events.onChange();
  }

  #read(reports: RegistryEntries, registry: RemoteRegistry): void {
    this.#hosts ??= new StageHosts(this.#key, registry.toServer(this.#openedAt));
    for (const { keysLost, ...gained } of this.#hosts.read(reports)) {
      this.#events.onOwnMetrics({ ...gained, gauges: {} });
      this.#events.onKeysLost(keysLost);
    }
  }

  #newId(session: string): string {
    this.#jobs += 1;
    return `${session}:${this.#jobs}`;
  }

  /** Takes the end of a check. */
  #checked(event: JobEvent): void {
    if (event.tag === 'waiting' || !this.#checks.has(event.id)) return;
    if (event.tag === 'dead') this.#checks.fail(event.id, lostHost(event.reason));
    else this.#checks.answered(event.id, outcomeOfJob(event.outcome).result);
  }

  #tell(message: Parameters<RemoteRegistry['send']>[0]): void {
    if (this.#state.tag === 'serving') this.#state.registry.send(message).catch(() => {});
  }
}

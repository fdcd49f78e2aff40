/**
 * The workers of a remote stage, as their stage sees them: worker hosts on other machines, which pull batches from the
 * stage's queue on a broker. A batch is one job of that queue. The stage batches, caches and retries as it does with
 * workers of its own, and sends no more batches than the hosts have workers.
 *
 *   opening   packages are loaded                                 -> serving | failed
 *   serving   the definition is on the notice board; batches go   -> closing
 *   failed    the broker cannot be used on this machine           -> closing
 *   closing   batches on their way may end; then it is withdrawn
 */
import { randomUUID } from 'node:crypto';
import type { StageDefinition } from '../../config/stage-definition.ts';
import { type Clock, type Deadline, systemClock, type Timer } from '../../core/clock.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import type { CircuitStatus, ModeletDescription, RemotePlace, RequestNumber, WorkerStatus } from '../../core/model.ts';
import { decodeReplies, encodeBatch } from '../../remote/batches.ts';
import { BEAT_MS, Board } from '../../remote/board.ts';
import { type HostReport, keyOf, publish, type ServedStage } from '../../remote/notices.ts';
import { OwnGains } from '../../remote/own-gains.ts';
import { type PartsEvents, PartsIn } from '../../remote/parts-in.ts';
import { BATCH_LEASES, BatchQueue, type BatchState } from '../../store/broker/batch-queue.ts';
import { BrokerLink } from '../../store/broker/broker-link.ts';
import { resultOfEvent } from '../../store/broker/bullmq-jobs.ts';
import { type JobEvent, JobEvents } from '../../store/broker/job-events.ts';
import type { Item } from '../stage/item.ts';
import type { Batch, CheckResult, PoolEvents, PoolHealth, Room } from './pool.ts';
import type { StagePool } from './stage-pools.ts';

interface Sent {
  readonly batch: Batch<Item>;
  readonly lane: number;
}

type Ended = Pick<Extract<BatchState, { tag: 'ended' }>, 'result' | 'reason'>;

interface Connected {
  readonly link: BrokerLink;
  readonly queue: BatchQueue;
  readonly board: Board;
  readonly events: JobEvents;
  readonly parts: PartsIn;
}

type State =
  | { readonly tag: 'opening' }
  | ({ readonly tag: 'serving' } & Connected)
  | { readonly tag: 'failed'; readonly error: Error }
  | { readonly tag: 'closing' };

/** Time for which requests wait for the first host before they are refused, in ms. */
const NO_HOST_MS = 10_000;
/** Time after which a batch's job is looked at, because the event of its end may have been missed. */
const LOOK_MS = 5000;
const RETRY_AFTER_SECONDS = 2;
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
  readonly circuit: CircuitStatus = CLOSED;
  readonly #events: PoolEvents<Item>;
  readonly #clock: Clock;
  readonly #key: string;
  /** Tells the batches of this pool from those of others. */
  readonly #session: string = randomUUID().slice(0, 8);
  #batches = 0;
  #definition: StageDefinition;
  /** The definition as it stands on the board; null until it is written. */
  #notice: Promise<string>;
  #state: State = { tag: 'opening' };
  readonly #sent: Map<string, Sent> = new Map();
  /** How each host serves this stage, by its id. */
  #hosts: ReadonlyMap<string, ServedStage & { readonly host: string }> = new Map();
  /** Null before the first look at the board. */
  #gains: OwnGains | null = null;
  readonly #openedAt: number;
  /** Time since which no host serves the stage. */
  #aloneSince: number;
  /** Why the broker cannot be used at present; null if it can. */
  #fault: Error | null = null;
  /** What the stage was last told of, as text. */
  #told = '';
  #timer: Timer | null = null;
  #onEmpty: (() => void) | null = null;

  constructor(definition: StageDefinition, events: PoolEvents<Item>, clock: Clock = systemClock) {
    this.#definition = definition;
    this.#events = events;
    this.#clock = clock;
    this.#key = keyOf(definition);
    this.#openedAt = clock.now();
    this.#aloneSince = this.#openedAt;
    this.#notice = this.#written();
  }

  get health(): PoolHealth {
    const error = this.#state.tag === 'failed' ? this.#state.error : this.#fault;
    if (error) return { tag: 'failed', error, doesNotStart: this.#state.tag === 'failed' };
    if (this.#lanes > 0) return { tag: 'ready' };
    const why = [...this.#hosts.values()].find((served) => served.error !== null);
    if (why) return { tag: 'failed', error: new Error(`${why.error} (host ${why.host})`), doesNotStart: true };
    if (this.#hosts.size > 0 || this.#clock.now() < this.#aloneSince + NO_HOST_MS) return { tag: 'starting' };
    const { runtime } = this.#definition.remote as RemotePlace;
    const nobody = new ModeletError('stage_unavailable', `no worker host serves the runtime ${runtime}`);
    nobody.retryAfterSeconds = RETRY_AFTER_SECONDS;
    return { tag: 'failed', error: nobody, doesNotStart: false };
  }

  get description(): ModeletDescription | null {
    return [...this.#hosts.values()].findLast(({ description }) => description !== null)?.description ?? null;
  }

  start(): void {
    void this.#open();
  }

  redefine(definition: StageDefinition): void {
    const { modelet, revision, remote } = this.#definition;
    this.#definition = { ...definition, modelet, revision, remote };
    this.#notice = this.#written();
  }

  restart(): void {
    this.#tell({ tag: 'restart', stage: this.#key });
  }

  /** Hosts try again by themselves. */
  retry(): void {}

  /**
   * Returns a lane. Beyond one batch for each place in a worker, another one for each host hides the way there; with room
   * `ahead`, one for each place does. Which worker runs a batch is the hosts' choice, so a batch that needs an empty
   * worker waits until no other is on its way.
   */
  freeWorker(room: Room): number | null {
    if (this.#state.tag !== 'serving' || !this.#state.link.isReady || this.#lanes === 0) return null;
    const most = { empty: 1, place: this.#lanes + this.#hosts.size, ahead: 2 * this.#lanes }[room];
    if (this.#sent.size >= most) return null;
    const taken = new Set([...this.#sent.values()].map(({ lane }) => lane));
    const free = Array.from({ length: this.#lanes }, (_, lane) => lane).find((lane) => !taken.has(lane));
    return free ?? this.#sent.size % this.#lanes;
  }

  isCurrent(): boolean {
    return true;
  }

  refusalOf(): null {
    return null;
  }

  dispatch(lane: number, batch: Batch<Item>): void {
    if (this.#state.tag !== 'serving') return;
    this.#batches += 1;
    const id = `${this.#session}:${this.#batches}`;
    this.#sent.set(id, { batch, lane });
    if (batch.items.some(({ streams }) => streams)) this.#state.parts.begin(id);
    this.#add(this.#state, id, batch.items).catch((thrown: unknown) => this.#lost(id, asError(thrown)));
  }

  /** Hosts run examples when they start a stage's workers, and report an error there. */
  async check(): Promise<CheckResult> {
    const { health } = this;
    const error = health.tag === 'failed' ? new ModeletError('stage_unavailable', health.error.message) : null;
    return { examples: 0, error };
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const [batch, { batch: sent }] of this.#sent) {
      const items = ids.filter((id) => sent.items.some((item) => item.id === id));
      if (items.length > 0) this.#tell({ tag: 'cancel', stage: this.#key, batch, items });
    }
  }

  async close(deadline: Deadline): Promise<void> {
    const { tag } = this.#state;
    if (tag === 'serving' && this.#sent.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve;
        if (deadline !== Number.POSITIVE_INFINITY) this.#clock.at(deadline, resolve);
      });
    }
    this.#timer?.cancel();
    const state = this.#state;
    this.#state = { tag: 'closing' };
    if (state.tag !== 'serving') return;
    await state.board.remove('stages', this.#key).catch(() => {});
    await disconnect(state);
  }

  /**
   * Where no host has workers, the workers that the stage asks for stand for those that are missing, and say why. No
   * worker has a pid: it would name a process of another machine, and the server kills the workers of an engine that died.
   */
  status(): WorkerStatus[] {
    const workers = [...this.#hosts.values()].flatMap((served) => served.workers);
    const { health } = this;
    const why = health.tag === 'failed' ? health.error.message : null;
    const missing = { ...MISSING, state: why === null ? 'startup' : 'error', error: why } as const;
    const shown = workers.length > 0 ? workers : this.#definition.modelet.workers.map(() => missing);
    return shown.map((worker, index) => {
      const lanes = [...this.#sent.values()].filter(({ lane }) => lane % shown.length === index);
      const running = Math.min(lanes.length, this.#definition.modelet.concurrency);
      return { ...worker, index, pid: null, busy: running > 0, running };
    });
  }

  /** Batches that hosts can run at a time. */
  get #lanes(): number {
    let ready = 0;
    for (const { workers } of this.#hosts.values()) {
      for (const { state } of workers) if (state === 'ready') ready += 1;
    }
    return ready * this.#definition.modelet.concurrency;
  }

  #written(): Promise<string> {
    const notice = publish(this.#definition, (this.#definition.remote as RemotePlace).secret);
    // The next beat reports the error.
    notice.catch(() => {});
    return notice;
  }

  async #open(): Promise<void> {
    try {
      const connected = await connect(this.#definition.remote as RemotePlace, this.#key, this.#session, {
        clock: this.#clock,
        onEvent: (event) => this.#happened(event),
        onPart: (batch, part, taken) => {
          const item = this.#sent.get(batch)?.batch.items.find(({ id }) => id === part.id);
          if (item) this.#events.onPart(item, part, taken);
        },
        onMissing: (batch) => this.#lost(batch, new Error('parts of its result are no longer on the broker')),
        onLog: (record) => this.#events.onLog({ ...record, stage: this.#definition.name }),
      });
      if (this.#state.tag === 'closing') return await disconnect(connected);
      this.#state = { tag: 'serving', ...connected };
      await connected.events.start();
      await this.#beat(connected);
    } catch (thrown) {
      if (this.#state.tag !== 'closing') this.#state = { tag: 'failed', error: asError(thrown) };
      this.#events.onChange();
    }
  }

  /** Renews the notice of the stage, and looks which hosts serve it. */
  async #beat(connected: Connected): Promise<void> {
    if (this.#state.tag !== 'serving') return;
    try {
      const own = { kind: 'stages', name: this.#key, text: await this.#notice } as const;
      this.#read(await connected.board.renew(own, 'hosts'), connected.board);
      this.#fault = null;
      connected.parts.tellAgain();
      await this.#lookAfter(connected.queue);
    } catch (thrown) {
      this.#fault = asError(thrown);
      this.#hosts = new Map();
    }
    if (this.#hosts.size > 0) this.#aloneSince = this.#clock.now();
    this.#tellChange();
    this.#timer = this.#clock.at(this.#clock.now() + BEAT_MS, () => void this.#beat(connected));
  }

  async #add({ queue, board }: Connected, id: string, items: readonly Item[]): Promise<void> {
    const payload = encodeBatch(items, (deadline) => board.toServer(deadline));
    await queue.add(id, payload, Math.max(...items.map((item) => item.priority)));
  }

  /** The health may change by time alone. */
  #tellChange(): void {
    const { health } = this;
    const told = JSON.stringify([health.tag, health.tag === 'failed' && health.error.message, this.status()]);
    if (told === this.#told) return;
    this.#told = told;
    this.#events.onChange();
  }

  #read(reports: ReadonlyMap<string, string>, board: Board): void {
    this.#gains ??= new OwnGains(board.toServer(this.#openedAt));
    const served = new Map<string, ServedStage & { readonly host: string }>();
    for (const [id, text] of reports) {
      const { host, isLeaving, stages } = JSON.parse(text) as HostReport;
      const stage = stages[this.#key];
      const gained = stage?.own ? this.#gains.of(id, stage.own) : null;
      if (gained) this.#events.onOwnMetrics({ ...gained, gauges: {} });
      if (stage && !isLeaving) served.set(id, { ...stage, host });
    }
    this.#hosts = served;
  }

  /** Ends the leases of hosts that are gone, and finds the ends of batches whose events were missed. */
  async #lookAfter(queue: BatchQueue): Promise<void> {
    if (this.#sent.size === 0) return;
    await queue.endLeases();
    const old = [...this.#sent].filter(([, { batch }]) => batch.dispatchedAt + LOOK_MS < this.#clock.now());
    for (const [id] of old) {
      const found = await queue.lookUp(id);
      if (found.tag === 'unknown') this.#lost(id, new Error('the broker has lost the batch'));
      else if (found.tag === 'lost') this.#lost(id, lostHost(found.reason));
      else if (found.tag === 'ended') await this.#ended(id, found);
    }
  }

  #happened(event: JobEvent): void {
    if (event.tag === 'waiting' || !this.#sent.has(event.id)) return;
    if (event.tag === 'dead') this.#lost(event.id, lostHost(event.reason));
    else void this.#ended(event.id, resultOfEvent(event.outcome));
  }

  async #ended(id: string, { result, reason }: Ended): Promise<void> {
    if (this.#state.tag !== 'serving') return;
    const { queue, parts } = this.#state;
    try {
      if (!result) throw new Error(reason ?? 'it has no result');
      const { replies, runMs } = decodeReplies(await queue.resultOf(id, result));
      await parts.all(id, replies);
      const sent = this.#sent.get(id);
      // Its event and a look at the job may both have found its end.
      if (!sent) return;
      if (replies.length !== sent.batch.items.length) throw new Error('a host has sent the replies of another batch');
      this.#settled(id);
      this.#events.onReply(sent.batch, replies, runMs, sent.lane);
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
    const items = sent.batch.items.map(({ id: item }) => item);
    this.#tell({ tag: 'cancel', stage: this.#key, batch: id, items });
    this.#events.onLost(sent.batch.items, [], error, sent.lane);
    this.#emptied();
  }

  #settled(id: string): void {
    this.#sent.delete(id);
    if (this.#state.tag !== 'serving') return;
    this.#state.queue.settled(id);
    this.#state.parts.end(id);
  }

  #emptied(): void {
    if (this.#sent.size === 0) this.#onEmpty?.();
  }

  #tell(message: Parameters<Board['tell']>[0]): void {
    if (this.#state.tag === 'serving') this.#state.board.tell(message).catch(() => {});
  }
}

interface Watcher extends Pick<PartsEvents, 'onPart' | 'onMissing'> {
  readonly clock: Clock;
  onEvent(event: JobEvent): void;
  onLog: PoolEvents<Item>['onLog'];
}

async function connect(place: RemotePlace, key: string, session: string, watcher: Watcher): Promise<Connected> {
  const { clock, onEvent, onLog } = watcher;
  const link = await BrokerLink.open({ ...place, queue: `stage-${key}` }, onLog, clock, BATCH_LEASES);
  const board = new Board(link, place, clock);
  const tell: PartsEvents['tell'] = (host, message) => void board.tell(message, host).catch(() => {});
  const parts = new PartsIn(link, key, session, { ...watcher, tell });
  return { link, queue: new BatchQueue(link, session), board, events: new JobEvents(link, onEvent), parts };
}

async function disconnect({ events, parts, queue }: Connected): Promise<void> {
  events.close();
  parts.close();
  await queue.close();
}

/** @param reason as the broker has it: of a lease that has ended, or of a host that could not run the batch */
function lostHost(reason: string): Error {
  const isLease = reason === '' || reason.startsWith('job stalled');
  return new Error(isLease ? 'its worker host was lost' : `its worker host could not run it: ${reason}`);
}

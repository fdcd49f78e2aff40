/**
 * Represents one runtime on the server: accepts requests, answers each exactly once, and applies deploys.
 * Composition root of the server: owns the ledger and the engine client. Knows nothing of Node-RED.
 */
import type { RuntimeConfig } from '../../config/compile.ts';
import { formatListen } from '../../config/formats/listen.ts';
import { type PlannedStage, type RowTerms, rowTerms, type StageDefinition } from '../../config/stage-definition.ts';
import { type Clock, type Deadline, deadlineAfter, systemClock, untilTrue } from '../../core/clock.ts';
import { type ListenerSpec, NO_CLIENT } from '../../core/endpoints.ts';
import { ModeletError } from '../../core/errors.ts';
import type { LogRecord, ModeletDescription, Payload, StageAction, StageLoad } from '../../core/model.ts';
import { addReadings, type ClientReadings, type FailureCount, type RequestReading } from '../../core/readings.ts';
import { isVersionAction } from '../../core/versions.ts';
import type { Log } from '../../observe/log/log.ts';
import { addFailures, ReadFailures } from '../../observe/meters/failed-requests.ts';
import type { Measurement } from '../../observe/views/interval.ts';
import { buildSnapshot, type RuntimeSnapshot } from '../../observe/views/snapshot.ts';
import { killGroup } from '../../process/parent/launch.ts';
import { AdmissionQueue } from '../desk/admission-queue.ts';
import { Desk, type DeskHost, shuttingDown } from '../desk/desk.ts';
import { Checks, type StageCheck } from './checks.ts';
import { EngineClient } from './engine-client.ts';
import { EngineReports } from './engine-reports.ts';
import { engineBoot, listenerTerms } from './engine-settings.ts';
import { LastInputs } from './last-inputs.ts';
import { type PlannedRoute, Planner, type RouteEntry } from './planner.ts';
import { type Machine, RuntimePins } from './runtime-pins.ts';
import { LiveShares } from './versions/live-shares.ts';

export interface ServiceHost {
  /** Displayed state has changed. Called often. */
  onChange(): void;
  /** A modelet describes itself otherwise than before. */
  onDescribed(): void;
  /** The log of the process. The runtime writes to a child of it, records at or above its `logLevel`. */
  readonly log: Log;
  /** Counts the requests of clients that came to the service by the host. Default: none have keys. */
  clientsOf?(service: Service): ClientReadings;
  /** Default: those of this runtime, which end with it. */
  readonly shares?: LiveShares;
  /** Folder in which runtimes keep the states of keys from a stop to the next start. Default: none. */
  readonly statesFolder?: string | null;
}

/** Longest time for open requests to be answered after a signal, in ms. */
export const DRAIN_MS = 30_000;
/** Interval between two looks whether a service that retires is idle, in ms. */
const LOOK_MS = 50;

/**
 *   open      takes requests                                      -> retiring | closing
 *   retiring  another service takes its place; it answers what it holds -> closing
 *   closing   answers what it can before its deadline, and ends all processes
 */
type ServiceState =
  | { readonly tag: 'open' }
  | { readonly tag: 'retiring' }
  | { readonly tag: 'closing'; readonly ended: Promise<void> };

/** Time limit for ending all processes of a runtime together, in ms. */
export const CLOSE_MS = 5000;
/** Part of `CLOSE_MS` that is left for the engine to end its workers after the last request. */
const CLOSE_RESERVE_MS = 1000;

export class Service {
  readonly id: string;
  #config: RuntimeConfig;
  readonly #host: ServiceHost;
  readonly #machine: Machine;
  readonly #clock: Clock;
  #log: Log;
  readonly #pins: RuntimePins;
  /** Takes the requests that come through this process. */
  readonly desk: Desk<RouteEntry>;
  readonly #admissionQueue: AdmissionQueue;
  readonly #client: EngineClient;
  readonly #planner: Planner = new Planner();
  readonly #checks: Checks;
  readonly #lastInputs: LastInputs = new LastInputs((stage) => this.#client.recall(stage));
  #state: ServiceState = { tag: 'open' };
  readonly #shares: LiveShares;
  readonly #read: ReadFailures = new ReadFailures();
  readonly #told: EngineReports = new EngineReports();
  #deploys = { count: 0, handedOver: 0 };

  constructor(id: string, config: RuntimeConfig, machine: Machine, host: ServiceHost, clock: Clock = systemClock) {
    this.id = id;
    this.#config = config;
    this.#machine = machine;
    this.#clock = clock;
    this.#host = host;
    this.#shares = host.shares ?? new LiveShares();
    this.#log = this.#ownLog();
    this.#pins = new RuntimePins(config, machine, (record) => this.log(record));
    const terms = { capacity: config.capacity, barred: this.#pins.barred, maxHeldBytes: config.maxQueueBytes / 2 };
    this.desk = new Desk(terms, this.#deskHost(), clock);
    this.#admissionQueue = new AdmissionQueue(config.mostWaiting, (item) => {
      this.desk.sent(item.id);
      this.#client.submit(item);
    });
    this.#checks = new Checks({
      clock,
      send: (check, deadline) => this.#client.check(check, deadline),
      stages: () => this.#planner.reached,
      stage: (ref) => this.stage(ref),
    });
    this.#client = new EngineClient(engineBoot(id, config, machine, this.#pins, host.statesFolder), this.#pins.engine, {
      onOutcomes: (items) => {
        for (const item of items) this.desk.settle(item);
      },
      onParts: (parts) => {
        for (const item of parts) this.desk.part(item);
      },
      onTaps: (items) => {
        for (const item of items) this.desk.tap(item);
      },
      onRecalled: (inputs) => this.#lastInputs.take(inputs),
      onLost: (error) => this.#engineLost(error),
      onStatus: (status, isCurrent) => {
        this.#told.update(status, clock.now());
        // A runtime that closes no longer decides: its stages may be those of another one already.
        if (isCurrent && this.#state.tag === 'open') this.#shares.note(this.#planner.plan, status);
        host.onChange();
      },
      onDescribed: (stage) => {
        this.#told.describe(stage);
        host.onDescribed();
      },
      onChecked: (check, stages) => this.#checks.checked(check, stages),
      onChange: () => host.onChange(),
      complete: (plan) => this.#shares.fill(plan),
      onLog: (record) => this.log(record),
    });
  }

  /** Starts the engine. Requests may be submitted at once; they wait until the engine is ready. */
  start(): void {
    this.#pins.claim();
    this.#client.start();
  }

  get config(): RuntimeConfig {
    return this.#config;
  }

  /** Name shown to users. */
  get name(): string {
    return this.#config.name || this.id;
  }

  /** Takes settings with which the engine can go on. It gets its part with the next plan. Open requests keep their limits. */
  reconfigure(config: RuntimeConfig): void {
    this.#config = config;
    this.#log = this.#ownLog();
    this.desk.resize(config.capacity);
  }

  #ownLog(): Log {
    return this.#host.log.of({ id: this.id, runtime: this.name }, this.config.logLevel);
  }

  /**
   * Applies the stages and routes of a deploy, and what the engine itself serves. Unchanged stages keep their workers. Open requests finish on the route
   * on which they began. A request that still waits on the server gets `shutting_down` if a stage of its route is gone.
   */
  apply(stages: readonly PlannedStage[], routes: readonly PlannedRoute[], listener: ListenerSpec | null = null): void {
    const plan = this.#planner.compile(stages, routes, listener && { ...listener, terms: listenerTerms(this) });
    const { count, handedOver } = this.#deploys;
    this.#deploys = { count: count + 1, handedOver: handedOver + this.desk.backlog };
    const clients = [NO_CLIENT, ...(listener?.keys ?? []).map(({ name }) => name)];
    this.#told.keep(new Set(plan.stages.map(({ ref }) => ref)), clients);
    this.desk.failedRequests.keep(this.#planner.entries);
    this.#read.deployed(plan.stages, this.#counted);
    const records = this.#shares.deployed(plan);
    this.#client.apply(plan, this.#admissionQueue.routes);
    this.#admissionQueue.grown((stage) => this.#planner.roomAt(stage));
    for (const record of [this.#planner.describe(), ...records]) this.log(record);
  }

  /** Whether the engine serves endpoints at its own address. */
  get listens(): boolean {
    return this.#planner.plan.listener !== undefined;
  }

  /** Replaces the OpenAPI document that the engine serves at its own address, as JSON. */
  publishApi(openapi: string): void {
    this.#client.publishApi(openapi);
  }

  log(record: LogRecord): void {
    this.#log.write(record);
  }

  /** Returns the id of the node that a number stands for in taps and gather reports, even if a later deploy removed it. */
  node(ref: number): string | undefined {
    return this.#planner.node(ref);
  }

  /** Returns a stage by its number in timings, even if a later deploy removed it. */
  stage(ref: number): StageDefinition | undefined {
    return this.#planner.stages.get(ref);
  }

  /**
   * Flushes a stage's queue, drops the requests in it, or replaces the stage's workers one after another, each by a
   * worker that is ready. No effect if the node has no stage.
   * @param node a stage, or the batcher before a stage.
   */
  actOnStage(node: string, action: StageAction): void {
    const stage = this.#planner.stageAt(node);
    if (stage === undefined) return;
    if (action === 'reset') {
      const error = new ModeletError('dropped', 'reset', { stage: this.stage(stage)?.name ?? '' });
      for (const id of this.#admissionQueue.waitingAt(stage)) this.desk.abandon(id, error);
    }
    if (isVersionAction(action)) this.#shares.act(this.#planner.plan, stage, action);
    this.#client.actOnStage(stage, action);
  }

  /** Returns how many requests have branches in progress to a node that gathers them in the engine. */
  gatheringAt(node: string): number {
    const found = this.#told.status.gathering?.find(([ref]) => this.#planner.node(ref) === node);
    return found?.[1] ?? 0;
  }

  /**
   * Returns the load of a node's stage, or null while the engine reports nothing about it.
   * @param node a stage, or the batcher before a stage.
   */
  load(node: string): StageLoad | null {
    const stage = this.#client.process.processState === 'ready' ? this.#planner.stageAt(node) : undefined;
    return stage === undefined ? null : this.#told.load(stage, this.#clock.now());
  }

  /** Returns what the modelet of a stage node reports about itself, or null before its first worker is ready. */
  description(node: string): ModeletDescription | null {
    return this.#told.description(this.#planner.stageAt(node) ?? 0);
  }

  rowTerms(nodes: readonly string[]): RowTerms {
    const stages = nodes.flatMap((node) => this.stage(this.#planner.stageAt(node) ?? 0) ?? []);
    return rowTerms(stages, ({ id }) => this.description(id), this.config.capacity);
  }

  /** Returns the last input of a node's stage, if it has had one of a reasonable size. Never rejects. */
  lastInput(node: string): Promise<Payload | null> {
    return this.#lastInputs.of(this.#planner.stageAt(node) ?? 0);
  }

  /**
   * Runs the examples of every stage that is on a route, and of its versions, each in a ready worker between two batches, and reports
   * whether they work. Settles within `CHECK.limitMs` plus `CHECK.graceMs` and never rejects. Concurrent callers share
   * one check.
   */
  check(): Promise<readonly StageCheck[]> {
    return this.#checks.check();
  }

  /**
   * Refuses new requests, lets open requests finish, answers the rest with `shutting_down`, and ends all processes,
   * all within `closeMs`. If `drain` is false, answers open requests at once. Idempotent.
   */
  close(drain: boolean, closeMs: number = CLOSE_MS): Promise<void> {
    if (this.#state.tag !== 'closing') this.#state = { tag: 'closing', ended: this.#close(drain, closeMs) };
    return this.#state.ended;
  }

  /**
   * Refuses new requests, lets the open ones take their time, and then closes. Requests without a time limit have as long
   * as after a signal. A call of `close` ends the wait.
   */
  async retire(): Promise<void> {
    if (this.#state.tag === 'open') {
      this.#state = { tag: 'retiring' };
      this.#client.stopListening();
      this.desk.stop();
      await this.#whenIdle(
        deadlineAfter(this.#clock, Math.max(DRAIN_MS, this.config.timeoutMs, this.config.flowTimeoutMs)),
      );
    }
    await this.close(true);
  }

  /** A user has read the failures and deaths so far. */
  markRead(): void {
    this.#read.mark(this.#failures, this.#clock.now());
  }

  snapshot(): RuntimeSnapshot {
    return this.#snapshot(this.#requests);
  }

  #snapshot({ counts, late }: RequestReading): RuntimeSnapshot {
    const now = this.#clock.now();
    const { backlog, capacity } = this.desk;
    const { plan } = this.#planner;
    const { process, frames, deaths } = this.#client;
    const { processState: state, pid, restarts, lastError, bytes } = process;
    const engine = { state, pid, restarts, lastError, bytes, frames, deaths };
    const shown = {
      id: this.id,
      name: this.config.name,
      state: this.#state.tag === 'open' ? engine.state : 'shutdown',
      refuses: this.#pins.barred,
      listener: plan.listener ? { ...this.#told.listener, address: formatListen(plan.listener.address) } : null,
      ...{ backlog: backlog + this.#told.backlog, capacity },
      requests: counts as Record<string, number>,
      lateOutcomes: late,
      clients: addReadings(this.#host.clientsOf?.(this) ?? {}, this.#told.clients),
      deploys: this.#deploys,
      slowest: this.desk.slowRequests.list(now, this.#told.slowest, (ref) => this.stage(ref)?.name ?? String(ref)),
      allowedCpus: this.#machine.allowedCpus,
      pinWarnings: this.#pins.warnings,
    };
    return buildSnapshot(shown, {
      ...{ engine, plan, now },
      status: this.#told.status,
      totals: this.#told.totals,
      failures: this.#read.unread(this.#failures),
      lasting: this.#read.lasting(this.#failures),
      readAt: this.#read.at,
    });
  }

  /** Returns the state and the totals up to now. Two looks show what happened between them. */
  measure(): Measurement {
    const requests = this.#requests;
    const { durations, results } = requests;
    return { at: this.#clock.now(), snapshot: this.#snapshot(requests), durations, results, failed: this.#failures };
  }

  get #failures(): readonly FailureCount[] {
    return this.#read.present(this.#counted);
  }

  /** Failures by the names that their stages had then. */
  get #counted(): readonly FailureCount[] {
    return addFailures(this.desk.failedRequests.list(), this.#told.failures);
  }

  /** All requests so far: those that came through Node-RED, and those at the engine's listener. */
  get #requests(): RequestReading {
    return addReadings(this.desk.read(), this.#told.requests);
  }

  #deskHost(): DeskHost<RouteEntry> {
    return {
      entryOf: ({ entry }) =>
        this.#planner.entries.get(entry) ??
        new ModeletError('config_invalid', 'the node is not part of a usable route'),
      routeOf: ({ route }) => route.ref,
      refusalOf: ({ payload, patient }, { stage }) =>
        this.#client.refusalOf(payload) ??
        (patient ? this.#admissionQueue.check(stage, this.#planner.roomAt(stage)) : null),
      enter: (item, { stage }) => {
        if (item.patient) this.#admissionQueue.enter(item, stage, this.#planner.roomAt(stage));
        else this.#client.submit(item);
      },
      cancel: (id) => this.#client.cancel(id),
      taken: (id, parts) => this.#client.taken(id, parts),
      onSettled: (id, { patient }) => {
        if (patient) this.#admissionQueue.leave(id, (stage) => this.#planner.roomAt(stage));
      },
      onFailed: () => {},
      onLog: (record) => this.log(record),
    };
  }

  #engineLost(error: Error): void {
    // A killed engine leaves its workers running: one in a busy loop does not notice, and a worker may have children.
    const left = this.#told.status.stages.flatMap(({ workers, retired = [] }) => [...workers, ...retired]);
    for (const { pid } of left) if (pid !== null) killGroup(pid);
    this.#told.engineLost();
    if (this.#state.tag === 'closing') {
      this.#checks.fail(shuttingDown());
      this.desk.failAll(shuttingDown);
      return;
    }
    const lost = (): ModeletError => this.#client.lost('the engine died', error);
    this.#checks.fail(lost());
    // Requests that wait at the entrance were not in the dead engine. They go to the next one.
    this.desk.failAll(lost, (id) => !this.#admissionQueue.isWaiting(id) && !this.desk.isHeld(id));
  }

  /** Resolves when no request is open, here or at the engine's listener, when the service closes, or at `limit`. */
  #whenIdle(limit: Deadline): Promise<void> {
    const isIdle = (): boolean => this.desk.backlog + this.#told.backlog === 0 || this.#state.tag === 'closing';
    return untilTrue(this.#clock, limit, LOOK_MS, isIdle);
  }

  async #close(drain: boolean, closeMs: number): Promise<void> {
    const deadline = deadlineAfter(this.#clock, closeMs);
    this.#client.stopListening();
    await this.desk.close(drain ? deadline - CLOSE_RESERVE_MS : null);
    await this.#client.close(deadline);
    await this.#pins.release();
  }
}

/**
 * The runtime as Node-RED's side sees it, one per runtime node: takes requests in, answers each once, follows
 * deploys. Composition root of the server: owns the ledger and the engine client. Knows nothing of Node-RED.
 */
import { createHash } from 'node:crypto';
import type { RuntimeConfig } from '../config/compile.ts';
import { type Clock, type Deadline, deadlineAfter, systemClock } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';
import type { EnginePlan, EngineStatus, LogRecord, Payload, RequestNumber, StageDefinition } from '../core/model.ts';
import { pinProblem, pinWarning, resolvePin } from '../lifecycle/affinity.ts';
import type { Launcher } from '../lifecycle/launch.ts';
import { buildSnapshot, type RuntimeSnapshot } from '../observe/snapshot.ts';
import { decodeModeletError } from '../wire/error-codec.ts';
import type { WireItem } from '../wire/frames.ts';
import { EngineClient } from './engine-client.ts';
import { type Caller, Ledger } from './ledger.ts';
import { serverPin } from './server-pin.ts';

/** What this machine offers, read before anything was pinned. */
export interface Machine {
  readonly allowedCpus: readonly number[];
  readonly launcher: Launcher;
}

export interface ServiceEvents {
  /** Something to show has changed; may be called often. */
  onChange(): void;
  onLog(record: LogRecord): void;
}

/** A stage as the deploy describes it; the service adds its number and revision. */
export type PlannedStage = Omit<StageDefinition, 'ref' | 'revision'>;

export interface PlannedRoute {
  /** The node at which messages enter. */
  readonly entry: string;
  /** Stage ids. */
  readonly stages: readonly string[];
  /** By stage id: who else wants its value; absent for a stage that nobody looks at. */
  readonly taps?: ReadonlyMap<string, readonly string[]>;
}

export interface SubmitRequest extends Caller {
  /** The node at which the message entered. */
  readonly entry: string;
  readonly payload: Payload;
  readonly deadline: Deadline;
  /** Higher goes first. */
  readonly priority: number;
  /** JSON of what stages may want of the message besides its payload. */
  readonly meta: Uint8Array | null;
}

type ServiceState = { readonly tag: 'open' } | { readonly tag: 'closing'; readonly ended: Promise<void> };

/** All children of a runtime share this long to end. */
export const CLOSE_MS = 5000;
/** Of that, the engine keeps this much to end its workers after the last request. */
const CLOSE_RESERVE_MS = 1000;

export class Service {
  readonly id: string;
  readonly config: RuntimeConfig;
  readonly #machine: Machine;
  readonly #clock: Clock;
  readonly #events: ServiceEvents;
  readonly #ledger: Ledger;
  readonly #client: EngineClient;
  #state: ServiceState = { tag: 'open' };
  #plan: EnginePlan = { stages: [], routes: [] };
  #routeRefs: ReadonlyMap<string, number> = new Map();
  /** Numbers in frames, kept over deploys: for stages by id, for routes by their stages. */
  readonly #numbers: Map<string, number> = new Map();
  readonly #known: Map<number, { readonly id: string; readonly name: string }> = new Map();
  #status: EngineStatus = { stages: [], rssBytes: 0 };
  readonly #pinWarnings: string[] = [];

  constructor(id: string, config: RuntimeConfig, machine: Machine, events: ServiceEvents, clock: Clock = systemClock) {
    this.id = id;
    this.config = config;
    this.#machine = machine;
    this.#clock = clock;
    this.#events = events;
    this.#ledger = new Ledger(config.capacity, clock, (request) => this.#client.cancel(request));
    const { launcher } = machine;
    const boot = {
      runtime: config.name || id,
      maxPayloadBytes: config.maxPayloadBytes,
      allowedCpus: machine.allowedCpus,
      launcher,
      strictPins: config.strictPins,
    };
    this.#client = new EngineClient(boot, this.#resolve('engine', config.engineCpus), {
      onOutcomes: (items) => this.#receive(items),
      onTaps: (items) => {
        for (const { id, ref, payload } of items) this.#ledger.tap(id, ref, payload);
      },
      onLost: (error) => this.#engineLost(error),
      onStatus: (status) => {
        this.#status = status;
        events.onChange();
      },
      onChange: () => events.onChange(),
      onLog: (record) => events.onLog(record),
    });
  }

  /** Starts the engine. Requests may be submitted at once: they wait for it. */
  start(): void {
    const cpus = this.#resolve('Node-RED', this.config.serverCpus);
    if (this.config.serverCpus && cpus) void this.#pinServer(() => serverPin.claim(this, cpus));
    for (const message of this.#pinWarnings) this.#events.onLog({ level: 'warn', message });
    this.#client.start();
  }

  /** Takes over what a deploy has compiled. Unchanged stages keep their workers; open requests finish as they began. */
  apply(stages: readonly PlannedStage[], routes: readonly PlannedRoute[]): void {
    const definitions = stages.map((stage) => this.#define(stage));
    const refs = new Map(definitions.map((stage) => [stage.id, stage.ref]));
    const routeRefs = new Map<string, number>();
    const plan = routes.map((route) => {
      const chain = route.stages.map((stage) => refs.get(stage) as number);
      const taps = route.stages.flatMap((stage) => (route.taps?.has(stage) ? (refs.get(stage) ?? []) : []));
      const ref = this.#number(`route ${chain.join('>')} tapped at ${taps.join()}`);
      routeRefs.set(route.entry, ref);
      return { ref, stages: chain, taps };
    });
    this.#routeRefs = routeRefs;
    this.#plan = { stages: definitions, routes: [...new Map(plan.map((route) => [route.ref, route])).values()] };
    this.#client.apply(this.#plan);
  }

  /**
   * Opens a request and sends it on its way. `onSettled` is called exactly once, later.
   * @throws ModeletError where it is refused: `capacity_exceeded`, `shutting_down`, `config_invalid`,
   * `engine_lost` while the engine does not start.
   */
  submit(request: SubmitRequest): RequestNumber {
    const refusal = this.#refusal(request);
    if (refusal) {
      this.#ledger.countRefused(refusal.code);
      throw refusal;
    }
    const { payload, deadline, priority, meta } = request;
    const id = this.#ledger.open(deadline, request);
    const ref = this.#routeRefs.get(request.entry) as number;
    this.#client.submit({ id, deadline, priority, ref, ok: true, payload, meta, timings: [] });
    return id;
  }

  /** Counts a request that failed before it could be submitted. */
  countRefused(error: ModeletError): void {
    this.#ledger.countRefused(error.code);
  }

  /** Settles a request early and makes everybody forget it. No effect on one that has settled. */
  abandon(id: RequestNumber, error: ModeletError): void {
    if (!this.#ledger.isOpen(id)) return;
    this.#ledger.settle(id, { ok: false, error });
    this.#client.cancel(id);
  }

  /** A stage by its number in timings and taps, also one that a later deploy has removed. */
  stage(ref: number): { readonly id: string; readonly name: string } | undefined {
    return this.#known.get(ref);
  }

  deadlineFor(timeoutMs: number): Deadline {
    return deadlineAfter(this.#clock, timeoutMs);
  }

  /**
   * Takes no new requests, lets the open ones finish, answers the rest with `shutting_down`, and ends all
   * processes; all of it within `closeMs`. With `drain` false open requests are answered at once. Idempotent.
   */
  close(drain: boolean, closeMs: number = CLOSE_MS): Promise<void> {
    if (this.#state.tag === 'open') this.#state = { tag: 'closing', ended: this.#close(drain, closeMs) };
    return this.#state.ended;
  }

  snapshot(): RuntimeSnapshot {
    return buildSnapshot({
      id: this.id,
      name: this.config.name,
      state: this.#state.tag === 'closing' ? 'shutdown' : this.#client.state,
      engine: this.#client,
      ledger: this.#ledger,
      plan: this.#plan,
      status: this.#status,
      allowedCpus: this.#machine.allowedCpus,
      pinWarnings: this.#pinWarnings,
    });
  }

  #define(stage: PlannedStage): StageDefinition {
    const revision = createHash('sha256').update(JSON.stringify(stage.modelet)).digest('hex').slice(0, 16);
    const ref = this.#number(`stage ${stage.id}`);
    this.#known.set(ref, { id: stage.id, name: stage.name });
    return { ...stage, ref, revision };
  }

  #number(key: string): number {
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = this.#numbers.size + 1;
    this.#numbers.set(key, number);
    return number;
  }

  #refusal({ entry }: SubmitRequest): ModeletError | null {
    if (this.#state.tag === 'closing') return new ModeletError('shutting_down', 'the runtime is shutting down');
    if (this.config.strictPins && this.#pinWarnings.length > 0) {
      return new ModeletError('config_invalid', this.#pinWarnings.join('; '));
    }
    if (!this.#routeRefs.has(entry))
      return new ModeletError('config_invalid', 'the node is not part of a usable route');
    if (this.#client.isCongested) {
      return new ModeletError('capacity_exceeded', 'the channel to the engine is full', { retryAfterSeconds: 1 });
    }
    // One death is a restart that requests can wait for; an engine that does not come up again is not.
    const { lastError } = this.#client;
    if (lastError && this.#client.restarts > 0 && this.#client.state === 'error') {
      return new ModeletError('engine_lost', `the engine does not run: ${lastError.message}`, { cause: lastError });
    }
    return null;
  }

  #receive(items: readonly WireItem[]): void {
    for (const item of items) {
      const { payload } = item;
      const outcome = item.ok
        ? { ok: true as const, value: payload }
        : { ok: false as const, error: decodeModeletError(payload.bytes, 'protocol_error') };
      this.#ledger.settle(item.id, outcome, item.timings);
    }
  }

  #engineLost(error: Error): void {
    const { tag } = this.#state;
    this.#status = { stages: [], rssBytes: 0 };
    this.#ledger.failAll(() =>
      tag === 'closing'
        ? new ModeletError('shutting_down', 'the runtime is shutting down')
        : new ModeletError('engine_lost', `the engine died: ${error.message}`, { cause: error }),
    );
  }

  async #close(drain: boolean, closeMs: number): Promise<void> {
    const deadline = deadlineAfter(this.#clock, closeMs);
    if (drain) {
      let giveUp: () => void = () => {};
      const enough = new Promise<void>((resolve) => {
        giveUp = resolve;
      });
      const timer = this.#clock.at(deadline - CLOSE_RESERVE_MS, giveUp);
      await Promise.race([this.#ledger.whenEmpty(), enough]);
      timer.cancel();
    }
    this.#ledger.failAll(() => new ModeletError('shutting_down', 'the runtime is shutting down'));
    await this.#client.close(deadline);
    await this.#pinServer(() => serverPin.release(this));
  }

  #resolve(who: string, cpus: readonly number[] | null): readonly number[] | null {
    const resolved = resolvePin(cpus, this.#machine.allowedCpus, this.#machine.launcher.taskset);
    if (resolved.missing.length > 0) {
      const say = this.config.strictPins ? pinProblem : pinWarning;
      this.#pinWarnings.push(say(who, resolved.missing, this.#machine.allowedCpus));
    }
    return resolved.cpus;
  }

  /** A mask that cannot be set is worth a warning, not a failure. */
  async #pinServer(set: () => Promise<void>): Promise<void> {
    try {
      await set();
    } catch (thrown) {
      this.#events.onLog({ level: 'warn', message: `Node-RED could not be pinned: ${(thrown as Error).message}` });
    }
  }
}

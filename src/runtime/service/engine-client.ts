/**
 * Starts and supervises the engine process, sends it the plan and the requests, and passes its outcomes on.
 * Holds requests while no engine is ready and sends them once one is. Runs in the server.
 */
import { fileURLToPath } from 'node:url';
import type { EnginePlan } from '../../config/stage-definition.ts';
import { type Clock, type Deadline, systemClock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import { retrySeconds } from '../../core/figures.ts';
import type { LogRecord, Payload, RequestNumber, StageAction } from '../../core/model.ts';
import type { EngineDeaths, FrameCounts } from '../../observe/views/snapshot.ts';
import { inheritedEnvironment } from '../../process/node-options.ts';
import { ChildProcess, type ChildSpec } from '../../process/parent/child-process.ts';
import { Supervisor } from '../../process/parent/supervisor.ts';
import { Outbox } from '../../wire/channel/outbox.ts';
import type { CheckedStage, DescribedStage, EngineBoot, StatusReport } from '../../wire/frames/bodies.ts';
import { type Frame, isLarge, type WireItem } from '../../wire/frames/frames.ts';
import type { ParentSlots } from '../../wire/slots/parent-slots.ts';
import { SharedSlots } from '../../wire/slots/shared-slots.ts';
import { openSlotFile, type SlotFile } from '../../wire/slots/slot-file.ts';
import { withEarlierRoutes } from './planner.ts';

const ENGINE_ENTRY = fileURLToPath(new URL('../../programs/engine.js', import.meta.url));
/**
 * The size of V8's young generation in the engine, in MB. In a larger one, the buffers of requests stay until V8 collects
 * the whole heap. The engine gives this up again for its threads, which run code of users.
 */
const YOUNG_MB = 4;
const START_TIMEOUT_MS = 30_000;
/**
 * The client refuses new requests while more bytes than this are on their way to the engine. Small and large payloads
 * count separately, because small payloads overtake large ones. Even a slow machine sends this many bytes before the
 * heartbeat gives up on a silent engine.
 */
const MOST_BYTES = { small: 64 * 1024 * 1024, large: 512 * 1024 * 1024 } as const;

export interface EngineClientEvents {
  onOutcomes(items: readonly WireItem[]): void;
  onParts(items: readonly WireItem[]): void;
  onTaps(items: readonly WireItem[]): void;
  /** The last inputs of stages, see `recall`. */
  onRecalled(inputs: readonly WireItem[]): void;
  /** The engine died. Requests that were sent may have been running in it. */
  onLost(error: Error): void;
  /** @param isCurrent whether the engine had received every plan and action when it sent the status */
  onStatus(status: StatusReport, isCurrent: boolean): void;
  onChecked(check: number, stages: readonly CheckedStage[]): void;
  onDescribed(stage: DescribedStage): void;
  onChange(): void;
  /** Adds to a plan what has changed since its deploy. The engine gets the result. */
  complete(plan: EnginePlan): EnginePlan;
  onLog(record: LogRecord): void;
}

export class EngineClient {
  readonly #events: EngineClientEvents;
  /** The engine, or the next one. */
  readonly process: Supervisor;
  /** Carry large requests to the engine, and large outcomes back. */
  readonly slots: SharedSlots;
  /** Has the slots that the present engine lends its workers; null: there is no shared memory. */
  #answers: SlotFile | null = null;
  readonly #outbox: Outbox;
  readonly #cancelled: RequestNumber[] = [];
  /** Number of result parts that the flow has taken, by request. */
  readonly #taken: Map<RequestNumber, number> = new Map();
  /** Requests submitted while no engine was ready. */
  readonly #held: Map<RequestNumber, WireItem> = new Map();
  /** Frames and items sent and received so far, by frame type. */
  readonly frames: { readonly sent: FrameCounts; readonly received: FrameCounts } = { sent: {}, received: {} };
  #deaths: EngineDeaths = { serving: 0, starting: 0 };
  #plan: EnginePlan = { stages: [], routes: [] };
  #openapi: string | null = null;
  /** Number of plans and actions that the present engine was sent. */
  #orders = 0;

  constructor(
    boot: EngineBoot,
    cpus: readonly number[] | null,
    events: EngineClientEvents,
    clock: Clock = systemClock,
  ) {
    this.#events = events;
    // The engine says for both if there is no shared memory.
    const onLog = (record: LogRecord): void => (record.level === 'warn' ? events.onLog(record) : undefined);
    this.slots = new SharedSlots(boot.maxQueueBytes, clock, onLog);
    this.process = new Supervisor(
      {
        startTimeoutMs: START_TIMEOUT_MS,
        launch: (events) => new ChildProcess({ ...launchSpec(boot, cpus), slots: this.#lane() }, events, clock),
        bootFrame: () => ({ type: 'boot', body: { ...boot, sharesSlots: this.#answers !== null } }),
        ping: () => this.#send({ type: 'ping', body: null }),
        onReady: () => this.#ready(),
        onFrame: (frame) => {
          count(this.frames.received, frame);
          this.#receive(frame);
        },
        onLost: (error, phase) => {
          if (phase === 'closing') events.onLog({ level: 'debug', message: 'engine ended' });
          else this.#died(error, phase);
          // `onLost` settles the held requests too.
          this.#held.clear();
          this.#orders = 0;
          events.onLost(error);
        },
        onChange: () => events.onChange(),
        onLog: (level, message) => events.onLog({ level, message }),
      },
      clock,
    );
    this.#outbox = new Outbox('submit', (frame) => this.#send(frame));
  }

  get deaths(): EngineDeaths {
    return this.#deaths;
  }

  /** Returns why no request can be sent to the engine now, or not this payload; null if it can. */
  refusalOf(payload: Payload): ModeletError | null {
    const { bufferedBytes = 0, waitingBytes = 0 } = this.process.traffic ?? {};
    if (isLarge(payload) ? waitingBytes > MOST_BYTES.large : bufferedBytes > MOST_BYTES.small) {
      return new ModeletError('capacity_exceeded', 'the channel to the engine is full', { retryAfterSeconds: 1 });
    }
    // Requests can wait for one restart after a death, but not for an engine that fails to start again.
    const { lastError, restarts, processState } = this.process;
    if (!lastError || restarts === 0 || processState !== 'error') return null;
    return this.lost('the engine does not run', lastError);
  }

  /** Makes the error of a request that no engine answers. */
  lost(what: string, cause: Error): ModeletError {
    const retryAfterSeconds = retrySeconds(this.process.pauseMs);
    return new ModeletError('engine_lost', `${what}: ${cause.message}`, { cause, retryAfterSeconds });
  }

  start(): void {
    this.process.start();
  }

  /**
   * Sends the plan to the engine.
   * @param waitedFor numbers of the routes of requests that are not submitted yet.
   */
  apply(plan: EnginePlan, waitedFor: ReadonlySet<number>): void {
    const late = [...this.#held.values(), ...(this.process.traffic?.waiting ?? [])].map(({ routeRef }) => routeRef);
    this.#plan = withEarlierRoutes(plan, this.#plan, new Set([...waitedFor, ...late]));
    // Submitted requests must reach the engine before the plan, which may drop their routes.
    this.#outbox.flush();
    this.#sendPlan();
  }

  /** Sends the OpenAPI document that the engine serves from now on, as JSON. */
  publishApi(openapi: string): void {
    if (this.#openapi === openapi) return;
    this.#openapi = openapi;
    this.#send({ type: 'openapi', body: openapi });
  }

  /** Lets the engine take no more requests itself; it answers those that it has. */
  stopListening(): void {
    const { listener, ...plan } = this.#plan;
    if (!listener) return;
    this.#plan = plan;
    this.#sendPlan();
  }

  submit(item: WireItem): void {
    if (this.process.isReady) this.#outbox.add(item);
    else this.#held.set(item.id, item);
  }

  cancel(id: RequestNumber): void {
    if (this.#held.delete(id)) return;
    if (this.#cancelled.push(id) > 1) return;
    setImmediate(() => {
      // The cancelled request may still be in the outbox; the engine must get it before the cancel.
      this.#outbox.flush();
      this.#send({ type: 'cancel', body: this.#cancelled.splice(0) });
    });
  }

  /** Tells the engine how many parts of a result the flow has taken. */
  taken(id: RequestNumber, parts: number): void {
    if (this.#taken.set(id, parts).size > 1) return;
    setImmediate(() => {
      this.#send({ type: 'taken', body: [...this.#taken] });
      this.#taken.clear();
    });
  }

  actOnStage(stage: number, action: StageAction): void {
    this.#outbox.flush();
    this.#order({ type: 'act', body: { stage, action } });
  }

  /** Asks for the last input of a stage; `onRecalled` gets the answer. */
  recall(stage: number): void {
    this.#outbox.flush();
    this.#send({ type: 'recall', body: { stage } });
  }

  /** Asks the engine for a check with this number. Returns false if no engine is ready. */
  check(check: number, deadline: Deadline): boolean {
    if (!this.process.isReady) return false;
    this.#send({ type: 'check', body: { check, deadline } });
    return true;
  }

  /** Ends the engine and its workers by the deadline. */
  async close(deadline: Deadline): Promise<void> {
    await this.process.close(deadline);
    this.slots.close();
    this.#closeAnswers();
  }

  /** Each engine has its own file for its workers: those of an earlier one may write to theirs until they have ended. */
  #lane(): ParentSlots | null {
    this.#closeAnswers();
    this.#answers = newSlotFile();
    const lane = this.slots.lane({ other: this.#answers });
    if (!lane) this.#closeAnswers();
    return lane;
  }

  #closeAnswers(): void {
    this.#answers?.close();
    this.#answers = null;
  }

  #send(frame: Frame): void {
    if (!this.process.isReady) return;
    count(this.frames.sent, frame);
    this.process.send(frame);
  }

  #sendPlan(): void {
    this.#order({ type: 'plan', body: this.#events.complete(this.#plan) });
  }

  #order(frame: Extract<Frame, { type: 'plan' | 'act' }>): void {
    if (this.process.isReady) this.#orders += 1;
    this.#send(frame);
  }

  #ready(): void {
    if (this.#openapi !== null) this.#send({ type: 'openapi', body: this.#openapi });
    this.#sendPlan();
    for (const item of this.#held.values()) this.#outbox.add(item);
    this.#held.clear();
    const { pid, restarts } = this.process;
    const again = restarts > 0 ? `, restart ${restarts}` : '';
    this.#events.onLog({ level: 'info', message: `engine ready, pid ${pid}${again}`, fields: { pid, restarts } });
  }

  #died({ message: cause }: Error, phase: 'starting' | 'serving'): void {
    this.#deaths = { ...this.#deaths, [phase]: this.#deaths[phase] + 1 };
    const what = phase === 'serving' ? 'engine died' : 'engine did not start';
    this.#events.onLog({ level: 'error', message: `${what}: ${cause}`, fields: { cause } });
  }

  #receive(frame: Frame): void {
    if (frame.type === 'outcomes') this.#events.onOutcomes(frame.items);
    else if (frame.type === 'parts') this.#events.onParts(frame.items);
    else if (frame.type === 'taps') this.#events.onTaps(frame.items);
    else if (frame.type === 'recalled') this.#events.onRecalled(frame.items);
    else if (frame.type === 'status') this.#events.onStatus(frame.body, frame.body.orders === this.#orders);
    else if (frame.type === 'checked') this.#events.onChecked(frame.body.check, frame.body.stages);
    else if (frame.type === 'described') this.#events.onDescribed(frame.body);
    else if (frame.type === 'log') this.#events.onLog(frame.body);
  }
}

function launchSpec({ launcher, allowedCpus }: EngineBoot, cpus: readonly number[] | null): ChildSpec {
  return {
    command: [process.execPath, `--max-semi-space-size=${YOUNG_MB}`, ENGINE_ENTRY],
    entry: ENGINE_ENTRY,
    cpus: launcher.taskset ? (cpus ?? allowedCpus) : null,
    // The kernel must not kill the engine with its parent: the exiting engine ends its workers and their children.
    launcher: { ...launcher, setpriv: false },
    env: inheritedEnvironment(),
  };
}

/** Returns null where there is no shared memory. The engine says so. */
function newSlotFile(): SlotFile | null {
  try {
    return openSlotFile().file;
  } catch {
    return null;
  }
}

function count(counts: FrameCounts, frame: Frame): void {
  const { frames = 0, items = 0 } = counts[frame.type] ?? {};
  counts[frame.type] = { frames: frames + 1, items: items + ('items' in frame ? frame.items.length : 0) };
}

/**
 * The engine: holds the stages and routes of the plan, and sends items along the routes. Composition root of the engine
 * process; knows nothing of Node-RED. The engine answers through callbacks, so tests can host it in their own process.
 */
import type { EnginePlan, StageDefinition } from '../../config/stage-definition.ts';
import { type Clock, type Deadline, systemClock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type {
  CheckResult,
  EngineStatus,
  LogRecord,
  ModeletDescription,
  RequestNumber,
  StageAction,
} from '../../core/model.ts';
import { isVersionAction } from '../../core/versions.ts';
import { residentBytes } from '../../observe/meters/usage.ts';
import { byteLengthOf } from '../../wire/codec/chunks.ts';
import { CODEC } from '../../wire/codec/codec.ts';
import type { CheckedStage, DescribedStage } from '../../wire/frames/bodies.ts';
import { failedPayload } from '../../wire/frames/failures.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { bareItem } from '../../wire/frames/items.ts';
import { KeptStates } from './keys/kept-states.ts';
import { Backpressure } from './routes/backpressure.ts';
import { liveRoutes } from './routes/live-routes.ts';
import { Router } from './routes/router.ts';
import type { LiveRoute, Submitter } from './stage/item.ts';
import { Stage } from './stage/stage.ts';
import { answersFull } from './stage/stage-errors.ts';
import type { StageHost } from './stage/stage-host.ts';
import { VersionTable } from './versions/versions.ts';

/** As a submitter, the output is the server. */
export interface EngineOutput extends Submitter {
  /** Sends a copy of a value that passes from one stage to the next. */
  onTap(item: WireItem): void;
  /** Sends a copy of a stage's last input; `ok` is false if the stage has none. */
  onRecalled(input: WireItem): void;
  /** Announces that the status has changed; the engine may call this often. */
  onChange(): void;
  /** Announces that the share of a version has changed. */
  onShares(): void;
  onDescribed(stage: DescribedStage): void;
  onLog(record: LogRecord): void;
  /** Returns the bytes of outcomes that have not left the process. Default: none wait. */
  unsentBytes?(): number;
}

export class Engine {
  readonly #output: EngineOutput;
  readonly #clock: Clock;
  readonly #stageHost: StageHost;
  readonly #stages: Map<number, Stage> = new Map();
  #routes: ReadonlyMap<number, LiveRoute> = new Map();
  /** Routes that a deploy dropped, kept for requests still in transit. */
  #earlier: ReadonlyMap<number, LiveRoute> = new Map();
  /** Routes of earlier plans that still have items on them. */
  readonly #ending: Set<LiveRoute> = new Set();
  /** Stages that a deploy dropped but that still serve the requests on ending routes. */
  readonly #leaving: Set<Stage> = new Set();
  /** Dropped stages that no request can reach, until their workers have ended. */
  readonly #closing: Set<Stage> = new Set();
  readonly #versions: VersionTable;
  readonly #router: Router;

  /**
   * @param maxPayloadBytes largest payload of a stage
   * @param maxQueueBytes most bytes of payloads
   * @param statesFolder keeps the states of keys from a stop to the next start; blank: none
   */
  constructor(
    createPool: StageHost['createPool'],
    output: EngineOutput,
    clock: Clock = systemClock,
    maxPayloadBytes: number = Number.POSITIVE_INFINITY,
    maxQueueBytes: number = Number.POSITIVE_INFINITY,
    statesFolder = '',
  ) {
    this.#output = output;
    this.#clock = clock;
    this.#versions = new VersionTable({ onLog: output.onLog, onShares: output.onShares });
    this.#router = new Router({
      ...{ clock, maxPayloadBytes, maxQueueBytes },
      onChange: () => output.onChange(),
      unsentBytes: () => output.unsentBytes?.() ?? 0,
      onRoom: () => this.#pumpAll(),
      onTap: (tap) => output.onTap(tap),
      onLeft: (route) => {
        const hasEnded = route !== null && this.#ending.delete(route);
        if (hasEnded || this.#leaving.size > 0) this.#releaseLeaving();
      },
    });
    this.#stageHost = {
      ...{ clock, createPool, router: this.#router },
      kept: statesFolder === '' ? null : new KeptStates(statesFolder, output.onLog),
      onRoom: () => this.#pumpAll(),
      onChange: () => output.onChange(),
      onDescribed: (stage, description) => output.onDescribed({ stage, description }),
      onLog: (record) => output.onLog(record),
    };
  }

  /** Replaces the plan. Stages in both plans keep their queue, and their workers if the revision is the same. */
  apply(plan: EnginePlan): void {
    const planned = new Set(plan.stages.map((stage) => stage.ref));
    this.#stageHost.kept?.clean(plan.stages);
    for (const definition of plan.stages) this.#place(definition);
    this.#versions.apply(plan.stages, this.#stages);
    this.#router.versions = this.#versions.isEmpty ? null : this.#versions;
    for (const [ref, stage] of this.#stages) {
      if (planned.has(ref)) continue;
      this.#stages.delete(ref);
      this.#leaving.add(stage);
    }
    for (const routes of [this.#routes, this.#earlier]) {
      for (const route of routes.values()) if (route.open > 0) this.#ending.add(route);
    }
    this.#routes = liveRoutes(plan.routes, this.#stages);
    this.#earlier = liveRoutes(plan.earlier ?? [], this.#stages);
    this.#router.backpressure = new Backpressure(plan);
    this.#releaseLeaving();
    this.#router.grown(this.#stages);
    // The new plan may release items that the old one held back.
    this.#pumpAll();
    this.#output.onChange();
  }

  submit(items: readonly WireItem[], submitter: Submitter = this.#output): void {
    for (const wire of items) {
      const route = this.#routes.get(wire.routeRef) ?? this.#earlier.get(wire.routeRef);
      if (!route) {
        refuse(
          wire,
          submitter,
          new ModeletError('shutting_down', 'the pipeline was changed before the request arrived'),
        );
        continue;
      }
      const bytes = byteLengthOf(wire.payload);
      if (wire.patient || this.#router.memory.hasRoomForAnswer(route.leg, bytes))
        this.#router.submit(wire, route, submitter);
      else refuse(wire, submitter, answersFull(route.stages[0]?.name ?? ''));
    }
  }

  /** Forgets requests whose callers no longer wait. */
  cancel(ids: readonly RequestNumber[]): void {
    this.#router.cancel(ids);
  }

  /** Notes how many parts of each result the flow has taken. */
  taken(requests: readonly (readonly [id: RequestNumber, parts: number])[]): void {
    for (const [id, parts] of requests) this.#router.get(id)?.onTaken?.(parts);
  }

  /** Applies an action to a stage's waiting items, to its workers, or to its share as a version. */
  act(ref: number, action: StageAction): void {
    const stage = this.#stages.get(ref);
    if (!stage) return;
    if (isVersionAction(action)) this.#versions.act(stage, action);
    else stage[action]();
    if (action === 'reset') this.#router.resetWaiting(stage);
  }

  /** Sends a copy of the last input of a stage. */
  recall(stage: number): void {
    const input = this.#stages.get(stage)?.lastInput ?? null;
    const payload = input ?? { codec: CODEC.none, bytes: new Uint8Array() };
    this.#output.onRecalled({ ...bareItem(0, payload), stageRef: stage, ok: input !== null });
  }

  /** Runs the examples of all stages on current routes and of their versions, in parallel; settles by the deadline. */
  check(deadline: Deadline): Promise<(CheckResult & Pick<CheckedStage, 'stage' | 'answers'>)[]> {
    const onRoutes = [...this.#routes.values()].flatMap(({ stages }) => stages);
    const versions = onRoutes.flatMap((stage) => this.#versions.of(stage)?.stages ?? []);
    const answering = new Set([...onRoutes, ...versions.flatMap(({ stage, answers }) => (answers ? stage : []))]);
    const refs = new Set([...onRoutes, ...versions.map(({ stage }) => stage)].map(({ ref }) => ref));
    const stages = [...refs].flatMap((ref) => this.#stages.get(ref) ?? []);
    return Promise.all(
      stages.map(async (stage) => {
        const idle = answering.has(stage) ? {} : { answers: false };
        return { stage: stage.ref, ...(await stage.check(deadline)), ...idle };
      }),
    );
  }

  /** Returns what a stage's modelet tells of itself, or null before its first worker is ready. */
  description(stage: number): ModeletDescription | null {
    return this.#stages.get(stage)?.description ?? null;
  }

  status(): EngineStatus {
    const stages = [...this.#stages.values()].map((stage) => {
      const versions = this.#versions.of(stage);
      return { ...stage.status(), ...(versions ? { versions: versions.status() } : {}) };
    });
    const { gathering, memory } = this.#router;
    const { heldBack } = memory;
    return {
      stages,
      ...(gathering.length > 0 ? { gathering } : {}),
      rssBytes: residentBytes(),
      heldBytes: memory.bytes,
      ...(heldBack ? { heldBack } : {}),
    };
  }

  /**
   * Ends all workers by one deadline. The caller must answer the requests that they do not finish by then. Cancels
   * requests for partial results at once.
   */
  async close(deadline: Deadline): Promise<void> {
    this.#router.cancelParts();
    this.#router.cancelCopies();
    const present = [...this.#stages.values()].map(async (stage) => {
      await stage.close(deadline);
      stage.keepStates();
    });
    const dropped = [...this.#leaving, ...this.#closing].map((stage) => stage.close(deadline));
    await Promise.all([...present, ...dropped]);
  }

  #place(definition: StageDefinition): void {
    const present = this.#stages.get(definition.ref);
    if (present) present.redefine(definition);
    else this.#stages.set(definition.ref, new Stage(definition, this.#stageHost));
  }

  #releaseLeaving(): void {
    for (const stage of this.#leaving) {
      // A version may have requests although it is on no route.
      if (stage.open > 0 || [...this.#ending].some((route) => route.stages.includes(stage))) continue;
      this.#leaving.delete(stage);
      this.#router.cancelCopies(stage);
      this.#closing.add(stage);
      void stage.close(this.#clock.now() + LEAVING_MS).then(() => this.#closing.delete(stage));
    }
  }

  #pumpAll(): void {
    for (const stage of [...this.#stages.values(), ...this.#leaving]) stage.pumpSoon();
  }
}

function refuse(wire: WireItem, submitter: Submitter, error: ModeletError): void {
  submitter.onOutcome({ ...wire, ok: false, payload: failedPayload(error, null) });
}

/** Time limit for closing a dropped stage: its workers only have to run their teardown. */
const LEAVING_MS = 5000;

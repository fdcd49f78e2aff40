/** Keeps the engine's reports about itself and its stages, over all engines of a runtime. Knows nothing of requests. */
import type { ListenerState } from '../../core/endpoints.ts';
import {
  type EngineStatus,
  type ListenerStatus,
  type ModeletDescription,
  STATUS_INTERVAL_MS,
  type StageLoad,
} from '../../core/model.ts';
import { addReadings, type ClientReadings, type FailureCount, type RequestReading } from '../../core/readings.ts';
import { addFailures } from '../../observe/meters/failed-requests.ts';
import { DurationMeter } from '../../observe/meters/request-meters.ts';
import { StageReadings } from '../../observe/meters/stage-meter.ts';
import type { DescribedStage } from '../../wire/frames/bodies.ts';

const NOTHING_TOLD: EngineStatus = { stages: [], rssBytes: 0 };
const NO_DURATIONS = new DurationMeter();
const NO_REQUESTS: RequestReading = {
  counts: {},
  late: 0,
  durations: NO_DURATIONS.read(),
  results: NO_DURATIONS.readResults(),
};
const OPENING: ListenerState = { tag: 'opening' };

export class EngineReports {
  /** Totals over all engines. */
  readonly totals: StageReadings = new StageReadings();
  #status: EngineStatus = NOTHING_TOLD;
  #at: number = Number.NEGATIVE_INFINITY;
  /** Requests at the listeners of dead engines. */
  #pastRequests: RequestReading = NO_REQUESTS;
  #pastClients: ClientReadings = {};
  #pastFailures: readonly FailureCount[] = [];
  /**
   * Descriptions by stage number. They outlive an engine, because its death does not change the code; the next engine's
   * report replaces them.
   */
  readonly #descriptions: Map<number, ModeletDescription> = new Map();

  /** Last status of the running engine; empty if it has not sent one yet. */
  get status(): EngineStatus {
    return this.#status;
  }

  /** State of the engine's listener; `opening` until the engine has told it. */
  get listener(): ListenerState {
    const { state } = this.#status.listener ?? {};
    return state && state.tag !== 'off' ? state : OPENING;
  }

  /** Open requests at the listener. */
  get backlog(): number {
    return this.#status.listener?.backlog ?? 0;
  }

  /** The slowest requests at the listener of the running engine. */
  get slowest(): ListenerStatus['slowest'] {
    return this.#status.listener?.slowest ?? [];
  }

  /** Failed requests at the listeners of all engines. */
  get failures(): readonly FailureCount[] {
    return addFailures(this.#pastFailures, this.#status.listener?.failures ?? []);
  }

  /** Requests at the listeners of all engines. */
  get requests(): RequestReading {
    const present = this.#status.listener?.reading;
    return present ? addReadings(this.#pastRequests, present) : this.#pastRequests;
  }

  /** Requests of clients with keys at the listeners of all engines. */
  get clients(): ClientReadings {
    return addReadings(this.#pastClients, this.#status.listener?.clients ?? {});
  }

  /**
   * Stores a status and adds it to the totals.
   * @param at when the status arrived, on the monotonic clock.
   */
  update(status: EngineStatus, at: number): void {
    this.#status = status;
    this.#at = at;
    this.totals.update(status.stages);
  }

  describe({ stage, description }: DescribedStage): void {
    this.#descriptions.set(stage, description);
  }

  /** Returns the description that a stage's modelet gives of itself, or null before its first worker is ready. */
  description(stage: number): ModeletDescription | null {
    return this.#descriptions.get(stage) ?? null;
  }

  engineLost(): void {
    this.#pastRequests = this.requests;
    this.#pastClients = this.clients;
    this.#pastFailures = this.failures.map((failure) => ({ ...failure, isLast: false }));
    this.#status = NOTHING_TOLD;
    this.totals.engineLost();
  }

  /** Forgets all stages and clients except the ones with these numbers and names. */
  keep(stages: ReadonlySet<number>, clients: readonly string[]): void {
    this.totals.keep(stages);
    const present = Object.entries(this.#pastClients).filter(([name]) => clients.includes(name));
    this.#pastClients = Object.fromEntries(present);
    for (const stage of this.#descriptions.keys()) if (!stages.has(stage)) this.#descriptions.delete(stage);
  }

  /** Returns the load of a stage, or null while the engine reports nothing about the stage. */
  load(stage: number, now: number): StageLoad | null {
    return loadOf(this.#status, stage, this.#at, now);
  }
}

/**
 * Returns the load of a stage according to `status`, or null if `status` does not list the stage.
 * @param stage the stage's number
 * @param toldAt when the status arrived
 */
export function loadOf(status: EngineStatus, stage: number, toldAt: number, now: number): StageLoad | null {
  const found = status.stages.find(({ ref }) => ref === stage);
  if (!found) return null;
  const { queue, busy, meanBatchSize, scaling } = found;
  // The first request wakes a stage that sleeps: a gate must let it pass.
  const ready = scaling?.asleep ? 1 : found.ready;
  return {
    queue,
    busy: Math.round(busy * Math.max(1, meanBatchSize)),
    ready,
    at: Math.max(toldAt, now - STATUS_INTERVAL_MS),
  };
}

/** Keeps what the engine reports about itself and its stages, over all engines of a runtime. Knows nothing of requests. */
import type { EngineStatus, ModeletDescription } from '../core/model.ts';
import { STATUS_INTERVAL_MS } from '../core/status-interval.ts';
import type { StageLoad } from '../gate/sources/saturation.ts';
import { StageTotals } from '../observe/meters/totals.ts';
import type { DescribedStage } from '../wire/frames/bodies.ts';

const NOTHING_TOLD: EngineStatus = { stages: [], rssBytes: 0 };

export class EngineReports {
  /** Over all engines. */
  readonly totals: StageTotals = new StageTotals();
  #status: EngineStatus = NOTHING_TOLD;
  #at: number = Number.NEGATIVE_INFINITY;
  /** By stage. An engine's death changes no code: a description holds until the next engine reports another. */
  readonly #descriptions: Map<number, ModeletDescription> = new Map();

  /** The last status of the engine that lives. */
  get status(): EngineStatus {
    return this.#status;
  }

  /** `at`: when the status came, on the monotonic clock. */
  update(status: EngineStatus, at: number): void {
    this.#status = status;
    this.#at = at;
    this.totals.update(status.stages);
  }

  describe({ stage, description }: DescribedStage): void {
    this.#descriptions.set(stage, description);
  }

  /** How the modelet of a stage, by its number, describes itself; null before its first worker is ready. */
  description(stage: number): ModeletDescription | null {
    return this.#descriptions.get(stage) ?? null;
  }

  engineLost(): void {
    this.#status = NOTHING_TOLD;
    this.totals.engineLost();
  }

  /** Forgets all stages but these, by their numbers. */
  keep(stages: ReadonlySet<number>): void {
    this.totals.keep(stages);
    for (const stage of this.#descriptions.keys()) if (!stages.has(stage)) this.#descriptions.delete(stage);
  }

  /** The load of a stage, by its number; null while the engine reports nothing about it. */
  load(stage: number, now: number): StageLoad | null {
    return loadOf(this.#status, stage, this.#at, now);
  }
}

/** The load of a stage by the engine's last status. `stage`: its number; `toldAt`: when the status came. */
export function loadOf(status: EngineStatus, stage: number, toldAt: number, now: number): StageLoad | null {
  const found = status.stages.find(({ ref }) => ref === stage);
  if (!found) return null;
  const { queue, busy, ready, meanBatchSize } = found;
  return {
    queue,
    busy: Math.round(busy * Math.max(1, meanBatchSize)),
    ready,
    at: Math.max(toldAt, now - STATUS_INTERVAL_MS),
  };
}

/** What the engine has told of itself and its stages, and what those before it had. Knows nothing of requests. */
import type { EngineStatus, ModeletDescription } from '../core/model.ts';
import type { StageLoad } from '../gate/sources/saturation.ts';
import { StageTotals } from '../observe/meters/totals.ts';
import type { DescribedStage } from '../wire/frames/bodies.ts';
import { loadOf } from './stage-load.ts';

const NOTHING_TOLD: EngineStatus = { stages: [], rssBytes: 0 };

export class EngineReports {
  /** Over all engines. */
  readonly totals: StageTotals = new StageTotals();
  #status: EngineStatus = NOTHING_TOLD;
  #at: number = Number.NEGATIVE_INFINITY;
  /** By stage. An engine's death changes no code: they hold until the next one says otherwise. */
  readonly #descriptions: Map<number, ModeletDescription> = new Map();

  /** Last heard of the engine that lives. */
  get status(): EngineStatus {
    return this.#status;
  }

  /** `at`: when it came, on the monotonic clock. */
  update(status: EngineStatus, at: number): void {
    this.#status = status;
    this.#at = at;
    this.totals.update(status.stages);
  }

  describe({ stage, description }: DescribedStage): void {
    this.#descriptions.set(stage, description);
  }

  /** What a stage's modelet, by the stage's number, says of itself; null before its first worker is ready. */
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

  /** What a stage, by its number, has to do; null while the engine tells nothing of it. */
  load(stage: number, now: number): StageLoad | null {
    return loadOf(this.#status, stage, this.#at, now);
  }
}

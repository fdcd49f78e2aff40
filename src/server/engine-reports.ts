/** What the engine has told of itself and its stages, and what those before it had. Knows nothing of requests. */
import type { EngineStatus } from '../core/model.ts';
import type { StageLoad } from '../gate/sources/saturation.ts';
import { StageTotals } from '../observe/totals.ts';
import { loadOf } from './stage-load.ts';

const NOTHING_TOLD: EngineStatus = { stages: [], rssBytes: 0 };

export class EngineReports {
  /** Over all engines. */
  readonly totals: StageTotals = new StageTotals();
  #status: EngineStatus = NOTHING_TOLD;
  #at: number = Number.NEGATIVE_INFINITY;

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

  engineLost(): void {
    this.#status = NOTHING_TOLD;
    this.totals.engineLost();
  }

  /** Forgets all stages but these, by their numbers. */
  keep(stages: ReadonlySet<number>): void {
    this.totals.keep(stages);
  }

  /** What a stage, by its number, has to do; null while the engine tells nothing of it. */
  load(stage: number, now: number): StageLoad | null {
    return loadOf(this.#status, stage, this.#at, now);
  }
}

/**
 * The versions of one stage, its base: decides which stage gets a request, takes the share from a version whose requests
 * fail, and changes shares when somebody asks for it.
 */
import type { LogRecord } from '../../core/model.ts';
import {
  asDrawn,
  type PresentShare,
  type StageVersions,
  shareAfter,
  type VersionAction,
  type VersionShare,
  type VersionStatus,
} from '../../core/versions.ts';
import type { RouteStage } from '../stage/item.ts';
import { Divider } from './divider.ts';

/** Outcomes that a version is judged by: enough for shares of one percent, and few enough to notice a change soon. */
const JUDGED_BY = 100;
/** No version is judged by fewer outcomes: one failure must not look like a rate of failures. */
const LEAST = 20;

interface Version {
  readonly stage: RouteStage;
  readonly drawn: VersionShare;
  present: PresentShare;
  /** Whether each of the last requests failed, the oldest first. */
  failures: boolean[];
  /** Chooses the requests that a shadow gets copies of. */
  copies: Divider;
}

export interface VersionsHost {
  onLog(record: LogRecord): void;
  /** A share has changed. */
  onShares(): void;
}

export class Versions {
  readonly #base: RouteStage;
  readonly #versions: readonly Version[];
  readonly #rollbackAbove: number | null;
  readonly #host: VersionsHost;
  #divider: Divider = new Divider([]);

  /** @param stageOf returns a stage of the present plan by the id of its node */
  constructor(
    base: RouteStage,
    { list, rollbackAbove, present = [] }: StageVersions,
    stageOf: (id: string) => RouteStage | undefined,
    host: VersionsHost,
  ) {
    this.#base = base;
    this.#rollbackAbove = rollbackAbove;
    this.#host = host;
    this.#versions = list.flatMap(({ stage: id, ...drawn }) => {
      const stage = stageOf(id);
      if (!stage) return [];
      const { mode, share, cause }: PresentShare = present.find((one) => one.stage === id) ?? asDrawn(drawn);
      return [{ stage, drawn, present: { mode, share, cause }, failures: [], copies: new Divider([]) }];
    });
    this.#divide();
  }

  /** Returns the stage that answers a request. @param key see `Divider.next` */
  choose(key: number): RouteStage {
    const chosen = this.#versions[this.#divider.next(key) - 1];
    if (!chosen) return this.#base;
    if (chosen.stage.isAvailable) return chosen.stage;
    chosen.stage.meter.redirected();
    return this.#base;
  }

  /** Whether a stage that was chosen earlier may still get the request. */
  mayGet(stage: RouteStage): boolean {
    if (stage === this.#base) return true;
    const version = this.#find(stage);
    return version !== undefined && stage.isAvailable && answers(version) > 0;
  }

  /** Returns the stages that get a copy of a request. */
  shadows(key: number): RouteStage[] {
    return this.#versions.flatMap(({ stage, present, copies }) =>
      present.mode === 'shadow' && copies.next(key) === 1 ? [stage] : [],
    );
  }

  /** The versions, and whether each answers requests at present. */
  get stages(): { readonly stage: RouteStage; readonly answers: boolean }[] {
    return this.#versions.map((version) => ({
      stage: version.stage,
      answers: version.stage.isAvailable && answers(version) > 0,
    }));
  }

  /** Notes the outcome of a request at a stage. @param failed whether the modelet failed */
  ended(stage: RouteStage, failed: boolean): void {
    const version = this.#find(stage);
    if (!version) return;
    version.failures.push(failed);
    if (version.failures.length > JUDGED_BY) version.failures.shift();
    const percent = failedPercent(version);
    if (this.#rollbackAbove === null || percent === null || percent <= this.#rollbackAbove) return;
    if (answers(version) > 0) this.#rollBack(version, this.#rollbackAbove);
  }

  /** No effect if the stage is no version of this base. */
  act(stage: RouteStage, action: VersionAction): void {
    const version = this.#find(stage);
    if (!version) return;
    for (const one of this.#versions) one.present = shareAfter(action, one.present, one.drawn, one === version);
    // Failures from before must not undo what somebody has asked for.
    for (const one of this.#versions) one.failures = [];
    this.#divide();
    this.#host.onShares();
  }

  status(): VersionStatus[] {
    return this.#versions.map((version) => {
      const { stage, drawn, present } = version;
      return { stage: stage.id, ...present, drawn, available: stage.isAvailable, failed: failedPercent(version) };
    });
  }

  #find(stage: RouteStage): Version | undefined {
    return this.#versions.find((version) => version.stage === stage);
  }

  #divide(): void {
    const taken = this.#versions.reduce((sum, version) => sum + answers(version), 0);
    this.#divider = new Divider([
      { name: 'base', share: Math.max(0, 100 - taken) },
      ...this.#versions.map((version) => ({ name: version.stage.id, share: answers(version) })),
    ]);
    for (const version of this.#versions) {
      const share = version.present.mode === 'shadow' ? version.present.share : 0;
      version.copies = new Divider([
        { name: 'none', share: 100 - share },
        { name: version.stage.id, share },
      ]);
    }
  }

  #rollBack(version: Version, limit: number): void {
    const { stage, present, failures } = version;
    const failed = failures.filter(Boolean).length;
    version.present = { ...present, share: 0, cause: 'failures' };
    version.failures = [];
    stage.meter.rolledBack();
    this.#divide();
    const message = `rolled back version ${stage.name}: ${failed} of its last ${failures.length} requests failed, more than ${limit} %`;
    const fields = { version: stage.name, failed, requests: failures.length, share: present.share };
    this.#host.onLog({ level: 'warn', message, stage: this.#base.name, fields });
    this.#host.onShares();
  }
}

/** Percent of the requests that a version answers. */
function answers({ present }: Version): number {
  return present.mode === 'answer' ? present.share : 0;
}

function failedPercent({ failures }: Version): number | null {
  return failures.length < LEAST ? null : (100 * failures.filter(Boolean).length) / failures.length;
}

/**
 * The versions of stages: decides which stage gets a request, takes the share from a version whose requests fail, and
 * changes shares when a user asks for it.
 */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { LogRecord } from '../../../core/model.ts';
import {
  asDrawn,
  type PresentShare,
  type StageVersions,
  shareAfter,
  type VersionAction,
  type VersionShare,
  type VersionStatus,
  versionsKey,
} from '../../../core/versions.ts';
import type { RouteStage } from '../stage/item.ts';
import { Divider } from './divider.ts';

/** Outcomes that a version is judged by: enough for shares of one percent, and few enough to notice a change soon. */
const JUDGED_BY = 100;
/** No version is judged by fewer outcomes: one failure must not look like a rate of failures. */
const LEAST = 20;

/** How many requests have ended, and how many of them failed. */
interface Count {
  readonly requests: number;
  readonly failed: number;
}

/** An outcome at a version. `base`: what had ended at the base before it. */
interface VersionOutcome {
  readonly failed: boolean;
  readonly base: Count;
}

interface Version {
  readonly stage: RouteStage;
  readonly drawn: VersionShare;
  present: PresentShare;
  /** The last outcomes, the oldest first. */
  outcomes: VersionOutcome[];
  /** How many requests must have ended at the base before the version is rolled back; null: it fails no more than that. */
  suspectedUntil: number | null;
  /** Chooses the requests that a shadow gets copies of. */
  copies: Divider;
}

export interface VersionsHost {
  onLog(record: LogRecord): void;
  onShares(): void;
}

export class Versions {
  readonly #base: RouteStage;
  readonly #versions: readonly Version[];
  readonly #rollbackAbove: number | null;
  readonly #host: VersionsHost;
  #divider: Divider = new Divider([]);
  #atBase: Count = { requests: 0, failed: 0 };
  /** Whether each of the last requests of the base failed. */
  #lastAtBase: boolean[] = [];

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
      return [
        { stage, drawn, present: { mode, share, cause }, outcomes: [], suspectedUntil: null, copies: new Divider([]) },
      ];
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
    if (stage === this.#base) {
      const { requests, failed: before } = this.#atBase;
      this.#atBase = { requests: requests + 1, failed: before + (failed ? 1 : 0) };
      this.#lastAtBase = [...this.#lastAtBase, failed].slice(-LEAST);
      for (const version of this.#versions) this.#judge(version);
      return;
    }
    const version = this.#find(stage);
    if (!version) return;
    version.outcomes.push({ failed, base: this.#atBase });
    if (version.outcomes.length > JUDGED_BY) version.outcomes.shift();
    this.#judge(version);
  }

  /** No effect if the stage is no version of this base. */
  act(stage: RouteStage, action: VersionAction): void {
    const version = this.#find(stage);
    if (!version) return;
    for (const one of this.#versions) one.present = shareAfter(action, one.present, one.drawn, one === version);
    // Failures from before must not undo what a user has asked for.
    for (const one of this.#versions) {
      one.outcomes = [];
      one.suspectedUntil = null;
    }
    this.#divide();
    this.#host.onShares();
  }

  status(): VersionStatus[] {
    return this.#versions.map((version) => {
      const { stage, drawn, present } = version;
      return { stage: stage.id, ...present, drawn, available: stage.isAvailable, failed: failedPercent(version) };
    });
  }

  /**
   * Rolls a version back that fails more often than its base, by more than the limit. A base that fails alike shows that
   * the requests are bad, and not the version. Requests come in bursts and end in batches, so the version is judged only
   * when what the base had at that time has ended, too.
   */
  #judge(version: Version): void {
    const percent = failedPercent(version);
    const limit = this.#rollbackAbove;
    if (limit === null || percent === null || answers(version) === 0) return;
    if (percent - percentOf(this.#baseBeside(version)) <= limit) {
      version.suspectedUntil = null;
      return;
    }
    version.suspectedUntil ??= this.#atBase.requests + this.#base.open;
    if (this.#base.open === 0 || this.#atBase.requests >= version.suspectedUntil) this.#rollBack(version, limit);
  }

  /** Returns what ended at the base in the time of the version's last outcomes: at least its last ones, if that is few. */
  #baseBeside({ outcomes: [oldest] }: Version): Count {
    const before = oldest?.base ?? this.#atBase;
    const requests = this.#atBase.requests - before.requests;
    if (requests >= LEAST) return { requests, failed: this.#atBase.failed - before.failed };
    return { requests: this.#lastAtBase.length, failed: this.#lastAtBase.filter(Boolean).length };
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
    const { stage, present, outcomes } = version;
    const failed = failuresOf(version);
    const base = this.#baseBeside(version);
    version.present = { ...present, share: 0, cause: 'failures' };
    version.outcomes = [];
    version.suspectedUntil = null;
    stage.meter.rolledBack();
    this.#divide();
    const atBase = `${base.failed} of ${base.requests} of its base in the same time`;
    const message = `rolled back version ${stage.name}: ${failed} of its last ${outcomes.length} requests failed, and ${atBase}; the limit is ${limit} % more`;
    const fields = { version: stage.name, failed, requests: outcomes.length, share: present.share };
    this.#host.onLog({ level: 'warn', message, stage: this.#base.name, fields });
    this.#host.onShares();
  }
}

function percentOf({ requests, failed }: Count): number {
  return requests === 0 ? 0 : (100 * failed) / requests;
}

/** Percent of the requests that a version answers. */
function answers({ present }: Version): number {
  return present.mode === 'answer' ? present.share : 0;
}

function failuresOf({ outcomes }: Version): number {
  return outcomes.filter(({ failed }) => failed).length;
}

function failedPercent(version: Version): number | null {
  const requests = version.outcomes.length;
  return requests < LEAST ? null : percentOf({ requests, failed: failuresOf(version) });
}

interface KnownVersions {
  readonly base: RouteStage;
  /** See `versionsKey`. */
  readonly key: string;
  readonly versions: Versions;
}

/** The versions of all stages. Keeps the present shares of versions over deploys that do not change these stages. */
export class VersionTable {
  readonly #host: VersionsHost;
  /** By the number of the base. */
  #known: ReadonlyMap<number, KnownVersions> = new Map();

  constructor(host: VersionsHost) {
    this.#host = host;
  }

  get isEmpty(): boolean {
    return this.#known.size === 0;
  }

  /** Takes over the plan's versions. @param stages all stages of the plan, by number */
  apply(definitions: readonly StageDefinition[], stages: ReadonlyMap<number, RouteStage>): void {
    const planned = new Map(definitions.map((definition) => [definition.id, definition]));
    const stageOf = (id: string): RouteStage | undefined => stages.get(planned.get(id)?.ref ?? 0);
    const all = new Map<number, KnownVersions>();
    for (const { ref, id, versions } of definitions) {
      const base = stages.get(ref);
      if (!base || !versions) continue;
      const key = versionsKey(id, versions, (one) => planned.get(one)?.revision);
      const known = this.#known.get(ref);
      const isSame = known?.key === key && known.base === base;
      all.set(ref, isSame ? known : { base, key, versions: new Versions(base, versions, stageOf, this.#host) });
    }
    this.#known = all;
  }

  /** Returns the versions of a stage; undefined if it has none, or a deploy has removed it. */
  of(base: RouteStage): Versions | undefined {
    const known = this.#known.get(base.ref);
    return known?.base === base ? known.versions : undefined;
  }

  /** Changes the share of a stage as a version. Does nothing unless it is a version. */
  act(stage: RouteStage, action: VersionAction): void {
    for (const { versions } of this.#known.values()) versions.act(stage, action);
  }
}

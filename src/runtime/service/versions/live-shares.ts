/**
 * The live shares of versions: those that differ from what the flow gives, because a user asked for it or too many
 * requests failed. They outlive engines, runtimes and deploys, and with a store this process, until a user restores
 * them, or a deploy changes the list of versions or their code. All runtimes of a process share one of these.
 */
import type { EnginePlan, StageDefinition } from '../../../config/stage-definition.ts';
import type { EngineStatus, LogRecord } from '../../../core/model.ts';
import { asDrawn, type LiveShare, shareAfter, type VersionAction, versionsKey } from '../../../core/versions.ts';

/** The live shares of the versions of one stage, its base. */
export interface SavedShares {
  /** Id of the base's node. */
  readonly base: string;
  /** See `versionsKey`. */
  readonly key: string;
  readonly shares: readonly LiveShare[];
}

export interface SharesStore {
  load(): readonly SavedShares[];
  save(all: readonly SavedShares[]): void;
}

/** Most stages with live shares. Some may be of flows that no longer exist, or that only another project has. */
const MOST = 1000;
const NO_STORE: SharesStore = { load: () => [], save: () => {} };

export class LiveShares {
  readonly #store: SharesStore;
  /** By id of the base, the last changed at the end; null: not loaded yet. */
  #all: Map<string, SavedShares> | null = null;
  /** Bases whose shares an earlier process saved, and that no log line of this process names. */
  readonly #unannounced: Set<string> = new Set();

  constructor(store: SharesStore = NO_STORE) {
    this.#store = store;
  }

  /** Forgets the shares that a deploy has made invalid. Returns log records that say so, and which shares go on. */
  deployed(plan: EnginePlan): LogRecord[] {
    const records: LogRecord[] = [];
    for (const stage of plan.stages) {
      const saved = this.#present.get(stage.id);
      if (!saved) continue;
      if (saved.key !== keyOf(stage, plan)) {
        this.#forget(stage.id);
        const message = 'its versions have the shares of the flow: a deploy has changed them, or their code';
        records.push({ level: 'info', stage: stage.name, message });
      } else if (this.#unannounced.delete(stage.id)) {
        records.push({ level: 'warn', stage: stage.name, message: describe(saved, stage, plan) });
      }
    }
    return records;
  }

  /** Adds the live shares to a plan. An engine that knows the versions already keeps its own. */
  fill(plan: EnginePlan): EnginePlan {
    if (this.#present.size === 0) return plan;
    const stages = plan.stages.map((stage) => {
      const saved = this.#present.get(stage.id);
      return stage.versions && saved ? { ...stage, versions: { ...stage.versions, present: saved.shares } } : stage;
    });
    return { ...plan, stages };
  }

  /** Takes over the shares that an engine reports. @param plan the plan that the engine has */
  note(plan: EnginePlan, { stages }: Pick<EngineStatus, 'stages'>): void {
    const told = new Map(stages.map(({ ref, versions }) => [ref, versions]));
    for (const stage of plan.stages) {
      const versions = stage.versions && told.get(stage.ref);
      if (versions) this.#set(stage, plan, versions);
    }
  }

  /** Changes the share of a version, so that no death of an engine can undo it. Does nothing unless the stage is a version. */
  act(plan: EnginePlan, version: number, action: VersionAction): void {
    const id = plan.stages.find(({ ref }) => ref === version)?.id;
    const base = plan.stages.find(({ versions }) => versions?.list.some(({ stage }) => stage === id));
    if (!base?.versions) return;
    const saved = this.#present.get(base.id)?.shares;
    const shares = base.versions.list.map(({ stage, ...drawn }) => {
      const present = saved?.find((one) => one.stage === stage) ?? asDrawn(drawn);
      return { stage, ...shareAfter(action, present, drawn, stage === id) };
    });
    this.#set(base, plan, shares);
  }

  get #present(): Map<string, SavedShares> {
    if (!this.#all) {
      const loaded = this.#store.load();
      this.#all = new Map(loaded.map((one) => [one.base, one]));
      for (const { base } of loaded) this.#unannounced.add(base);
    }
    return this.#all;
  }

  #set(base: StageDefinition, plan: EnginePlan, shares: readonly LiveShare[]): void {
    const present = this.#present;
    if (shares.every(({ cause }) => cause === 'drawn')) {
      if (present.has(base.id)) this.#forget(base.id);
      return;
    }
    const plain = shares.map(({ stage, mode, share, cause }) => ({ stage, mode, share, cause }));
    const saved = { base: base.id, key: keyOf(base, plan), shares: plain };
    if (JSON.stringify(saved) === JSON.stringify(present.get(base.id))) return;
    present.delete(base.id);
    present.set(base.id, saved);
    const [oldest] = present.keys();
    if (present.size > MOST && oldest !== undefined) present.delete(oldest);
    this.#unannounced.delete(base.id);
    this.#save();
  }

  #forget(base: string): void {
    this.#present.delete(base);
    this.#unannounced.delete(base);
    this.#save();
  }

  #save(): void {
    this.#store.save([...this.#present.values()]);
  }
}

function keyOf({ id, versions }: StageDefinition, { stages }: EnginePlan): string {
  const revisionOf = (one: string): string | undefined => stages.find((stage) => stage.id === one)?.revision;
  return versions ? versionsKey(id, versions, revisionOf) : '';
}

function describe({ shares }: SavedShares, { versions }: StageDefinition, { stages }: EnginePlan): string {
  const parts = shares.flatMap(({ stage: id, mode, share, cause }) => {
    if (cause === 'drawn') return [];
    const name = stages.find((stage) => stage.id === id)?.name ?? id;
    const drawn = versions?.list.find(({ stage }) => stage === id);
    const why = cause === 'failures' ? 'too many requests failed' : 'on request';
    return [`${name} ${mode} ${share} % instead of ${drawn?.mode} ${drawn?.share} % (${why})`];
  });
  return `its versions keep the shares that they had before the restart: ${parts.join(', ')}`;
}

/** The versions of all stages. Keeps the present shares of versions over deploys that do not change these stages. */
import type { StageDefinition } from '../../config/stage-definition.ts';
import { type VersionAction, versionsKey } from '../../core/versions.ts';
import type { RouteStage } from '../stage/item.ts';
import { Versions, type VersionsHost } from './versions.ts';

interface Entry {
  readonly base: RouteStage;
  /** See `versionsKey`. */
  readonly key: string;
  readonly versions: Versions;
}

export class VersionTable {
  readonly #host: VersionsHost;
  /** By the number of the base. */
  #entries: ReadonlyMap<number, Entry> = new Map();

  constructor(host: VersionsHost) {
    this.#host = host;
  }

  /** Takes over the plan's versions. @param stages all stages of the plan, by number */
  apply(definitions: readonly StageDefinition[], stages: ReadonlyMap<number, RouteStage>): void {
    const planned = new Map(definitions.map((definition) => [definition.id, definition]));
    const stageOf = (id: string): RouteStage | undefined => stages.get(planned.get(id)?.ref ?? 0);
    const entries = new Map<number, Entry>();
    for (const { ref, id, versions } of definitions) {
      const base = stages.get(ref);
      if (!base || !versions) continue;
      const key = versionsKey(id, versions, (one) => planned.get(one)?.revision);
      const known = this.#entries.get(ref);
      const isSame = known?.key === key && known.base === base;
      entries.set(ref, isSame ? known : { base, key, versions: new Versions(base, versions, stageOf, this.#host) });
    }
    this.#entries = entries;
  }

  /** Returns the versions of a stage; undefined if it has none, or a deploy has removed it. */
  of(base: RouteStage): Versions | undefined {
    const entry = this.#entries.get(base.ref);
    return entry?.base === base ? entry.versions : undefined;
  }

  /** Changes the share of a stage as a version. Does nothing unless it is a version. */
  act(stage: RouteStage, action: VersionAction): void {
    for (const { versions } of this.#entries.values()) versions.act(stage, action);
  }
}

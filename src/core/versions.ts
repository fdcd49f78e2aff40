/**
 * Versions of a stage as plain data. A version is a stage itself. It answers a share of the requests of another stage,
 * its base, or gets copies of them.
 */
import { hashOf } from './text.ts';

/** `answer`: its results are those of the base. `shadow`: it gets copies of requests, and its results are dropped. */
export type VersionMode = 'answer' | 'shadow';

/** The share of the requests of its base that a version gets. */
export interface VersionShare {
  readonly mode: VersionMode;
  /** Percent of the requests, 0 to 100. */
  readonly share: number;
}

/** Why a version has its share: it is in the flow, a user asked for it, or too many requests failed. */
export type ShareCause = 'drawn' | 'asked' | 'failures';

export interface PresentShare extends VersionShare {
  readonly cause: ShareCause;
}

/** A version in the settings of its base. */
export interface StageVersion extends VersionShare {
  /** Id of the stage's node. */
  readonly stage: string;
}

export interface StageVersions {
  readonly list: readonly StageVersion[];
  /** Percent of failed requests above which a version loses its share; null: never. */
  readonly rollbackAbove: number | null;
  /** Shares that an engine begins with, which does not know these versions yet. Default: those of `list`. */
  readonly present?: readonly LiveShare[];
}

/** The share of a version that may differ from what the flow gives it. */
export interface LiveShare extends PresentShare {
  /** Id of the stage's node. */
  readonly stage: string;
}

/** The state of a version, as its base reports it. */
export interface VersionStatus extends LiveShare {
  /** The share that the flow gives it. */
  readonly drawn: VersionShare;
  /** Whether a worker of its serves. If not, its requests go to the base. */
  readonly available: boolean;
  /** Percent of its last requests that failed; null if there were too few. */
  readonly failed: number | null;
}

/** Returns the hash of a value whose requests stay on one version; 0 if it is no text, number or boolean. */
export function stickyHash(value: unknown): number {
  const isUsable =
    typeof value === 'number' || typeof value === 'boolean' || (typeof value === 'string' && value !== '');
  return isUsable ? hashOf(String(value)) : 0;
}

/**
 * Changes the live shares of versions. `promote`: the version answers all requests.
 * `rollback`: it gets none. `restore`: all versions of its base have the shares of the flow again.
 */
export const VERSION_ACTIONS = ['promote', 'rollback', 'restore'] as const;
export type VersionAction = (typeof VERSION_ACTIONS)[number];

/**
 * Returns the share of a version after an action.
 * @param isMeant whether the action is for this version, and not for another one of the same base
 */
export function shareAfter(
  action: VersionAction,
  present: PresentShare,
  drawn: VersionShare,
  isMeant: boolean,
): PresentShare {
  if (action === 'restore') return asDrawn(drawn);
  if (action === 'rollback') return isMeant ? asked({ mode: present.mode, share: 0 }, drawn) : present;
  if (isMeant) return asked({ mode: 'answer', share: 100 }, drawn);
  return present.mode === 'answer' ? asked({ mode: 'answer', share: 0 }, drawn) : present;
}

export function asDrawn({ mode, share }: VersionShare): PresentShare {
  return { mode, share, cause: 'drawn' };
}

function asked({ mode, share }: VersionShare, drawn: VersionShare): PresentShare {
  return { mode, share, cause: mode === drawn.mode && share === drawn.share ? 'drawn' : 'asked' };
}

/**
 * Returns a text that changes with the versions that the flow gives a stage, and with the code of the stage or of a
 * version. While it is the same, live shares stay in force.
 */
export function versionsKey(
  id: string,
  { list, rollbackAbove }: StageVersions,
  revisionOf: (id: string) => string | undefined,
): string {
  const drawn = list.map(({ stage, mode, share }) => [stage, mode, share, revisionOf(stage) ?? null]);
  return JSON.stringify([revisionOf(id) ?? null, rollbackAbove, drawn]);
}

export function isVersionAction(action: string): action is VersionAction {
  return (VERSION_ACTIONS as readonly string[]).includes(action);
}

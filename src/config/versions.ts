/** Reads the versions of a stage from its settings: the rows of its list, and the limit for failures. */
import type { StageVersion, VersionMode } from '../core/versions.ts';
import { invalid } from './validate.ts';

/** A row as the editor writes it. */
export interface VersionRow {
  readonly stage: string;
  readonly share: string;
  readonly mode: string;
}

const MODES: readonly string[] = ['answer', 'shadow'] satisfies VersionMode[];

/**
 * Skips rows without a stage. Whether the stages can be versions depends on the flows, see flow/versions.ts.
 * @throws ModeletError `config_invalid`.
 */
export function compileVersions(rows: readonly VersionRow[]): readonly StageVersion[] {
  const versions = rows.filter(({ stage }) => stage !== '').map(compileRow);
  const twice = versions.find(({ stage }, index) => versions.findIndex((other) => other.stage === stage) < index);
  if (twice) throw invalid(`versions: stage ${twice.stage} is listed twice`);
  const sum = versions.reduce((total, { mode, share }) => total + (mode === 'answer' ? share : 0), 0);
  // Shares such as 33.3 have no exact sum.
  if (sum > 100 + 1e-6) throw invalid(`versions: the shares of the versions that answer sum to ${sum} %, 100 at most`);
  return versions;
}

function compileRow({ stage, share: text, mode }: VersionRow): StageVersion {
  const share = percent(text);
  if (share === null) throw invalid(`versions: a share must be a number from 0 to 100; got "${text}"`);
  if (!MODES.includes(mode)) throw invalid(`versions: must be ${MODES.join(' or ')}; got "${mode}"`);
  return { stage, share, mode: mode as VersionMode };
}

/** Returns the limit; null if it is blank. @throws ModeletError `config_invalid`. */
export function compileRollback(text: string): number | null {
  if (text.trim() === '') return null;
  const limit = percent(text);
  if (limit === null) throw invalid(`rollback: must be a number from 0 to 100, or blank; got "${text}"`);
  return limit;
}

function percent(text: string): number | null {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  return value >= 0 && value <= 100 ? value : null;
}

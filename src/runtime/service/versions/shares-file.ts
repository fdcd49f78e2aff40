/**
 * Keeps the live shares of versions in a file, so that a restart does not give requests back to a version that was
 * rolled back. A file that cannot be read or written costs that, and no request: the log says so.
 */
import { existsSync, readFileSync } from 'node:fs';
import { asError } from '../../../core/errors.ts';
import type { LiveShare } from '../../../core/versions.ts';
import { replaceFile } from '../../../process/replace-file.ts';
import { LiveShares, type SavedShares, type SharesStore } from './live-shares.ts';

/** The form of the file. A later version of the package may read an earlier form. */
const FORM = 1;

/** Returns the live shares that a file keeps. @param warn writes to the log that it cannot be read or written */
export function sharesKeptIn(file: string, warn: (message: string) => void): LiveShares {
  return new LiveShares(new SharesFile(file, warn));
}

class SharesFile implements SharesStore {
  readonly #file: string;
  readonly #warn: (message: string) => void;
  /** Whether the log says already that the file cannot be written. */
  #isUnwritable = false;

  constructor(file: string, warn: (message: string) => void) {
    this.#file = file;
    this.#warn = warn;
  }

  load(): readonly SavedShares[] {
    if (!existsSync(this.#file)) return [];
    try {
      const { form, stages } = JSON.parse(readFileSync(this.#file, 'utf8')) as { form: unknown; stages: unknown };
      if (form !== FORM || !Array.isArray(stages)) throw new Error('it has another form');
      return stages.filter(isSaved);
    } catch (thrown) {
      this.#warn(`versions have the shares of the flow: ${this.#file} cannot be read: ${asError(thrown).message}`);
      return [];
    }
  }

  /** Synchronous: an action that was answered is on the disk. Shares change a few times a day. */
  save(stages: readonly SavedShares[]): void {
    try {
      replaceFile(this.#file, `${JSON.stringify({ form: FORM, stages }, null, 2)}\n`);
      this.#isUnwritable = false;
    } catch (thrown) {
      if (this.#isUnwritable) return;
      this.#isUnwritable = true;
      this.#warn(`the present shares of versions end with this process: ${asError(thrown).message}`);
    }
  }
}

function isSaved(value: unknown): value is SavedShares {
  const { base, key, shares } = (value ?? {}) as Partial<Record<keyof SavedShares, unknown>>;
  return typeof base === 'string' && typeof key === 'string' && Array.isArray(shares) && shares.every(isShare);
}

function isShare(value: unknown): value is LiveShare {
  const { stage, mode, share, cause } = (value ?? {}) as Partial<Record<keyof LiveShare, unknown>>;
  const isPercent = typeof share === 'number' && share >= 0 && share <= 100;
  const isCaused = cause === 'drawn' || cause === 'asked' || cause === 'failures';
  return typeof stage === 'string' && (mode === 'answer' || mode === 'shadow') && isPercent && isCaused;
}

/**
 * Which build of this package runs here, and whether it still is the one on disk. The files may be replaced under a
 * running Node-RED (npm update): a process started then is of other code than its parent, and must not talk to it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { ModeletError } from '../core/errors.ts';

/** Written by the build: a hash of all compiled code. */
const FILE = new URL('../build-id.txt', import.meta.url);

/** Build of the code that this process has loaded: read once, with it. Empty where nobody wrote one. */
export const BUILD_ID: string = onDisk();

/** Whether what would be started from `entry` now is other code than what runs here, or none. */
export function isReplaced(entry: string): boolean {
  return onDisk() !== BUILD_ID || !existsSync(entry);
}

/** Why a process of other code serves nothing. */
export function packageUpdated(): ModeletError {
  return new ModeletError('stage_unavailable', 'package updated: restart Node-RED');
}

function onDisk(): string {
  try {
    return readFileSync(FILE, 'utf8').trim();
  } catch {
    return '';
  }
}

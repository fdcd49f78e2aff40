/**
 * Tells which build of this package runs, and whether it is still the build on disk. `npm update` can replace the files
 * while Node-RED runs. A process started after that has different code than its parent, and must not talk to it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { ModeletError } from '../core/errors.ts';

/** File with a hash of all compiled code, which the build writes. */
const FILE = new URL('../runtime/build-id.txt', import.meta.url);

/** Build of the code that this process loaded. Read once, at load time; empty if there is no build id. */
export const BUILD_ID: string = onDisk();

/** Whether a process started from `entry` now would run different code than this process, or find no code. */
export function isReplaced(entry: string): boolean {
  return onDisk() !== BUILD_ID || !existsSync(entry);
}

/** Returns the error for a process that runs different code than its parent. */
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

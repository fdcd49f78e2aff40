/** What this machine offers, read before anything was pinned. */
import type { Launcher } from '../process/parent/launch.ts';

export interface Machine {
  readonly allowedCpus: readonly number[];
  readonly launcher: Launcher;
}

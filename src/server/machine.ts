/** What this machine offers, read before anything was pinned. */
import type { Launcher } from '../lifecycle/launch.ts';

export interface Machine {
  readonly allowedCpus: readonly number[];
  readonly launcher: Launcher;
}

/** What it takes to start a worker, process or thread. */
import type { Pin } from '../../core/model.ts';
import { inheritedEnvironment } from '../../process/node-options.ts';
import type { Launcher } from '../../process/parent/launch.ts';

export interface WorkerLaunch {
  readonly launcher: Launcher;
  /** Cores to run on; null where the platform has no pinning. */
  readonly cpus: readonly number[] | null;
  /** The cores it was asked to be pinned to, if it is. */
  readonly pin: Pin;
  readonly env: Readonly<Record<string, string>>;
  /** Largest JavaScript heap in MB; 0: as Node.js sets it. */
  readonly heapMb: number;
}

/** The variables of a worker: this process's own, those of its stage, and what follows from its pin. */
export function workerEnvironment({ pin, env }: WorkerLaunch): NodeJS.ProcessEnv {
  return { ...threadCounts(pin), ...inheritedEnvironment(), ...env };
}

/** Numeric libraries start a thread per core of the machine unless told; a pinned worker has fewer. */
function threadCounts(cpus: Pin): Record<string, string> {
  if (!cpus) return {};
  const count = String(cpus.length);
  return { OMP_NUM_THREADS: count, OPENBLAS_NUM_THREADS: count, MKL_NUM_THREADS: count };
}

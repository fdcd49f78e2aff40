/** A worker as a process of its own: what its end costs is this one worker, whatever brought it about. */
import { fileURLToPath } from 'node:url';
import type { Clock } from '../core/clock.ts';
import type { Pin } from '../core/model.ts';
import type { Child, ChildEvents } from '../lifecycle/child.ts';
import { ChildProcess } from '../lifecycle/child-process.ts';
import type { Launcher } from '../lifecycle/launch.ts';

const WORKER_ENTRY = fileURLToPath(new URL('./main.js', import.meta.url));

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

export function startProcessWorker(spec: WorkerLaunch, events: ChildEvents, clock: Clock): Child {
  const heap = spec.heapMb > 0 ? [`--max-old-space-size=${spec.heapMb}`] : [];
  return new ChildProcess(
    {
      command: [process.execPath, ...heap, WORKER_ENTRY],
      entry: WORKER_ENTRY,
      cpus: spec.cpus,
      launcher: spec.launcher,
      env: { ...threadCounts(spec.pin), ...process.env, ...spec.env },
    },
    events,
    clock,
  );
}

/** Numeric libraries start a thread per core of the machine unless told; a pinned worker has fewer. */
function threadCounts(cpus: Pin): Record<string, string> {
  if (!cpus) return {};
  const count = String(cpus.length);
  return { OMP_NUM_THREADS: count, OPENBLAS_NUM_THREADS: count, MKL_NUM_THREADS: count };
}

/** A worker as a process of its own: what its end costs is this one worker, whatever brought it about. */
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../core/clock.ts';
import type { Child, ChildEvents } from '../../process/parent/child.ts';
import { ChildProcess } from '../../process/parent/child-process.ts';
import { type WorkerLaunch, workerEnvironment } from './worker-launch.ts';

const WORKER_ENTRY = fileURLToPath(new URL('../../worker/main.js', import.meta.url));

export function startProcessWorker(spec: WorkerLaunch, events: ChildEvents, clock: Clock): Child {
  const heap = spec.heapMb > 0 ? [`--max-old-space-size=${spec.heapMb}`] : [];
  return new ChildProcess(
    {
      command: [process.execPath, ...heap, WORKER_ENTRY],
      entry: WORKER_ENTRY,
      cpus: spec.cpus,
      launcher: spec.launcher,
      env: workerEnvironment(spec),
    },
    events,
    clock,
  );
}

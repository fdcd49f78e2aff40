/** Starts workers as separate processes, by Node.js or Python; the end of one costs that worker alone. */
import { fileURLToPath } from 'node:url';
import type { ModeletDefinition } from '../../config/stage-definition.ts';
import type { Clock } from '../../core/clock.ts';
import type { Pin } from '../../core/model.ts';
import { usableThreads } from '../cpu-quota.ts';
import { inheritedEnvironment } from '../node-options.ts';
import { findPython } from '../python.ts';
import type { Child, ChildEvents } from './child.ts';
import { ChildProcess } from './child-process.ts';
import type { Launcher } from './launch.ts';

const NODE_ENTRY = fileURLToPath(new URL('../../runtime/worker/main.js', import.meta.url));
const PYTHON_ENTRY = fileURLToPath(new URL('../../runtime/worker/python/main.py', import.meta.url));

export interface WorkerLaunch {
  readonly launcher: Launcher;
  /** Cores to run on; null if the platform has no pinning. */
  readonly cpus: readonly number[] | null;
  /** The configured cores if the worker is pinned to them; otherwise null. */
  readonly pin: Pin;
  readonly env: Readonly<Record<string, string>>;
  /** Largest JavaScript heap in MB; 0 means the default of Node.js. */
  readonly heapMb: number;
}

/** The variables of a worker: this process's own, those of its stage, and what follows from its pin. */
export function workerEnvironment({ pin, cpus, env }: WorkerLaunch): NodeJS.ProcessEnv {
  return { ...threadCounts({ pin, cpus }), ...inheritedEnvironment(), ...env };
}

/**
 * Limits the threads of numeric libraries to the pinned cores and to the quota of a container: by default they start one
 * per core of the machine.
 */
function threadCounts({ pin, cpus }: Pick<WorkerLaunch, 'pin' | 'cpus'>): Record<string, string> {
  const cores = pin?.length ?? cpus?.length;
  const usable = usableThreads(cores);
  if (!pin && (cores === undefined || usable >= cores)) return {};
  const count = String(usable);
  return { OMP_NUM_THREADS: count, OPENBLAS_NUM_THREADS: count, MKL_NUM_THREADS: count };
}

/**
 * Starts a worker that is a process, by Python if its modelet is in Python, else by Node.js.
 * @throws ModeletError where there is no Python, Error where the process cannot be started.
 */
export function startProcessWorker(
  spec: WorkerLaunch,
  { source, requireFrom }: Pick<ModeletDefinition, 'source' | 'requireFrom'>,
  events: ChildEvents,
  clock: Clock,
): Child {
  const env = workerEnvironment(spec);
  const { cpus, launcher } = spec;
  if (source.kind === 'python') {
    // Looked for at each start: an interpreter that was missing may have been installed.
    const python = findPython(source, requireFrom, env['PATH'] ?? '');
    const command = [python, PYTHON_ENTRY];
    return new ChildProcess({ command, entry: PYTHON_ENTRY, cpus, launcher, env }, events, clock);
  }
  const heap = spec.heapMb > 0 ? [`--max-old-space-size=${spec.heapMb}`] : [];
  const command = [process.execPath, ...heap, NODE_ENTRY];
  return new ChildProcess({ command, entry: NODE_ENTRY, cpus, launcher, env }, events, clock);
}

/** Starts workers as separate processes, by Node.js or Python; the end of one costs that worker alone. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ModeletDefinition } from '../../config/stage-definition.ts';
import type { Clock } from '../../core/clock.ts';
import type { Pin } from '../../core/model.ts';
import type { EngineSlots } from '../../wire/slots/slot-lanes.ts';
import { usableThreads } from '../container-limits.ts';
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
  /** Where large payloads of a process travel; absent or null: through its channel. */
  readonly slots?: EngineSlots | null;
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
  const { cpus, launcher, slots = null } = spec;
  const start = (command: readonly string[], entry: string): Child => {
    const child = new ChildProcess({ command, entry, cpus, launcher, env, slots }, events, clock);
    diesFirst(child.pid);
    return child;
  };
  if ('python' in source) {
    // Looked for at each start: an interpreter that was missing may have been installed.
    return start([findPython(source, requireFrom, env['PATH'] ?? ''), PYTHON_ENTRY], PYTHON_ENTRY);
  }
  const heap = spec.heapMb > 0 ? [`--max-old-space-size=${spec.heapMb}`] : [];
  return start([process.execPath, ...heap, NODE_ENTRY], NODE_ENTRY);
}

/** How much larger than it is a worker looks to the kernel, in thousandths of the memory that all processes may use. */
const OOM_SCORE = 500;
const HIGHEST_OOM_SCORE = 1000;

/** Makes Linux, when memory is short, kill a worker, which costs its items, before the engine or Node-RED. */
function diesFirst(pid: number | null): void {
  try {
    const own = Number(readFileSync('/proc/self/oom_score_adj', 'utf8'));
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(Math.min(HIGHEST_OOM_SCORE, own + OOM_SCORE)));
  } catch {
    // Another system, or one without /proc: the kernel chooses by size.
  }
}

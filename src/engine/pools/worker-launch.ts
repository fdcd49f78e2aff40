/** Starts workers that are processes of their own, by Node.js or Python; the end of one costs that worker alone. */
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../core/clock.ts';
import type { Pin, StageSource } from '../../core/model.ts';
import { inheritedEnvironment } from '../../process/node-options.ts';
import type { Child, ChildEvents } from '../../process/parent/child.ts';
import { ChildProcess } from '../../process/parent/child-process.ts';
import type { Launcher } from '../../process/parent/launch.ts';
import { findPython } from '../../process/python.ts';

const NODE_ENTRY = fileURLToPath(new URL('../../worker/main.js', import.meta.url));
const PYTHON_ENTRY = fileURLToPath(new URL('../../worker/python/main.py', import.meta.url));

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

export interface PythonLaunch extends WorkerLaunch {
  readonly source: Extract<StageSource, { kind: 'python' }>;
  /** The user directory. */
  readonly requireFrom: string;
}

/** The variables of a worker: this process's own, those of its stage, and what follows from its pin. */
export function workerEnvironment({ pin, env }: WorkerLaunch): NodeJS.ProcessEnv {
  return { ...threadCounts(pin), ...inheritedEnvironment(), ...env };
}

/** Limits the threads of numeric libraries to the pinned cores: by default they start one per core of the machine. */
function threadCounts(cpus: Pin): Record<string, string> {
  if (!cpus) return {};
  const count = String(cpus.length);
  return { OMP_NUM_THREADS: count, OPENBLAS_NUM_THREADS: count, MKL_NUM_THREADS: count };
}

export function startProcessWorker(spec: WorkerLaunch, events: ChildEvents, clock: Clock): Child {
  const heap = spec.heapMb > 0 ? [`--max-old-space-size=${spec.heapMb}`] : [];
  return new ChildProcess(
    {
      command: [process.execPath, ...heap, NODE_ENTRY],
      entry: NODE_ENTRY,
      cpus: spec.cpus,
      launcher: spec.launcher,
      env: workerEnvironment(spec),
    },
    events,
    clock,
  );
}

/**
 * The interpreter is looked for at each start: one that was missing may have been installed.
 * @throws ModeletError where there is none, or the process cannot be started.
 */
export function startPythonWorker(spec: PythonLaunch, events: ChildEvents, clock: Clock): Child {
  const env = workerEnvironment(spec);
  const python = findPython(spec.source, spec.requireFrom, env['PATH'] ?? '');
  return new ChildProcess(
    { command: [python, PYTHON_ENTRY], entry: PYTHON_ENTRY, cpus: spec.cpus, launcher: spec.launcher, env },
    events,
    clock,
  );
}

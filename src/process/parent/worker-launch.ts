/** Starts workers as separate processes, by Node.js or Python; the end of one costs that worker alone. */
import { fileURLToPath } from 'node:url';
import type { ModeletDefinition } from '../../config/stage-definition.ts';
import type { Clock } from '../../core/clock.ts';
import type { Pin } from '../../core/model.ts';
import type { ControlFrame } from '../../wire/frames/frames.ts';
import type { ParentSlots } from '../../wire/slots/parent-slots.ts';
import { usableThreads } from '../container-limits.ts';
import { inheritedEnvironment } from '../node-options.ts';
import { findPython } from '../python.ts';
import type { Child, ChildEvents } from './child.ts';
import { ChildProcess } from './child-process.ts';
import { diesFirst, type Launcher } from './launch.ts';
import { ForkedProcess } from './template/forked-process.ts';
import { Template } from './template/template.ts';

type PythonModelet = Pick<ModeletDefinition, 'requireFrom'> & {
  readonly source: Extract<ModeletDefinition['source'], { readonly python: string }>;
};

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
  readonly slots?: ParentSlots | null;
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
  if ('python' in source) return start(pythonCommand(source, requireFrom, env), PYTHON_ENTRY);
  const heap = spec.heapMb > 0 ? [`--max-old-space-size=${spec.heapMb}`] : [];
  return start([process.execPath, ...heap, NODE_ENTRY], NODE_ENTRY);
}

/**
 * Starts the template of a stage's workers in Python, in the place of its first worker.
 * @param boot the first frame of that worker
 * @throws ModeletError where there is no Python, Error where the process cannot be started.
 */
export function startTemplate(
  spec: WorkerLaunch,
  { source, requireFrom }: PythonModelet,
  boot: ControlFrame,
  events: ChildEvents,
  clock: Clock,
): Template {
  const env = workerEnvironment(spec);
  const command = [...pythonCommand(source, requireFrom, env), 'template'];
  const { cpus, launcher, slots = null } = spec;
  return new Template({ command, entry: PYTHON_ENTRY, cpus, launcher, env, slots }, boot, events.onOutput, clock);
}

/** Starts a worker by its template. */
export function forkWorker(template: Template, spec: WorkerLaunch, events: ChildEvents, clock: Clock): Child {
  const { cpus, launcher, slots = null } = spec;
  const order = { env: workerEnvironment(spec), cpus: launcher.taskset ? cpus : null, slots };
  return new ForkedProcess(template, order, events, clock);
}

/** Looks for the interpreter at each start: a missing one may have been installed. */
function pythonCommand(source: PythonModelet['source'], requireFrom: string, env: NodeJS.ProcessEnv): string[] {
  return [findPython(source, requireFrom, env['PATH'] ?? ''), PYTHON_ENTRY];
}

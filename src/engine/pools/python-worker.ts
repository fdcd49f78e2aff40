/** A worker whose modelet is Python: a process as any other, that speaks the same frames; see python/main.py. */
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../core/clock.ts';
import type { StageSource } from '../../core/model.ts';
import type { Child, ChildEvents } from '../../process/parent/child.ts';
import { ChildProcess } from '../../process/parent/child-process.ts';
import { findPython } from '../../process/python.ts';
import { type WorkerLaunch, workerEnvironment } from './worker-launch.ts';

const WORKER_ENTRY = fileURLToPath(new URL('../../worker/python/main.py', import.meta.url));

export interface PythonLaunch extends WorkerLaunch {
  readonly source: Extract<StageSource, { kind: 'python' }>;
  /** The user directory. */
  readonly requireFrom: string;
}

/**
 * The interpreter is looked for at each start: one that was missing may have been installed.
 * @throws ModeletError where there is none, or the process cannot be started.
 */
export function startPythonWorker(spec: PythonLaunch, events: ChildEvents, clock: Clock): Child {
  const env = workerEnvironment(spec);
  const python = findPython(spec.source, spec.requireFrom, env['PATH'] ?? '');
  return new ChildProcess(
    { command: [python, WORKER_ENTRY], entry: WORKER_ENTRY, cpus: spec.cpus, launcher: spec.launcher, env },
    events,
    clock,
  );
}

/**
 * CPU affinity: reads which cores a process may use, finds the cores of a pin that are not available, and moves running
 * processes and threads. Launched processes get their cores in parent/launch.ts.
 */
import { execFile } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { formatCpus, parseCpus } from '../config/formats/pins.ts';
import type { Pin } from '../core/model.ts';
import { programPath } from './search-path.ts';

const run = promisify(execFile);

/**
 * Returns the cores that the kernel grants a process, from /proc. In a container these may be fewer than the machine
 * has. The list is empty on platforms without /proc (macOS, Windows), where pinning is not possible.
 * @param pid a process id; `self` for the first thread of this process; `thread-self` for the calling thread
 */
export function allowedCpus(pid: number | 'self' | 'thread-self' = 'self'): number[] {
  if (process.platform !== 'linux') return [];
  try {
    const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return list ? parseCpus(list) : [];
  } catch {
    return [];
  }
}

/** Returns the cores to show in the editor: the allowed ones, or 0 to count - 1 if the platform does not list them. */
export function visibleCpus(allowed: readonly number[]): number[] {
  return allowed.length > 0 ? [...allowed] : Array.from({ length: availableParallelism() }, (_, index) => index);
}

export interface ResolvedPin {
  /**
   * CPU mask to start a process with; null only if masks cannot be set here. An unpinned child needs a mask too: it
   * would inherit its parent's, but must get all cores back.
   */
  readonly cpus: readonly number[] | null;
  /** Cores of the pin that are not granted, or all if pinning is not possible. */
  readonly missing: readonly number[];
  /** The pin if none of its cores is missing; otherwise null. */
  readonly applied: Pin;
}

export function resolvePin(pin: Pin, allowed: readonly number[], taskset: boolean): ResolvedPin {
  const missing = pin?.filter((cpu) => !taskset || !allowed.includes(cpu)) ?? [];
  const applied = missing.length > 0 ? null : pin;
  return { cpus: taskset ? (applied ?? allowed) : null, missing, applied };
}

/**
 * Returns what is wrong with pins that are not applied, for badges and logs.
 * @param isStrict whether nothing runs without its pin
 */
export function pinFaults(
  pins: readonly (readonly [who: string, missing: readonly number[]])[],
  allowed: readonly number[],
  isStrict: boolean,
): string[] {
  const faulty = pins.filter(([, missing]) => missing.length > 0);
  return faulty.map(([who, missing]) => `${pinProblem(who, missing, allowed)}${isStrict ? '' : ', running unpinned'}`);
}

function pinProblem(who: string, missing: readonly number[], allowed: readonly number[]): string {
  // If every core is allowed, the pin failed because processes cannot be pinned here.
  if (allowed.length === 0 || missing.every((cpu) => allowed.includes(cpu)))
    return `${who}: processes cannot be pinned to cores here`;
  const cores = missing.length === 1 ? `core ${missing[0]} is` : `cores ${formatCpus(missing)} are`;
  return `${who}: ${cores} not available here (allowed: ${formatCpus(allowed)})`;
}

/** Moves all threads of a running process to `cpus`. */
export async function pinProcess(pid: number, cpus: readonly number[]): Promise<void> {
  await run(programPath('taskset'), ['-acp', formatCpus(cpus), String(pid)], { timeout: 5000 });
}

/**
 * Moves the calling thread to `cpus`, and no other thread of its process.
 * @param taskset path of `taskset`; the thread must not search for it, because the user may have changed its PATH
 */
export async function pinThread(cpus: readonly number[], taskset: string): Promise<void> {
  const wanted = formatCpus(cpus);
  if (formatCpus(allowedCpus('thread-self')) === wanted) return;
  // Linux gives each thread a number. Read it synchronously: a promise would run on another thread and return that
  // thread's number.
  const thread = basename(readlinkSync('/proc/thread-self'));
  await run(taskset, ['-cp', wanted, thread], { timeout: 5000, env: {} });
}

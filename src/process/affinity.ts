/** Which cores this process may use, and which of a pin's cores exist here. */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { formatCpus, parseCpus } from '../config/pins.ts';
import type { Pin } from '../core/model.ts';

/**
 * The cores the kernel grants this process, from /proc: a container sees fewer than the machine has. Where there
 * is no /proc (macOS, Windows) the list is empty: nothing can be pinned there. `self` is the process by its first
 * thread, `thread-self` the thread that asks.
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

/** Cores to show in an editor: the allowed ones, or a count where the platform does not say. */
export function visibleCpus(allowed: readonly number[]): number[] {
  return allowed.length > 0 ? [...allowed] : Array.from({ length: availableParallelism() }, (_, index) => index);
}

export interface ResolvedPin {
  /** Mask to start under. Never null where masks exist: affinity is inherited, an unpinned child must get all cores back. */
  readonly cpus: readonly number[] | null;
  /** Cores the pin names and cannot have: not granted, or no way to pin here. The pin is then not applied. */
  readonly missing: readonly number[];
}

export function resolvePin(pin: Pin, allowed: readonly number[], taskset: boolean): ResolvedPin {
  if (!taskset) return { cpus: null, missing: pin ?? [] };
  const missing = pin?.filter((cpu) => !allowed.includes(cpu)) ?? [];
  return { cpus: pin && missing.length === 0 ? pin : allowed, missing };
}

/** Why a pin was not applied, for badges and logs. */
export function pinWarning(who: string, missing: readonly number[], allowed: readonly number[]): string {
  return `${pinProblem(who, missing, allowed)}, running unpinned`;
}

/** What is wrong with a pin, in words. */
export function pinProblem(who: string, missing: readonly number[], allowed: readonly number[]): string {
  // Where no core is lacking, it is the means that is.
  if (allowed.length === 0 || missing.every((cpu) => allowed.includes(cpu)))
    return `${who}: processes cannot be pinned to cores here`;
  const cores = missing.length === 1 ? `core ${missing[0]} is` : `cores ${formatCpus(missing)} are`;
  return `${who}: ${cores} not available here (allowed: ${formatCpus(allowed)})`;
}

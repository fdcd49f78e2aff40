/** Instruments: CPU time of processes and threads from /proc, event-loop lateness, medians and percentiles. */
import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** CPU time per thread in nanoseconds needs Linux; elsewhere the CPU columns are left out. */
export const canMeasureCpu: boolean = process.platform === 'linux';

/** Microseconds that all threads of a process have run so far. Threads that have ended are not counted. */
export function processCpu(pid: number): number {
  if (!canMeasureCpu) return Number.NaN;
  let total = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) total += threadCpu(pid, Number(thread));
  return total;
}

/** The same of one thread; without `thread`, of the process's main thread. */
export function threadCpu(pid: number, thread: number = pid): number {
  if (!canMeasureCpu) return Number.NaN;
  try {
    return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ', 1)[0]) / 1000;
  } catch {
    return 0; // Ended between the listing and the reading.
  }
}

/** Resident memory of a process in MB. */
export function residentMb(pid: number): number {
  return memoryMb(pid, 'status', 'VmRSS');
}

/** Memory of a process in MB, of which a page that several share counts in parts: a sum counts each page once. */
export function ownMb(pid: number): number {
  return memoryMb(pid, 'smaps_rollup', 'Pss');
}

function memoryMb(pid: number, file: string, name: string): number {
  if (!canMeasureCpu) return Number.NaN;
  const text = readFileSync(`/proc/${pid}/${file}`, 'utf8');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]) / 1024;
}

/** Share of all cores' time, 0..1, that was used over one second. */
export async function busyShare(): Promise<number> {
  const times = (): { idle: number; all: number } => {
    const cores = cpus().map((core) => core.times);
    const idle = cores.reduce((total, core) => total + core.idle, 0);
    return { idle, all: cores.reduce((total, core) => total + core.user + core.nice + core.sys + core.irq, idle) };
  };
  const before = times();
  await sleep(1000);
  const after = times();
  return 1 - (after.idle - before.idle) / (after.all - before.all);
}

export function median(values: readonly number[]): number {
  return percentile(values, 50);
}

/** Between neighbours it interpolates; of nothing it is NaN. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const position = ((sorted.length - 1) * percent) / 100;
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? Number.NaN;
  return below + (above - below) * (position - Math.floor(position));
}

export interface Lateness {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** How many ms after their time 1 ms timers of this process fire, from now until the returned function is called. */
export function watchTimers(): () => Lateness {
  const late: number[] = [];
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const due = performance.now() + 1;
    timer = setTimeout(() => {
      late.push(performance.now() - due);
      arm();
    }, 1);
  };
  arm();
  return () => {
    clearTimeout(timer);
    return { p50: percentile(late, 50), p99: percentile(late, 99), max: percentile(late, 100) };
  };
}

/**
 * Runs every subject once per round, in turn, so that what disturbs the machine meanwhile disturbs all of them, and
 * returns each one's results of all rounds.
 */
export async function interleave<Name extends string, Result>(
  rounds: number,
  subjects: Readonly<Record<Name, () => Promise<Result>>>,
): Promise<Record<Name, Result[]>> {
  const names = Object.keys(subjects) as Name[];
  const results = Object.fromEntries(names.map((name) => [name, [] as Result[]])) as Record<Name, Result[]>;
  for (let round = 0; round < rounds; round += 1) {
    for (const name of names) results[name].push(await subjects[name]());
  }
  return results;
}

/** The median of one number over the results of all rounds. */
export function medianOf<Result>(results: readonly Result[], read: (result: Result) => number): number {
  return median(results.map(read));
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

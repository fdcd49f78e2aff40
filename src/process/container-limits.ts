/** The CPU time and the memory that the cgroup of this process grants, as containers have them: `docker run --cpus=2 -m 2g`, or limits of a pod. */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { posix } from 'node:path';
import { allowedCpus, visibleCpus } from './affinity.ts';

/** Folders in which the hierarchies are mounted, by version of cgroups. */
const MOUNTS = {
  1: ['/sys/fs/cgroup/cpu', '/sys/fs/cgroup/cpu,cpuacct', '/sys/fs/cgroup/cpuacct,cpu'],
  2: ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'],
} as const;

/**
 * Returns the number of threads that may compute at a time: one per core, but no more than the quota, rounded up.
 * `availableParallelism` ignores the quota or rounds it down, by the version of Node.js.
 */
export function usableThreads(cores: number = visibleCpus(allowedCpus()).length): number {
  return Math.max(1, Math.min(cores, Math.ceil(cpuQuota() ?? cores)));
}

/**
 * Returns the number of cores that the quota is worth, such as 1.5; null if there is no quota. Of nested groups, the
 * smallest counts.
 * @param root folder that stands for `/`
 */
export function cpuQuota(root: string = '/'): number | null {
  const groups = read(root, '/proc/self/cgroup') ?? '';
  const quotas = [...groups.matchAll(/^\d+:(.*?):(\/.*)$/gm)].flatMap(([, controllers = '', group = '']) => {
    if (controllers === '') return foldersOf(2, group).map((folder) => quotaOf(root, folder));
    return controllers.split(',').includes('cpu') ? foldersOf(1, group).map((folder) => oldQuotaOf(root, folder)) : [];
  });
  const given = quotas.filter((quota) => quota !== null);
  return given.length > 0 ? Math.min(...given) : null;
}

/** Returns the memory limit of the cgroup in bytes; null without a limit: then Node.js reports 0, or more than the machine has. */
export function memoryLimit(): number | null {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < totalmem() ? limit : null;
}

/** The group may be named as the host sees it, while only the container's own group is mounted here. */
function foldersOf(version: keyof typeof MOUNTS, group: string): string[] {
  return MOUNTS[version].flatMap((mount) => [...upwards(group)].map((path) => posix.join(mount, path)));
}

/** Yields the group and those around it. */
function* upwards(group: string): Generator<string> {
  for (let path = group; path !== '/'; path = posix.dirname(path)) yield path;
  yield '/';
}

function quotaOf(root: string, folder: string): number | null {
  const [quota, period] = (read(root, posix.join(folder, 'cpu.max')) ?? '').trim().split(' ');
  return ratio(quota, period);
}

function oldQuotaOf(root: string, folder: string): number | null {
  return ratio(read(root, posix.join(folder, 'cpu.cfs_quota_us')), read(root, posix.join(folder, 'cpu.cfs_period_us')));
}

/** Returns null without a quota: `max`, or -1 in the first version. */
function ratio(quota: string | null | undefined, period: string | null | undefined): number | null {
  const [most, of] = [Number.parseInt(quota ?? '', 10), Number.parseInt(period ?? '', 10)];
  return most > 0 && of > 0 ? most / of : null;
}

function read(root: string, path: string): string | null {
  try {
    return readFileSync(posix.join(root, path), 'utf8');
  } catch {
    return null;
  }
}

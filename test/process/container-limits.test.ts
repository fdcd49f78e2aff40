/** The limits of a container, from files as the kernel has them, and from real cgroups. */
import assert from 'node:assert/strict';
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { cpuQuota, memoryLimit, usableThreads } from '../../src/process/container-limits.ts';
import { folderFor } from '../fixtures/folder.ts';
import { serve } from '../fixtures/service.ts';

type Files = Readonly<Record<string, string>>;

const ROWS: readonly (readonly [string, Files, number | null])[] = [
  ['without cgroups', {}, null],
  ['v2', { 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': '150000 100000\n' }, 1.5],
  ['v2 without a limit', { 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': 'max 100000\n' }, null],
  [
    'v2, of nested groups the smallest',
    {
      'proc/self/cgroup': '0::/kubepods/pod1/c1\n',
      'sys/fs/cgroup/kubepods/pod1/cpu.max': '200000 100000\n',
      'sys/fs/cgroup/kubepods/pod1/c1/cpu.max': '350000 100000\n',
    },
    2,
  ],
  [
    'v1, with the path of the host and the mount of the container',
    {
      'proc/self/cgroup': '9:memory:/docker/c1\n3:cpu,cpuacct:/docker/c1\n0::/\n',
      'sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us': '50000\n',
      'sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us': '100000\n',
    },
    0.5,
  ],
  [
    'v1 without a limit',
    {
      'proc/self/cgroup': '1:cpu:/\n',
      'sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1\n',
      'sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
    },
    null,
  ],
];

describe('the quota', () => {
  for (const [name, files, expected] of ROWS) {
    test(`is read: ${name}`, (t) => {
      const root = folderFor(t);
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(dirname(join(root, path)), { recursive: true });
        writeFileSync(join(root, path), text);
      }
      assert.equal(cpuQuota(root), expected);
    });
  }
});

const GROUPS = { cpu: '/sys/fs/cgroup/cpu', memory: '/sys/fs/cgroup/memory' };
const groupOf = (kind: keyof typeof GROUPS): string => join(GROUPS[kind], `modelet-test-${process.pid}`);
const group = groupOf('cpu');

/** Whether a group could be made: as root, with the first version of cgroups. */
function enter(kind: keyof typeof GROUPS, limits: Readonly<Record<string, string>>): boolean {
  try {
    mkdirSync(groupOf(kind));
    for (const [file, text] of Object.entries(limits)) writeFileSync(join(groupOf(kind), file), text);
    writeFileSync(join(groupOf(kind), 'cgroup.procs'), String(process.pid));
    return true;
  } catch {
    return false;
  }
}

function leave(kind: keyof typeof GROUPS): void {
  writeFileSync(join(GROUPS[kind], 'cgroup.procs'), String(process.pid));
  rmdirSync(groupOf(kind));
}

test('the memory limit of a real cgroup is read, and none outside', (t) => {
  const outside = memoryLimit();
  assert.ok(outside === null || outside < totalmem());
  if (!enter('memory', { 'memory.limit_in_bytes': String(2 ** 30) })) {
    t.skip('no cgroup can be made here');
    return;
  }
  try {
    assert.equal(memoryLimit(), 2 ** 30);
  } finally {
    leave('memory');
  }
});

test('numeric libraries of a worker use as many threads as the quota of a real cgroup allows, rounded up', async (t) => {
  const cores = usableThreads();
  const entered = enter('cpu', { 'cpu.cfs_period_us': '100000', 'cpu.cfs_quota_us': '50000' });
  // The group can be removed when the processes of the service have ended.
  if (entered) process.once('exit', () => leave('cpu'));
  if (!entered || cores === 1) {
    t.skip('no cgroup can be made here');
    return;
  }
  assert.equal(usableThreads(), 1);
  writeFileSync(join(group, 'cpu.cfs_quota_us'), '110000');
  assert.equal(usableThreads(), 2);
  writeFileSync(join(group, 'cpu.cfs_quota_us'), '99000');
  const inline = 'return [env.get("OMP_NUM_THREADS"), env.get("MKL_NUM_THREADS")]';
  const service = await serve(t, { stages: [{ id: 'threads', inline }] });
  assert.deepEqual(await service.value(1), ['1', '1']);
});
